#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "attend/cpu/optimizer.hpp"
#include "attend/optim/parameters.hpp"

namespace attend::optim {

/// A moving average of the weights, average = d * average + (1 - d) * weights after each update, which translates better than
/// the weights of any one moment. d is min(decay, (1 + t) / (10 + t)) at update t, so that an average over few updates is not
/// mostly the random weights of the beginning.
template <class T, Device D = Cpu>
class WeightAverage {
 public:
  /// Throws ValueError unless 0 < decay < 1.
  WeightAverage(FlatParameters<T, D> parameters, double decay)
      : parameters_(std::move(parameters)), average_({parameters_.size()}), decay_(decay) {
    check_value(decay > 0 && decay < 1, "WeightAverage", "decay is ", decay, ", outside (0, 1)");
    convert(D{}, parameters_.size(), parameters_.values().data(), average_.data());
  }

  /// Takes in the weights after update `step`, counted from 1. Given the record of that update, it does nothing if the update was
  /// left out.
  void update(index_t step, const UpdateRecord* record = nullptr) const {
    const auto t = static_cast<double>(step);
    const auto keep = static_cast<Wide<T>>(std::min(decay_, (1 + t) / (10 + t)));
    average_step(D{}, parameters_.size(), keep, record, parameters_.values().data(), average_.data());
  }
  /// [size of the FlatParameters], each number in the place of its parameter's.
  [[nodiscard]] const Tensor<Wide<T>, D>& values() const { return average_; }

  /// Puts the average into the model and keeps the model's weights; a second call puts them back.
  void exchange() const {
    parameters_.gather();
    if (weights_.empty()) {
      weights_ = parameters_.values().clone();
      convert(D{}, parameters_.size(), average_.data(), parameters_.values().data());
      weights_changed();
    } else {
      parameters_.values().assign(std::exchange(weights_, {}));
    }
  }
  /// While one is in scope, the model has the average; if that is null, its own weights.
  class Scope {
   public:
    /// Changes the two over; the end of the scope changes them back.
    explicit Scope(const WeightAverage* average) : average_(average) {
      if (average_) average_->exchange();
    }
    ~Scope() {
      try {
        end();
      } catch (...) {  // a device that has failed; what it failed with is on its way already
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    /// Gives the model its weights back before the scope ends, and throws what goes wrong.
    void end() {
      if (average_) std::exchange(average_, nullptr)->exchange();
    }

   private:
    const WeightAverage* average_;
  };

 private:
  FlatParameters<T, D> parameters_;
  Tensor<Wide<T>, D> average_;
  mutable Tensor<T, D> weights_;  // the model's, while it has the average
  double decay_;
};

}  // namespace attend::optim
