#pragma once

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/gemm_kernel.hpp"
#include "attend/cpu/scratch.hpp"

namespace attend::cpu {

/// One panel of b, the columns from `j` on and `k` rows from `l` on, as `multiply_panels` wants it: where b's rows lie in
/// memory and will be read but a few times, the panel itself, otherwise its copy in `copy`.
template <class T>
Panels<T> one_panel(bool in_place, MatrixView<T> b, index_t l, index_t k, index_t j, index_t columns, T* copy) {
  if (in_place && (columns >= tile_columns<T> || columns == width<T>)) return {b.at(l, j), 0, b.row_step};
  pack_panel(b.from(l, j), k, std::min(columns, tile_columns<T>), copy);
  return {copy, 0, tile_columns<T>};
}

/// Columns [begin, end) of c, panel by panel, by one thread: for not too many rows, where each panel is best copied by whom it
/// serves.
template <class T>
void multiply_by_columns(index_t m, index_t begin, index_t end, index_t k, MatrixView<T> a, MatrixView<T> b, Outcome<T> outcome,
                         T* c, index_t ldc) {
  constexpr index_t N = tile_columns<T>;
  thread_local Scratch scratch;
  const bool in_place = b.column_step == 1 && m <= 2 * tile_rows;
  T* const copy = scratch.get<T>(N * k_block);
  for (index_t j = begin; j < end; j += N)
    for (index_t l = 0; l < k; l += k_block) {
      const index_t deep = std::min(k_block, k - l);
      multiply_panels(m, std::min(N, end - j), deep, a.from(0, l), one_panel(in_place, b, l, deep, j, end - j, copy),
                      outcome.from(l, j), c + j, ldc);
    }
}

/// The whole product: b is copied into panels by all threads, as much at a time as a second-level cache holds for one
/// `k_block`; then the threads share the rows of c. Where b's rows are short and lie in memory as panels do, they are not copied.
/// With `lower`, only whole tiles are left out that lie above c's diagonal.
template <class T>
void multiply_by_rows(bool parallel, bool lower, index_t m, index_t n, index_t k, MatrixView<T> a, MatrixView<T> b,
                      Outcome<T> outcome, T* c, index_t ldc) {
  constexpr index_t N = tile_columns<T>, columns = std::max<index_t>(1, (index_t{1} << 20) / (k_block * sizeof(T)) / N) * N;
  constexpr index_t most_k = 8 * k_block;
  const auto run = [&](index_t count, index_t grain, auto&& body) {
    if (parallel) parallel_for(count, grain, body);
    else body(index_t{0}, count);
  };
  const auto in_place = [&](index_t wide) { return b.column_step == 1 && b.row_step <= 256 && wide % width<T> == 0; };
  thread_local Scratch scratch;
  const index_t padded = (std::min(n, columns) + N - 1) / N * N;
  T* const packed = n <= columns && in_place(n) ? nullptr : scratch.get<T>(padded * std::min(k, most_k));
  for (index_t j = 0; j < n; j += columns)
    for (index_t l = 0; l < k; l += most_k) {
      const index_t wide = std::min(columns, n - j), deep = std::min(most_k, k - l), panels = (wide + N - 1) / N;
      const auto depth = [&](index_t first) { return std::min(k_block, deep - first); };
      const auto copy = [&](index_t first, index_t p) { return packed + first * panels * N + p * depth(first) * N; };
      const bool copied = !in_place(wide);
      if (copied && b.column_step == 1) {
        run(deep, 16, [&](index_t begin, index_t end) {
          for (index_t first = begin / k_block * k_block; first < end; first += k_block)
            pack_rows(b.from(l + first, j), std::max(begin - first, index_t{0}), std::min(end - first, k_block), wide,
                      copy(first, 0), depth(first) * N);
        });
      } else if (copied) {
        run((deep + k_block - 1) / k_block * panels, 2, [&](index_t begin, index_t end) {
          for (index_t i = begin; i < end; ++i) {
            const index_t first = i / panels * k_block, p = i % panels;
            pack_panel(b.from(l + first, j + p * N), depth(first), std::min(N, wide - p * N), copy(first, p));
          }
        });
      }
      run(m, tile_rows, [&](index_t begin, index_t end) {
        for (index_t row = begin, last = end; row < end; row = last) {
          if (lower) last = std::min(end, row + 2 * tile_rows);
          const index_t wanted = lower ? std::min(wide, (last - j + N - 1) / N * N) : wide;
          for (index_t first = 0; wanted > 0 && first < deep; first += k_block) {
            const Panels<T> from =
                copied ? Panels<T>{copy(first, 0), depth(first) * N, N} : Panels<T>{b.at(l + first, j), N, b.row_step};
            multiply_panels(last - row, wanted, depth(first), a.from(row, l + first), from, outcome.from(l + first, j),
                            c + row * ldc + j, ldc);
          }
        }
      });
    }
}

/// c [m, n] = alpha * a b (+ c where `add`, + bias). For k = 0, the sum is 0.
template <class T>
void multiply(bool parallel, index_t m, index_t n, index_t k, MatrixView<T> a, MatrixView<T> b, Outcome<T> outcome, T* c,
              index_t ldc) {
  constexpr index_t N = tile_columns<T>;
  if (m <= 0 || n <= 0) return;
  if (k == 0) {
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j)
        c[i * ldc + j] = (outcome.add ? c[i * ldc + j] : T(0)) + (outcome.bias ? outcome.bias[j] : T(0));
    return;
  }
  if (m * n * k < 262144 && m > 2 && b.column_step == 1 && n % width<T> == 0 && k <= k_block) {
    multiply_in_place(m, n, k, a, b, outcome, c, ldc);
    return;
  }
  parallel = parallel && m * n * k >= 65536 && threads() > 1 && !ThreadPool::within_loop();
  // With few rows, and columns for all threads, nobody need wait until b is copied: each thread copies the columns that it
  // multiplies. It reads a once a panel then, which for a transposed a pays with more columns only, and c's rows are written a
  // piece at a time, which costs where the sums are short. The limits are measured.
  const bool wide = k >= 64 && n >= (a.column_step == 1 ? m : 2 * m) && n >= 2 * N * threads();
  const bool by_columns = m <= 8 * tile_rows || (m <= 20 * tile_rows && wide);
  if (parallel ? !by_columns : m > 2 * tile_rows && n > N) {
    multiply_by_rows(parallel, false, m, n, k, a, b, outcome, c, ldc);
  } else if (parallel) {
    const index_t panels = (n + N - 1) / N;
    parallel_for(panels, std::max<index_t>(1, 32768 / (m * k * N)), [&](index_t begin, index_t end) {
      multiply_by_columns(m, begin * N, std::min(end * N, n), k, a, b, outcome, c, ldc);
    });
  } else {
    multiply_by_columns(m, index_t{0}, n, k, a, b, outcome, c, ldc);
  }
}

