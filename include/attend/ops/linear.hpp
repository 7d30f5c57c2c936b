#pragma once

#include "attend/autograd/var.hpp"
#include "attend/cpu/linear.hpp"

namespace attend {

namespace detail {

template <class T, Device D>
Shape linear_shape(const char* operation, const Var<T, D>& x, const Var<T, D>& weight, const Var<T, D>* bias) {
  if (weight.shape().rank() != 2)
    throw ShapeError(std::string(operation) + ": weight has shape " + weight.shape().text() + ", expected [out, in]");
  if (x.shape().rank() == 0 || x.dim(-1) != weight.dim(1))
    throw ShapeError(std::string(operation) + ": x has shape " + x.shape().text() + ", expected [..., " +
                     std::to_string(weight.dim(1)) + "]");
  if (bias) check_shape(operation, "bias", bias->shape(), {weight.dim(0)});
  return x.shape().with(-1, weight.dim(0));
}

template <class T, Device D>
Var<T, D> linear(const Var<T, D>& x, const Var<T, D>& weight, const Var<T, D>* bias) {
  Tensor<T, D> y(linear_shape("linear", x, weight, bias));
  const index_t rows = rows_and_width(x.shape()).rows, in = weight.dim(1), out = weight.dim(0);
  linear_forward(D{}, rows, in, out, x.data(), weight.data(), bias ? bias->data() : nullptr, y.data());
  std::vector<Var<T, D>> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  return record(std::move(y), inputs, [=](const Tensor<T, D>& dy) {
    x.accumulate_with([&](T* dx, T keep) { linear_backward_input(D{}, rows, in, out, dy.data(), weight.data(), keep, dx); });
    weight.accumulate_with([&](T* dw, T keep) { linear_backward_weight(D{}, rows, in, out, dy.data(), x.data(), keep, dw); });
    if (inputs.size() == 3)
      inputs[2].accumulate_with([&](T* db, T keep) { linear_backward_bias(D{}, rows, out, dy.data(), keep, db); });
  });
}

}  // namespace detail

/// y = x W^T + b.  dx = dy W,  dW = dy^T x,  db = the sum of dy's rows.
/// Shapes: x [..., in], weight [out, in], bias [out], y [..., out]. Throws ShapeError.
template <class T, Device D>
Var<T, D> linear(const Var<T, D>& x, const Var<T, D>& weight, const Var<T, D>& bias) {
  return detail::linear(x, weight, &bias);
}

/// y = x W^T.
template <class T, Device D>
Var<T, D> linear(const Var<T, D>& x, const Var<T, D>& weight) {
  return detail::linear<T, D>(x, weight, nullptr);
}

}  // namespace attend
