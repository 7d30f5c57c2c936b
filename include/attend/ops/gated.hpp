#pragma once

#include "attend/ops/activations.hpp"
#include "attend/ops/arithmetic.hpp"

namespace attend {

namespace detail {

/// f(a) b.
template <class F>
struct Gated {
  F f;
  template <class T>
  ATTEND_FUNCTOR T value(T a, T b) const {
    return f.value(a) * b;
  }
  template <class T>
  ATTEND_FUNCTOR T gradient_a(T dy, T a, T b) const {
    return dy * b * f.slope(a);
  }
  template <class T>
  ATTEND_FUNCTOR T gradient_b(T dy, T a, T) const {
    return dy * f.value(a);
  }
};

}  // namespace detail

/// y = activation(gate) * x, number by number: what a gated feed-forward has between its products. With a gate of f:
/// dgate = dy x f'(gate),  dx = dy f(gate). GELUs and SiLU are one pass that keeps nothing but its inputs. Shapes: gate, x, y
/// equal. Throws ShapeError. Source: Shazeer 2020, "GLU Variants Improve Transformer", eq. 5.
template <class T, Device D>
Var<T, D> gated(const Var<T, D>& gate, const Var<T, D>& x, Activation activation) {
  check_shape("gated", "gate", gate.shape(), x.shape());
  switch (activation) {
    case Activation::gelu:
      return zip("gated", gate, x, detail::Gated<Gelu>{});
    case Activation::gelu_tanh:
      return zip("gated", gate, x, detail::Gated<GeluTanh>{});
    case Activation::silu:
      return zip("gated", gate, x, detail::Gated<Silu>{});
    default:
      return mul(activate(gate, activation), x);
  }
}

}  // namespace attend
