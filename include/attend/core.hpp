#pragma once

/// All that needs no library but the standard one: tensors, operations, modules, optimizers, searches. A program that trains by
/// its own loop, or searches a model of its own, includes this; `attend/attend.hpp` is this and text, files and training.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include "attend/autograd/gradcheck.hpp"
#include "attend/autograd/gradient_room.hpp"
#include "attend/autograd/var.hpp"
#include "attend/core/bfloat16.hpp"
#include "attend/core/error.hpp"
#include "attend/core/memory.hpp"
#include "attend/core/precision.hpp"
#include "attend/core/random.hpp"
#include "attend/core/segments.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/tensor.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/core/weights_version.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/beam_trace.hpp"
#include "attend/decode/decoder_only.hpp"
#include "attend/decode/ensemble.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "attend/decode/scoring.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/nn/additive_attention.hpp"
#include "attend/nn/dense.hpp"
#include "attend/nn/fields.hpp"
#include "attend/nn/freeze.hpp"
#include "attend/nn/hidden_matrices.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/ops/activations.hpp"
#include "attend/ops/additive_attention.hpp"
#include "attend/ops/argmax.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/attention.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/distillation_loss.hpp"
#include "attend/ops/dropout.hpp"
#include "attend/ops/elementary.hpp"
#include "attend/ops/embedding.hpp"
#include "attend/ops/feed_forward.hpp"
#include "attend/ops/layer_norm.hpp"
#include "attend/ops/linear.hpp"
#include "attend/ops/map.hpp"
#include "attend/ops/map_dropout.hpp"
#include "attend/ops/matmul.hpp"
#include "attend/ops/positions.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/reduce.hpp"
#include "attend/ops/residual.hpp"
#include "attend/ops/softmax.hpp"
#include "attend/optim/adam.hpp"
#include "attend/optim/average.hpp"
#include "attend/optim/clip.hpp"
#include "attend/optim/muon.hpp"
#include "attend/optim/schedule.hpp"
#include "attend/optim/sgd.hpp"
#include "attend/version.hpp"

#ifdef ATTEND_COMPILED  // compiled.cpp has these
#define ATTEND_TEMPLATE extern template
#define ATTEND_T float
#define ATTEND_D Cpu
#include "attend/compiled_core.hpp"
#undef ATTEND_TEMPLATE
#endif

#endif  // C++20
