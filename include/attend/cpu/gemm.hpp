#if !defined(ATTEND_CPU_GEMM) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_GEMM

#include <algorithm>

#include "attend/core/thread_owned.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/gemm_kernel.hpp"
#include "attend/cpu/gemm_provider.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// Whether b's whole panels are read where they lie: so few rows of c are not worth a copy.
template <class T>
bool reads_in_place(const MatrixView<T>& b, index_t m) {
  return b.column_step == 1 && m <= 2 * tile_rows;
}

/// The first panel of b, `k` rows of at most `columns` columns, as `multiply_panels` wants it: where it lies, if `in_place` and
/// it is a whole panel or one vector wide; otherwise copied to `copy`.
template <class T>
Panels<T> one_panel(bool in_place, MatrixView<T> b, index_t k, index_t columns, T* copy) {
  if (in_place && (columns >= tile_columns<T> || columns == width<T>)) return {b.data, 0, b.row_step};
  pack_panel(b, k, std::min(columns, tile_columns<T>), copy);
  return {copy, 0, tile_columns<T>};
}

/// Columns [begin, end) of c, a few panels at a time, by one thread: for so few rows that each panel is best copied by the thread
/// that multiplies by it.
template <class T>
void multiply_by_columns(const Product<T>& p, index_t begin, index_t end) {
  constexpr index_t N = tile_columns<T>;
  const index_t m = p.m, k = p.k;
  const MatrixView<T> a = p.a, b = p.b;
  ATTEND_THREAD_OWNED(Scratch, scratch);
  const bool in_place = reads_in_place(b, m);
  // Memory likes b's rows to be read in longer pieces; of up to three panels multiply_panels leaves a transposed a where it is.
  const bool several = b.column_step == 1 && !in_place;
  const index_t most = several ? std::min((a.row_step == 1 ? 3 : 8) * N, (end - begin + N - 1) / N * N) : N;
  T* const copy = scratch.get<T>(most * k_block);
  for (index_t j = begin; j < end; j += most)
    for (index_t l = 0; l < k; l += k_block) {
      const index_t deep = std::min(k_block, k - l), wide = std::min(most, end - j);
      if (several) pack_rows(b.from(l, j), index_t{0}, deep, wide, copy, deep * N);
      const Panels<T> panels = several ? Panels<T>{copy, deep * N, N} : one_panel(in_place, b.from(l, j), deep, end - j, copy);
      multiply_panels(m, wide, deep, a.from(0, l), panels, p.outcome.at(0, j).from(l));
    }
}

/// Whether a product has fewer tiles of rows than there are threads.
inline bool has_few_rows(index_t rows) { return (rows + tile_rows - 1) / tile_rows < threads(); }

/// f(row, last row, panel, last panel) for all parts of a product of few rows: the threads share out its panels, too.
template <class F>
void share_rows_and_panels(index_t rows, index_t panels, const F& f) {
  const index_t tiles = (rows + tile_rows - 1) / tile_rows, cuts = std::min(panels, (2 * threads() + tiles - 1) / tiles);
  parallel_for(tiles * cuts, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const index_t tile = i / cuts, cut = i % cuts;
      f(rows * tile / tiles, rows * (tile + 1) / tiles, panels * cut / cuts, panels * (cut + 1) / cuts);
    }
  });
}

