#pragma once

#include <concepts>
#include <utility>

#include "attend/autograd/var.hpp"
#include "attend/cpu/map.hpp"
#include "attend/ops/math.hpp"

namespace attend {

/// A function of one number with its derivative, `slope(x)`.
template <class F, class T>
concept Differentiable = requires(const F f, T x) {
  { f.value(x) } -> std::convertible_to<T>;
  { f.slope(x) } -> std::convertible_to<T>;
};

/// A function of one number whose derivative follows from its value y more cheaply than from x: tanh' = 1 - y^2.
template <class F, class T>
concept DifferentiableFromValue = requires(const F f, T x) {
  { f.value(x) } -> std::convertible_to<T>;
  { f.slope_from_value(x) } -> std::convertible_to<T>;
};

namespace detail {

/// A functor's slope by its argument, and by its value, as something to call.
template <class F>
struct Slope {
  F f;
  template <class T>
  ATTEND_FUNCTOR T operator()(T x) const {
    return f.slope(x);
  }
};
/// The slope of a function by what it gave, as a function.
template <class F>
struct SlopeFromValue {
  F f;
  template <class T>
  ATTEND_FUNCTOR T operator()(T y) const {
    return f.slope_from_value(y);
  }
};

}  // namespace detail

/// y = f(x), number by number:  y[i] = f.value(x[i]),  dx[i] = dy[i] * f.slope(x[i]).
/// A functor of one's own is a few lines; written with the functions of `attend::math` and marked ATTEND_FUNCTOR it runs
/// on every device, and on the CPU in vector instructions:
///
///     struct Softsign {  // x / (1 + |x|)
///       template <class T> ATTEND_FUNCTOR T value(T x) const { return x / (T(1) + (x < 0 ? -x : x)); }
///       template <class T> ATTEND_FUNCTOR T slope(T x) const { T d = T(1) + (x < 0 ? -x : x); return T(1) / (d * d); }
///     };
///     auto y = map(x, Softsign{});
///
/// In place of `slope(x)` it may have `slope_from_value(y)`. Shapes: x, y any.
template <class T, Device D, class F>
requires Differentiable<F, Wide<T>> || DifferentiableFromValue<F, Wide<T>> Var<T, D> map(const Var<T, D>& x, const F& f) {
  const index_t n = x.size();
  Tensor<T, D> y(x.shape());
  map_forward(D{}, n, f, x.data(), y.data());
  const auto backward = [n, sink = x.sink()](const Tensor<T, D>& at, const auto& slope) {
    return [=](const Tensor<T, D>& dy) {
      sink.accumulate_with([&](auto dx) { map_backward(D{}, n, slope, dy.data(), at.data(), dx); });
    };
  };
  if constexpr (DifferentiableFromValue<F, Wide<T>>) return record(y, {x}, backward(y, detail::SlopeFromValue<F>{f}));
  else return record(y, {x}, backward(x.value(), detail::Slope<F>{f}));
}

}  // namespace attend
