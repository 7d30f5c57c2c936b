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

  /// The number of pairs.
  [[nodiscard]] index_t sentences() const { return target_segments.count(); }
  /// All sentences and then all of them again, for two passes at once: what `CrossEntropyOptions::r_drop` takes.
  [[nodiscard]] Batch twice() const {
    const auto tokens = [](const Tensor<token_t, D>& x) {
      Tensor<token_t, D> both({2 * x.size()});
      for (const index_t at : {index_t{0}, x.size()}) copy(D{}, x.size(), x.data(), both.data() + at);
      return both;
    };
    return {tokens(source), source_segments.twice(), tokens(target), target_segments.twice(), tokens(labels)};
  }
  /// The same on another device.
  template <Device E>
  [[nodiscard]] Batch<E> to() const {
    return {source.template to<E>(), source_segments, target.template to<E>(), target_segments, labels.template to<E>()};
  }
};

}  // namespace attend::nn
