#pragma once

#include <utility>

#include "attend/core/segments.hpp"
#include "attend/core/tensor.hpp"

namespace attend::nn {

/// Sentence pairs for one step of training: the sources, the decoder's inputs (each begins with the begin-of-sentence token)
/// and, row for row, the tokens that should follow those inputs.
template <Device D = Cpu>
struct Batch {
  Tensor<token_t, D> source;  // [source_segments.rows()]
  Segments source_segments;
  Tensor<token_t, D> target;  // [target_segments.rows()]
  Segments target_segments;
  Tensor<token_t, D> labels;  // [target_segments.rows()]

  [[nodiscard]] index_t sentences() const { return target_segments.count(); }
  /// The same on another device.
  template <Device E>
  [[nodiscard]] Batch<E> to() const {
    return {source.template to<E>(), source_segments, target.template to<E>(), target_segments, labels.template to<E>()};
  }
};

}  // namespace attend::nn
