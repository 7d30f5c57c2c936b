#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/cpu/softmax.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/step_keys.hpp"

namespace attend::decode {

/// A decoder without cross-attention and its head, a language model, as the searches see it: token by token, keeping the keys and
/// values of what was said before.
///
/// Shares the parameters that it is made from, so it sees new weights at once, and computes in evaluation mode without touching
/// the mode of the decoder it was given.
///
///     const decode::DecoderOnly<float> steps(model.decoder, model.decoder.embed_tokens->weight);
///     auto state = steps.begin(1);
///     const auto texts = decode::sample(steps, state, 1, {.bos = 1, .eos = 2, .samples = 10});
template <class T, Device D = Cpu>
class DecoderOnly {
 public:
  using value_type = Wide<T>;  // of the log-probabilities
  using device_type = D;
  using State = SelfCache<T, D>;

  /// Logits are x head_weight^T + head_bias; head_weight [vocabulary, d_model], often the decoder's own embedding. Throws
  /// ValueError for a decoder that sees later tokens, attends to another text, or has no embedding; ShapeError for a head that
  /// does not fit it.
  DecoderOnly(const nn::Decoder<T, D>& decoder, Var<T, D> head_weight, std::optional<Var<T, D>> head_bias = {})
      : decoder_(decoder), head_weight_(std::move(head_weight)), head_bias_(std::move(head_bias)) {
    const auto& o = decoder_.options;
    check_value(o.causal != 0, "DecoderOnly", "the decoder is not causal and cannot be searched token by token");
    check_value(o.cross_attentions == 0, "DecoderOnly", "the decoder has ", o.cross_attentions,
                " cross-attentions, expected none");
    check_value(decoder_.embed_tokens.has_value(), "DecoderOnly", "the decoder has no embedding");
    check_shape("DecoderOnly", "head_weight", head_weight_.shape(), {o.vocabulary, o.d_model});
    if (head_bias_) check_shape("DecoderOnly", "head_bias", head_bias_->shape(), {o.vocabulary});
    nn::set_training(decoder_, false);
  }

  /// How wide the log-probabilities are.
  [[nodiscard]] index_t vocabulary() const { return decoder_.options.vocabulary; }
  /// The most tokens that a hypothesis may have: positions, less the one of the begin token.
  [[nodiscard]] index_t longest() const { return decoder_.options.max_length - 1; }

  /// A state of `rows` rows with empty prefixes.
  [[nodiscard]] State begin(index_t rows) const { return detail::empty_cache(decoder_, rows); }

  /// The log-probabilities after one more token for each row, [rows, vocabulary]. Throws ShapeError for another number of tokens
  /// than rows, and beyond the decoder's positions; IndexError for a token outside the vocabulary.
  [[nodiscard]] Tensor<Wide<T>, D> step(State& state, std::span<const token_t> tokens) const {
    const auto logits = logits_of_step(state, tokens);
    const Tensor<Wide<T>, D> y(logits.shape());
    log_softmax_forward(D{}, y.dim(0), y.dim(1), logits.data(), y.data());
    return y;
  }

  /// What makes it a LogitModel, if its numbers are as wide as log-probabilities.
  [[nodiscard]] bool gives_logits(const State& /*state*/) const requires detail::GivesLogits<T, D> { return true; }
  [[nodiscard]] Tensor<T, D> logits(State& state, std::span<const token_t> tokens) const requires detail::GivesLogits<T, D> {
    return logits_of_step(state, tokens);
  }

  /// Row i goes on as row rows[i] was; see StepModel.
  void reorder(State& state, std::span<const index_t> rows) const { state.reorder(rows); }

 private:
  Tensor<T, D> logits_of_step(State& state, std::span<const token_t> tokens) const {
    const NoGrad no_grad;
    const auto rows = count_of(tokens);
    if (rows != state.rows()) throw ShapeError("DecoderOnly: ", rows, " tokens for ", state.rows(), " rows");
    decoder_.positions.check_place(state.steps());
    const auto embedded = (*decoder_.embed_tokens)(Tensor<token_t>({rows}, tokens).template to<D>());  // [rows, d_model]
    state.begin_step();
    const auto x = decoder_.read(embedded, detail::CachedReading<T, D>{state});
    return linear(x, head_weight_, head_bias_).value();
  }

  nn::Decoder<T, D> decoder_;
  Var<T, D> head_weight_;
  std::optional<Var<T, D>> head_bias_;
};

}  // namespace attend::decode
