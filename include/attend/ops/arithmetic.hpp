#pragma once

#include <type_traits>

#include "attend/autograd/var.hpp"
#include "attend/core/broadcast.hpp"
#include "attend/cpu/broadcast.hpp"
#include "attend/ops/map.hpp"

namespace attend {

namespace detail {

/// a + b.  da = dy, db = dy.
struct Add {
  template <class T>
  ATTEND_FUNCTOR T value(T a, T b) const {
    return a + b;
  }
};
/// a - b.  da = dy, db = -dy.
struct Subtract {
  template <class T>
  ATTEND_FUNCTOR T value(T a, T b) const {
    return a - b;
  }
};
/// a b.  da = dy b, db = dy a.
struct Multiply {
  template <class T>
  ATTEND_FUNCTOR T value(T a, T b) const {
    return a * b;
  }
  template <class T>
  ATTEND_FUNCTOR T gradient_a(T dy, T, T b) const {
    return dy * b;
  }
  template <class T>
  ATTEND_FUNCTOR T gradient_b(T dy, T a, T) const {
    return dy * a;
  }
};
/// a / b.  da = dy / b, db = -dy a / b^2.
struct Divide {
  template <class T>
  ATTEND_FUNCTOR T value(T a, T b) const {
    return a / b;
  }
  template <class T>
  ATTEND_FUNCTOR T gradient_a(T dy, T, T b) const {
    return dy / b;
  }
  template <class T>
  ATTEND_FUNCTOR T gradient_b(T dy, T a, T b) const {
    return -dy * a / (b * b);
  }
};

/// The gradients of a functor for `zip` as functions of dy, the operand that is differentiated by, and the other.
template <class F>
struct GradientA {
  F f;
  template <class T>
  ATTEND_FUNCTOR T operator()(T dy, T a, T b) const {
    return f.gradient_a(dy, a, b);
  }
};
/// See GradientA.
template <class F>
struct GradientB {
  F f;
  template <class T>
  ATTEND_FUNCTOR T operator()(T dy, T b, T a) const {
    return f.gradient_b(dy, a, b);
  }
};

/// Hands v its share of dy, the gradient of a sum into which it went with the given sign.
template <class T, Device D>
void accumulate_summand(const GradientSink<T, D>& v, const Tensor<T, D>& dy, T sign) {
  if (!v.requires_grad()) return;
  if (sign == T(1) && v.shape() == dy.shape()) {
    v.accumulate(dy);
    return;
  }
  const Strides s = broadcast_strides(dy.shape(), v.shape(), v.shape());
  v.accumulate_with([&](auto dv) { sum_broadcast(D{}, s, sign, dy.data(), dv); });
}

/// f of the numbers of a and b, broadcast to one shape; `operation` is who complains if they have none in common.
template <class T, Device D, class F>
Tensor<T, D> zip_values(const char* operation, const Var<T, D>& a, const Var<T, D>& b, const F& f) {
  Tensor<T, D> y(broadcast_shape(operation, a.shape(), b.shape()));
  zip_forward(D{}, broadcast_strides(y.shape(), a.shape(), b.shape()), f, a.data(), b.data(), y.data());
  return y;
}

}  // namespace detail

/// y = f(a, b), number by number, broadcast as NumPy does:  y = f.value(a, b),  da = f.gradient_a(dy, a, b),
/// db = f.gradient_b(dy, a, b), each summed over the dimensions in which it was repeated. `operation` is the name in errors.
/// Shapes: a, b any two that broadcast. Throws ShapeError.
template <class T, Device D, class F>
Var<T, D> zip(const char* operation, const Var<T, D>& a, const Var<T, D>& b, const F& f) {
  Tensor<T, D> y = detail::zip_values(operation, a, b, f);
  return record(std::move(y), {a, b}, [f, a = a.sink(), b = b.sink(), va = a.value(), vb = b.value()](const Tensor<T, D>& dy) {
    a.accumulate_with([&](auto da) {
      zip_backward(D{}, broadcast_strides(dy.shape(), va.shape(), vb.shape()), detail::GradientA<F>{f}, dy.data(), va.data(),
                   vb.data(), da);
    });
    b.accumulate_with([&](auto db) {
      zip_backward(D{}, broadcast_strides(dy.shape(), vb.shape(), va.shape()), detail::GradientB<F>{f}, dy.data(), vb.data(),
                   va.data(), db);
    });
  });
}

/// y = a + b,  da = db = dy. Shapes: any two that broadcast: from the last dimension on, sizes are equal or one of them is 1
/// or missing; gradients are summed over the dimensions in which a value was repeated. Throws ShapeError. All this holds for
/// those below too.
template <class T, Device D>
Var<T, D> add(const Var<T, D>& a, const Var<T, D>& b) {
  return record(detail::zip_values("add", a, b, detail::Add{}), {a, b}, [a = a.sink(), b = b.sink()](const Tensor<T, D>& dy) {
    detail::accumulate_summand(a, dy, T(1));
    detail::accumulate_summand(b, dy, T(1));
  });
}

/// y = a - b,  da = dy,  db = -dy.
template <class T, Device D>
Var<T, D> sub(const Var<T, D>& a, const Var<T, D>& b) {
  return record(detail::zip_values("sub", a, b, detail::Subtract{}), {a, b},
                [a = a.sink(), b = b.sink()](const Tensor<T, D>& dy) {
                  detail::accumulate_summand(a, dy, T(1));
                  detail::accumulate_summand(b, dy, T(-1));
                });
}

/// y = a * b,  da = dy * b,  db = dy * a.
template <class T, Device D>
Var<T, D> mul(const Var<T, D>& a, const Var<T, D>& b) {
  return zip("mul", a, b, detail::Multiply{});
}

/// y = a / b,  da = dy / b,  db = -dy * a / b^2.
template <class T, Device D>
Var<T, D> div(const Var<T, D>& a, const Var<T, D>& b) {
  return zip("div", a, b, detail::Divide{});
}

/// scale * x + shift.
struct Affine {
  double scale = 1, shift = 0;
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return static_cast<T>(scale) * x + static_cast<T>(shift);
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T) const {
    return static_cast<T>(scale);
  }
};

