#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/decode/eager_steps.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/recorded_steps.hpp"
#include "attend/nn/quantized.hpp"
#include "attend/nn/transformer.hpp"

namespace attend::decode {

/// A Transformer as the searches see it: token by token, keeping the keys and values of what was said before. The source is
/// encoded once, and so are each decoder layer's keys and values of it.
///
/// Shares the parameters of the model that it is made from, so it sees new weights at once, and computes in evaluation mode
/// without touching that model's mode. On a device that can record work, steps are recorded; the weights must then stay where
/// they are.
template <class T, Device D = Cpu>
class TransformerModel {
  using Steps = std::conditional_t<Repeated<D>::records, detail::RecordedSteps<T, D>, detail::EagerSteps<T, D>>;

 public:
  using value_type = Wide<T>;  // of the log-probabilities
  using device_type = D;
  using State = typename Steps::State;

  /// A model of 8-bit integers computes as with int8 whether `precision` is that or full. Throws ValueError for a decoder that
  /// sees later tokens, since it cannot go token by token; for int8 unless the model is of float on the CPU; for bf16 if it is of
  /// 8-bit integers.
  explicit TransformerModel(const nn::Transformer<T, D>& model, Precision precision = Precision::full)
      : TransformerModel(model, StepOptions{.precision = precision}) {}
  TransformerModel(const nn::Transformer<T, D>& model, const StepOptions& options)
      : plain_(model),
        model_(model),
        options_(options),
        weights_(std::make_shared<const PackedWeights<T, D>>(options.precision)),
        steps_(options) {
    check_value(model.decoder.options.causal != 0, "TransformerModel",
                "the decoder is not causal and cannot be searched token by token");
    check_value(options.precision != Precision::bf16 || !nn::is_quantized(model), "TransformerModel",
                "the precision is bf16, and the model is of 8-bit integers; expected full or int8");
    for (auto* each : {&plain_, &model_}) nn::set_training(*each, false);
    nn::use(model_, weights_);
  }

  /// How wide the log-probabilities are.
  [[nodiscard]] index_t vocabulary() const { return model_.decoder.options.vocabulary; }
  /// The most tokens that a hypothesis may have: positions, less the one of the begin token.
  [[nodiscard]] index_t longest() const { return model_.decoder.options.max_length - 1; }
  [[nodiscard]] const nn::Transformer<T, D>& transformer() const { return plain_; }

  /// A state with one row for each source sentence. `head`, if it is not empty: the only tokens that need a probability, the end
  /// token among them. On the processor only their probabilities are computed, given that one of them comes, and no other token
  /// ever comes; with `Constraints::allowed` within `head` a search finds the same as without it, sooner. Throws as the encoder
  /// does, IndexError for a token outside the vocabulary.
  [[nodiscard]] State begin(const Tensor<token_t, D>& source, const Segments& segments,
                            std::span<const token_t> head = {}) const {
    weights_->refresh();
    const NoGrad no_grad;
    return steps_.begin(model_, model_.encode(source, segments).x, segments, head);
  }

  /// The log-probabilities after one more token for each row, [rows, vocabulary]; if steps are recorded, valid until the next
  /// step. Throws ShapeError for another number of tokens than rows, and beyond the model's positions.
  [[nodiscard]] Tensor<Wide<T>, D> step(State& state, std::span<const token_t> tokens) const {
    const NoGrad no_grad;
    check_step(state, tokens);
    return steps_.step(model_, state, tokens);
  }

  /// What makes it a LogitModel, if its numbers are as wide as log-probabilities and the state has no `head`. Templates,
  /// because Clang 14 compiles ordinary members along with the class, whatever they require.
  template <std::same_as<State> S>
  requires detail::GivesLogits<T, D>
  [[nodiscard]] bool gives_logits(const S& state) const { return !state.head; }
  template <std::same_as<State> S>
  requires detail::GivesLogits<T, D>
  [[nodiscard]] Tensor<T, D> logits(S& state, std::span<const token_t> tokens) const {
    const NoGrad no_grad;
    check_step(state, tokens);
    return steps_.logits(model_, state, tokens);
  }

  /// Row i goes on as row rows[i] was; see StepModel.
  void reorder(State& state, std::span<const index_t> rows) const { steps_.reorder(model_, state, rows); }

  /// f(the model), computed as its steps are: in evaluation mode, without gradients, in the precision it was made for.
  template <class F>
  decltype(auto) evaluate(F&& f) const {
    weights_->refresh();
    const NoGrad no_grad;
    return std::forward<F>(f)(model_);
  }

  /// What makes it an AttendingModel, if it was made with `StepOptions::attention`.
  [[nodiscard]] bool attends() const { return options_.attention; }
  /// [rows, longest source], 0 beyond a row's own. Throws Error if it does not attend, before a step, and after rows changed.
  [[nodiscard]] Tensor<Wide<T>, D> attention(const State& state) const {
    if (!attends()) throw Error("TransformerModel: made without StepOptions::attention");
    return steps_.attention(state);
  }
  [[nodiscard]] std::vector<index_t> source_lengths(const State& state) const {
    const index_t* const lengths = state.spans.data() + state.rows();
    return {lengths, lengths + state.rows()};
  }

 private:
  void check_step(const State& state, std::span<const token_t> tokens) const {
    const auto rows = count_of(tokens);
    if (rows != state.rows()) throw ShapeError("TransformerModel: ", rows, " tokens for ", state.rows(), " rows");
    model_.decoder.positions.check_place(state.steps());
  }

  nn::Transformer<T, D> plain_;  // the same weights, read where they are
  nn::Transformer<T, D> model_;  // whose products read weights_
  StepOptions options_;
  std::shared_ptr<const PackedWeights<T, D>> weights_;
  Steps steps_;
};

}  // namespace attend::decode
