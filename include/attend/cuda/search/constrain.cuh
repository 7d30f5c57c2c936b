#pragma once

#include <type_traits>
#include <vector>

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/rows/row.cuh"

namespace attend::cuda {

/// A place in a matrix.
struct Entry {
  index_t row;
  token_t column;
};
/// The places (rows[i], columns[i]) on the device.
inline Buffer<Entry> upload_entries(index_t count, const index_t* rows, const token_t* columns) {
  std::vector<Entry> entries;
  entries.reserve(static_cast<std::size_t>(count));
  for (index_t i = 0; i < count; ++i) entries.push_back({rows[i], columns[i]});
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
template <class T>
__global__ void scale_entries_kernel(index_t count, index_t width, const Entry* entries, Wide<T> factor, T* x) {
  for (index_t i = grid_thread(); i < count; i += grid_threads()) {
    T& place = x[entries[i].row * width + entries[i].column];
    const auto value = static_cast<Wide<T>>(place);
    place = static_cast<T>(value < Wide<T>(0) ? value * factor : value / factor);
  }
}
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
/// A block for a row: takes its values out, clears it, and puts them back, `given` that it is one of them, or as they are.
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

/// values[i] = x[rows[i], columns[i]] for i < count. rows and columns are host memory.
template <class T>
void take_entries(Cuda, index_t count, index_t width, const index_t* rows, const token_t* columns, const T* x, T* values) {
  if (count == 0) return;
  const auto entries = cuda::upload_entries(count, rows, columns);
  cuda::launch("take_entries", cuda::take_entries_kernel<T>, cuda::blocks_for(count), cuda::block_threads, 0, count, width,
               entries.data(), x, values);
}

/// x[rows[i], columns[i]] = value for i < count. rows and columns are host memory.
template <class T>
void set_entries(Cuda, index_t count, index_t width, const index_t* rows, const token_t* columns, std::type_identity_t<T> value,
                 T* x) {
  if (count == 0) return;
  const auto entries = cuda::upload_entries(count, rows, columns);
  cuda::launch("set_entries", cuda::set_entries_kernel<T>, cuda::blocks_for(count), cuda::block_threads, 0, count, width,
               entries.data(), value, x);
}

/// x[rows[i], columns[i]] is multiplied by `factor` where it is below 0, and divided by it where it is above, for i < count: a
/// factor above 1 lowers it either way. No place is named twice. rows and columns are host memory.
template <class T>
void scale_entries(Cuda, index_t count, index_t width, const index_t* rows, const token_t* columns,
                   std::type_identity_t<T> factor, T* x) {
  if (count == 0) return;
  const auto entries = cuda::upload_entries(count, rows, columns);
  cuda::launch("scale_entries", cuda::scale_entries_kernel<T>, cuda::blocks_for(count), cuda::block_threads, 0, count, width,
               entries.data(), static_cast<Wide<T>>(factor), x);
}

/// x[r, column] += value for every row r. x [rows, width].
template <class T>
void add_to_column(Cuda, index_t rows, index_t width, token_t column, std::type_identity_t<T> value, T* x) {
  if (rows == 0) return;
  cuda::launch("add_to_column", cuda::add_to_column_kernel<T>, cuda::blocks_for(rows), cuda::block_threads, 0, rows, width,
               column, static_cast<Wide<T>>(value), x);
}

/// Row rows[i] becomes minus infinity but for x[rows[i], columns[i]] = values[i], for i < count. rows and columns are host
/// memory.
template <class T>
void keep_entries(Cuda, index_t count, index_t width, const index_t* rows, const token_t* columns, const T* values, T* x) {
  if (count == 0) return;
  const auto entries = cuda::upload_entries(count, rows, columns);
  cuda::launch("keep_entries", cuda::keep_entries_kernel<T>, cuda::blocks_for(count, 1), cuda::block_threads, 0, count, width,
               entries.data(), values, x);
}

}  // namespace attend::kernels

namespace attend::cuda {

template <bool given, class T>
void restrict_rows(const char* name, index_t count, index_t width, const index_t* rows, const index_t* begins,
                   const index_t* lengths, const token_t* columns, T* x) {
  if (count == 0) return;
  std::vector<KeptColumns> lists;
  index_t total = 0;
  for (index_t i = 0; i < count; total += lengths[i++]) lists.push_back({rows[i], begins[i], lengths[i], total});
  const auto device_lists = upload(lists);
  const Buffer<T> waiting(total);
  launch(name, restrict_rows_kernel<T, given>, blocks_for(count, 1), block_threads, 0, count, width, device_lists.data(), columns,
         waiting.data(), x);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// Row rows[i] keeps `lengths[i]` of its columns, those that are listed from columns[begins[i]] on, and becomes minus infinity
/// elsewhere; what is kept becomes x - log(sum of exp x over it). rows, begins and lengths are host memory; the columns of a list
/// are distinct.
template <class T>
void restrict_rows(Cuda, index_t count, index_t width, const index_t* rows, const index_t* begins, const index_t* lengths,
                   const token_t* columns, T* x) {
  cuda::restrict_rows<true>("restrict_rows", count, width, rows, begins, lengths, columns, x);
}

/// Row rows[i] keeps `lengths[i]` of its columns as they are, those that are listed from columns[begins[i]] on, and becomes minus
/// infinity elsewhere. rows, begins and lengths are host memory.
template <class T>
void keep_listed(Cuda, index_t count, index_t width, const index_t* rows, const index_t* begins, const index_t* lengths,
                 const token_t* columns, T* x) {
  cuda::restrict_rows<false>("keep_listed", count, width, rows, begins, lengths, columns, x);
}

}  // namespace attend::kernels
