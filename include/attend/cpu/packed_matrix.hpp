#if !defined(ATTEND_CPU_PACKED_MATRIX) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_PACKED_MATRIX

#include <algorithm>
#include <memory>

#include "attend/core/tensor.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/packed_product.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

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

/// f(first, last) for all of `panels` panels of `width` columns and `k` rows. With an observer it is done in parts of some 16 MiB
/// of floats, or more if that is too little for all threads, after each of which the observer is told.
template <class F>
void for_panels(index_t panels, index_t width, index_t k, index_t columns, kernels::PackingObserver* observer, F&& f) {
  constexpr index_t grain = 4;
  const index_t least = (index_t{1} << 22) / std::max<index_t>(1, width * k);
  const index_t together = observer == nullptr ? panels : std::max(least, grain * threads());
  for (index_t p = 0; p < panels; p += together) {
    const index_t last = std::min(panels, p + together);
    parallel_for(last - p, grain, [&](index_t begin, index_t end) { f(p + begin, p + end); });
    if (observer != nullptr) observer->columns_read(p * width, std::min(columns, last * width));
  }
}

/// The matrix b [k, n] of a product, copied once in the order in which products read it.
template <class T>
class PackedMatrix final : public kernels::PackedProduct<T> {
 public:
  explicit PackedMatrix(const Matrix<const T>& b, kernels::PackingObserver* observer = nullptr)
      : k_(b.rows), n_(b.columns), panels_((n_ + N - 1) / N), data_({panels_ * N * k_}) {
    const MatrixView<T> from(b);
    for_panels(panels_, N, k_, n_, observer, [&](index_t begin, index_t end) {
      for (index_t p = begin; p < end; ++p)
        for (index_t l = 0; l < k_; l += k_block)
          pack_panel(from.from(l, p * N), std::min(k_block, k_ - l), std::min(N, n_ - p * N), data_.data() + place(l, p));
    });
  }

  /// c [m, n] = a b + bias, with the bits that `gemm` gives. `bias` may be null.
  void multiply(const Matrix<const T>& a, const T* bias, const Matrix<T>& c) const override {
    const index_t m = c.rows;
    if (m <= 0) return;
    if (k_ == 0) return cpu::multiply(Product<T>(a, {nullptr, 0, n_}, bias, c), false);
    const MatrixView<T> rows(a);
    const Outcome<T> outcome({}, bias, c);
    // As many panels at a time as a second-level cache holds, for all rows.
    const index_t together = std::max<index_t>(1, (index_t{1} << 20) / (std::min(k_, k_block) * N * sizeof(T)));
    share_product(m, panels_, n_ * k_, [&](index_t begin, index_t end, index_t first, index_t last) {
      for (index_t p = first; p < last; p += together)
        for (index_t l = 0; l < k_; l += k_block) {
          const index_t deep = std::min(k_block, k_ - l), j = p * N, wide = std::min(std::min(last, p + together) * N, n_) - j;
          multiply_panels(end - begin, wide, deep, rows.from(begin, l), Panels<T>{data_.data() + place(l, p), deep * N, N},
                          outcome.at(begin, j).from(l));
        }
    });
  }

 private:
  static constexpr index_t N = tile_columns<T>;
  [[nodiscard]] index_t place(index_t l, index_t panel) const { return l * panels_ * N + panel * std::min(k_block, k_ - l) * N; }

  index_t k_, n_, panels_;
  Tensor<T> data_;
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// The matrix b [k, n] for products with the bits that `gemm` gives. `observer` may be null, here and below.
template <class T>
std::unique_ptr<PackedProduct<T>> pack_matrix(Cpu, const Matrix<const T>& b, PackingObserver* observer = nullptr) {
  ATTEND_FASTEST(pack_matrix, b, observer);
  return std::make_unique<cpu::PackedMatrix<T>>(b, observer);
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/packed_matrix.hpp"
#include "attend/cpu/each_target.hpp"
#endif
