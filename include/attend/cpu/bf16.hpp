#if !defined(ATTEND_CPU_BF16) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_BF16

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "attend/core/tensor.hpp"
#include "attend/core/thread_owned.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/bf16_kernel.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/packed_matrix.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"
#include "attend/kernels/packed_product.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// Copies words of panels [first, last) of b, k rows and n columns, to where panel 0 would begin at `to`.
inline void pack_pair_panels(MatrixView<float> b, index_t k, index_t n, index_t first, index_t last, std::uint32_t* to) {
  constexpr index_t N = tile_columns<float>;
  const index_t words = pair_words(k), size = words * N;
  if (b.column_step == 1) {
    const index_t columns = std::min(n, last * N) - first * N;
    cpu::pack_pair_rows<N>(b.from(0, first * N), 0, words, k, columns, N, to + first * size, size);
    return;
  }
  for (index_t p = first; p < last; ++p) cpu::pack_pair_columns<N>(b.from(0, p * N), k, std::min(N, n - p * N), to + p * size);
}

/// The product with both sides rounded to bfloat16: b is copied into panels of words by all threads, as much at a time as a
/// second-level cache holds for one block of k; then the threads share the rows of c. With few rows each thread does both for
/// columns of its own.
inline void multiply_pairs(const Product<float>& product, bool parallel) {
  constexpr index_t N = tile_columns<float>;
  const index_t m = product.m, n = product.n, k = product.k;
  if (m <= 0 || n <= 0 || k == 0) return cpu::multiply(product, parallel);
  parallel = parallel && m * n * k >= 131072 && threads() > 1 && !ThreadPool::within_loop();
  if (parallel && m <= 8 * tile_rows) {
    parallel_for((n + N - 1) / N, std::max<index_t>(1, 65536 / (m * k * N)), [&](index_t begin, index_t end) {
      Product<float> part = product;
      part.n = std::min(end * N, n) - begin * N;
      part.b = product.b.from(0, begin * N);
      part.outcome = product.outcome.at(0, begin * N);
      cpu::multiply_pairs(part, false);
    });
    return;
  }
  const auto run = [&](index_t count, index_t grain, auto&& body) {
    if (parallel) parallel_for(count, grain, body);
    else body(index_t{0}, count);
  };
  const index_t depth = pair_depth(k), most_k = 8 * depth, words = depth / 2;
  const index_t columns = std::max<index_t>(1, (index_t{1} << 18) / (words * N)) * N;
  ATTEND_THREAD_OWNED(Scratch, scratch);
  auto* const packed = scratch.get<std::uint32_t>((std::min(n, columns) + N - 1) / N * N * pair_words(std::min(k, most_k)));
  for (index_t j = 0; j < n; j += columns)
    for (index_t l = 0; l < k; l += most_k) {
      const index_t wide = std::min(columns, n - j), deep = std::min(most_k, k - l), panels = (wide + N - 1) / N;
      const MatrixView<float> b = product.b.from(l, j);
      const auto numbers = [&](index_t first) { return std::min(depth, deep - first); };
      const auto block = [&](index_t first) { return packed + first / 2 * panels * N; };
      if (b.column_step == 1) {  // row by row across all panels, as memory likes it
        run(pair_words(deep) / words_together, 8 / words_together, [&](index_t begin, index_t end) {
          begin *= words_together, end *= words_together;
          for (index_t first = begin / words * words; first < end; first += words) {
            const index_t rows = numbers(2 * first);
            cpu::pack_pair_rows<N>(b.from(2 * first, 0), std::max(begin - first, index_t{0}),
                                   std::min(end - first, pair_words(rows)), rows, wide, N, block(2 * first),
                                   pair_words(rows) * N);
          }
        });
      } else {
        run((deep + depth - 1) / depth * panels, 2, [&](index_t begin, index_t end) {
          for (index_t i = begin; i < end; ++i) {
            const index_t first = i / panels * depth, p = i % panels;
            cpu::pack_pair_panels(b.from(first, 0), numbers(first), wide, p, p + 1, block(first));
          }
        });
      }
      const auto multiply_part = [&](index_t row, index_t last, index_t p, index_t stop) {
        for (index_t first = 0; p < stop && first < deep; first += depth) {
          const index_t step = pair_words(numbers(first)) * N;
          cpu::multiply_pair_panels(last - row, std::min(wide, stop * N) - p * N, numbers(first), product.a.from(row, l + first),
                                    block(first) + p * step, step, product.outcome.at(row, j + p * N).from(l + first));
        }
      };
      if (parallel && has_few_rows(m)) share_rows_and_panels(m, panels, multiply_part);
      else run(m, tile_rows, [&](index_t begin, index_t end) { multiply_part(begin, end, 0, panels); });
    }
}

