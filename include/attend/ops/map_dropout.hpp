#pragma once

#include <utility>

#include "attend/cpu/map_dropout.hpp"
#include "attend/ops/dropout.hpp"
#include "attend/ops/map.hpp"

namespace attend {

namespace detail {

/// For a functor whose slope is 0 where its value is: the slope of functor and dropout together, from the value after a dropout
/// that multiplies by `scale`.
template <class F>
struct DroppedSlope {
  F f;
  double scale;
  template <class T>
  ATTEND_FUNCTOR T operator()(T y) const {
    return static_cast<T>(scale) * f.slope_from_value(y);
  }
};

}  // namespace detail

/// y = dropout(map(x, f), p) in one pass:  dx = mask * dy * slope(x) / (1 - p). The backward needs x; but for a functor that says
/// `slope_is_zero_at_zero`, and whose slope does not change with the size of its value, only y, which tells the mask too. Shapes:
/// x, y any. Throws ValueError unless 0 <= p < 1.
template <class T, Device D, class F>
Var<T, D> map_dropout(const Var<T, D>& x, const F& f, double p, Generator& generator = default_generator()) {
  const DropoutMask mask = detail::next_mask(p, generator);
  const index_t n = x.size();
  Tensor<T, D> y(x.shape());
  map_dropout_forward(D{}, n, f, mask, x.data(), y.data());
  if constexpr (requires { requires F::slope_is_zero_at_zero; })
    return record(y, {x}, [n, y, sink = x.sink(), slope = detail::DroppedSlope<F>{f, mask.scale}](const Tensor<T, D>& dy) {
      sink.accumulate_with([&](auto dx) { map_backward(D{}, n, slope, dy.data(), y.data(), dx); });
    });
  else
    return record(std::move(y), {x}, [=](const Tensor<T, D>& dy) {
      const detail::Slope<F> slope{f};
      x.accumulate_with([&](auto dx) { map_dropout_backward(D{}, n, slope, mask, dy.data(), x.data(), dx); });
    });
}

}  // namespace attend
