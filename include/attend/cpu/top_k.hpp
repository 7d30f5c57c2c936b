#if !defined(ATTEND_CPU_TOP_K) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_TOP_K

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

/// The largest values of each row, as every search needs them.
namespace attend::ATTEND_CPU {

/// The k largest of the values offered so far, largest first; of equal ones the first offered.
template <class T>
struct TopList {
  T* values;  // [k]
  token_t* indices;
  index_t k, count = 0;

  void offer(T value, index_t index) {
    if (count == k && (k == 0 || !(value > values[k - 1]))) return;  // k is never 0, which GCC 14 wants to be told
    index_t i = count < k ? count++ : k - 1;
    for (; i > 0 && value > values[i - 1]; --i) values[i] = values[i - 1], indices[i] = indices[i - 1];
    values[i] = value;
    indices[i] = static_cast<token_t>(index);
  }
};

/// Whole numbers as wide as T, because compilers turn the maxima of those into vector instructions without being asked.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// The bits without the sign: above those of infinity if x is NaN.
template <class T>
BitsOf<T> magnitude_bits(T x) {
  return std::bit_cast<BitsOf<T>>(x) & std::numeric_limits<BitsOf<T>>::max();
}
/// A whole number that orders as x does: the bits, for negative numbers with all but the sign flipped. -0 is 0.
template <class T>
BitsOf<T> order_bits(T x) {
  const auto bits = std::bit_cast<BitsOf<T>>(x + T(0));
  return bits ^ ((bits >> (8 * sizeof(T) - 1)) & std::numeric_limits<BitsOf<T>>::max());
}

/// The largest order and the largest magnitude of some numbers.
template <class T>
struct BlockMaximum {
  BitsOf<T> order, magnitude;
};
/// Those of n numbers.
template <class T>
BlockMaximum<T> block_maximum(const T* x, index_t n) {
  BlockMaximum<T> most{std::numeric_limits<BitsOf<T>>::min(), 0};
  for (index_t i = 0; i < n; ++i) {
    most.order = std::max(most.order, order_bits(x[i]));
    most.magnitude = std::max(most.magnitude, magnitude_bits(x[i]));
  }
  return most;
}

/// How a row is cut into blocks of 64 values or more, of which the last may be shorter.
struct Blocks {
  static constexpr index_t most = 1024, unit = 64;
  explicit Blocks(index_t row_width)
      : width(row_width), size((width + most * unit - 1) / (most * unit) * unit), count((width + size - 1) / size) {}
  [[nodiscard]] index_t begin(index_t block) const { return block * size; }
  [[nodiscard]] index_t end(index_t block) const { return std::min(width, (block + 1) * size); }
  index_t width, size, count;
};

/// Above so many values, all of a row are sorted.
inline constexpr index_t most_listed = 256;

/// The k <= most_listed largest of value(0), value(1), ..., given the largest order of each block: they can only stand in the k
/// blocks with the largest of these (each other block is beaten by k values), and only those are looked at one by one.
template <class T, class Value>
void best_of_blocks(const Blocks& blocks, const BitsOf<T>* orders, index_t k, Value&& value, T* values, token_t* indices) {
  BitsOf<T> best[most_listed];
  token_t chosen[most_listed];
  TopList<BitsOf<T>> best_blocks{best, chosen, k};
  for (index_t b = 0; b < blocks.count; ++b) best_blocks.offer(orders[b], b);
  std::sort(chosen, chosen + best_blocks.count);  // so that of equal values the lower column is offered first
  TopList<T> list{values, indices, k};
  for (index_t c = 0; c < best_blocks.count; ++c)
    for (index_t i = blocks.begin(chosen[c]); i < blocks.end(chosen[c]); ++i) list.offer(value(i), i);
}

/// top_k for one row: one vectorised pass for the blocks' maxima.
template <class T>
void top_k_row(index_t row, index_t width, index_t k, const T* x, T* values, token_t* indices) {
  const Blocks blocks(width);
  BitsOf<T> orders[Blocks::most], magnitude = 0;
  for (index_t b = 0; b < blocks.count; ++b) {
    const T* const first = x + blocks.begin(b);
    const index_t size = blocks.end(b) - blocks.begin(b);
    // A known length is quicker.
    const auto most = size == Blocks::unit ? block_maximum(first, Blocks::unit) : block_maximum(first, size);
    orders[b] = most.order;
    magnitude = std::max(magnitude, most.magnitude);
  }
  const auto infinity = magnitude_bits(std::numeric_limits<T>::infinity());
  if (magnitude > infinity) {
    const T* at = std::find_if(x, x + width, [=](T v) { return magnitude_bits(v) > infinity; });
    throw Error("top_k: row ", row, " holds NaN in column ", at - x);
  }

  if (k > most_listed) {
    std::vector<token_t> order(width);
    std::iota(order.begin(), order.end(), token_t{0});
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [x](token_t a, token_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); });
    for (index_t i = 0; i < k; ++i) indices[i] = nth(order, i), values[i] = x[indices[i]];
    return;
  }
  best_of_blocks<T>(
      blocks, orders, k, [=](index_t i) { return x[i]; }, values, indices);
}

