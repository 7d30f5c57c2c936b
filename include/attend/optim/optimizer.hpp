#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "attend/optim/parameters.hpp"

namespace attend::optim {

/// What an optimizer remembers from step to step, besides the parameters: all that a checkpoint must keep of it.
template <class T, Device D = Cpu>
struct OptimizerState {
  struct Entry {
    std::string name;     ///< `first_moment`
    Tensor<T, D> values;  // [size of the FlatParameters]
  };
  index_t steps = 0;    ///< steps taken
  index_t skipped = 0;  ///< steps left out because the gradients were not finite
  std::vector<Entry> entries;
};

/// What training needs of an optimizer.
template <class O>
concept Optimizer = requires(O& optimizer, double number) {
  { optimizer.step() } -> std::same_as<bool>;
  { optimizer.step(number, number) } -> std::same_as<bool>;
  optimizer.zero_grad();
  optimizer.set_learning_rate(number);
  { optimizer.learning_rate() } -> std::same_as<double>;
  optimizer.restore(optimizer.state());
};

/// What all optimizers share: the parameters, the learning rate, the count of steps.
template <class T, Device D>
class OptimizerBase {
 public:
  void zero_grad() { parameters_.zero_grad(); }
  [[nodiscard]] const FlatParameters<T, D>& parameters() const { return parameters_; }

  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  /// Throws ValueError where it is negative or not finite.
  void set_learning_rate(double value) {
    check_value(value >= 0 && std::isfinite(value), "optimizer",
                "learning_rate is " + std::to_string(value) + ", expected 0 or more");
    learning_rate_ = value;
  }
  /// Steps taken.
  [[nodiscard]] index_t steps() const { return steps_; }
  /// Steps that were left out because the norm of the gradients was not finite.
  [[nodiscard]] index_t skipped() const { return skipped_; }

  /// The memory of the optimizer; the tensors are views into it.
  [[nodiscard]] OptimizerState<T, D> state() const {
    OptimizerState<T, D> s{steps_, skipped_, {}};
    for (const auto& [name, values] : memory_) s.entries.push_back({name, values});
    return s;
  }
  /// Goes to where another optimizer of the same kind stood, over parameters of the same layout.
  /// Throws ValueError for the memory of another kind, ShapeError for that of other parameters; then nothing has changed.
  void restore(const OptimizerState<T, D>& state) {
    check_value(state.steps >= 0 && state.skipped >= 0, "optimizer", "a count in the state is negative");
    check_value(state.entries.size() == memory_.size(), "optimizer",
                "the state has " + std::to_string(state.entries.size()) + " entries, expected " + std::to_string(memory_.size()));
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const auto& entry = state.entries[i];
      check_value(entry.name == memory_[i].name, "optimizer",
                  "the state has `" + entry.name + "`, expected `" + memory_[i].name + "`");
      check_shape("optimizer", entry.name.c_str(), entry.values.shape(), memory_[i].values.shape());
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i].values.assign(state.entries[i].values);
    steps_ = state.steps, skipped_ = state.skipped;
  }

 protected:
  OptimizerBase(FlatParameters<T, D> parameters, double learning_rate, const std::vector<const char*>& names)
      : parameters_(std::move(parameters)) {
    set_learning_rate(learning_rate);
    for (const char* name : names) memory_.push_back({name, Tensor<T, D>({parameters_.size()}, T(0))});
  }

  /// Counts the step, or counts it as skipped and says false.
  bool begin_step(double learning_rate, double gradient_scale) {
    set_learning_rate(learning_rate);
    check_value(std::isfinite(gradient_scale), "optimizer", "gradient_scale is not finite");
    if (!parameters_.finite()) {
      ++skipped_;
      return false;
    }
    parameters_.gather();
    weights_changed();
    ++steps_;
    return true;
  }
  [[nodiscard]] T* gradients() const { return parameters_.gradients().data(); }
  [[nodiscard]] T* values() const { return parameters_.values().data(); }
  [[nodiscard]] T* memory(std::size_t i) const { return memory_[i].values.data(); }

 private:
  FlatParameters<T, D> parameters_;
  double learning_rate_ = 0;
  index_t steps_ = 0, skipped_ = 0;
  std::vector<typename OptimizerState<T, D>::Entry> memory_;
};

}  // namespace attend::optim
