#pragma once

/// The CUDA back end: with it, everything that a program does on the processor it does on an NVIDIA GPU by one template argument,
/// `nn::Transformer<float, Cuda>`, or two, `nn::Transformer<bfloat16, Cuda>`. To be included beside attend.hpp, or whatever of it
/// is used, in files that a CUDA compiler compiles; link `attend::cuda`.
///
/// What runs on the device runs in the order of the calls, on one stream, while the host goes on; the host waits where it wants
/// to see numbers (`item`, `values`, `to_host`), and bad input that only kernels can see (a token outside the vocabulary) is
/// thrown there. Results are the same from run to run, bit for bit, on the same device.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::cuda"
#elif !defined(__CUDACC__) && !defined(ATTEND_CUDA_EMULATOR)
#error "attend/cuda.hpp: compile this file with a CUDA compiler (name it .cu, or set_source_files_properties(... LANGUAGE CUDA))"
#else

#include "attend/cuda/additive_attention.cuh"
#include "attend/cuda/arriving.cuh"
#include "attend/cuda/attention.cuh"
#include "attend/cuda/attention_step.cuh"
#include "attend/cuda/basic.cuh"
#include "attend/cuda/broadcast.cuh"
#include "attend/cuda/constrain.cuh"
#include "attend/cuda/cross_entropy.cuh"
#include "attend/cuda/dropout.cuh"
#include "attend/cuda/embedding.cuh"
#include "attend/cuda/gemm.cuh"
#include "attend/cuda/graph.cuh"
#include "attend/cuda/layer_norm.cuh"
#include "attend/cuda/linear.cuh"
#include "attend/cuda/log_add.cuh"
#include "attend/cuda/map.cuh"
#include "attend/cuda/map_dropout.cuh"
#include "attend/cuda/memory.cuh"
#include "attend/cuda/muon.cuh"
#include "attend/cuda/optimizer.cuh"
#include "attend/cuda/positions.cuh"
#include "attend/cuda/rearrange.cuh"
#include "attend/cuda/recorded_step.cuh"
#include "attend/cuda/reduce.cuh"
#include "attend/cuda/residual.cuh"
#include "attend/cuda/residual_norm.cuh"
#include "attend/cuda/sample.cuh"
#include "attend/cuda/segments.cuh"
#include "attend/cuda/softmax.cuh"
#include "attend/cuda/top_k.cuh"
#endif
