#pragma once

#include <string>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/broadcast.hpp"
#include "attend/cpu/broadcast.hpp"
#include "attend/cpu/reduce.hpp"
#include "attend/ops/arithmetic.hpp"

namespace attend {

/// What becomes of the dimension that is reduced.
struct ReduceOptions {
  bool keep = false;  ///< keep the reduced dimension, with size 1, so that the result broadcasts against x
};

namespace detail {

/// x's shape with `axis` of size 1.
template <class T, Device D>
Shape reduced_shape(const char* operation, const Var<T, D>& x, index_t axis) {
  const Shape& shape = x.shape();
  if (axis < -shape.rank() || axis >= shape.rank())
    throw IndexError(operation, ": axis ", axis, " of x ", shape.text(), " does not exist");
  return shape.with(axis, 1);
}

/// The shape without that dimension.
inline Shape without_axis(const Shape& shape, index_t axis) {
  std::vector<index_t> dims(shape.begin(), shape.end());
  dims.erase(dims.begin() + shape.axis(axis));
  return Shape(dims);
}

/// y = the sum of x over the dimensions that are 1 in `kept`, divided by `divisor`.  dx = dy / divisor, repeated.
template <class T, Device D>
Var<T, D> divided_sum(const Var<T, D>& x, index_t divisor, const Shape& kept, const Shape& shape) {
  const Strides s = broadcast_strides(x.shape(), kept, kept);
  Tensor<T, D> y(shape);
  if (x.size() == 0) y.fill(T(0));
  else sum_broadcast(D{}, s, T(1), x.data(), {y.data()});
  if (divisor != 1) map_forward(D{}, y.size(), DividedBy{static_cast<double>(divisor)}, y.data(), y.data());
  return record(std::move(y), {x}, [=, x = x.sink()](const Tensor<T, D>& dy) {
    const Wide<T> factor = Wide<T>(1) / static_cast<Wide<T>>(divisor);
    x.accumulate_with([&](auto dx) { repeat_broadcast(D{}, s, factor, dy.data(), dx); });
  });
}

}  // namespace detail

/// y = the sum of all values of x, 0 if there are none.  dx = dy. Shapes: x any, y a scalar [].
template <class T, Device D>
Var<T, D> sum(const Var<T, D>& x) {
  return detail::divided_sum(x, 1, Shape{}, Shape{});
}

/// y = the sum of x over one axis; negative axes count from the end. Shapes: x [.., n, ..], y [.., ..], or [.., 1, ..] with
/// `keep`. Throws IndexError.
template <class T, Device D>
Var<T, D> sum(const Var<T, D>& x, index_t axis, const ReduceOptions& options = {}) {
  const Shape kept = detail::reduced_shape("sum", x, axis);
  return detail::divided_sum(x, 1, kept, options.keep ? kept : detail::without_axis(kept, axis));
}

/// y = the mean of all values of x.  dx = dy / size. Shapes: x any, y []. Throws ShapeError if x is empty.
template <class T, Device D>
Var<T, D> mean(const Var<T, D>& x) {
  if (x.size() == 0) throw ShapeError("mean: x has shape ", x.shape().text(), " and holds no value");
  return detail::divided_sum(x, x.size(), Shape{}, Shape{});
}

/// y = the mean of x over one axis. Shapes as for `sum`. Throws IndexError; ShapeError if the axis has size 0.
template <class T, Device D>
Var<T, D> mean(const Var<T, D>& x, index_t axis, const ReduceOptions& options = {}) {
  const Shape kept = detail::reduced_shape("mean", x, axis);
  const index_t n = x.dim(axis);
  if (n == 0) throw ShapeError("mean: axis ", axis, " of x ", x.shape().text(), " holds no value");
  return detail::divided_sum(x, n, kept, options.keep ? kept : detail::without_axis(kept, axis));
}

/// y = the largest value of x along one axis.  dx = dy at the first place where it stands, 0 elsewhere. NaN counts as the
/// largest. Shapes as for `sum`. Throws IndexError; ShapeError if the axis has size 0.
template <class T, Device D>
Var<T, D> max(const Var<T, D>& x, index_t axis, const ReduceOptions& options = {}) {
  const Shape kept = detail::reduced_shape("max", x, axis);
  const index_t n = x.dim(axis);
  if (n == 0) throw ShapeError("max: axis ", axis, " of x ", x.shape().text(), " holds no value");
  const AroundAxis size(x.shape(), x.shape().axis(axis));
  Tensor<T, D> y(options.keep ? kept : detail::without_axis(kept, axis));
  Tensor<index_t, D> at({size.outer, size.inner});
  max_forward(D{}, size, x.data(), y.data(), at.data());
  return record(std::move(y), {x}, [=, x = x.sink()](const Tensor<T, D>& dy) {
    x.accumulate_with([&](auto dx) { max_backward(D{}, size, dy.data(), at.data(), dx); });
  });
}

}  // namespace attend
