#pragma once

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/eigen.hpp"

namespace attend {

namespace cpu {

/// One thread's product: c [m, n] = alpha * a * b + beta * c, rows at strides lda, ldb, ldc; a is stored [k, m] where
/// `a_transposed`, b [n, k] where `b_transposed`. beta is 0 or 1.
template <class T>
void gemm_block(bool a_transposed, bool b_transposed, index_t m, index_t n, index_t k, T alpha, const T* a, index_t lda,
                const T* b, index_t ldb, T beta, T* c, index_t ldc) {
  using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Columns = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  using Stride = Eigen::OuterStride<>;
  Eigen::Map<Rows, 0, Stride> out(c, m, n, Stride(ldc));
  if (beta == T(0)) out.setZero();
  if (k == 0) return;
  const auto multiply = [&](const auto& left) {
    if (b_transposed) out.noalias() += alpha * (left * Eigen::Map<const Columns, 0, Stride>(b, k, n, Stride(ldb)));
    else out.noalias() += alpha * (left * Eigen::Map<const Rows, 0, Stride>(b, k, n, Stride(ldb)));
  };
  if (a_transposed) multiply(Eigen::Map<const Columns, 0, Stride>(a, m, k, Stride(lda)));
  else multiply(Eigen::Map<const Rows, 0, Stride>(a, m, k, Stride(lda)));
}

}  // namespace cpu

/// c [m, n] = alpha * op(a) * op(b) + beta * c, all stored row by row; op(a) is [m, k] and a is stored [k, m] where
/// `a_transposed`, likewise b. lda, ldb, ldc: elements from one stored row to the next. beta is 0 (c need not hold anything
/// yet) or 1. The larger of m and n is split over the threads.
template <class T>
void gemm(Cpu, bool a_transposed, bool b_transposed, index_t m, index_t n, index_t k, T alpha, const T* a, index_t lda,
          const T* b, index_t ldb, T beta, T* c, index_t ldc) {
  if (m == 0 || n == 0) return;
  const index_t count = threads();
  const bool small = m * n * k < 32768;
  // Eigen sums a number in one order or another according to the group of rows and columns that it falls into. Parts that are
  // whole numbers of such groups, and never a single row or column, keep every number in its group whatever the threads.
  const auto share = [&](index_t size, index_t unit) {
    if (small) return size;
    index_t part = ((size + count - 1) / count + unit - 1) / unit * unit;
    while (part < size && size % part == 1) part += unit;
    return part;
  };
  if (m >= n || m >= 64 * count) {
    parallel_for(m, share(m, 8), [=](index_t begin, index_t end) {
      cpu::gemm_block(a_transposed, b_transposed, end - begin, n, k, alpha, a_transposed ? a + begin : a + begin * lda, lda, b,
                      ldb, beta, c + begin * ldc, ldc);
    });
  } else {
    parallel_for(n, share(n, 48), [=](index_t begin, index_t end) {
      cpu::gemm_block(a_transposed, b_transposed, m, end - begin, k, alpha, a, lda, b_transposed ? b + begin * ldb : b + begin,
                      ldb, beta, c + begin, ldc);
    });
  }
}

/// `batch` products of that kind; a_step, b_step, c_step: elements from one product's matrix to the next's (0: the same one).
template <class T>
void gemm_batched(Cpu, index_t batch, bool a_transposed, bool b_transposed, index_t m, index_t n, index_t k, T alpha, const T* a,
                  index_t lda, index_t a_step, const T* b, index_t ldb, index_t b_step, T beta, T* c, index_t ldc,
                  index_t c_step) {
  if (batch == 1) {
    gemm(Cpu{}, a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  const index_t cost = std::max<index_t>(1, m * n * k);
  parallel_for(batch, std::max<index_t>(1, 32768 / cost), [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i)
      cpu::gemm_block(a_transposed, b_transposed, m, n, k, alpha, a + i * a_step, lda, b + i * b_step, ldb, beta, c + i * c_step,
                      ldc);
  });
}

}  // namespace attend
