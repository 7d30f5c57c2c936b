#pragma once

#include <algorithm>

#include "attend/core/tensor.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/gemm.hpp"

namespace attend::cpu {

/// How the columns and rows of a product with packed panels are cut among the threads: with few rows, each thread takes columns
/// of its own and reads their part of the matrix once; with many, rows. f(row begin, row end, panel begin, panel end).
/// `work`: what a row costs, in multiply-adds that take as long.
template <class F>
void share_product(index_t rows, index_t panels, index_t work, F&& f) {
  const index_t count = threads();
  // A few rows cost little more than one: reading the matrix takes the time.
  if (count == 1 || (rows + 3) * work < 131072) f(index_t{0}, rows, index_t{0}, panels);
  else if (rows > 8 * tile_rows)
    parallel_for(rows, tile_rows, [&](index_t begin, index_t end) { f(begin, end, index_t{0}, panels); });
  else parallel_for(panels, (panels + count - 1) / count, [&](index_t begin, index_t end) { f(index_t{0}, rows, begin, end); });
}

/// The matrix b [k, n] of a product, copied once in the order in which products read it.
template <class T>
class PackedMatrix {
 public:
  PackedMatrix(index_t k, index_t n, MatrixView<T> b) : k_(k), n_(n), panels_((n + N - 1) / N), data_({panels_ * N * k}) {
    parallel_for(panels_, 4, [&](index_t begin, index_t end) {
      for (index_t p = begin; p < end; ++p)
        for (index_t l = 0; l < k; l += k_block)
          pack_panel(b.from(l, p * N), std::min(k_block, k - l), std::min(N, n - p * N), data_.data() + place(l, p));
    });
  }

  /// c [m, n] = a b + bias, with the bits that `gemm` gives. `bias` may be null.
  void multiply(index_t m, MatrixView<T> a, const T* bias, T* c, index_t ldc) const {
    if (m <= 0) return;
    const Outcome<T> outcome{T(1), false, bias};
    // As many panels at a time as a second-level cache holds, for all rows.
    const index_t together = std::max<index_t>(1, (index_t{1} << 20) / (std::min(k_, k_block) * N * sizeof(T)));
    share_product(m, panels_, n_ * k_, [&](index_t begin, index_t end, index_t first, index_t last) {
      for (index_t p = first; p < last; p += together)
        for (index_t l = 0; l < k_; l += k_block) {
          const index_t deep = std::min(k_block, k_ - l), j = p * N, wide = std::min(std::min(last, p + together) * N, n_) - j;
          multiply_panels(end - begin, wide, deep, a.from(begin, l), Panels<T>{data_.data() + place(l, p), deep * N, N},
                          outcome.from(l, j), c + begin * ldc + j, ldc);
        }
    });
  }

 private:
  static constexpr index_t N = tile_columns<T>;
  [[nodiscard]] index_t place(index_t l, index_t panel) const { return l * panels_ * N + panel * std::min(k_block, k_ - l) * N; }

  index_t k_, n_, panels_;
  Tensor<T, Cpu> data_;
};

}  // namespace attend::cpu
