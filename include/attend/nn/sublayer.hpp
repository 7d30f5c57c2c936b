#pragma once

#include "attend/nn/dropout.hpp"
#include "attend/nn/options.hpp"
#include "attend/ops/residual.hpp"

namespace attend::nn {

/// What stands around each sublayer f of a block: residual connection, layer norm and dropout, in one of two orders.
/// post: dropout_norm(norm(x + dropout_residual(f(x)))).  pre: x + dropout_residual(f(dropout_norm(norm(x)))).
template <class T, Device D = Cpu>
struct Sublayer {
  using value_type = T;
  using device_type = D;
  LayerNorm<T, D> norm;
  NormOrder order;
  Dropout residual_dropout, norm_dropout;

  explicit Sublayer(const StackOptions& o)
      : norm(o.d_model, o.norm),
        order(o.norm_order),
        residual_dropout(make_dropout("residual dropout", o.dropout.residual)),
        norm_dropout(make_dropout("norm dropout", o.dropout.norm)) {}

  template <class F>
  Var<T, D> operator()(const Var<T, D>& x, F&& f) const {
    if (order == NormOrder::pre) return add_dropout(x, f(apply(norm_dropout, norm(x))), rate(residual_dropout));
    return apply(norm_dropout, add_dropout_norm(x, f(x), rate(residual_dropout), norm.weight, norm.bias, norm.options));
  }
  template <class F>
  void fields(F&& field) {
    field("", norm);
    field("residual_dropout", residual_dropout);
    field("norm_dropout", norm_dropout);
  }
};

}  // namespace attend::nn
