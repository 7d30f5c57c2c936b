#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/cpu/basic.hpp"
#include "attend/cpu/log_add.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/decode/model.hpp"

namespace attend::decode {

namespace detail {
/// m.begin(arguments...) can be called. A concept with a name, because CUDA 12's compiler loses the pack in a requires-expression
/// written where it is needed.
template <class M, class... Arguments>
concept BeginsWith = requires(const M& m, const Arguments&... arguments) {
  m.begin(arguments...);
};
}  // namespace detail

/// What an ensemble takes the mean of.
enum class EnsembleMean {
  probabilities,      ///< sum_m w_m p_m
  log_probabilities,  ///< product of p_m^w_m, divided by its sum over all tokens
};

/// Options of `Ensemble`.
struct EnsembleOptions {
  EnsembleMean mean = EnsembleMean::probabilities;
  std::vector<double> weights = {};  ///< of each model, above 0; only their ratios count; empty: all alike
};

/// Several models of one vocabulary that a search takes for one. One alone costs nothing more than without an ensemble.
///
///     decode::Ensemble<decode::TransformerModel<float>> both({first, second});
///     auto state = both.begin(source, segments);
///     const auto lists = decode::beam_search(both, state, sentences);
template <StepModel M>
class Ensemble {
 public:
  using value_type = typename M::value_type;
  using device_type = typename M::device_type;
  /// One state for each model, all with the same rows.
  struct State {
    std::vector<typename M::State> members;
  };

  /// Throws ValueError for no models, vocabularies that differ, or weights that are not one positive number for each.
  explicit Ensemble(std::vector<M> members, const EnsembleOptions& options = {})
      : members_(std::move(members)), mean_(options.mean), weights_(options.weights) {
    check_value(!members_.empty(), "Ensemble", "no models");
    for (const M& m : members_)
      check_value(m.vocabulary() == vocabulary(), "Ensemble", "models with vocabularies of ", vocabulary(), " and ",
                  m.vocabulary());
    if (weights_.empty()) weights_.assign(members_.size(), 1);
    check_value(weights_.size() == members_.size(), "Ensemble", weights_.size(), " weights for ", members_.size(), " models");
    double sum = 0;
    for (const double w : weights_) {
      check_value(w > 0 && std::isfinite(w), "Ensemble", "a weight is ", w, ", expected a positive number");
    }
    const double largest = *std::max_element(weights_.begin(), weights_.end());  // so that no sum overflows
    for (double& w : weights_) sum += w /= largest;
    for (double& w : weights_) w /= sum;
  }

  /// The models, and how wide the log-probabilities of each are.
  [[nodiscard]] const std::vector<M>& members() const { return members_; }
  [[nodiscard]] index_t vocabulary() const { return members_.front().vocabulary(); }
  /// The most tokens that a hypothesis may have in every model.
  [[nodiscard]] index_t longest() const requires requires(const M& m) { m.longest(); }
  {
    index_t least = members_.front().longest();
    for (const M& m : members_) least = std::min(least, m.longest());
    return least;
  }

  /// The state that all models begin with, each given the same arguments.
  template <class... Arguments>
  requires detail::BeginsWith<M, Arguments...>
  [[nodiscard]] State begin(const Arguments&... arguments) const {
    State state;
    for (const M& m : members_) state.members.push_back(m.begin(arguments...));
    return state;
  }

  /// See StepModel.
  Tensor<value_type, device_type> step(State& state, std::span<const token_t> tokens) {
    return mean_step(members_, state, tokens);
  }
  Tensor<value_type, device_type> step(State& state, std::span<const token_t> tokens) const requires StepModel<const M> {
    return mean_step(members_, state, tokens);
  }

  /// An ensemble of one model is a LogitModel if that is. Templates for the reason that TransformerModel gives.
  template <std::same_as<State> S>
  requires LogitModel<const M>
  [[nodiscard]] bool gives_logits(const S& state) const {
    check_state(members_, state);
    return members_.size() == 1 && members_.front().gives_logits(state.members.front());
  }
  template <std::same_as<State> S>
  requires LogitModel<const M>
  [[nodiscard]] Tensor<value_type> logits(S& state, std::span<const token_t> tokens) const {
    check_state(members_, state);
    check_value(members_.size() == 1, "Ensemble", "logits of ", members_.size(), " models, expected one");
    return members_.front().logits(state.members.front(), tokens);
  }

  /// See StepModel.
  void reorder(State& state, std::span<const index_t> rows) { reorder_all(members_, state, rows); }
  void reorder(State& state, std::span<const index_t> rows) const requires StepModel<const M> {
    reorder_all(members_, state, rows);
  }

  /// An ensemble is an AttendingModel if its models are: its attention is the weighted mean of theirs.
  [[nodiscard]] bool attends() const requires requires(const M& m) { m.attends(); }
  {
    return std::all_of(members_.begin(), members_.end(), [](const M& m) { return m.attends(); });
  }
  [[nodiscard]] Tensor<value_type, device_type> attention(const State& state) const requires AttendingModel<const M> {
    const auto first = members_.front().attention(state.members.front());
    if (members_.size() == 1) return first;
    const Tensor<value_type, device_type> mean(first.shape(), value_type(0));
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const auto own = m == 0 ? first : members_[m].attention(state.members[m]);
      check_shape("Ensemble", "a model's attention", own.shape(), mean.shape());
      scale_add(device_type{}, mean.size(), static_cast<value_type>(weights_[m]), own.data(), value_type(1), mean.data());
    }
    return mean;
  }
  [[nodiscard]] std::vector<index_t> source_lengths(const State& state) const requires AttendingModel<const M> {
    return members_.front().source_lengths(state.members.front());
  }

 private:
  static void check_state(const std::vector<M>& members, const State& state) {
    check_value(state.members.size() == members.size(), "Ensemble", "a state of ", state.members.size(), " models for ",
                members.size());
  }

  template <class Members>
  Tensor<value_type, device_type> mean_step(Members& members, State& state, std::span<const token_t> tokens) const {
    check_state(members, state);
    if (members.size() == 1) return detail::checked_step("Ensemble", members.front(), state.members.front(), tokens);
    using T = value_type;
    const device_type device;
    const bool of_logs = mean_ == EnsembleMean::log_probabilities;
    const Tensor<T, device_type> mean({count_of(tokens), vocabulary()}, of_logs ? T(0) : -std::numeric_limits<T>::infinity());
    for (std::size_t m = 0; m < members.size(); ++m) {
      const auto own = detail::checked_step("Ensemble", members[m], state.members[m], tokens);  // [rows, vocabulary]
      if (of_logs) scale_add(device, own.size(), static_cast<T>(weights_[m]), own.data(), T(1), mean.data());
      else log_add(device, own.size(), static_cast<T>(std::log(weights_[m])), own.data(), mean.data());
    }
    if (of_logs) log_softmax_forward(device, mean.dim(0), mean.dim(1), mean.data(), mean.data());
    return mean;
  }

  template <class Members>
  static void reorder_all(Members& members, State& state, std::span<const index_t> rows) {
    check_state(members, state);
    for (std::size_t m = 0; m < members.size(); ++m) members[m].reorder(state.members[m], rows);
  }

  std::vector<M> members_;
  EnsembleMean mean_;
  std::vector<double> weights_;  // their sum is 1
};

}  // namespace attend::decode
