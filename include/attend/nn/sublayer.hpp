#pragma once

#include <optional>
#include <utility>

#include "attend/nn/dropout.hpp"
#include "attend/nn/options.hpp"
#include "attend/ops/residual.hpp"

namespace attend::nn {

/// What goes from one sublayer to the next: x + dropout(branch, p). The sum of a pre-norm sublayer is left to the next norm,
/// which makes it along with its own output.
template <class T, Device D = Cpu>
struct ResidualStream {
  Var<T, D> x;
  std::optional<Var<T, D>> branch = {};
  double p = 0;

  /// The sum, with dropout on the branch.
  [[nodiscard]] Var<T, D> value() const { return branch ? add_dropout(x, *branch, p) : x; }
  /// norm(value()).
  [[nodiscard]] Var<T, D> normed(const Norm<T, D>& norm) const {
    return branch ? add_dropout_norm(x, *branch, p, norm.parameters()) : norm(x);
  }
  /// value() and its norm.
  [[nodiscard]] SumAndNorm<T, D> with_norm(const Norm<T, D>& norm) const {
    if (!branch) return {x, norm(x)};
    return add_dropout_and_norm(x, *branch, p, norm.parameters());
  }
};

/// The stream with values dropped at `d.p` in training.
template <class T, Device D>
ResidualStream<T, D> apply(const Dropout& d, ResidualStream<T, D> stream) {
  if (rate(d) > 0) return {apply(d, stream.value())};
  return stream;
}

/// What stands around each sublayer f of a block: residual connection, layer norm and dropout, in one of two orders.
/// post: dropout_norm(norm(x + dropout_residual(f(x)))).  pre: x + dropout_residual(f(dropout_norm(norm(x)))).
template <class T, Device D = Cpu>
struct Sublayer {
  using value_type = T;
  using device_type = D;
  Norm<T, D> norm;
  NormOrder order;
  Dropout residual_dropout, norm_dropout;

  /// Of a stack with these options.
  explicit Sublayer(const StackOptions& o)
      : norm(o.d_model, o.norm),
        order(o.norm_order),
        residual_dropout(make_dropout("residual dropout", o.dropout.residual)),
        norm_dropout(make_dropout("norm dropout", o.dropout.norm)) {}

  /// f on what another sublayer has left.
  template <class F>
  ResidualStream<T, D> operator()(ResidualStream<T, D> stream, F&& f) const {
    if (order == NormOrder::pre) {
      auto [sum, y] = stream.with_norm(norm);
      stream = {sum};
      stream.branch = f(apply(norm_dropout, y)), stream.p = rate(residual_dropout);
      return stream;
    }
    const auto x = stream.value();
    return {apply(norm_dropout, add_dropout_norm(x, f(x), rate(residual_dropout), norm.parameters()))};
  }
  template <class F>
  void fields(F&& field) {
    field("", norm);
    field("residual_dropout", residual_dropout);
    field("norm_dropout", norm_dropout);
  }
};

}  // namespace attend::nn
