#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "attend/ops/activations.hpp"
#include "attend/ops/linear.hpp"

namespace attend {

namespace detail {

/// True if the device's products apply an activation on the way.
template <class T, class D>
concept ActivatingProducts = requires(kernels::Matrix<T> matrix, const T* bias, bool gelu, T* inputs) {
  { linear_activation_forward(D{}, matrix, matrix, bias, gelu, matrix, inputs) } -> std::same_as<bool>;
};

/// feed_forward by products that take the activation along; nothing if the device's do not after all.
template <class T, Device D>
std::optional<Var<T, D>> fused_feed_forward(const Var<T, D>& x, const Var<T, D>& w1, const Var<T, D>& b1, const Var<T, D>& w2,
                                            const Var<T, D>& b2, bool gelu) {
  const Shape shape = linear_shape("feed_forward", x, w1, &b1);
  const Products<T, D> products("feed_forward");
  const index_t in = w1.dim(1), hidden = w1.dim(0), out = w2.dim(0);
  const Var<T, D> inputs[] = {x, w1, b1, w2, b2};
  const bool need =
      grad_enabled() && std::any_of(std::begin(inputs), std::end(inputs), [](const auto& v) { return v.requires_grad(); });
  Tensor<T, D> h(shape), y(shape.with(-1, out));
  Tensor<T, D> before;  // what GELU is applied to
  const index_t rows = rows_and_width(shape).rows;
  if (need && gelu) before = Tensor<T, D>({rows, activation_input_stride(D{}, hidden)});
  if (!linear_activation_forward(D{}, as_rows(x.value()), as_rows(w1.value()), b1.data(), gelu, as_rows(h), before.data()))
    return {};
  linear_forward(D{}, as_rows(h), as_rows(w2.value()), b2.data(), as_rows(y));
  return record(std::move(y), {x, w1, b1, w2, b2}, [=](const Tensor<T, D>& dy) {
    Tensor<T, D> dh(h.shape()), db1({hidden});
    const auto backward = [&](const auto& slope, const Tensor<T, D>& at) {
      linear_backward_input_activation(D{}, as_rows(dy), as_rows(w2.value()), slope, as_rows(at), as_rows(dh), db1.data());
    };
    if (gelu) backward(Slope<GeluTanh>{}, before);
    else backward(SlopeFromValue<Relu>{}, h);
    accumulate_parameters(products, dy, h, w2, &b2, 0);
    w1.accumulate_with([&](auto g) {
      linear_backward_weight(D{}, as_rows(dh), as_rows(x.value()), kernels::Matrix<T>{g.data, hidden, in}, g.add);
    });
    b1.accumulate(std::move(db1));
    x.accumulate_with([&](auto g) {
      linear_backward_input(D{}, as_rows(dh), as_rows(w1.value()), kernels::Matrix<T>{g.data, rows, in}, g.add);
    });
  });
}

}  // namespace detail

/// y = activation(x W1^T + b1) W2^T + b2. On a device whose products take a bias and an activation along, ReLU and the
/// approximate GELU (on a GPU in bfloat16) cost no pass of their own; elsewhere this is linear, activate, linear. Shapes:
/// x [..., in], w1 [hidden, in], b1 [hidden], w2 [out, hidden], b2 [out], y [..., out]. Throws ShapeError. Source: Vaswani et al.
/// 2017, eq. 2.
template <class T, Device D>
Var<T, D> feed_forward(const Var<T, D>& x, const Var<T, D>& w1, const Var<T, D>& b1, const Var<T, D>& w2, const Var<T, D>& b2,
                       Activation activation) {
  if constexpr (detail::ActivatingProducts<T, D>)
    if (activation == Activation::relu || activation == Activation::gelu_tanh) {
      detail::linear_shape("feed_forward", x, w1, &b1);
      if (w2.shape().rank() != 2 || w2.dim(1) != w1.dim(0))
        throw ShapeError("feed_forward: w2 has shape ", w2.shape().text(), ", expected [out, ", w1.dim(0), "]");
      check_shape("feed_forward", "b2", b2.shape(), {w2.dim(0)});
      if (auto y = detail::fused_feed_forward(x, w1, b1, w2, b2, activation == Activation::gelu_tanh)) return *y;
    }
  return linear(activate(linear(x, w1, b1), activation), w2, b2);
}

}  // namespace attend