/// The matrix b [k, n] of a product, rounded to bfloat16 once and kept in the order in which products read it.
class Bf16Matrix final : public kernels::PackedProduct<float> {
 public:
  explicit Bf16Matrix(const Matrix<const float>& b, kernels::PackingObserver* observer = nullptr)
      : k_(b.rows), n_(b.columns), panels_((n_ + N - 1) / N), depth_(pair_depth(k_)), words_({panels_ * N * pair_words(k_)}) {
    const MatrixView<float> from(b);
    for_panels(panels_, N, k_, n_, observer, [&](index_t begin, index_t end) {
      for (index_t l = 0; l < k_; l += depth_) cpu::pack_pair_panels(from.from(l, 0), numbers(l), n_, begin, end, block(l));
    });
  }

  /// c [m, n] = a b + bias, with the bits that `gemm_bf16` gives. `bias` may be null.
  void multiply(const Matrix<const float>& a, const float* bias, const Matrix<float>& c) const override {
    const index_t m = c.rows;
    if (m <= 0) return;
    if (k_ == 0) return cpu::multiply(Product<float>(a, {nullptr, 0, n_}, bias, c), false);
    const MatrixView<float> rows(a);
    const Outcome<float> outcome({}, bias, c);
    // As many panels at a time as a second-level cache holds, for all rows.
    const index_t together = std::max<index_t>(1, (index_t{1} << 18) / (std::min(k_, depth_) / 2 * N + 1));
    share_product(m, panels_, n_ * k_ / 2, [&](index_t begin, index_t end, index_t first, index_t last) {
      for (index_t p = first; p < last; p += together)
        for (index_t l = 0; l < k_; l += depth_) {
          const index_t step = pair_words(numbers(l)) * N, j = p * N, wide = std::min(std::min(last, p + together) * N, n_) - j;
          cpu::multiply_pair_panels(end - begin, wide, numbers(l), rows.from(begin, l), block(l) + p * step, step,
                                    outcome.at(begin, j).from(l));
        }
    });
  }

 private:
  static constexpr index_t N = tile_columns<float>;
  [[nodiscard]] index_t numbers(index_t l) const { return std::min(depth_, k_ - l); }
  [[nodiscard]] std::uint32_t* block(index_t l) const { return words_.data() + l / 2 * panels_ * N; }

  index_t k_, n_, panels_, depth_;
  Tensor<std::uint32_t> words_;
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// c [m, n] = alpha * a * b + bias, a [m, k] and b [k, n] rounded to bfloat16, the sums in float, and what c was before on top if
/// `add`; c is not transposed, `bias` may be null. An element's bits depend on its row of a and column of b alone, and are the
/// same with every instruction set but AMX and ARM's BF16, within the limits that bf16_kernel.hpp names. T is float.
template <class T>
void gemm_bf16(Cpu, ConstMatrix<T> a, ConstMatrix<T> b, const std::type_identity_t<T>* bias, Matrix<T> c,
               const ProductOptions& options = {}) {
  ATTEND_FASTEST_BF16(gemm_bf16, a, b, bias, c, options);
  cpu::multiply_pairs(cpu::Product<T>(a, b, bias, c, options), true);
}

/// `count` products of that kind, without a bias.
template <class T>
void gemm_bf16_batched(Cpu, index_t count, ConstMatrices<T> a, ConstMatrices<T> b, Matrices<T> c,
                       const ProductOptions& options = {}) {
  ATTEND_FASTEST_BF16(gemm_bf16_batched, count, a, b, c, options);
  if (count == 1) return gemm_bf16(Cpu{}, a.first, b.first, nullptr, c.first, options);
  const index_t cost = std::max<index_t>(1, c.first.rows * c.first.columns * a.first.columns);
  parallel_for(count, std::max<index_t>(1, 65536 / cost), [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) cpu::multiply_pairs(cpu::Product<T>(a[i], b[i], nullptr, c[i], options), false);
  });
}

/// The matrix b [k, n] in bfloat16, for products with the bits that `gemm_bf16` gives.
template <class T>
std::unique_ptr<PackedProduct<T>> pack_bf16(Cpu, const Matrix<const T>& b, PackingObserver* observer = nullptr) {
  ATTEND_FASTEST_BF16(pack_bf16, b, observer);
  return std::make_unique<cpu::Bf16Matrix>(b, observer);
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/bf16.hpp"
#define ATTEND_READ_FOR_BF16
#include "attend/cpu/each_target.hpp"
#endif
