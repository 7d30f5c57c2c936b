#pragma once

#include "attend/autograd/var.hpp"
#include "attend/cpu/softmax.hpp"

namespace attend {

/// y = exp(x) / sum(exp(x)) over the last axis, stable for values of any size.  dx = y * (dy - sum(dy * y)).
/// A row of which every value is minus infinity, a query with nothing to attend to, gives zeros and no NaN.
/// Shapes: x, y [..., n]. Throws ShapeError for a scalar.
template <class T, Device D>
Var<T, D> softmax(const Var<T, D>& x) {
  if (x.shape().rank() == 0) throw ShapeError("softmax: x is a scalar and has no last dimension");
  const RowsAndWidth size = rows_and_width(x.shape());
  Tensor<T, D> y(x.shape());
  softmax_forward(D{}, size.rows, size.width, x.data(), y.data());
  return record(y, {x}, [=, x = x.sink()](const Tensor<T, D>& dy) {
    x.accumulate_with([&](auto dx) { softmax_backward(D{}, size.rows, size.width, dy.data(), y.data(), dx); });
  });
}

/// y = x - log(sum(exp(x))) over the last axis.  dx = dy - exp(y) * sum(dy).
/// A row of which every value is minus infinity stays so. Shapes: x, y [..., n]. Throws ShapeError for a scalar.
template <class T, Device D>
Var<T, D> log_softmax(const Var<T, D>& x) {
  if (x.shape().rank() == 0) throw ShapeError("log_softmax: x is a scalar and has no last dimension");
  const RowsAndWidth size = rows_and_width(x.shape());
  Tensor<T, D> y(x.shape());
  log_softmax_forward(D{}, size.rows, size.width, x.data(), y.data());
  return record(y, {x}, [=, x = x.sink()](const Tensor<T, D>& dy) {
    x.accumulate_with([&](auto dx) { log_softmax_backward(D{}, size.rows, size.width, dy.data(), y.data(), dx); });
  });
}

}  // namespace attend
