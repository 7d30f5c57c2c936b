#pragma once

#include <optional>
#include <type_traits>

#include "attend/autograd/var.hpp"
#include "attend/cpu/linear.hpp"
#include "attend/ops/packed_weights.hpp"
#include "attend/ops/products.hpp"

namespace attend {

namespace detail {

/// The shape of x weight^T + bias. Throws ShapeError, which begins with `operation`, for shapes that do not go together.
template <class T, Device D>
Shape linear_shape(const char* operation, const Var<T, D>& x, const Var<T, D>& weight, const Var<T, D>* bias) {
  if (weight.shape().rank() != 2)
    throw ShapeError(operation, ": weight has shape ", weight.shape().text(), ", expected [out, in]");
  if (x.shape().rank() == 0 || x.dim(-1) != weight.dim(1))
    throw ShapeError(operation, ": x has shape ", x.shape().text(), ", expected [..., ", weight.dim(1), "]");
  if (bias) check_shape(operation, "bias", bias->shape(), {weight.dim(0)});
  return x.shape().with(-1, weight.dim(0));
}

/// Hands rows `first` to `first + dy's width` of weight and bias their gradients, dy being that of their product with x. The
/// bias's gradient is summed up along with the weight's if both are wanted. `bias` may be null.
template <class T, Device D>
void accumulate_parameters(const Products<T, D>& products, const Tensor<T, D>& dy, const Tensor<T, D>& x, const Var<T, D>& weight,
                           const Var<T, D>* bias, index_t first) {
  const index_t in = weight.dim(1), out = dy.dim(-1);
  // A fresh gradient of which only some rows are written starts from zeros.
  const auto adds = [&](const Var<T, D>& v, const kernels::Gradient<T>& g) {
    if (out == weight.dim(0) || g.add) return g.add;
    fill(D{}, v.size(), T(0), g.data);
    return true;
  };
  const bool biased = bias && bias->requires_grad();
  const auto with_bias = [&](auto&& write) {
    bias->accumulate_with([&](auto db) { write(kernels::Gradient<T>{db.data + first, adds(*bias, db)}); });
  };
  if (!weight.requires_grad()) {
    if (biased) with_bias([&](const auto& dbias) { linear_backward_bias(D{}, as_rows(dy), dbias); });
    return;
  }
  weight.accumulate_with([&](auto dw) {
    const bool add = adds(weight, dw);
    const kernels::Matrix<T> dweight{dw.data + first * in, out, in};
    if (!biased) return products.backward_weight(as_rows(dy), as_rows(x), dweight, add);
    with_bias([&](const auto& dbias) { products.backward_weight_bias(as_rows(dy), as_rows(x), dweight, add, dbias); });
  });
}

}  // namespace detail

/// The columns `first` to `first + count` of linear(x, weight, bias) alone: a part of a packed projection. Throws ShapeError,
/// IndexError.
template <class T, Device D>
Var<T, D> linear_rows(const Var<T, D>& x, const Var<T, D>& weight, const std::type_identity_t<std::optional<Var<T, D>>>& bias,
                      index_t first, index_t count, const PackedWeights<T, D>* packed = nullptr) {
  const Shape shape = detail::linear_shape("linear", x, weight, bias ? &*bias : nullptr);
  if (first < 0 || count < 0 || first > weight.dim(0) - count)
    throw IndexError("linear: ", count, " rows from ", first, " of weight ", weight.shape().text());
  Tensor<T, D> y(shape.with(-1, count));
  const index_t rows = rows_and_width(x.shape()).rows, in = weight.dim(1);
  const T* const bias_data = bias ? bias->data() + first : nullptr;
  if constexpr (std::same_as<D, Cpu>)
    if (packed && !grad_enabled() && in > 0) {
      packed->linear(as_rows(x.value()), weight.value(), first, bias_data, as_rows(y));
      return Var<T, D>(std::move(y));
    }
  detail::check_may_learn("linear", weight);
  const detail::Products<T, D> products("linear");
  const auto part = [=] { return weight.value().rows(first, count); };
  products.forward(as_rows(x.value()), part(), bias_data, as_rows(y));
  std::vector<Var<T, D>> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  return record(std::move(y), inputs, [=](const Tensor<T, D>& dy) {
    x.accumulate_with([&](auto dx) {
      products.backward_input(as_rows(dy), part(), kernels::Matrix<T>{dx.data, rows, in}, dx.add);
    });
    detail::accumulate_parameters(products, dy, x.value(), inputs[1], inputs.size() == 3 ? &inputs[2] : nullptr, first);
  });
}

/// y = x W^T + b, or without b.  dx = dy W,  dW = dy^T x,  db = the sum of dy's rows. If `packed` is given and no gradients are
/// recorded, the product is made with its copy of the weight. A weight that holds other numbers than elements
/// (`Tensor::instead`) counts as the floats that they stand for, which are made for each product, and gets no gradient. Shapes:
/// x [..., in], weight [out, in], bias [out], y [..., out]. Throws ShapeError; ValueError for such a weight if it requires one.
template <class T, Device D>
Var<T, D> linear(const Var<T, D>& x, const Var<T, D>& weight, const std::type_identity_t<std::optional<Var<T, D>>>& bias = {},
                 const PackedWeights<T, D>* packed = nullptr) {
  return linear_rows(x, weight, bias, 0, weight.shape().rank() > 0 ? weight.dim(0) : 0, packed);
}

}  // namespace attend
