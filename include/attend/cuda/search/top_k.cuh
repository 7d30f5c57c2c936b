#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

#include "attend/core/shape.hpp"
#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/search/selection.cuh"

namespace attend::cuda {

/// A number and its column. Of two, the larger comes first, of equal ones that in the lower column; `none` after all others.
template <class W>
struct Ranked {
  static constexpr int none = 0x7fffffff;
  W value;
  int column;
  __device__ explicit Ranked(W v = -infinity<W>(), int c = none) : value(v), column(c) {}
  [[nodiscard]] __device__ bool before(const Ranked& other) const {
    return value > other.value || (value == other.value && column < other.column);
  }
};
/// The first of all lanes' numbers, in every lane.
template <class W>
__device__ Ranked<W> warp_first(Ranked<W> own) {
  for (int step = warp_threads / 2; step > 0; step /= 2) {
    const Ranked<W> other(__shfl_xor_sync(all_lanes, own.value, step), __shfl_xor_sync(all_lanes, own.column, step));
    if (other.before(own)) own = other;
  }
  return own;
}

inline constexpr int short_list = warp_threads;  ///< the largest k of `top_k_kernel`

/// A block for a row, k <= short_list: each warp lists the first k numbers of its part, then one warp goes through the lists.
template <class T>
__global__ void __launch_bounds__(wide_row_threads, 2)
    top_k_kernel(index_t rows, int n, int k, bool packs, const T* x, Fault* fault, T* values, token_t* indices) {
  using W = Wide<T>;
  static __shared__ W list_values[wide_row_warps][short_list];
  static __shared__ int list_columns[wide_row_warps][short_list];
  for (index_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const ReadRow<T, wide_row_threads> row(x, r * n, n, packs);
    Ranked<W> own;  // the first of this thread's numbers that its warp has not listed
    bool numbers = true;
    row.for_each([&](int c, const auto& v) {
      for (const W value : v) {
        const Ranked<W> here(value, c++);
        if (here.before(own)) own = here;
        numbers = numbers && value == value;
      }
    });
    if (!numbers) report_nan(row, fault, Context::top_k, r);
    for (int i = 0; i < k; ++i) {
      const Ranked<W> first = warp_first(own);
      if (lane() == 0) list_values[warp()][i] = first.value, list_columns[warp()][i] = first.column;
      if (first.column == first.none) continue;  // all lanes or none
      // The lanes share out what the thread of that number has, to find what comes next there.
      const int owner = __ffs(static_cast<int>(__ballot_sync(all_lanes, own.column == first.column))) - 1;
      Ranked<W> second;
      row.visit(warp() * warp_threads + owner + lane() * wide_row_threads, warp_threads * wide_row_threads,
                [&](int c, const auto& v) {
                  for (const W value : v) {
                    const Ranked<W> here(value, c++);
                    if (first.before(here) && here.before(second)) second = here;
                  }
                });
      second = warp_first(second);
      if (lane() == owner) own = second;
    }
    __syncthreads();
    if (warp() == 0) {
      int place = 0;
      const auto listed = [&] {
        return lane() < wide_row_warps && place < k ? Ranked<W>(list_values[lane()][place], list_columns[lane()][place])
                                                    : Ranked<W>();
      };
      Ranked<W> head = listed();
      for (int i = 0; i < k; ++i) {
        const Ranked<W> first = warp_first(head);
        if (lane() == 0) {
          const int column = first.column == first.none ? 0 : first.column;  // so many numbers there are, if none is NaN
          values[r * k + i] = x[r * n + column];
          indices[r * k + i] = column;
        }
        if (head.column == first.column && first.column != first.none) ++place, head = listed();
      }
    }
    __syncthreads();
  }
}

/// Numbers that top_k_long_kernel sorts at a time.
inline constexpr int sorted_at_once = 1024;

/// A block for a row, any k: finds which numbers are among the first, and sorts them, so many at a time.
template <class T>
__global__ void __launch_bounds__(wide_row_threads)
    top_k_long_kernel(index_t rows, int n, int k, bool packs, const T* x, Fault* fault, T* values, token_t* indices) {
  using W = Wide<T>;
  static __shared__ SelectionRoom<W> room;
  static __shared__ Order<W> orders[sorted_at_once];
  static __shared__ int columns[sorted_at_once];
  static __shared__ int count;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto before = [&](int i, int j) { return orders[i] > orders[j] || (orders[i] == orders[j] && columns[i] < columns[j]); };
  for (index_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const ReadRow<T, wide_row_threads> row(x, r * n, n, packs);
    report_nan(row, fault, Context::top_k, r);
    // What has been written: the numbers of an order above `done`, and those of this order up to a column.
    Order<W> done = ~Order<W>(0);
    int done_column = -1;
    for (int written = 0; written < k;) {
      const int end = min(k, written + sorted_at_once);
      const auto last = find_threshold(row, CountWeight{}, end, false, OrderOf<W>::lowest, room);
      const double wanted = end - last.above;  // of those that equal it
      const int last_column =
          wanted < last.ties ? find_column(x + r * n, n, TieWeight<W>{last.order}, wanted - 0.5, room) : n - 1;
      if (thread == 0) count = 0;
      __syncthreads();
      row.for_each([&](int c, const auto& v) {
        for (const W value : v) {
          const Order<W> order = order_of(value);
          const bool was = order > done || (order == done && c <= done_column);
          const bool is = order > last.order || (order == last.order && c <= last_column);
          if (is && !was)
            if (const int place = atomicAdd(&count, 1); place < sorted_at_once) orders[place] = order, columns[place] = c;
          ++c;
        }
      });
      __syncthreads();
      int size = 1;
      while (size < end - written) size *= 2;
      for (int i = thread; i < size; i += wide_row_threads)
        if (i >= count) orders[i] = 0, columns[i] = Ranked<W>::none;
      __syncthreads();
      // Batcher's bitonic sort: no two numbers have the same place in the order, so it does not matter where they stood before.
      for (int run = 2; run <= size; run *= 2)
        for (int step = run / 2; step > 0; step /= 2) {
          for (int pair = thread; pair < size / 2; pair += wide_row_threads) {
            const int i = pair / step * 2 * step + pair % step, j = i + step;
            if (before(j, i) == ((i & run) == 0)) {
              const Order<W> order = orders[i];
              const int column = columns[i];
              orders[i] = orders[j], columns[i] = columns[j];
              orders[j] = order, columns[j] = column;
            }
          }
          __syncthreads();
        }
      for (int i = thread; i < end - written; i += wide_row_threads) {
        const int column = columns[i] == Ranked<W>::none ? 0 : columns[i];  // so many numbers there are, if none is NaN
        values[r * k + written + i] = x[r * n + column];
        indices[r * k + written + i] = column;
      }
      __syncthreads();
      written = end, done = last.order, done_column = last_column;
    }
  }
}

/// Columns that a kernel is told by value.
struct Columns {
  static constexpr int most = 64;
  token_t at[most];
};
/// See fill_columns.
template <class T>
__global__ void fill_columns_kernel(index_t rows, index_t width, int count, Columns columns, T value, T* x) {
  for (index_t i = grid_thread(); i < rows * count; i += grid_threads()) x[i / count * width + columns.at[i % count]] = value;
}

}  // namespace attend::cuda

