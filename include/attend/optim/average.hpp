#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "attend/optim/parameters.hpp"

namespace attend::optim {

/// A moving average of the weights, average = d * average + (1 - d) * weights after each update, which translates better than
/// the weights of any one moment. d is min(decay, (1 + t) / (10 + t)) at update t, so that an average of few updates is not the
/// random weights of the beginning.
template <class T, Device D = Cpu>
class WeightAverage {
 public:
  /// Throws ValueError unless 0 < decay < 1.
  WeightAverage(FlatParameters<T, D> parameters, double decay)
      : parameters_(std::move(parameters)), average_({parameters_.size()}), decay_(decay) {
    check_value(decay > 0 && decay < 1, "WeightAverage", "decay is " + std::to_string(decay) + ", outside (0, 1)");
    average_.assign(parameters_.values());
  }

  /// After update `step`, which counts from 1.
  void update(index_t step) const {
    const auto t = static_cast<double>(step);
    const T keep = static_cast<T>(std::min(decay_, (1 + t) / (10 + t)));
    scale_add(D{}, parameters_.size(), T(1) - keep, parameters_.values().data(), keep, average_.data());
  }
  /// [parameters().size()], in the places of the parameters.
  [[nodiscard]] const Tensor<T, D>& values() const { return average_; }

  /// Puts the average into the model and the model's weights in its place; a second call puts them back.
  void exchange() const {
    parameters_.gather();
    const Tensor<T, D> weights = parameters_.values().clone();
    parameters_.values().assign(average_);
    average_.assign(weights);
  }
  /// While one stands in scope, the model has the average.
  class Scope {
   public:
    explicit Scope(const WeightAverage& average) : average_(average) { average_.exchange(); }
    ~Scope() { average_.exchange(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const WeightAverage& average_;
  };

 private:
  FlatParameters<T, D> parameters_;
  Tensor<T, D> average_;
  double decay_;
};

}  // namespace attend::optim
