#pragma once

#include <cstdint>

#include "attend/cuda/rows/row.cuh"

/// Choosing among the numbers of a row by their size, without sorting it. A block has the row; all its threads call these
/// functions together and get the same result, the same from run to run.
namespace attend::cuda {

/// Whole numbers that order as the numbers of a type do.
template <class W>
struct OrderOf;
/// Of float.
template <>
struct OrderOf<float> {
  using type = std::uint32_t;
  static constexpr type lowest = 0x007fffff, highest = 0xff800000;  ///< of the two infinities
};
/// Of double.
template <>
struct OrderOf<double> {
  using type = std::uint64_t;
  static constexpr type lowest = 0x000fffffffffffff, highest = 0xfff0000000000000;
};
/// Their type.
template <class W>
using Order = typename OrderOf<W>::type;

/// The bits, with the sign bit flipped, or all bits for negative numbers. -0 counts as 0.
__device__ inline std::uint32_t order_of(float x) {
  const std::uint32_t bits = __float_as_uint(x + 0.0f);
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}
/// The same of double.
__device__ inline std::uint64_t order_of(double x) {
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(x + 0.0));
  return bits ^ ((bits >> 63) != 0 ? ~std::uint64_t{0} : std::uint64_t{1} << 63);
}

/// The number of an order.
__device__ inline float value_of(std::uint32_t order) {
  return __uint_as_float(order ^ ((order >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}
/// The same of double.
__device__ inline double value_of(std::uint64_t order) {
  return __longlong_as_double(static_cast<long long>(order ^ ((order >> 63) != 0 ? std::uint64_t{1} << 63 : ~std::uint64_t{0})));
}

/// Reports NaNs in a row, which the report calls row `number`.
template <class T>
__device__ void report_nan(const ReadRow<T, wide_row_threads>& row, Fault* fault, int operation, index_t number) {
  row.for_each([&](int c, const auto& v) {
    int i = 0;
    for (const auto x : v) {
      if (x != x) report(fault, Fault::not_a_number, operation, number, c + i, 0);
      ++i;
    }
  });
}

/// The weight of every number is 1: sums are counts.
struct CountWeight {
  template <class W>
  __device__ W operator()(W) const {
    return W(1);
  }
};

/// Warps of a block that has a row.
inline constexpr int wide_row_warps = wide_row_threads / warp_threads;

/// Numbers that are few enough to be ordered one by one.
inline constexpr int most_candidates = 128;

/// Shared memory for what follows.
template <class W>
struct SelectionRoom {
  double sums[3][wide_row_warps], weights[most_candidates], above;
  Order<W> candidates[most_candidates], sorted[most_candidates];
  int count, first, ties;
};
/// Three sums over the block at the price of one wait.
template <class W>
__device__ void three_sums(double& a, double& b, double& c, SelectionRoom<W>& room) {
  a = warp_sum(a), b = warp_sum(b), c = warp_sum(c);
  if (lane() == 0) room.sums[0][warp()] = a, room.sums[1][warp()] = b, room.sums[2][warp()] = c;
  __syncthreads();
  const bool mine = lane() < wide_row_warps;
  a = warp_sum(mine ? room.sums[0][lane()] : 0.0);
  b = warp_sum(mine ? room.sums[1][lane()] : 0.0);
  c = warp_sum(mine ? room.sums[2][lane()] : 0.0);
  __syncthreads();
}

/// The numbers above some value, and those that equal it.
template <class W>
struct Threshold {
  Order<W> order;  ///< of the value
  double above;    ///< the weight of the numbers above it
  int ties;        ///< how many equal it
};

/// Puts the orders within [low, high] among the candidates. False if there are too many.
template <class T>
__device__ bool gather_candidates(const ReadRow<T, wide_row_threads>& row, Order<Wide<T>> low, Order<Wide<T>> high,
                                  SelectionRoom<Wide<T>>& room) {
  if (threadIdx.x == 0) room.count = 0;
  __syncthreads();
  bool full = false;  // each thread finds out by having a number for which there is no place
  row.for_each([&](int, const auto& v) {
    for (const Wide<T> x : v) {
      const auto order = order_of(x);
      if (full || order < low || order > high) continue;
      const int place = atomicAdd(&room.count, 1);
      if (place < most_candidates) room.candidates[place] = order;
      else full = true;
    }
  });
  __syncthreads();
  return room.count <= most_candidates;
}
/// `find_threshold` among the candidates alone: `above` is the weight of all numbers above them. The result does not depend on
/// their order.
template <class W, class Weight, class Reached>
__device__ Threshold<W> threshold_among(const Weight& weight, const Reached& reached, double above, Order<W> low,
                                        SelectionRoom<W>& room) {
  const int i = static_cast<int>(threadIdx.x), n = room.count;
  if (n == 0) return {low, above, 0};  // all threads or none: the row has only NaNs
  if (i < n) {
    const Order<W> own = room.candidates[i];
    int rank = 0;
    for (int j = 0; j < n; ++j) rank += room.candidates[j] > own || (room.candidates[j] == own && j < i);
    room.sorted[rank] = own;
    room.weights[rank] = static_cast<double>(weight(value_of(own)));
  }
  if (i == 0) room.first = n - 1, room.ties = 0;
  __syncthreads();
  double before = above;
  for (int j = 0; j < i && j < n; ++j) before += room.weights[j];
  if (i < n && reached(before + room.weights[i])) atomicMin(&room.first, i);
  __syncthreads();
  const Order<W> order = room.sorted[room.first];
  if (i < n && room.sorted[i] == order) {
    atomicAdd(&room.ties, 1);
    if (i == 0 || room.sorted[i - 1] != order) room.above = before;
  }
  __syncthreads();
  const Threshold<W> found{order, room.above, room.ties};
  __syncthreads();  // so that the room may be used again
  return found;
}

/// The largest value at which the weights of a row's numbers from the largest down to it sum up to at least `goal`, or, if
/// `beyond`, to more; if they never do, the smallest of order `lowest` or more. All numbers of one value weigh the same. Each
/// pass over the row cuts what is in question to a quarter, until few numbers are left there, or one value: sums over a growing
/// set of numbers, all added up in one order, never sink, rounded as they are.
template <class T, class Weight>
__device__ Threshold<Wide<T>> find_threshold(const ReadRow<T, wide_row_threads>& row, const Weight& weight, double goal,
                                             bool beyond, Order<Wide<T>> lowest, SelectionRoom<Wide<T>>& room) {
  using W = Wide<T>;
  const auto reached = [&](double sum) { return beyond ? sum > goal : sum >= goal; };
  Order<W> low = lowest, high = OrderOf<W>::highest;
  double above = 0, ties = 0;  // above: the weight of the numbers above `high`
  for (int pass = 0; low < high; ++pass) {
    const bool few = pass == 0 ? row.parts.n <= most_candidates : pass >= 4 && pass % 2 == 0;  // may be
    if (few && gather_candidates(row, low, high, room)) return threshold_among(weight, reached, above, low, room);
    const Order<W> step = (high - low - 1) / 4 + 1, first = low + step;
    const Order<W> second = step < high - first ? first + step : high, third = step < high - second ? second + step : high;
    double a = 0, b = 0, c = 0;
    row.for_each([&](int, const auto& v) {
      W pack_a(0), pack_b(0), pack_c(0);  // few enough for W; sums of doubles are slow on many devices
      for (const W x : v) {
        const Order<W> order = order_of(x);
        const W w = weight(x);
        pack_a += order >= first ? w : W(0);
        pack_b += order >= second ? w : W(0);
        pack_c += order >= third ? w : W(0);
      }
      a += static_cast<double>(pack_a), b += static_cast<double>(pack_b), c += static_cast<double>(pack_c);
    });
    three_sums(a, b, c, room);
    if (reached(c)) low = third;
    else if (reached(b)) low = second, high = third - 1, above = c;
    else if (reached(a)) low = first, high = second - 1, above = b;
    else high = first - 1, above = a;
  }
  double unused = 0;
  above = 0;
  row.for_each([&](int, const auto& v) {
    W pack_above(0), pack_ties(0);
    for (const W x : v) {
      const Order<W> order = order_of(x);
      pack_above += order > low ? weight(x) : W(0);
      pack_ties += order == low ? W(1) : W(0);
    }
    above += static_cast<double>(pack_above), ties += static_cast<double>(pack_ties);
  });
  three_sums(above, ties, unused, room);
  return {low, above, static_cast<int>(ties)};
}

/// The sum of the weights of a row's numbers above that of an order.
template <class T, class Weight>
__device__ double weight_above(const ReadRow<T, wide_row_threads>& row, const Weight& weight, Order<Wide<T>> order,
                               SelectionRoom<Wide<T>>& room) {
  using W = Wide<T>;
  double sum = 0;
  row.for_each([&](int, const auto& v) {
    W pack_sum(0);
    for (const W x : v) pack_sum += order_of(x) > order ? weight(x) : W(0);
    sum += static_cast<double>(pack_sum);
  });
  return block_sum(sum, room.sums[0]);
}

/// The first column at which the running sum of weight(x), in the order of the columns, exceeds `target`; if rounding lets none
/// do so, the last that has any weight.
template <class T, class Weight>
__device__ int find_column(const T* row, int n, const Weight& weight, double target, SelectionRoom<Wide<T>>& room) {
  using W = Wide<T>;
  const auto weight_at = [&](int c) { return static_cast<double>(weight(static_cast<W>(row[c]))); };
  // A piece of the row for each warp; then 32 pieces of the one that is hit, and so on, which every warp does for itself.
  int size = (n + wide_row_warps - 1) / wide_row_warps, begin = 0;
  double sum = 0, before = 0;
  const int piece_end = min(n, (warp() + 1) * size);
  for (int c = warp() * size + lane(); c < piece_end; c += warp_threads) sum += weight_at(c);
  sum = warp_sum(sum);
  if (lane() == 0) room.sums[0][warp()] = sum;
  __syncthreads();
  double running = 0;
  for (int w = 0; w < wide_row_warps && running <= target; ++w) {
    if (room.sums[0][w] <= 0) continue;
    begin = w * size, before = running;
    running += room.sums[0][w];
  }
  __syncthreads();
  for (int end = min(n, begin + size);;) {
    const int part = (end - begin + warp_threads - 1) / warp_threads, first = begin + lane() * part;
    double own = 0;
    for (int c = first; c < min(end, first + part); ++c) own += weight_at(c);
    double inclusive = own;
    for (int step = 1; step < warp_threads; step *= 2) {
      const double lower = __shfl_up_sync(all_lanes, inclusive, step);
      if (lane() >= step) inclusive += lower;
    }
    const unsigned hits = __ballot_sync(all_lanes, own > 0 && before + inclusive > target);
    const unsigned any = __ballot_sync(all_lanes, own > 0);
    const int hit = hits != 0 ? __ffs(static_cast<int>(hits)) - 1 : any != 0 ? 31 - __clz(static_cast<int>(any)) : 0;
    before += __shfl_sync(all_lanes, inclusive - own, hit);
    begin += hit * part;
    if (part == 1) return begin;
    end = min(end, begin + part);
  }
}

/// 1 for the numbers of one order, otherwise 0.
template <class W>
struct TieWeight {
  Order<W> order;
  __device__ W operator()(W x) const { return order_of(x) == order ? W(1) : W(0); }
};

}  // namespace attend::cuda
