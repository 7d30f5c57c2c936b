#pragma once

#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "attend/core/tensor.hpp"

namespace attend::decode {

/// What the searches need of a model. A State holds one row for each prefix under way; a search starts from a state with one row
/// per sentence, in the sentences' order and with empty prefixes. How it is made (by encoding sources, or from nothing) is the
/// model's own business.
///
/// - `vocabulary()`: the number of tokens V.
/// - `step(state, tokens)`: appends tokens[i] to the prefix of row i (the first one is the begin token) and gives the
///   log-probabilities of the token after that, [rows, V]: none above 0, minus infinity where a token cannot follow. The search
///   may write into the tensor, so a model does not hand out one that it keeps.
/// - `reorder(state, rows)`: row i of the state from now on continues what was row rows[i]. Rows may repeat (a beam splits) or
///   be left out (a sentence is finished). Not called if nothing changes.
///
/// For a sentence's result not to depend on its batch, each row's log-probabilities must depend on that row's prefix alone.
template <class M>
concept StepModel = Device<typename M::device_type> && Scalar<typename M::value_type> &&
    requires(M& model, typename M::State& state, std::span<const token_t> tokens, std::span<const index_t> rows) {
  { model.vocabulary() } -> std::convertible_to<index_t>;
  { model.step(state, tokens) } -> std::same_as<Tensor<typename M::value_type, typename M::device_type>>;
  model.reorder(state, rows);
};

/// A StepModel on the processor that can leave log-softmax to the search, which usually needs only a few numbers of each row.
/// - `gives_logits(state)`: whether the next step's may be asked for.
/// - `logits(state, tokens)`: a step in place of `step`, whose result is log_softmax of this; the search may write into it, too.
template <class M>
concept LogitModel = StepModel<M> && std::same_as<typename M::device_type, Cpu> &&
    requires(M& model, typename M::State& state, std::span<const token_t> tokens) {
  { model.gives_logits(state) } -> std::convertible_to<bool>;
  { model.logits(state, tokens) } -> std::same_as<Tensor<typename M::value_type, Cpu>>;
};

/// A StepModel that can say where in its source it looks.
/// - `attends()`: whether it was made to; only if so may the others be called.
/// - `attention(state)`: after a step, until rows are reordered: how each row attended to its source when it gave the
///   log-probabilities, [rows, longest source of them all]; the sum of a row is 1; 0 beyond its source.
/// - `source_lengths(state)`: how long each row's source is.
template <class M>
concept AttendingModel = StepModel<M> && requires(M& model, typename M::State& state) {
  { model.attends() } -> std::convertible_to<bool>;
  { model.attention(state) } -> std::same_as<Tensor<typename M::value_type, typename M::device_type>>;
  { model.source_lengths(state) } -> std::convertible_to<std::vector<index_t>>;
};

namespace detail {

/// Whether the logits of a model of T on D can stand in for log-probabilities.
template <class T, class D>
concept GivesLogits = std::same_as<T, Wide<T>> && std::same_as<D, Cpu>;

/// model.step, with the shape of what it gives checked. Throws ShapeError.
template <StepModel M>
Tensor<typename M::value_type, typename M::device_type> checked_step(const char* search, M& model, typename M::State& state,
                                                                     std::span<const token_t> tokens) {
  auto log_probabilities = model.step(state, tokens);
  check_shape(search, "the model's step", log_probabilities.shape(),
              {count_of(tokens), static_cast<index_t>(model.vocabulary())});
  return log_probabilities;
}
/// model.logits, likewise.
template <LogitModel M>
Tensor<typename M::value_type> checked_logits(const char* search, M& model, typename M::State& state,
                                              std::span<const token_t> tokens) {
  auto logits = model.logits(state, tokens);
  check_shape(search, "the model's logits", logits.shape(), {count_of(tokens), static_cast<index_t>(model.vocabulary())});
  return logits;
}

/// Throws ValueError for a value that is no log-probability. A little above 0 is rounding.
inline double checked_log_probability(const char* search, double value, token_t token) {
  check_value(value <= 0.01, search, "the model's step gives token ", token, " the log-probability ", value,
              ", expected at most 0 (is a log-softmax missing?)");
  return value;
}

}  // namespace detail

}  // namespace attend::decode
