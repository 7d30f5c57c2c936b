#pragma once

#include "attend/ops/map.hpp"

namespace attend {

/// e^x.
struct Exp {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return math::exp(x);
  }
  template <class T>
  ATTEND_FUNCTOR T slope_from_value(T y) const {
    return y;
  }
};

/// The natural logarithm of x.
struct Log {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return math::log(x);
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T x) const {
    return T(1) / x;
  }
};

/// The square root of x.
struct Sqrt {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return math::sqrt(x);
  }
  template <class T>
  ATTEND_FUNCTOR T slope_from_value(T y) const {
    return T(0.5) / y;
  }
};

/// x^2.
struct Square {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x * x;
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T x) const {
    return T(2) * x;
  }
};

/// e^x, number by number. Shapes of all these: x, y any.
template <class T, Device D>
Var<T, D> exp(const Var<T, D>& x) {
  return map(x, Exp{});
}
/// The natural logarithm; minus infinity at 0, not a number below.
template <class T, Device D>
Var<T, D> log(const Var<T, D>& x) {
  return map(x, Log{});
}
/// The square root; not a number below 0, and of infinite slope at 0.
template <class T, Device D>
Var<T, D> sqrt(const Var<T, D>& x) {
  return map(x, Sqrt{});
}
/// x * x.
template <class T, Device D>
Var<T, D> square(const Var<T, D>& x) {
  return map(x, Square{});
}

}  // namespace attend
