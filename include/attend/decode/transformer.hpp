#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "attend/decode/eager_steps.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/recorded_steps.hpp"
#include "attend/nn/transformer.hpp"

namespace attend::decode {

/// A Transformer as the searches see it: token by token, with the keys and values of what was said before kept. The source is
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

  /// Throws ValueError for a decoder that sees later tokens: it cannot go token by token; for int8 unless T is float.
  explicit TransformerModel(const nn::Transformer<T, D>& model, Precision precision = Precision::full)
      : model_(model), weights_(std::make_shared<const PackedWeights<T, D>>(precision)) {
    check_value(model.decoder.options.causal, "TransformerModel",
                "the decoder is not causal and cannot be searched token by token");
    nn::set_training(model_, false);
  }

  [[nodiscard]] index_t vocabulary() const { return model_.decoder.options.vocabulary; }
  /// The most tokens that a hypothesis may have: positions, less the one of the begin token.
  [[nodiscard]] index_t longest() const { return model_.decoder.options.max_length - 1; }
  [[nodiscard]] const nn::Transformer<T, D>& transformer() const { return model_; }

  /// A state with one row for each source sentence. Throws as the encoder does.
  [[nodiscard]] State begin(const Tensor<token_t, D>& source, const Segments& segments) const {
    weights_->refresh();
    const NoGrad no_grad;
    const typename PackedWeights<T, D>::Use use(*weights_);
    return steps_.begin(model_, model_.encode(source, segments).x, segments);
  }

  /// The log-probabilities after one token more for each row, [rows, vocabulary]; where steps are recorded, valid until the next
  /// step. Throws ShapeError for another number of tokens
  /// than rows, and beyond the model's positions.
  [[nodiscard]] Tensor<Wide<T>, D> step(State& state, std::span<const token_t> tokens) const {
    const NoGrad no_grad;
    const typename PackedWeights<T, D>::Use use(*weights_);
    const auto rows = static_cast<index_t>(tokens.size());
    if (rows != state.rows())
      throw ShapeError("TransformerModel: " + std::to_string(rows) + " tokens for " + std::to_string(state.rows()) + " rows");
    detail::check_position(model_, state.steps());
    return steps_.step(model_, state, tokens);
  }

  void reorder(State& state, std::span<const index_t> rows) const { steps_.reorder(model_, state, rows); }

 private:
  nn::Transformer<T, D> model_;
  std::shared_ptr<const PackedWeights<T, D>> weights_;
  Steps steps_;
};

}  // namespace attend::decode
