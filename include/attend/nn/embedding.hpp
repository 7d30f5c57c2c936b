#pragma once

#include <cmath>

#include "attend/nn/init.hpp"
#include "attend/ops/embedding.hpp"

namespace attend::nn {

/// What `Embedding` is besides its sizes.
struct EmbeddingOptions {
  bool scaled = false;  ///< rows are multiplied by sqrt(width)
};

/// One row of numbers for each token, times sqrt(width) if `scaled`. Source: Vaswani et al. 2017, section 3.4.
template <class T, Device D = Cpu>
struct Embedding {
  using value_type = T;
  using device_type = D;
  Var<T, D> weight;  // [vocabulary, width]
  double scale;

  /// Drawn from a normal distribution whose deviation makes what comes out about 1 in size: 1 / sqrt(width) if scaled, otherwise
  /// 1.
  Embedding(index_t vocabulary, index_t width, const EmbeddingOptions& o = {})
      : scale(o.scaled ? std::sqrt(static_cast<double>(width)) : 1) {
    check_value(vocabulary > 0 && width > 0, "Embedding", "vocabulary ", vocabulary, " and width ", width, " must be positive");
    weight = constant_parameter<T, D>({vocabulary, width}, 0);
    normal(weight.value(), 1 / scale);
  }
  /// Shapes: tokens [...] -> [..., width]. Throws IndexError for a token outside the vocabulary.
  Var<T, D> operator()(const Tensor<token_t, D>& tokens) const { return embedding(weight, tokens, scale); }
  template <class F>
  void fields(F&& field) {
    field("weight", weight);
  }
};

}  // namespace attend::nn
