#pragma once

#include <type_traits>
#include <vector>

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/constrain.hpp"

namespace attend::cuda {

/// A place in a matrix.
struct Entry {
  index_t row;
  token_t column;
};
/// The places on the device.
inline Buffer<Entry> upload_entries(const kernels::Entries& at) {
  std::vector<Entry> entries;
  entries.reserve(at.count);
  for (index_t i = 0; i < at.count; ++i) entries.push_back({at.rows[i], at.columns[i]});
  return upload(entries);
}

/// values[i] = what x has at entry i.
template <class T>
__global__ void take_entries_kernel(index_t count, index_t width, const Entry* entries, const T* x, T* values) {
  for (index_t i = grid_thread(); i < count; i += grid_threads()) values[i] = x[entries[i].row * width + entries[i].column];
}
/// What x has at each entry becomes `value`.
template <class T>
__global__ void set_entries_kernel(index_t count, index_t width, const Entry* entries, T value, T* x) {
  for (index_t i = grid_thread(); i < count; i += grid_threads()) x[entries[i].row * width + entries[i].column] = value;
}
/// x at each entry: times the factor if negative, otherwise divided by it.
template <class T>
__global__ void scale_entries_kernel(index_t count, index_t width, const Entry* entries, Wide<T> factor, T* x) {
  for (index_t i = grid_thread(); i < count; i += grid_threads()) {
    T& place = x[entries[i].row * width + entries[i].column];
    const auto value = static_cast<Wide<T>>(place);
    place = static_cast<T>(value < Wide<T>(0) ? value * factor : value / factor);
  }
}
/// Adds a number to one column.
template <class T>
__global__ void add_to_column_kernel(index_t rows, index_t width, token_t column, Wide<T> value, T* x) {
  for (index_t r = grid_thread(); r < rows; r += grid_threads())
    x[r * width + column] = static_cast<T>(static_cast<Wide<T>>(x[r * width + column]) + value);
}
/// A block for a row.
template <class T>
__global__ void keep_entries_kernel(index_t count, index_t width, const Entry* entries, const T* values, T* x) {
  for (index_t i = blockIdx.x; i < count; i += gridDim.x) {
    T* const row = x + entries[i].row * width;
    for (index_t c = threadIdx.x; c < width; c += blockDim.x)
      row[c] = c == entries[i].column ? values[i] : static_cast<T>(-infinity<Wide<T>>());
  }
}

/// Which columns a row keeps: those listed from `begin` on; `place` is where their values wait.
struct KeptColumns {
  index_t row, begin, count, place;
};
/// A block for a row: takes its values out, clears it, and puts them back: if `given`, as log-probabilities among themselves,
/// otherwise as they are.
template <class T, bool given>
__global__ void __launch_bounds__(block_threads)
    restrict_rows_kernel(index_t count, index_t width, const KeptColumns* lists, const token_t* columns, T* waiting, T* x) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  for (index_t i = blockIdx.x; i < count; i += gridDim.x) {
    const KeptColumns list = lists[i];
    const token_t* const own = columns + list.begin;
    T *const row = x + list.row * width, *const values = waiting + list.place;
    LogSum<W> all;
    for (index_t k = threadIdx.x; k < list.count; k += block_threads) {
      const T value = values[k] = row[own[k]];
      if constexpr (given) {
        const W v[1] = {static_cast<W>(value)};
        all.add(v);
      }
    }
    W shift = W(0), log_sum = W(0);
    if constexpr (given) {
      all.template join<block_threads>(room);
      shift = all.shift(), log_sum = all.sum == W(0) ? W(0) : log(all.sum);
    }
    __syncthreads();
    for (index_t c = threadIdx.x; c < width; c += block_threads) row[c] = static_cast<T>(-infinity<W>());
    __syncthreads();
    for (index_t k = threadIdx.x; k < list.count; k += block_threads)
      row[own[k]] = static_cast<T>((static_cast<W>(values[k]) - shift) - log_sum);
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// values[i] = what x has at place i.
template <class T>
void take_entries(Cuda, const Entries& at, index_t width, const T* x, T* values) {
  if (at.count == 0) return;
  const auto entries = cuda::upload_entries(at);
  cuda::launch("take_entries", cuda::take_entries_kernel<T>, cuda::blocks_for(at.count), cuda::block_threads, 0, at.count, width,
               entries.data(), x, values);
}

/// What x has at each place becomes `value`.
template <class T>
void set_entries(Cuda, const Entries& at, index_t width, std::type_identity_t<T> value, T* x) {
  if (at.count == 0) return;
  const auto entries = cuda::upload_entries(at);
  cuda::launch("set_entries", cuda::set_entries_kernel<T>, cuda::blocks_for(at.count), cuda::block_threads, 0, at.count, width,
               entries.data(), value, x);
}

/// What x has at each place is multiplied by `factor` if it is below 0, and divided by it if it is above: a factor above 1 lowers
/// it either way. No place is named twice.
template <class T>
void scale_entries(Cuda, const Entries& at, index_t width, std::type_identity_t<T> factor, T* x) {
  if (at.count == 0) return;
  const auto entries = cuda::upload_entries(at);
  cuda::launch("scale_entries", cuda::scale_entries_kernel<T>, cuda::blocks_for(at.count), cuda::block_threads, 0, at.count,
               width, entries.data(), static_cast<Wide<T>>(factor), x);
}

/// x[r, column] += value for every row r. x [rows, width].
template <class T>
void add_to_column(Cuda, index_t rows, index_t width, token_t column, std::type_identity_t<T> value, T* x) {
  if (rows == 0) return;
  cuda::launch("add_to_column", cuda::add_to_column_kernel<T>, cuda::blocks_for(rows), cuda::block_threads, 0, rows, width,
               column, static_cast<Wide<T>>(value), x);
}

/// The row of place i becomes minus infinity but for values[i] at that place.
template <class T>
void keep_entries(Cuda, const Entries& at, index_t width, const T* values, T* x) {
  if (at.count == 0) return;
  const auto entries = cuda::upload_entries(at);
  cuda::launch("keep_entries", cuda::keep_entries_kernel<T>, cuda::blocks_for(at.count, 1), cuda::block_threads, 0, at.count,
               width, entries.data(), values, x);
}

}  // namespace attend::kernels

namespace attend::cuda {

/// Leaves each row its list of columns. With `given`, the logarithm of the sum over them is taken off what is left.
template <bool given, class T>
void restrict_rows(const char* name, const kernels::ColumnLists& lists, index_t width, T* x) {
  if (lists.count == 0) return;
  std::vector<KeptColumns> kept;
  index_t total = 0;
  for (index_t i = 0; i < lists.count; total += lists.lengths[i++])
    kept.push_back({lists.rows[i], lists.begins[i], lists.lengths[i], total});
  const auto device_lists = upload(kept);
  const Buffer<T> waiting(total);
  launch(name, restrict_rows_kernel<T, given>, blocks_for(lists.count, 1), block_threads, 0, lists.count, width,
         device_lists.data(), lists.columns, waiting.data(), x);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// The rows keep the columns that are listed, and become minus infinity elsewhere; what is kept becomes x - log(sum of exp x over
/// it). The columns of a list are distinct.
template <class T>
void restrict_rows(Cuda, const ColumnLists& lists, index_t width, T* x) {
  cuda::restrict_rows<true>("restrict_rows", lists, width, x);
}

/// The rows keep the columns that are listed as they are, and become minus infinity elsewhere.
template <class T>
void keep_listed(Cuda, const ColumnLists& lists, index_t width, T* x) {
  cuda::restrict_rows<false>("keep_listed", lists, width, x);
}

}  // namespace attend::kernels
