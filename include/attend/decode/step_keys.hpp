#pragma once

#include <optional>
#include <span>

#include "attend/decode/cache.hpp"
#include "attend/nn/stack.hpp"

/// What the attentions of a decoder look at where it is read one row at a time, a token of each hypothesis.
namespace attend::decode::detail {

/// What a self-attention adds to the scores of up to `steps` keys, as the newest query has it: `bias` keeps its numbers.
template <class T, Device D>
kernels::StepBias<T> step_bias(const nn::MultiHeadAttention<T, D>& a, index_t steps, std::optional<Var<T, D>>& bias) {
  bias = a.positions.distance_bias_within(steps);
  if (!bias) return {};
  return {bias->data() + bias->dim(1) / 2, bias->dim(1)};
}

/// The rows of the hypothesis so far, whose keys and values the steps before have left in a cache.
template <class T, Device D>
struct CachedKeys {
  SelfCache<T, D>& cache;
  index_t layer;
  Places places;

  Var<T, D> attend(const nn::MultiHeadAttention<T, D>& a, const Var<T, D>& x) const {
    const auto qkv = a.project(x, places);
    const Tensor<T, D> out({x.dim(0), a.heads * a.d_v});
    const index_t q_width = a.heads * a.d_k;
    cache.append(layer, {qkv.data() + q_width, x.dim(0), qkv.dim(1) - q_width, qkv.dim(1)});
    std::optional<Var<T, D>> bias;
    cache.attend(layer, a.scale(), {qkv.data(), x.dim(0), q_width, qkv.dim(1)}, as_rows(out), step_bias(a, cache.steps(), bias));
    return Var<T, D>(out);
  }
};

/// The source, whose keys and values were made before the first step.
template <class T, Device D>
struct SourceKeys {
  const T* kv;  // [source rows, kv_heads * (d_k + d_v)], those of all sources one after the other
  index_t width;
  const index_t* first;          // of them, for each row,
  const index_t* count;          // and how many
  Wide<T>* attention = nullptr;  // [rows, longest]: if wanted, gets the mean of the weights over the heads
  index_t longest = 0;

  Var<T, D> attend(const nn::MultiHeadAttention<T, D>& a, const Var<T, D>& x) const {
    const auto q = a.project_q(x);
    const index_t rows = q.dim(0);
    const Tensor<T, D> out({rows, a.heads * a.d_v});
    const kernels::StepHeads heads = a.step_heads();
    const kernels::SourceRows<T> keys{kv, {width, 0, a.kv_heads * a.d_k}, first, count};
    cross_attention_step(D{}, heads, as_rows(q.value()), keys, as_rows(out));
    if (attention)
      cross_attention_weights_step(D{}, heads, as_rows(q.value()), keys, kernels::Matrix<Wide<T>>{attention, rows, longest});
    return Var<T, D>(out);
  }
};

/// Reads a stack with a cache whose step has begun; see nn::WholeSentences.
template <class T, Device D>
struct CachedReading {
  SelfCache<T, D>& cache;
  std::span<const SourceKeys<T, D>> sources = {};  // of each layer; none for a decoder without cross-attention

  [[nodiscard]] Places places() const { return {.place = cache.steps() - 1}; }
  [[nodiscard]] CachedKeys<T, D> own(index_t layer, bool /*causal*/) const { return {cache, layer, places()}; }
  [[nodiscard]] SourceKeys<T, D> source(index_t layer, std::size_t /*i*/) const { return nth(sources, layer); }
};

/// A cache for `rows` empty prefixes.
template <class T, Device D>
SelfCache<T, D> empty_cache(const nn::Stack<T, D>& decoder, index_t rows) {
  const auto& o = decoder.options;
  const index_t d_k = o.d_k ? o.d_k : o.d_model / o.heads;
  return SelfCache<T, D>(count_of(decoder.layers), rows, o.heads, d_k, o.d_v ? o.d_v : d_k, o.kv_heads);
}

}  // namespace attend::decode::detail
