#if !defined(ATTEND_CPU_TOP_K) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_TOP_K

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/targets.hpp"

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

/// top_k for one row. One vectorised pass finds the maximum of each block of 64 or more; the k largest values can only stand
/// in the k blocks with the largest maxima (each other block is beaten by k values), and only those are looked at one by one.
template <class T>
void top_k_row(index_t row, index_t width, index_t k, const T* x, T* values, token_t* indices) {
  constexpr index_t most_blocks = 1024, most_listed = 256, unit = 64;
  const index_t block = (width + most_blocks * unit - 1) / (most_blocks * unit) * unit;
  const index_t blocks = (width + block - 1) / block;
  BitsOf<T> maxima[most_blocks], magnitude = 0;
  for (index_t b = 0; b < blocks; ++b) {
    const T* first = x + b * block;
    const index_t size = std::min(block, width - b * block);
    const auto most = size == unit ? block_maximum(first, unit) : block_maximum(first, size);  // a known length is quicker
    maxima[b] = most.order;
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
  BitsOf<T> best[most_listed];
  token_t chosen[most_listed];
  TopList<BitsOf<T>> best_blocks{best, chosen, k};
  for (index_t b = 0; b < blocks; ++b) best_blocks.offer(maxima[b], b);
  std::sort(chosen, chosen + best_blocks.count);  // so that of equal values the lower column is offered first
  TopList<T> list{values, indices, k};
  for (index_t c = 0; c < best_blocks.count; ++c) {
    const index_t begin = chosen[c] * block, end = std::min(begin + block, width);
    for (index_t i = begin; i < end; ++i) list.offer(x[i], i);
  }
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// The k largest values of each row, largest first, and their columns; of equal values the lower column comes first.
/// Minus infinity is a value like any other. x [rows, width] -> values, indices [rows, k].
/// Throws ValueError unless 1 <= k <= width, Error if a row holds a NaN.
template <class T>
void top_k(Cpu, index_t rows, index_t width, index_t k, const T* x, T* values, token_t* indices) {
  ATTEND_FASTEST(top_k, rows, width, k, x, values, indices);
  check_value(k >= 1 && k <= width, "top_k", "k is ", k, ", expected 1 to the width ", width);
  check_value(width <= std::numeric_limits<token_t>::max(), "top_k", "rows of ", width, " values");
  parallel_rows(rows, width, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) cpu::top_k_row(r, width, k, x + r * width, values + r * k, indices + r * k);
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
