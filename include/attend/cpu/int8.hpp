#if !defined(ATTEND_CPU_INT8) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_INT8

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "attend/core/thread_owned.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/int8_kernel.hpp"
#include "attend/cpu/packed_matrix.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/int8_rows.hpp"

#endif  // ATTEND_READING

/// Products in 8-bit integers: weights once, activations at run time, sums exact in 32 bits. What a row gets depends on that row
/// alone.
namespace attend::ATTEND_CPU {

/// x [n] as bytes q with x = scale * q, |q| <= 127; rounded to the nearest. Returns the scale: NaN if a number of x is not
/// finite, so that what is made of it tells of that as a product of floats does.
inline float quantize_row(index_t n, const float* x, std::int8_t* q) {
  // Bits without the sign order as the sizes do, NaN above infinity, which a maximum of floats would pass over.
  const float top = std::bit_cast<float>(max_over<std::int32_t>(
      n, [=](index_t i) { return std::bit_cast<std::int32_t>(x[i]) & std::numeric_limits<std::int32_t>::max(); }));
  const float factor = top > 0 ? 127.0f / top : 0.0f;
  for (index_t i = 0; i < n; ++i) {
    constexpr float round = 12582912.0f;  // 1.5 * 2^23: what is added to it loses its fraction
    q[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(x[i] * factor + round) - std::bit_cast<std::int32_t>(round));
  }
  return top / 127.0f + (top - top);  // of infinity, the difference is NaN
}

/// Replaces q [n], |q| <= 127, by its sizes; signs [n] become -1 where it was negative, otherwise 0. Returns the sum of the sizes
/// of what was negative.
inline std::int32_t part_signs(index_t n, std::int8_t* q, std::int8_t* signs) {
  std::int32_t sum = 0;
  for (index_t l = 0; l < n; ++l) {
    const std::int8_t x = q[l], sign = static_cast<std::int8_t>(x >> 7);
    q[l] = static_cast<std::int8_t>((x ^ sign) - sign);
    signs[l] = sign;
    sum -= x & sign;
  }
  return sum;
}

/// The matrix b [k, n] of a product in 8-bit integers with a scale for each column, in the order in which products read it.
class Int8Matrix final : public kernels::PackedProduct<float> {
 public:
  /// Throws ValueError for a k so large that a sum might not fit into 32 bits.
  explicit Int8Matrix(const Matrix<const float>& b, kernels::PackingObserver* observer = nullptr)
      : Int8Matrix(b.rows, b.columns) {
    const index_t k = k_;
    const MatrixView<float> from(b);
    for_panels(panels_, N, k_, n_, observer, [&](index_t begin, index_t end) {
      std::vector<float> column(k);
      std::vector<std::int8_t> q(k);
      for (index_t j = begin * N; j < std::min(n_, end * N); ++j) {
        for (index_t l = 0; l < k; ++l) nth(column, l) = *from.at(l, j);
        nth(scales_, j) = quantize_row(k, column.data(), q.data());
        place_column(j, q.data());
      }
    });
  }
  /// The same from the columns as rows that were brought to 8 bits before, [n, k].
  explicit Int8Matrix(const kernels::Int8Rows<float>& columns, kernels::PackingObserver* observer = nullptr)
      : Int8Matrix(columns.columns, columns.rows) {
    for_panels(panels_, N, k_, n_, observer, [&](index_t begin, index_t end) {
      for (index_t j = begin * N; j < std::min(n_, end * N); ++j) {
        nth(scales_, j) = columns.scales[j];
        place_column(j, columns.data + j * k_);
      }
    });
  }

