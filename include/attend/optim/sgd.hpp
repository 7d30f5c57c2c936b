#pragma once

#include <utility>
#include <vector>

#include "attend/cpu/optimizer.hpp"
#include "attend/optim/optimizer.hpp"

namespace attend::optim {

struct SgdOptions {
  double learning_rate = 1e-2;
  double momentum = 0;      ///< in [0, 1); 0: plain descent, which remembers nothing
  bool nesterov = false;    ///< looks one step of momentum ahead; needs a momentum
  double weight_decay = 0;  ///< this times the weight is added to its gradient
};

/// Gradient descent with momentum: v = momentum * v + g,  w -= learning_rate * v,  g = gradient + weight_decay * w;
/// Nesterov's: w -= learning_rate * (g + momentum * v). Throws ValueError for options out of range.
/// Source: Sutskever et al. 2013, in the form in which the learning rate stands outside the velocity.
template <class T, Device D = Cpu>
class Sgd : public OptimizerBase<T, D> {
 public:
  explicit Sgd(FlatParameters<T, D> parameters, const SgdOptions& options = {})
      : OptimizerBase<T, D>(std::move(parameters), options.learning_rate, names(options)), options_(options) {
    check_value(options.momentum >= 0 && options.momentum < 1, "Sgd",
                "momentum is " + std::to_string(options.momentum) + ", expected [0, 1)");
    check_value(!options.nesterov || options.momentum > 0, "Sgd", "nesterov needs a momentum of more than 0");
    check_value(options.weight_decay >= 0 && std::isfinite(options.weight_decay), "Sgd",
                "weight_decay is " + std::to_string(options.weight_decay) + ", expected 0 or more");
  }
  explicit Sgd(const std::vector<Var<T, D>>& parameters, const SgdOptions& options = {})
      : Sgd(FlatParameters<T, D>(parameters), options) {}

 private:
  void apply(double learning_rate) override {
    const SgdStep step{.learning_rate = learning_rate,
                       .l2 = options_.weight_decay,
                       .momentum = options_.momentum,
                       .nesterov = options_.nesterov};
    sgd_step(D{}, this->parameters().size(), step, this->record().data(), this->gradients(), this->values(),
             options_.momentum > 0 ? this->memory(0) : nullptr, this->rounded());
  }
  static std::vector<const char*> names(const SgdOptions& options) {
    return options.momentum > 0 ? std::vector<const char*>{"velocity"} : std::vector<const char*>{};
  }
  SgdOptions options_;
};

}  // namespace attend::optim
