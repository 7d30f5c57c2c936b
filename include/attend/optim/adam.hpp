#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "attend/cpu/optimizer.hpp"
#include "attend/optim/optimizer.hpp"

namespace attend::optim {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the first and the second moment, in [0, 1)
  double eps = 1e-8;                  ///< more than 0: a weight that never had a gradient would else become 0 / 0
  double weight_decay = 0;            ///< this times the weight is added to its gradient
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the first and the second moment, in [0, 1)
  double eps = 1e-8;                  ///< more than 0
  double weight_decay = 1e-2;         ///< learning_rate times this times the weight is taken off the weight
};

/// What Adam and AdamW share: Adam with either kind of weight decay.
template <class T, Device D>
class AdamBase : public OptimizerBase<T, D> {
 protected:
  template <class Options>
  AdamBase(const char* name, bool decoupled, FlatParameters<T, D> parameters, const Options& o)
      : OptimizerBase<T, D>(std::move(parameters), o.learning_rate, {"first_moment", "second_moment"}),
        decoupled_(decoupled),
        beta1_(o.beta1),
        beta2_(o.beta2),
        eps_(o.eps),
        weight_decay_(o.weight_decay) {
    check_value(beta1_ >= 0 && beta1_ < 1, name, "beta1 is " + std::to_string(beta1_) + ", expected [0, 1)");
    check_value(beta2_ >= 0 && beta2_ < 1, name, "beta2 is " + std::to_string(beta2_) + ", expected [0, 1)");
    check_value(static_cast<Wide<T>>(eps_) > 0 && std::isfinite(eps_), name,
                "eps is " + std::to_string(eps_) + ", expected more than 0");
    check_value(weight_decay_ >= 0 && std::isfinite(weight_decay_), name,
                "weight_decay is " + std::to_string(weight_decay_) + ", expected 0 or more");
  }

 private:
  void apply(double learning_rate) override {
    const AdamStep step{.learning_rate = learning_rate,
                        .l2 = decoupled_ ? 0.0 : weight_decay_,
                        .shrink = decoupled_ ? 1 - learning_rate * weight_decay_ : 1.0,
                        .beta1 = beta1_,
                        .beta2 = beta2_,
                        .eps = eps_};
    adam_step(D{}, this->parameters().size(), step, this->record().data(), this->gradients(), this->values(), this->memory(0),
              this->memory(1), this->rounded());
  }

  bool decoupled_;
  double beta1_, beta2_, eps_, weight_decay_;
};

/// Adam: m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
/// w -= learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps),  g = gradient + weight_decay * w.
/// A parameter that no gradient has reached counts as one of gradient zero. Throws ValueError for options out of range.
/// Source: Kingma and Ba 2015, algorithm 1.
template <class T, Device D = Cpu>
class Adam : public AdamBase<T, D> {
 public:
  explicit Adam(FlatParameters<T, D> parameters, const AdamOptions& options = {})
      : AdamBase<T, D>("Adam", false, std::move(parameters), options) {}
  explicit Adam(const std::vector<Var<T, D>>& parameters, const AdamOptions& options = {})
      : Adam(FlatParameters<T, D>(parameters), options) {}
};

/// Adam in which the weight decay does not pass through the moments: w = (1 - learning_rate * weight_decay) * w before the
/// step. Source: Loshchilov and Hutter 2019, algorithm 2.
template <class T, Device D = Cpu>
class AdamW : public AdamBase<T, D> {
 public:
  explicit AdamW(FlatParameters<T, D> parameters, const AdamWOptions& options = {})
      : AdamBase<T, D>("AdamW", true, std::move(parameters), options) {}
  explicit AdamW(const std::vector<Var<T, D>>& parameters, const AdamWOptions& options = {})
      : AdamW(FlatParameters<T, D>(parameters), options) {}
};

}  // namespace attend::optim
