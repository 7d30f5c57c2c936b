#pragma once

/// Tensors on the processor and Eigen: `eigen::matrix` and `eigen::vector` look at a tensor without a copy, `eigen::tensor` makes
/// one of any expression. So an operation of one's own is a few lines of Eigen:
///
///     Var<double> covariance(const Var<double>& x) {  // x^T x, [n, d] -> [d, d]
///       const auto m = eigen::matrix(x.value());
///       return record(eigen::tensor(m.transpose() * m), {x}, [x](const Tensor<double>& dy) {
///         const auto d = eigen::matrix(dy);
///         x.accumulate(eigen::tensor(eigen::matrix(x.value()) * (d + d.transpose())));
///       });
///     }
///
/// Comes with the target `attend::eigen`; Eigen 3.4 or 5.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::eigen"
#else

#include <Eigen/Core>

#include "attend/core/error.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/tensor.hpp"
#include "attend/core/types.hpp"

namespace attend::eigen {

/// As tensors lie in memory.
template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// x [..., width] as a matrix of its rows, [size / width, width]. It looks at the tensor's own numbers, as copies of a tensor do;
/// the tensor must live on. Throws ShapeError for a tensor without dimensions.
template <class T>
Eigen::Map<RowMajor<T>> matrix(const Tensor<T>& x) {
  const auto [rows, width] = rows_and_width(x.shape());
  return {x.data(), rows, width};
}

/// All numbers of x as a column, likewise.
template <class T>
Eigen::Map<Eigen::Vector<T, Eigen::Dynamic>> vector(const Tensor<T>& x) {
  return {x.data(), x.size()};
}

/// The value of an expression: [size] of what Eigen knows to be a vector when it compiles, otherwise [rows, columns].
template <class Expression>
Tensor<typename Expression::Scalar> tensor(const Eigen::DenseBase<Expression>& x) {
  using T = typename Expression::Scalar;
  constexpr bool is_vector = Expression::IsVectorAtCompileTime;
  Tensor<T> y(is_vector ? Shape{x.size()} : Shape{x.rows(), x.cols()});
  if constexpr (is_vector && Expression::RowsAtCompileTime == 1)
    Eigen::Map<Eigen::RowVector<T, Eigen::Dynamic>>(y.data(), x.size()) = x;
  else if constexpr (is_vector) vector(y) = x;
  else matrix(y) = x;
  return y;
}

}  // namespace attend::eigen

#endif  // C++20