/// The whole product: b is copied into panels by all threads, as many at a time as a second-level cache holds for one
/// `k_block`; then the threads share the rows of c, and its columns if the rows are too few. If b's rows are short and lie in
/// memory as panels do, they are not copied, unless copies serve many rows of c. With `lower`, tiles that lie wholly above c's
/// diagonal are left out.
template <class T>
void multiply_by_rows(const Product<T>& product, bool parallel, bool lower) {
  const index_t m = product.m, n = product.n, k = product.k;
  const MatrixView<T> a = product.a, b = product.b;
  const Outcome<T> outcome = product.outcome;
  constexpr index_t N = tile_columns<T>, columns = std::max<index_t>(1, (index_t{1} << 20) / (k_block * sizeof(T)) / N) * N;
  // Many threads copy more blocks of k at a time, because waiting for one another costs them more, and they have more caches.
  const index_t most_k = (parallel ? std::clamp(threads() / 2, 1, 8) : 1) * k_block;
  // Whether b, if it lies as panels do, is read where it lies. With AVX2 rows of more than half a kilobyte are worth a copy to
  // many rows of c, and to fewer if they are whole kilobytes apart, since such rows compete for the same places in the
  // first-level cache.
  constexpr auto bytes = static_cast<index_t>(sizeof(T));
  const index_t row_bytes = b.row_step * bytes, few = row_bytes % 1024 ? 1024 / bytes : 32;
  const bool is_short = b.row_step <= 256 && (vector_registers == 32 || row_bytes <= 512 || m < few);
  const auto run = [&](index_t count, index_t grain, auto&& body) {
    if (parallel) parallel_for(count, grain, body);
    else body(index_t{0}, count);
  };
  const auto in_place = [&](index_t wide) { return b.column_step == 1 && is_short && wide % width<T> == 0; };
  ATTEND_THREAD_OWNED(Scratch, scratch);
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
      // Rows [row, last) by panels [p, stop).
      const auto multiply_part = [&](index_t row, index_t last, index_t p, index_t stop) {
        const index_t at = j + p * N, wanted = std::min(wide, stop * N) - p * N;
        for (index_t first = 0; wanted > 0 && first < deep; first += k_block) {
          const Panels<T> from =
              copied ? Panels<T>{copy(first, p), depth(first) * N, N} : Panels<T>{b.at(l + first, at), N, b.row_step};
          multiply_panels(last - row, wanted, depth(first), a.from(row, l + first), from, outcome.at(row, at).from(l + first));
        }
      };
      if (parallel && !lower && has_few_rows(m)) {
        share_rows_and_panels(m, panels, multiply_part);
        continue;
      }
      run(m, tile_rows, [&](index_t begin, index_t end) {
        for (index_t row = begin, last = end; row < end; row = last) {
          if (lower) last = std::min(end, row + 2 * tile_rows);
          multiply_part(row, last, 0, lower ? std::min(panels, (last - j + N - 1) / N) : panels);
        }
      });
    }
}

/// Multiplications below which copying an operand costs more than it gains, if it can be read where it lies, and waiting for the
/// operands is much of the time.
inline constexpr index_t small_product = 262144;

/// The operands of product i + 1, for the tiles of product i to fetch. None if that is another thread's, as those from `end` on
/// are, if the products are not small, or if there are gaps between an operand's rows.
template <class T>
NextOperands<T> operands_after(index_t i, index_t end, const kernels::ConstMatrices<T>& a, const kernels::ConstMatrices<T>& b) {
  const auto dense = [](const ConstMatrix<T>& x) { return x.stride == (x.transposed ? x.rows : x.columns); };
  const bool small = a.first.rows * b.first.columns * a.first.columns < small_product;
  if (i + 1 >= end || !small || !dense(a.first) || !dense(b.first)) return {};
  return {a[i + 1], b[i + 1]};
}

/// A small product of a few panels, at most `k_block` deep: they are copied, and while they are multiplied by, the next product's
/// operands come.
template <class T>
void multiply_small(const Product<T>& p) {
  constexpr index_t N = tile_columns<T>;
  ATTEND_THREAD_OWNED(Scratch, scratch);
  const index_t panels = (p.n + N - 1) / N, panel_step = p.k * N;
  T* const copy = scratch.get<T>(panels * panel_step);
  for (index_t i = 0; i < panels; ++i) pack_panel(p.b.from(0, i * N), p.k, std::min(N, p.n - i * N), copy + i * panel_step);
  multiply_and_fetch(p.m, p.n, p.k, p.a, {copy, panel_step, N}, p.outcome, p.next);
}

template <class T>
void multiply(const Product<T>& product, bool parallel);

/// Whether `multiply_by_depth` cuts the columns of a product's sums, because they are the longer side; otherwise it cuts the
/// rows.
template <class T>
bool cuts_columns(const Product<T>& p) {
  return p.n > p.m;
}

/// Into how many parts it may cut them: panels of columns, or tiles of rows.
template <class T>
index_t most_cuts(const Product<T>& p) {
  return cuts_columns(p) ? (p.n + tile_columns<T> - 1) / tile_columns<T> : std::max<index_t>(1, p.m / (2 * tile_rows));
}

