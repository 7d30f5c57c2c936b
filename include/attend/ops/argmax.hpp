#pragma once

#include "attend/core/tensor.hpp"
#include "attend/cpu/top_k.hpp"

namespace attend {

/// For each row the index of its largest value, of equal ones the first: the most likely tokens of logits.
/// Shapes: x [..., n], result [...]. Throws ShapeError for a scalar, ValueError for rows of no values, Error if one is NaN.
template <class T, Device D>
Tensor<token_t, D> argmax(const Tensor<T, D>& x) {
  const auto [rows, width] = rows_and_width(x.shape());
  const Tensor<token_t, D> indices(Shape(std::span<const index_t>(x.shape().begin(), x.shape().end() - 1)));
  const Tensor<T, D> values(indices.shape());
  if (rows > 0) argmax(D{}, rows, width, x.data(), values.data(), indices.data());
  return indices;
}

}  // namespace attend