/// c [n, n] becomes symmetric: what is above its diagonal, but for squares of a vector's width on it, becomes what is below.
template <class T>
void mirror(index_t n, T* c, index_t ldc) {
  constexpr index_t W = width<T>;
  for (index_t i = 0; i + W <= n; i += W)
    for (index_t j = 0; j < i; j += W) {
      Vector<T> v[W];
#pragma GCC unroll 16
      for (index_t r = 0; r < W; ++r) v[r] = load<T>(c + (i + r) * ldc + j);
      transpose<T>(v);
#pragma GCC unroll 16
      for (index_t r = 0; r < W; ++r) store<T>(c + (j + r) * ldc + i, v[r]);
    }
  for (index_t i = n / W * W; i < n; ++i)
    for (index_t j = 0; j < i; ++j) c[j * ldc + i] = c[i * ldc + j];
}

template <class T>
MatrixView<T> stored(bool transposed, const T* data, index_t stride) {
  return transposed ? MatrixView<T>{data, 1, stride} : MatrixView<T>{data, stride, 1};
}

/// One thread's product: c [m, n] = alpha * a * b + beta * c, rows at strides lda, ldb, ldc; a is stored [k, m] where
/// `a_transposed`, b [n, k] where `b_transposed`. beta is 0 or 1.
template <class T>
void gemm_block(bool a_transposed, bool b_transposed, index_t m, index_t n, index_t k, T alpha, const T* a, index_t lda,
                const T* b, index_t ldb, T beta, T* c, index_t ldc) {
  multiply(false, m, n, k, stored(a_transposed, a, lda), stored(b_transposed, b, ldb), {alpha, beta != T(0), nullptr}, c, ldc);
}

}  // namespace attend::cpu

namespace attend::kernels {

/// c [m, n] = alpha * op(a) * op(b) + beta * c, all stored row by row; op(a) is [m, k] and a is stored [k, m] where
/// `a_transposed`, likewise b. lda, ldb, ldc: elements from one stored row to the next. beta is 0 (c need not hold anything
/// yet) or 1. An element's bits depend on its row of a and column of b alone: neither on the others nor on the threads.
template <class T>
void gemm(Cpu, bool a_transposed, bool b_transposed, index_t m, index_t n, index_t k, T alpha, const T* a, index_t lda,
          const T* b, index_t ldb, T beta, T* c, index_t ldc) {
  cpu::multiply(true, m, n, k, cpu::stored(a_transposed, a, lda), cpu::stored(b_transposed, b, ldb),
                {alpha, beta != T(0), nullptr}, c, ldc);
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

/// `batch` products of a matrix and its own transpose, c [n, n] = alpha * op(a) * op(a)^T + beta * c: op(a) is [n, k], and a is
/// stored [k, n] where `transposed`; with a beta of 1, c is symmetric before. The same bits as gemm_batched's, for half to
/// two thirds of the work.
template <class T>
void gram_batched(Cpu, index_t batch, bool transposed, index_t n, index_t k, T alpha, const T* a, index_t lda, index_t a_step,
                  T beta, T* c, index_t ldc, index_t c_step) {
  const auto one = [=](bool parallel, index_t i) {
    const cpu::MatrixView<T> rows = cpu::stored(transposed, a + i * a_step, lda);
    cpu::multiply_by_rows(parallel, true, n, n, k, rows, {rows.data, rows.column_step, rows.row_step},
                          {alpha, beta != T(0), nullptr}, c + i * c_step, ldc);
    cpu::mirror(n, c + i * c_step, ldc);
  };
  if (n == 0 || k == 0)
    return gemm_batched(Cpu{}, batch, transposed, !transposed, n, n, k, alpha, a, lda, a_step, a, lda, a_step, beta, c, ldc,
                        c_step);
  if (batch == 1) return one(true, 0);
  parallel_for(batch, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) one(false, i);
  });
}

}  // namespace attend::kernels
