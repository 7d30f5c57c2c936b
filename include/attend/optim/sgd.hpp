#pragma once

#include <utility>
#include <vector>

#include "attend/cpu/optimizer.hpp"
#include "attend/optim/optimizer.hpp"

namespace attend::optim {

/// See Sgd.
struct SgdOptions {
  double learning_rate = 1e-2;
  double momentum = 0;      ///< in [0, 1); 0: plain descent, which remembers nothing
  bool nesterov = false;    ///< looks one step of momentum ahead; needs a momentum
  double weight_decay = 0;  ///< this times the weight is added to its gradient

  template <class F>
  static void fields(F&& field) {
    field("momentum", &SgdOptions::momentum, less_than_1());
    field("weight_decay", &SgdOptions::weight_decay, at_least(0));
  }
};

/// p -= learning_rate * g,  g = gradient_scale * gradient + l2 * p.
struct DescentRule {
  static constexpr int memories = 0;
  double learning_rate, l2;

  template <class W>
  struct Update {
    W rate, scale, l2;
    ATTEND_FUNCTOR void operator()(W gradient, W& p) const { p = p - rate * (scale * gradient + l2 * p); }
  };
  template <class W>
  ATTEND_FUNCTOR Update<W> prepare(const UpdateRecord& record) const {
    return {static_cast<W>(learning_rate), static_cast<W>(record.gradient_scale), static_cast<W>(l2)};
  }
};

/// v = momentum * v + g,  p -= learning_rate * (nesterov ? g + momentum * v : v),  g as above.
struct MomentumRule {
  static constexpr int memories = 1;
  double learning_rate, l2, momentum;
  bool nesterov;

  template <class W>
  struct Update {
    W rate, scale, l2, momentum;
    bool nesterov;
    ATTEND_FUNCTOR void operator()(W gradient, W& p, W& v) const {
      const W g = scale * gradient + l2 * p;
      v = momentum * v + g;
      if (nesterov) p = p - rate * (g + momentum * v);
      else p = p - rate * v;
    }
  };
  template <class W>
  ATTEND_FUNCTOR Update<W> prepare(const UpdateRecord& record) const {
    return {static_cast<W>(learning_rate), static_cast<W>(record.gradient_scale), static_cast<W>(l2), static_cast<W>(momentum),
            nesterov};
  }
};

/// Gradient descent with momentum: v = momentum * v + g,  w -= learning_rate * v,  g = gradient + weight_decay * w;
/// Nesterov's: w -= learning_rate * (g + momentum * v). Throws ValueError for options out of range.
/// Source: Sutskever et al. 2013, in the form in which the learning rate stands outside the velocity.
template <class T, Device D = Cpu>
class Sgd : public OptimizerBase<T, D> {
 public:
  /// Over these parameters, which are moved into one buffer.
  explicit Sgd(FlatParameters<T, D> parameters, const SgdOptions& options = {})
      : OptimizerBase<T, D>(std::move(parameters), options.learning_rate, memories(options)), options_(options) {
    check_fields("Sgd", options);
    check_value(!options.nesterov || options.momentum > 0, "Sgd", "nesterov needs a momentum of more than 0");
  }
  explicit Sgd(const std::vector<Var<T, D>>& parameters, const SgdOptions& options = {})
      : Sgd(FlatParameters<T, D>(parameters), options) {}

 private:
  void apply(double learning_rate) override {
    const auto& o = options_;
    if (o.momentum > 0) this->move_by(MomentumRule{learning_rate, o.weight_decay, o.momentum, o.nesterov});
    else this->move_by(DescentRule{learning_rate, o.weight_decay});
  }
  using Memories = std::vector<typename OptimizerBase<T, D>::Memory>;
  static Memories memories(const SgdOptions& options) { return options.momentum > 0 ? Memories{"velocity"} : Memories{}; }

  SgdOptions options_;
};

}  // namespace attend::optim