/// top_k_of_logits for one row: one pass for the blocks' maxima and one for log-softmax's sum. Log-softmax itself is taken of the
/// maxima and of what is looked at: since it keeps the order of two numbers, or makes them equal, a block's maximum stays its
/// maximum.
template <class T>
void top_k_of_logits_row(index_t row, index_t k, std::span<const token_t> excluded, std::span<T> logits, T* values,
                         token_t* indices) {
  const index_t width = count_of(logits);
  T* const x = logits.data();
  const Blocks blocks(width);
  T maxima[Blocks::most];
  const auto read_block = [&](index_t b) {
    const T* const from = x + blocks.begin(b);
    const index_t size = blocks.end(b) - blocks.begin(b);
    const auto at = [=](index_t i) { return from[i]; };
    maxima[b] = size == Blocks::unit ? max_over<T>(Blocks::unit, at) : max_over<T>(size, at);
  };
  for (index_t b = 0; b < blocks.count; ++b) read_block(b);
  const LogSoftmax<T> log_softmax(width, x, softmax_shift(*std::max_element(maxima, maxima + blocks.count)));
  if (log_softmax.is_nan()) {
    const T* at = std::find_if(x, x + width, [](T v) { return !(v < std::numeric_limits<T>::infinity()); });
    throw Error("top_k_of_logits: row ", row, " holds ", std::isnan(*at) ? "NaN" : "infinity", " in column ", at - x);
  }
  for (const token_t column : excluded) x[column] = -std::numeric_limits<T>::infinity();
  index_t read = -1;  // of columns in their order, each block is read once
  for (const token_t column : excluded)
    if (const index_t b = column / blocks.size; b != read) read_block(read = b);
  if (k > most_listed) {
    for (index_t i = 0; i < width; ++i) x[i] = log_softmax(x[i]);
    return top_k_row(row, width, k, x, values, indices);
  }
  BitsOf<T> orders[Blocks::most];
  for (index_t b = 0; b < blocks.count; ++b) orders[b] = order_bits(log_softmax(maxima[b]));
  best_of_blocks<T>(
      blocks, orders, k, [&](index_t i) { return log_softmax(x[i]); }, values, indices);
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// Throws ValueError unless the k largest of a row's `width` values can be found.
inline void check_top_k(const char* kernel, index_t width, index_t k) {
  check_value(k >= 1 && k <= width, kernel, "k is ", k, ", expected 1 to the width ", width);
  check_value(width <= std::numeric_limits<token_t>::max(), kernel, "rows of ", width, " values");
}

/// The k largest values of each row, largest first, and their columns; of equal values the lower column comes first.
/// Minus infinity is a value like any other. x [rows, width] -> values, indices [rows, k].
/// Throws ValueError unless 1 <= k <= width, Error if a row holds a NaN.
template <class T>
void top_k(Cpu, index_t rows, index_t width, index_t k, const T* x, T* values, token_t* indices) {
  ATTEND_FASTEST(top_k, rows, width, k, x, values, indices);
  check_top_k("top_k", width, k);
  parallel_rows(rows, width, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) cpu::top_k_row(r, width, k, x + r * width, values + r * k, indices + r * k);
  });
}

/// top_k of log_softmax(x) with minus infinity in the columns `excluded`, which must be within it: the same bits as these steps
/// one after another, but each row is read twice and nothing written back. x may be changed, and is then of no use. Shapes as in
/// top_k; x may have a stride. Many excluded columns take least time in their order. Throws ValueError unless 1 <= k <= width,
/// Error if a row holds NaN or infinity.
template <class T>
void top_k_of_logits(Cpu, const Matrix<T>& x, std::span<const token_t> excluded, index_t k, T* values, token_t* indices) {
  ATTEND_FASTEST(top_k_of_logits, x, excluded, k, values, indices);
  check_top_k("top_k_of_logits", x.columns, k);
  parallel_rows(x.rows, x.columns, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r)
      cpu::top_k_of_logits_row(r, k, excluded, std::span(x.data + r * x.stride, static_cast<std::size_t>(x.columns)),
                               values + r * k, indices + r * k);
  });
}

/// The largest value of each row and the first column that holds it. x [rows, width] -> values, indices [rows].
/// Throws as top_k does.
template <class T>
void argmax(Cpu, index_t rows, index_t width, const T* x, T* values, token_t* indices) {
  ATTEND_FASTEST(argmax, rows, width, x, values, indices);
  top_k(Cpu{}, rows, width, 1, x, values, indices);
}

/// x[r, columns[i]] = value for every row r and i < count. x [rows, width]; the columns are within it.
template <class T>
void fill_columns(Cpu, index_t rows, index_t width, index_t count, const token_t* columns, T value, T* x) {
  ATTEND_FASTEST(fill_columns, rows, width, count, columns, value, x);
  for (index_t r = 0; r < rows; ++r)
    for (index_t i = 0; i < count; ++i) x[r * width + columns[i]] = value;
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/top_k.hpp"
#include "attend/cpu/each_target.hpp"
#endif
