#pragma once

#include <array>

#include "attend/core/options.hpp"
#include "attend/ops/map_dropout.hpp"

namespace attend {

/// max(x, 0). The slope at 0 is 0; NaN stays NaN.
struct Relu {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  ATTEND_FUNCTOR T slope_from_value(T y) const {
    return math::select(y > T(0), T(1), T(0));
  }
  /// Where a number was dropped, y is 0, and so is the slope.
  static constexpr bool slope_is_zero_at_zero = true;
};

/// x * Phi(x), Phi the normal distribution function: (1 + erf(x / sqrt 2)) / 2. Source: Hendrycks and Gimpel 2016.
struct Gelu {
  template <class T>
  ATTEND_FUNCTOR static T phi(T x) {
    return T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440)));
  }
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x * phi(x);
  }
  /// Phi(x) + x * density(x).
  template <class T>
  ATTEND_FUNCTOR T slope(T x) const {
    return phi(x) + x * T(0.39894228040143267794) * math::exp(T(-0.5) * x * x);
  }
};

/// x * (1 + tanh(u)) / 2,  u = sqrt(2 / pi) * (x + 0.044715 x^3): the approximation of GELU. Source: the same.
struct GeluTanh {
  static constexpr double a = 0.79788456080286535588, b = 0.044715;
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return T(0.5) * x * (T(1) + math::tanh(T(a) * (x + T(b) * x * x * x)));
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T x) const {
    const T t = math::tanh(T(a) * (x + T(b) * x * x * x));
    return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * T(a) * (T(1) + T(3 * b) * x * x);
  }
};

/// x * sigmoid(x), also called swish.
struct Silu {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x * math::sigmoid(x);
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T x) const {
    const T s = math::sigmoid(x);
    return s * (T(1) + x * (T(1) - s));
  }
};

/// tanh(x).
struct Tanh {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return math::tanh(x);
  }
  template <class T>
  ATTEND_FUNCTOR T slope_from_value(T y) const {
    return T(1) - y * y;
  }
};

/// 1 / (1 + e^-x).
struct Sigmoid {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return math::sigmoid(x);
  }
  template <class T>
  ATTEND_FUNCTOR T slope_from_value(T y) const {
    return y * (T(1) - y);
  }
};

/// See `Relu`; shapes: x, y any.
template <class T, Device D>
Var<T, D> relu(const Var<T, D>& x) {
  return map(x, Relu{});
}
/// See `Gelu`; shapes: x, y any.
template <class T, Device D>
Var<T, D> gelu(const Var<T, D>& x) {
  return map(x, Gelu{});
}
/// See `GeluTanh`; shapes: x, y any.
template <class T, Device D>
Var<T, D> gelu_tanh(const Var<T, D>& x) {
  return map(x, GeluTanh{});
}
/// See `Silu`; shapes: x, y any.
template <class T, Device D>
Var<T, D> silu(const Var<T, D>& x) {
  return map(x, Silu{});
}
/// See `Tanh`; shapes: x, y any.
template <class T, Device D>
Var<T, D> tanh(const Var<T, D>& x) {
  return map(x, Tanh{});
}
/// See `Sigmoid`; shapes: x, y any.
template <class T, Device D>
Var<T, D> sigmoid(const Var<T, D>& x) {
  return map(x, Sigmoid{});
}

/// The activations that a model's options choose from.
enum class Activation { relu, gelu, gelu_tanh, silu, tanh, identity };
/// The names of its values.
constexpr auto names_of(Activation) {
  return std::to_array<Named<Activation>>({{Activation::relu, "relu"},
                                           {Activation::gelu, "gelu"},
                                           {Activation::gelu_tanh, "gelu_tanh"},
                                           {Activation::silu, "silu"},
                                           {Activation::tanh, "tanh"},
                                           {Activation::identity, "identity"}});
}

/// y = activation(x); the identity gives x itself.
template <class T, Device D>
Var<T, D> activate(const Var<T, D>& x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
      return silu(x);
    case Activation::tanh:
      return attend::tanh(x);
    case Activation::identity:
      return x;
  }
  throw ValueError("activate: unknown activation ", static_cast<int>(activation));
}

/// y = dropout(activation(x), p), keeping no more for the backward than the activation alone would.
/// Throws ValueError unless 0 <= p < 1.
template <class T, Device D>
Var<T, D> activate_dropout(const Var<T, D>& x, Activation activation, double p, Generator& generator = default_generator()) {
  if (p == 0) return activate(x, activation);
  switch (activation) {
    case Activation::relu:
      return map_dropout(x, Relu{}, p, generator);
    case Activation::gelu:
      return map_dropout(x, Gelu{}, p, generator);
    case Activation::gelu_tanh:
      return map_dropout(x, GeluTanh{}, p, generator);
    case Activation::silu:
      return map_dropout(x, Silu{}, p, generator);
    default:
      return dropout(activate(x, activation), p, generator);
  }
}

}  // namespace attend
