#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <limits>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/kernels/matrix.hpp"

/// Large products in float and double by another library, if a program's files are all compiled with ATTEND_GEMM_EIGEN or
/// ATTEND_GEMM_BLAS; CMake's `attend_gemm(<target> eigen)` sees to it. Small products, those of weights that are packed for
/// decoding, in 8-bit integers and in bfloat16 stay this library's own. What a row gets may then depend on what stands beside it
/// and on the number of threads.
#if defined(ATTEND_GEMM_EIGEN)
#include <Eigen/Core>
#elif defined(ATTEND_GEMM_BLAS)
// Of any CBLAS with 32-bit sizes: OpenBLAS, MKL, Accelerate, the reference. Their headers have other names, and enumerations for
// some of the integers; a program may include one of them beside this, so the functions have names of their own here.
#define ATTEND_TEXT_OF(x) #x
#define ATTEND_CBLAS(prefix, name) __asm__(ATTEND_TEXT_OF(prefix) name)
extern "C" {
void attend_cblas_sgemm(int order, int transposed_a, int transposed_b, int m, int n, int k, float alpha, const float* a, int lda,
                        const float* b, int ldb, float beta, float* c, int ldc)
    ATTEND_CBLAS(__USER_LABEL_PREFIX__, "cblas_sgemm");
void attend_cblas_dgemm(int order, int transposed_a, int transposed_b, int m, int n, int k, double alpha, const double* a,
                        int lda, const double* b, int ldb, double beta, double* c, int ldc)
    ATTEND_CBLAS(__USER_LABEL_PREFIX__, "cblas_dgemm");
}
#undef ATTEND_CBLAS
#undef ATTEND_TEXT_OF
#endif

namespace attend::detail {

/// Which library large products are by: "own", "eigen" or "blas".
inline constexpr const char* gemm_provider =
#if defined(ATTEND_GEMM_EIGEN)
    "eigen";
#elif defined(ATTEND_GEMM_BLAS)
    "blas";
#else
    "own";
#endif

#if defined(ATTEND_GEMM_EIGEN)

/// c = alpha * a * b, and what c was before on top if `add`.
template <class T>
void provided_product(kernels::Matrix<const T> a, kernels::Matrix<const T> b, T alpha, bool add, kernels::Matrix<T> c) {
  using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Stride = Eigen::OuterStride<>;
  const auto as_it_lies = [](kernels::Matrix<const T> m) {
    if (m.transposed) m = m.transpose();
    return Eigen::Map<const Rows, 0, Stride>(m.data, m.rows, m.columns, Stride(m.stride));
  };
  Eigen::Map<Rows, 0, Stride> to(c.data, c.rows, c.columns, Stride(c.stride));
  const auto left = as_it_lies(a), right = as_it_lies(b);
  if (!add) to.setZero();
  if (a.transposed && b.transposed) to.noalias() += alpha * left.transpose() * right.transpose();
  else if (a.transposed) to.noalias() += alpha * left.transpose() * right;
  else if (b.transposed) to.noalias() += alpha * left * right.transpose();
  else to.noalias() += alpha * left * right;
}

#elif defined(ATTEND_GEMM_BLAS)

/// c = alpha * a * b, and what c was before on top if `add`.
template <class T>
void provided_product(kernels::Matrix<const T> a, kernels::Matrix<const T> b, T alpha, bool add, kernels::Matrix<T> c) {
  constexpr int row_major = 101, as_it_lies = 111, transposed = 112;
  const auto run = [&](auto gemm) {
    gemm(row_major, a.transposed ? transposed : as_it_lies, b.transposed ? transposed : as_it_lies, static_cast<int>(c.rows),
         static_cast<int>(c.columns), static_cast<int>(a.columns), alpha, a.data, static_cast<int>(a.stride), b.data,
         static_cast<int>(b.stride), T(add), c.data, static_cast<int>(c.stride));
  };
  if constexpr (std::same_as<T, float>) run(attend_cblas_sgemm);
  else run(attend_cblas_dgemm);
}

#endif

#if defined(ATTEND_GEMM_EIGEN) || defined(ATTEND_GEMM_BLAS)

/// Whether the other library multiplies these: below some size a call of it costs more than the product, and rows that overlap,
/// as those of one row read many times, it does not take.
template <class T>
bool for_provider(const kernels::Matrix<const T>& a, const kernels::Matrix<const T>& b, const kernels::Matrix<T>& c) {
  constexpr index_t most = std::numeric_limits<int>::max();
  const index_t sizes[] = {a.rows, a.columns, a.stride, b.columns, b.stride, c.stride};
  const auto apart = [](const auto& x) { return x.stride >= (x.transposed ? x.rows : x.columns); };
  return apart(a) && apart(b) && apart(c) && a.rows * a.columns * c.columns >= 262144 && a.rows > 2 &&
         std::all_of(std::begin(sizes), std::end(sizes), [](index_t n) { return n <= most; });
}

/// c [m, n] = alpha * a * b (+ c if `add`) (+ bias if it is not null), if the other library multiplies these; otherwise false.
/// The library's own threads share it out.
template <class T>
bool multiply_by_provider(std::type_identity_t<kernels::Matrix<const T>> a, std::type_identity_t<kernels::Matrix<const T>> b,
                          const T* bias, kernels::Matrix<T> c, const kernels::ProductOptions& options = {}) {
  if constexpr (!std::same_as<T, float> && !std::same_as<T, double>) {
    return false;
  } else {
    if (!for_provider<T>(a, b, c)) return false;
    const auto part = [&](index_t row, index_t rows, index_t column, index_t columns) {
      const kernels::Matrix<T> to{c.data + row * c.stride + column, rows, columns, c.stride};
      for (index_t i = 0; bias != nullptr && i < rows; ++i) {
        T* const y = to.data + i * to.stride;
        for (index_t j = 0; j < columns; ++j) y[j] = (options.add ? y[j] : T(0)) + bias[column + j];
      }
      provided_product<T>({a.data + row * (a.transposed ? 1 : a.stride), rows, a.columns, a.stride, a.transposed},
                          {b.data + column * (b.transposed ? b.stride : 1), b.rows, columns, b.stride, b.transposed},
                          static_cast<T>(options.alpha), options.add || bias != nullptr, to);
    };
    const index_t along = std::max(c.rows, c.columns), each = std::max<index_t>(32, (along + threads() - 1) / threads());
    parallel_for(along, each, [&](index_t begin, index_t end) {
      if (c.rows >= c.columns) part(begin, end - begin, 0, c.columns);
      else part(0, c.rows, begin, end - begin);
    });
    return true;
  }
}

/// The first line of a kernel that is a product, before ATTEND_FASTEST.
#define ATTEND_BY_PROVIDER(...) \
  if (::attend::detail::multiply_by_provider(__VA_ARGS__)) return
#else
#define ATTEND_BY_PROVIDER(...) static_cast<void>(0)
#endif

}  // namespace attend::detail