  /// y [m, n] = x b + bias, x [m, k] brought to 8 bits as well, each row with a scale of its own. Neither x nor y is transposed.
  /// `bias` may be null.
  void multiply(const Matrix<const float>& x, const float* bias, const Matrix<float>& y) const override {
    const index_t m = y.rows;
    if (m <= 0) return;
    if (k_ == 0) return cpu::multiply(Product<float>(x, {nullptr, 0, n_}, bias, y), false);
    ATTEND_THREAD_OWNED(Scratch, scratch);
    const index_t stride = detail::int8_row_bytes(groups_);
    auto* const scales = scratch.get<float>(2 * m + m * stride / 4 + groups_);
    auto* const start = reinterpret_cast<std::int32_t*>(scales + m);
    auto* const bytes = reinterpret_cast<std::int8_t*>(start + m);
    for (index_t i = 0; i < m; ++i) {
      std::int8_t* const row = bytes + i * stride;
      std::int8_t* const q = detail::in_pairs ? bytes + m * stride : row;
      scales[i] = quantize_row(k_, x.data + i * x.stride, q);
      std::fill(q + k_, q + groups_ * 4, std::int8_t{0});
      if constexpr (detail::in_pairs) {
        for (index_t g = 0; g < groups_; ++g) {
          const std::int16_t group[4] = {q[4 * g], q[4 * g + 2], q[4 * g + 1], q[4 * g + 3]};
          std::memcpy(row + g * detail::group_bytes, group, sizeof(group));
        }
      }
      if constexpr (detail::signs_apart) start[i] = part_signs(groups_ * 4, row, row + groups_ * 4);
      if constexpr (detail::shifted_bytes)
        for (index_t l = 0; l < stride; ++l) row[l] = static_cast<std::int8_t>(row[l] ^ -128);
    }
    // Bytes are read four times as fast as floats.
    const Int8Outcome outcome{scales, scales_.data(), bias, y.data, y.stride};
    // By value: if `stride` were referred to, the bytes that the loops above write could be its own, and they would not be vector
    // code.
    share_product(m, panels_, n_ * k_ / 4, [=, this](index_t begin, index_t end, index_t first, index_t last) {
      multiply_int8_panels(end - begin, {bytes + begin * stride, start + begin}, as_panels(), first, last, outcome.at(begin, 0));
    });
  }

 private:
  static constexpr index_t N = Int8Panels::N;
  [[nodiscard]] Int8Panels as_panels() const { return {n_, groups_, bytes_.data(), start_.data()}; }

  Int8Matrix(index_t k, index_t n)
      : k_(k),
        n_(n),
        groups_((k_ + 4 * detail::groups_at_once - 1) / (4 * detail::groups_at_once) * detail::groups_at_once),
        panels_((n_ + N - 1) / N),
        bytes_({panels_ * groups_ * N * 4}, std::int8_t{0}),
        start_(static_cast<std::size_t>(detail::signs_apart ? 0 : panels_ * N)),
        scales_(static_cast<std::size_t>(panels_ * N)) {
    check_value(k <= kernels::most_int8_products, "Int8Matrix", "sums of ", k, " products, at most ", kernels::most_int8_products,
                " fit into 32 bits");
  }

  /// Puts the k bytes of column j where products read them.
  void place_column(index_t j, const std::int8_t* q) {
    if (k_ == 0) return;
    std::int8_t* const to = bytes_.data() + j / N * as_panels().panel_bytes() + j % N * 4;
    const index_t whole = k_ / 4 * 4;
    for (index_t l = 0; l < whole; l += 4) std::memcpy(to + l * N, q + l, 4);
    std::copy(q + whole, q + k_, to + whole * N);
    std::int32_t sum = 0;
    for (index_t l = 0; l < k_; ++l) sum += q[l];
    if (detail::shifted_bytes) nth(start_, j) = -128 * sum;
  }

  index_t k_, n_, groups_, panels_;
  Tensor<std::int8_t> bytes_;
  std::vector<std::int32_t> start_;  // what each column's sum starts from, unless rows say that
  std::vector<float> scales_;        // of each column
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// The rows of x brought to 8 bits, with the bits that `pack_int8` gives them: q [rows, columns], scales [rows].
template <class T>
void quantize_rows(Cpu, const Matrix<const T>& x, std::int8_t* q, T* scales) {
  ATTEND_FASTEST_BYTES(quantize_rows, x, q, scales);
  parallel_rows(x.rows, x.columns, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) scales[i] = cpu::quantize_row(x.columns, x.data + i * x.stride, q + i * x.columns);
  });
}

/// The matrix b [k, n] in 8-bit integers. Throws ValueError for a k so large that a sum might not fit into 32 bits.
template <class T>
std::unique_ptr<PackedProduct<T>> pack_int8(Cpu, const Matrix<const T>& b, PackingObserver* observer = nullptr) {
  ATTEND_FASTEST_BYTES(pack_int8, b, observer);
  return std::make_unique<cpu::Int8Matrix>(b, observer);
}
/// The same from the columns of b as rows in 8 bits, [n, k]: equal bits for those of `quantize_rows`.
template <class T>
std::unique_ptr<PackedProduct<T>> pack_int8(Cpu, const Int8Rows<T>& columns, PackingObserver* observer = nullptr) {
  ATTEND_FASTEST_BYTES(pack_int8, columns, observer);
  return std::make_unique<cpu::Int8Matrix>(columns, observer);
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/int8.hpp"
#define ATTEND_READ_FOR_BYTES
#include "attend/cpu/each_target.hpp"
#endif