/// Whether `multiply_by_depth` is for this product: the operands' rows in memory are what is summed over, there are few enough
/// sums to keep those of several blocks, and parts enough for all threads. The limits are measured.
template <class T>
bool goes_by_depth(const Product<T>& p) {
  if (p.a.row_step != 1 || p.b.column_step != 1 || p.k < 2 * k_block || p.m * p.n > 131072) return false;
  return (p.k + k_block - 1) / k_block * most_cuts(p) >= 2 * threads();
}

/// The whole product, for gradients of weights: each thread multiplies some of the operands' rows, which are about those that it
/// wrote, where the other ways have all threads read all that the others wrote. The sums of each `k_block` but the first are
/// kept apart until all are there, and then added in the order of k, as one thread adds them. At most eight blocks are kept, or
/// one for each thread.
template <class T>
void multiply_by_depth(const Product<T>& p) {
  const index_t m = p.m, n = p.n, panels = (n + tile_columns<T> - 1) / tile_columns<T>;
  const index_t all = (p.k + k_block - 1) / k_block, most = std::max(8, threads()), rounds = (all + most - 1) / most;
  const index_t deep = (all + rounds - 1) / rounds * k_block;
  const bool by_columns = cuts_columns(p);  // what is not cut is copied for each part
  ATTEND_THREAD_OWNED(Scratch, scratch);
  for (index_t l = 0; l < p.k; l += deep) {
    const index_t blocks = (std::min(deep, p.k - l) + k_block - 1) / k_block;
    // Several parts for each thread, so that one that has done its own finds some to take from others.
    const index_t cuts = std::clamp<index_t>((4 * threads() + blocks - 1) / blocks, 1, most_cuts(p));
    T* const sums = scratch.get<T>((blocks - 1) * m * n);
    ThreadPool::instance().run(blocks * cuts, 1, [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const index_t block = i / cuts, cut = i % cuts, first = l + block * k_block;
        const index_t row = by_columns ? 0 : m * cut / cuts, last_row = by_columns ? m : m * (cut + 1) / cuts;
        const index_t column = by_columns ? panels * cut / cuts * tile_columns<T> : 0;
        const index_t last_column = by_columns ? std::min(n, panels * (cut + 1) / cuts * tile_columns<T>) : n;
        Product<T> part = p;
        part.m = last_row - row, part.n = last_column - column, part.k = std::min(k_block, p.k - first);
        part.a = p.a.from(row, first), part.b = p.b.from(first, column);
        part.outcome = block == 0 ? p.outcome.at(row, column).from(l)
                                  : Outcome<T>(p.outcome.alpha, false, nullptr, sums + ((block - 1) * m + row) * n + column, n);
        multiply(part, false);
      }
    });
    parallel_rows(m, n * blocks, [&](index_t begin, index_t end) {
      for (index_t row = begin; row < end; ++row) {
        T* const c = p.outcome.c + row * p.outcome.ldc;
        for (index_t block = 1; block < blocks; ++block) {
          const T* const more = sums + ((block - 1) * m + row) * n;
          for (index_t j = 0; j < n; ++j) c[j] += more[j];
        }
      }
    });
  }
}

/// c [m, n] = alpha * a b (+ c if `add`, + bias if there is one). For k = 0, the sum is 0.
template <class T>
void multiply(const Product<T>& product, bool parallel) {
  constexpr index_t N = tile_columns<T>;
  const index_t m = product.m, n = product.n, k = product.k;
  const MatrixView<T>& a = product.a;
  const MatrixView<T>& b = product.b;
  const Outcome<T>& outcome = product.outcome;
  if (m <= 0 || n <= 0) return;
  if (k == 0) {
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j) {
        T& c = outcome.c[i * outcome.ldc + j];
        c = (outcome.add ? c : T(0)) + (outcome.bias ? outcome.bias[j] : T(0));
      }
    return;
  }
  const bool small = m * n * k < small_product && m > 2 && k <= k_block;
  if (small && b.column_step == 1 && n % width<T> == 0) return multiply_in_place(m, n, k, a, b, outcome);
  parallel = parallel && m * n * k >= 65536 && threads() > 1 && !ThreadPool::within_loop();
  if (small && !parallel && n <= 4 * N && !(n > N && reads_in_place(b, m))) return multiply_small(product);
  if (parallel && goes_by_depth(product)) return multiply_by_depth(product);
  // With few rows, and columns for all threads, nobody need wait until b is copied: each thread copies the columns that it
  // multiplies. But then a is read once for each panel, which for a transposed a pays only with more columns, and c's rows are
  // written a piece at a time, which costs if the sums are short. The limits are measured.
  const bool wide = k >= 64 && n >= (a.column_step == 1 ? m : 2 * m) && n >= 2 * N * threads();
  const bool by_columns = m <= 8 * tile_rows || (m <= 20 * tile_rows && wide);
  if (parallel ? !by_columns : m > 2 * tile_rows && n > N) {
    multiply_by_rows(product, parallel, false);
  } else if (parallel) {
    const index_t panels = (n + N - 1) / N;
    parallel_for(panels, std::max<index_t>(1, 32768 / (m * k * N)),
                 [&](index_t begin, index_t end) { multiply_by_columns(product, begin * N, std::min(end * N, n)); });
  } else {
    multiply_by_columns(product, index_t{0}, n);
  }
}