namespace attend::kernels {

/// The k largest values of each row, largest first, and their columns; of equal values the lower column comes first.
/// Minus infinity is a value like any other. x [rows, width] -> values, indices [rows, k].
/// Throws ValueError unless 1 <= k <= width. A NaN is reported.
template <class T>
void top_k(Cuda, index_t rows, index_t width, index_t k, const T* x, T* values, token_t* indices) {
  check_value(k >= 1 && k <= width, "top_k", "k is ", k, ", expected 1 to the width ", width);
  check_value(width < cuda::Ranked<Wide<T>>::none, "top_k", "rows of ", width, " values");
  if (rows == 0) return;
  const auto kernel = k <= cuda::short_list ? cuda::top_k_kernel<T> : cuda::top_k_long_kernel<T>;
  cuda::launch("top_k", kernel, cuda::blocks_for(rows, 1), cuda::wide_row_threads, 0, rows, static_cast<int>(width),
               static_cast<int>(k), cuda::aligned(x), x, cuda::Context::instance().fault(), values, indices);
}

/// The largest value of each row and the first column that holds it. x [rows, width] -> values, indices [rows].
/// Throws and reports as top_k does.
template <class T>
void argmax(Cuda, index_t rows, index_t width, const T* x, T* values, token_t* indices) {
  top_k(Cuda{}, rows, width, 1, x, values, indices);
}

/// x[r, columns[i]] = value for every row r and i < count. x [rows, width]; the columns, in host memory, are within it.
template <class T>
void fill_columns(Cuda, index_t rows, index_t width, index_t count, const token_t* columns, std::type_identity_t<T> value, T* x) {
  if (rows == 0) return;
  for (index_t first = 0; first < count; first += cuda::Columns::most) {
    cuda::Columns some{};
    const index_t n = std::min<index_t>(count - first, cuda::Columns::most);
    std::copy_n(columns + first, n, some.at);
    cuda::launch("fill_columns", cuda::fill_columns_kernel<T>, cuda::blocks_for(rows * n), cuda::block_threads, 0, rows, width,
                 static_cast<int>(n), some, value, x);
  }
}

}  // namespace attend::kernels