/// x / divisor; not a product with 1 / divisor, which rounds twice.
struct DividedBy {
  double divisor = 1;
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x / static_cast<T>(divisor);
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T) const {
    return T(1) / static_cast<T>(divisor);
  }
};

/// numerator / x.
struct Reciprocal {
  double numerator = 1;
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return static_cast<T>(numerator) / x;
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T x) const {
    return -static_cast<T>(numerator) / (x * x);
  }
};

/// a + b number by number, broadcast as in `add` and its like.
template <class T, Device D>
Var<T, D> operator+(const Var<T, D>& a, const Var<T, D>& b) {
  return add(a, b);
}
/// a - b, likewise.
template <class T, Device D>
Var<T, D> operator-(const Var<T, D>& a, const Var<T, D>& b) {
  return sub(a, b);
}
/// a * b, likewise.
template <class T, Device D>
Var<T, D> operator*(const Var<T, D>& a, const Var<T, D>& b) {
  return mul(a, b);
}
/// a / b, likewise.
template <class T, Device D>
Var<T, D> operator/(const Var<T, D>& a, const Var<T, D>& b) {
  return div(a, b);
}
/// -x.
template <class T, Device D>
Var<T, D> operator-(const Var<T, D>& x) {
  return map(x, Affine{-1, 0});
}

/// A plain number.
template <class N>
concept Number = std::is_arithmetic_v<N>;

/// x + c, with one number for every element, and so below.
template <class T, Device D, Number N>
Var<T, D> operator+(const Var<T, D>& x, N c) {
  return map(x, Affine{1, static_cast<double>(c)});
}
/// c + x.
template <class T, Device D, Number N>
Var<T, D> operator+(N c, const Var<T, D>& x) {
  return x + c;
}
/// x - c.
template <class T, Device D, Number N>
Var<T, D> operator-(const Var<T, D>& x, N c) {
  return map(x, Affine{1, -static_cast<double>(c)});
}
/// c - x.
template <class T, Device D, Number N>
Var<T, D> operator-(N c, const Var<T, D>& x) {
  return map(x, Affine{-1, static_cast<double>(c)});
}
/// x * c.
template <class T, Device D, Number N>
Var<T, D> operator*(const Var<T, D>& x, N c) {
  return map(x, Affine{static_cast<double>(c), 0});
}
/// c * x.
template <class T, Device D, Number N>
Var<T, D> operator*(N c, const Var<T, D>& x) {
  return x * c;
}
/// x / c.
template <class T, Device D, Number N>
Var<T, D> operator/(const Var<T, D>& x, N c) {
  return map(x, DividedBy{static_cast<double>(c)});
}
/// c / x.
template <class T, Device D, Number N>
Var<T, D> operator/(N c, const Var<T, D>& x) {
  return map(x, Reciprocal{static_cast<double>(c)});
}

}  // namespace attend
