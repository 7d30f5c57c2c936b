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

#include "attend/cuda/attention/additive_attention.cuh"
#include "attend/cuda/attention/attention.cuh"
#include "attend/cuda/attention/attention_step.cuh"
#include "attend/cuda/device/arriving.cuh"
#include "attend/cuda/device/graph.cuh"
#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/device/recorded_step.cuh"
#include "attend/cuda/device/segments.cuh"
#include "attend/cuda/elements/basic.cuh"
#include "attend/cuda/elements/broadcast.cuh"
#include "attend/cuda/elements/dropout.cuh"
#include "attend/cuda/elements/embedding.cuh"
#include "attend/cuda/elements/map.cuh"
#include "attend/cuda/elements/map_dropout.cuh"
#include "attend/cuda/elements/positions.cuh"
#include "attend/cuda/elements/rearrange.cuh"
#include "attend/cuda/elements/reduce.cuh"
#include "attend/cuda/elements/rotary.cuh"
#include "attend/cuda/optim/muon.cuh"
#include "attend/cuda/optim/optimizer.cuh"
#include "attend/cuda/products/gemm.cuh"
#include "attend/cuda/products/linear.cuh"
#include "attend/cuda/rows/cross_entropy.cuh"
#include "attend/cuda/rows/distillation_loss.cuh"
#include "attend/cuda/rows/layer_norm.cuh"
#include "attend/cuda/rows/residual.cuh"
#include "attend/cuda/rows/residual_norm.cuh"
#include "attend/cuda/rows/softmax.cuh"
#include "attend/cuda/search/constrain.cuh"
#include "attend/cuda/search/log_add.cuh"
#include "attend/cuda/search/sample.cuh"
#include "attend/cuda/search/top_k.cuh"

#ifdef ATTEND_COMPILED_CUDA
#include "attend/compiled_cuda.hpp"
#endif

#endif
