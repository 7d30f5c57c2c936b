#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <span>
#include <vector>

#include "attend/cpu/softmax.hpp"
#include "attend/nn/transformer.hpp"

namespace attend::decode::detail {

/// The rows of a model's output weight that belong to some tokens, gathered once, in the order in which products read them: for
/// log-probabilities of these tokens alone.
template <class T>
class ShortlistHead {
 public:
  /// Throws IndexError for a token outside the vocabulary.
  ShortlistHead(const nn::Transformer<T, Cpu>& model, std::span<const token_t> tokens, Precision precision)
      : tokens_(tokens.begin(), tokens.end()), vocabulary_(model.decoder.options.vocabulary), packed_(precision) {
    std::sort(tokens_.begin(), tokens_.end());
    tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
    for (const token_t token : {tokens_.front(), tokens_.back()})
      if (token < 0 || token >= vocabulary_)
        throw IndexError("TransformerModel: token ", token, " of the head is outside the vocabulary of ", vocabulary_);
    weight_ = gathered(model.output_weight().value());
    if (model.head_bias) bias_ = gathered(model.head_bias->value());
  }

  /// x [rows, d_model], from `to_head`, -> [rows, vocabulary], log-probabilities given that one of the tokens comes.
  [[nodiscard]] Tensor<T> log_probabilities(const Tensor<T>& x) const {
    const index_t rows = x.dim(0);
    const Tensor<T> some({rows, count()}), all({rows, vocabulary_}, -std::numeric_limits<T>::infinity());
    packed_.linear(as_rows(x), weight_, 0, bias_.empty() ? nullptr : bias_.data(), as_rows(some));
    log_softmax_forward(Cpu{}, rows, count(), some.data(), some.data());
    const T* const from = some.data();
    T* const to = all.data();
    parallel_rows(rows, count(), [=, this](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r)
        for (index_t i = 0; i < count(); ++i) to[r * vocabulary_ + nth(tokens_, i)] = from[r * count() + i];
    });
    return all;
  }

 private:
  [[nodiscard]] index_t count() const { return count_of(tokens_); }
  /// The tokens' rows of `all`, [tokens, ...].
  template <class V>
  [[nodiscard]] Tensor<V> gathered(const Tensor<V>& all) const {
    if constexpr (std::same_as<V, float>) {
      if (const QuantizedRows* const q = all.quantized())
        return Tensor<V>::from_quantized({gathered(q->rows), gathered(q->scales)});
      if (const Tensor<bfloat16>* const rows = all.in_bfloat16()) return Tensor<V>::from_bfloat16(gathered(*rows));
    }
    const Tensor<V> some(all.shape().with(0, count()));
    const index_t width = all.size() / all.dim(0);
    for (index_t i = 0; i < count(); ++i)
      std::copy_n(all.data() + index_t{nth(tokens_, i)} * width, width, some.data() + i * width);
    return some;
  }

  std::vector<token_t> tokens_;  // in their order, each once
  index_t vocabulary_;
  PackedWeights<T> packed_;
  Tensor<T> weight_, bias_;  // [tokens, d_model]; [tokens] or empty
};

}  // namespace attend::decode::detail
