#pragma once

#include "attend/nn/linear.hpp"
#include "attend/ops/additive_attention.hpp"

namespace attend::nn {

/// Additive attention with its projections: softmax(score . tanh(q_proj x + k_proj memory)) value.
/// Source: Bahdanau et al. 2015.
template <class T, Device D = Cpu>
struct AdditiveAttention {
  using value_type = T;
  using device_type = D;
  Linear<T, D> q_proj, k_proj;  // [width, d_query], [width, d_key]
  Linear<T, D> score;           // [1, width]

  /// `width`: of what queries and keys are brought to before they are added.
  AdditiveAttention(index_t d_query, index_t d_key, index_t width)
      : q_proj(d_query, width, {.bias = false}), k_proj(d_key, width, {.bias = false}), score(width, 1, {.bias = false}) {}
  /// x [query rows, d_query], keys [key rows, d_key], values [key rows, d_v] -> [query rows, d_v].
  Var<T, D> operator()(const Var<T, D>& x, const Segments& queries, const Var<T, D>& keys, const Var<T, D>& values,
                       const Segments& key_segments, AttentionWeights<T, D>* weights = nullptr) const {
    return additive_attention(q_proj(x), k_proj(keys), score.weight, values, {queries, key_segments, weights});
  }
  template <class F>
  void fields(F&& field) {
    field("q_proj", q_proj);
    field("k_proj", k_proj);
    field("score", score);
  }
  /// See adaptables: `score` is a vector, and the sum that it is multiplied by never stands in memory.
  template <class F>
  void adaptable(F&& matrix) {
    matrix("q_proj", q_proj.own_rows(), q_proj.adapter);
    matrix("k_proj", k_proj.own_rows(), k_proj.adapter);
  }
};

}  // namespace attend::nn
