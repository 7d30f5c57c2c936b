#pragma once

#include <concepts>
#include <type_traits>

#include "attend/core/functor.hpp"
#include "attend/core/tensor.hpp"
#include "attend/core/types.hpp"

/// The words in which kernels are told what lies where.
namespace attend::kernels {

/// A matrix in memory, whose rows begin `stride` elements apart. If it is `transposed`, then what lies there is its transpose:
/// element (r, c) is data[c * stride + r], and the stride must be given. Products and linear layers take both; other kernels take
/// rows as they are.
template <class T>
struct Matrix {
  T* data = nullptr;
  index_t rows = 0, columns = 0;
  index_t stride = columns;
  bool transposed = false;

  /// The same numbers, read as the transposed matrix.
  [[nodiscard]] Matrix transpose() const { return {data, columns, rows, stride, !transposed}; }
  /// What may be written may be read.
  template <std::same_as<const T> Read>
  operator Matrix<Read>() const {  // NOLINT(google-explicit-constructor)
    return {data, rows, columns, stride, transposed};
  }
};
template <class T, class... Rest>
Matrix(T*, Rest...) -> Matrix<T>;

/// A matrix [rows, columns] that lies at `data` row by row without gaps, or if `transposed`, its transpose does.
template <class T>
Matrix<T> stored(bool transposed, T* data, index_t rows, index_t columns) {
  return {data, rows, columns, transposed ? rows : columns, transposed};
}

/// x [..., width] as the rows of a matrix.
template <class T, Device D>
Matrix<T> as_rows(const Tensor<T, D>& x) {
  const auto [rows, width] = rows_and_width(x.shape());
  return {x.data(), rows, width};
}

/// Matrices of one shape that lie `step` elements apart; with a step of 0 it is the same one each time.
template <class T>
struct Matrices {
  Matrix<T> first;
  index_t step = 0;

  /// The matrix of that number, the transposed ones, and the same to read from.
  [[nodiscard]] Matrix<T> operator[](index_t i) const {
    return {first.data + i * step, first.rows, first.columns, first.stride, first.transposed};
  }
  [[nodiscard]] Matrices transpose() const { return {first.transpose(), step}; }
  template <std::same_as<const T> Read>
  operator Matrices<Read>() const {  // NOLINT(google-explicit-constructor)
    return {first, step};
  }
};
template <class T, class... Rest>
Matrices(Matrix<T>, Rest...) -> Matrices<T>;

/// Matrices that a kernel reads. Its T follows from those that it writes.
template <class T>
using ConstMatrix = std::type_identity_t<Matrix<const T>>;
/// The same of several.
template <class T>
using ConstMatrices = std::type_identity_t<Matrices<const T>>;

/// What becomes of a product: c = alpha * a * b, and c on top if `add`.
struct ProductOptions {
  double alpha = 1;  ///< what the sums are multiplied by
  bool add = false;  ///< whether what c was before is added; if not, it need not hold anything yet
};

/// Where a kernel leaves a gradient, or a result that may be one: on top of what is there if `add`; otherwise what is there need
/// not hold anything yet. Nobody wants it if `data` is null.
template <class T>
struct Gradient {
  T* data = nullptr;
  bool add = false;

  explicit operator bool() const { return data != nullptr; }
  /// What lies i elements after its beginning.
  [[nodiscard]] ATTEND_FUNCTOR Gradient from(index_t i) const { return {data + i, add}; }
};
template <class T, class... Rest>
Gradient(T*, Rest...) -> Gradient<T>;

}  // namespace attend::kernels
