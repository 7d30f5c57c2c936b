#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "attend/cpu/optimizer.hpp"
#include "attend/ops/math.hpp"
#include "attend/optim/optimizer.hpp"

namespace attend::optim {

/// See Adam.
struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the first and the second moment, in [0, 1)
  double eps = 1e-8;                  ///< more than 0: a weight that never had a gradient would otherwise become 0 / 0
  double weight_decay = 0;            ///< this times the weight is added to its gradient

  template <class F>
  static void fields(F&& field) {
    field("beta1", &AdamOptions::beta1, less_than_1());
    field("beta2", &AdamOptions::beta2, less_than_1());
    field("eps", &AdamOptions::eps, more_than(0));
    field("weight_decay", &AdamOptions::weight_decay, at_least(0));
  }
};

/// See AdamW.
struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the first and the second moment, in [0, 1)
  double eps = 1e-8;                  ///< more than 0
  double weight_decay = 1e-2;         ///< learning_rate times this times the weight is taken off the weight

  template <class F>
  static void fields(F&& field) {
    field("beta1", &AdamWOptions::beta1, less_than_1());
    field("beta2", &AdamWOptions::beta2, less_than_1());
    field("eps", &AdamWOptions::eps, more_than(0));
    field("weight_decay", &AdamWOptions::weight_decay, at_least(0));
  }
};

/// g = gradient_scale * gradient + l2 * p,  m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g^2,
/// p = shrink * p - learning_rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps),  t = the updates so far.
struct AdamRule {
  static constexpr int memories = 2;
  double learning_rate;
  double l2;            ///< this times the value is added to the gradient (Adam's weight decay)
  double shrink;        ///< what the value is multiplied by first (AdamW's weight decay)
  double beta1, beta2;  ///< decay of the two moments
  double eps;

  template <class W>
  struct Update {
    W scale, l2, shrink, beta1, rest1, beta2, rest2, step_size, second_scale, eps;

    ATTEND_FUNCTOR void operator()(W gradient, W& p, W& m, W& v) const {
      const W g = scale * gradient + l2 * p;
      m = beta1 * m + rest1 * g;
      v = beta2 * v + rest2 * (g * g);
      p = shrink * p - step_size * m / (math::sqrt(v) * second_scale + eps);
    }
  };
  template <class W>
  ATTEND_FUNCTOR Update<W> prepare(const UpdateRecord& record) const {
    const auto t = static_cast<double>(record.steps);
    return {static_cast<W>(record.gradient_scale),
            static_cast<W>(l2),
            static_cast<W>(shrink),
            static_cast<W>(beta1),
            static_cast<W>(1 - beta1),
            static_cast<W>(beta2),
            static_cast<W>(1 - beta2),
            static_cast<W>(learning_rate / (1 - ::pow(beta1, t))),
            static_cast<W>(1 / ::sqrt(1 - ::pow(beta2, t))),
            static_cast<W>(eps)};
  }
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
    check_fields(name, o);
    check_value(static_cast<Wide<T>>(eps_) > 0, name, "eps is ", eps_, ", which is 0 in the parameters' type");
  }

 private:
  void apply(double learning_rate) override {
    this->move_by(AdamRule{.learning_rate = learning_rate,
                           .l2 = decoupled_ ? 0.0 : weight_decay_,
                           .shrink = decoupled_ ? 1 - learning_rate * weight_decay_ : 1.0,
                           .beta1 = beta1_,
                           .beta2 = beta2_,
                           .eps = eps_});
  }

  bool decoupled_;
  double beta1_, beta2_, eps_, weight_decay_;
};

/// Adam: m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
/// w -= learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps),  g = gradient + weight_decay * w.
/// A parameter that no gradient has reached counts as one with gradient zero. Throws ValueError for options out of range. Source:
/// Kingma and Ba 2015, algorithm 1.
template <class T, Device D = Cpu>
class Adam : public AdamBase<T, D> {
 public:
  /// Over these parameters, which are moved into one buffer. Throws ValueError for options out of range.
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
  /// Over these parameters, which are moved into one buffer. Throws ValueError for options out of range.
  explicit AdamW(FlatParameters<T, D> parameters, const AdamWOptions& options = {})
      : AdamBase<T, D>("AdamW", true, std::move(parameters), options) {}
  explicit AdamW(const std::vector<Var<T, D>>& parameters, const AdamWOptions& options = {})
      : AdamW(FlatParameters<T, D>(parameters), options) {}
};

}  // namespace attend::optim