/// Makes c [n, n] symmetric: what is below its diagonal is copied to above it, except within squares of a vector's width on the
/// diagonal, which are computed whole.
template <class T>
void mirror(index_t n, T* c, index_t ldc) {
  constexpr index_t W = width<T>;
  for (index_t i = 0; i + W <= n; i += W) copy_turned<T>(c + i * ldc, ldc, W, i, c + i, ldc);
  for (index_t i = n / W * W; i < n; ++i)
    for (index_t j = 0; j < i; ++j) c[j * ldc + i] = c[i * ldc + j];
}

/// One thread's product: c = alpha * a * b, and c on top if `add`.
template <class T>
void gemm_block(ConstMatrix<T> a, ConstMatrix<T> b, Matrix<T> c, const ProductOptions& options = {}) {
  multiply(Product<T>(a, b, nullptr, c, options), false);
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// c [m, n] = alpha * a * b, a [m, k] and b [k, n], and what c was before on top if `add`; c is not transposed. An element's bits
/// depend on its row of a and column of b alone: neither on the others nor on the threads. (Unless another library multiplies,
/// see gemm_provider.hpp.)
template <class T>
void gemm(Cpu, ConstMatrix<T> a, ConstMatrix<T> b, Matrix<T> c, const ProductOptions& options = {}) {
  ATTEND_BY_PROVIDER(a, b, static_cast<const T*>(nullptr), c, options);
  ATTEND_FASTEST(gemm, a, b, c, options);
  cpu::multiply(cpu::Product<T>(a, b, nullptr, c, options), true);
}

/// `count` products of that kind.
template <class T>
void gemm_batched(Cpu, index_t count, ConstMatrices<T> a, ConstMatrices<T> b, Matrices<T> c, const ProductOptions& options = {}) {
  if (count == 1) return gemm(Cpu{}, a.first, b.first, c.first, options);
  ATTEND_FASTEST(gemm_batched, count, a, b, c, options);
  const index_t cost = std::max<index_t>(1, c.first.rows * c.first.columns * a.first.columns);
  parallel_for(count, std::max<index_t>(1, 32768 / cost), [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      cpu::Product<T> product(a[i], b[i], nullptr, c[i], options);
      product.next = cpu::operands_after<T>(i, end, a, b);
      cpu::multiply(product, false);
    }
  });
}

/// `count` products of a matrix and its own transpose, c [n, n] = alpha * a * a^T, and c on top if `add`; c must be symmetric
/// then. The same bits as gemm_batched's, for half to two thirds of the work.
template <class T>
void gram_batched(Cpu, index_t count, ConstMatrices<T> a, Matrices<T> c, const ProductOptions& options = {}) {
  ATTEND_FASTEST(gram_batched, count, a, c, options);
  const index_t n = c.first.rows, k = a.first.columns;
  const auto one = [=](bool parallel, index_t i) {
    cpu::multiply_by_rows(cpu::Product<T>(a[i], a[i].transpose(), nullptr, c[i], options), parallel, true);
    cpu::mirror(n, c[i].data, c[i].stride);
  };
  if (n == 0 || k == 0) return gemm_batched(Cpu{}, count, a, a.transpose(), c, options);
  if (count == 1) return one(true, 0);
  parallel_for(count, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) one(false, i);
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/gemm.hpp"
#include "attend/cpu/each_target.hpp"
#endif
