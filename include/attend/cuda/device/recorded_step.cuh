#pragma once

#include <cstdint>

#include "attend/cuda/attention/attention_step.cuh"

/// What a recorded step of decoding is made of: its kernels find out on the device which step it is, because a recording is
/// repeated for one step after the other. `step` [1]: the steps done.
namespace attend::cuda {

/// See kernels::RoomRows.
template <class T>
struct RoomKeys {
  kernels::RoomRows<T> rows;
  const index_t* step;
  [[nodiscard]] __device__ int count(index_t) const { return static_cast<int>(*step) + 1; }
  [[nodiscard]] __device__ const T* at(index_t row, int j) const {
    return rows.slabs + j * rows.slab + rows.table.data[row * rows.table.stride + j] * rows.layout.stride;
  }
};

/// See add_row_at.
template <class T>
__global__ void add_row_at_kernel(index_t rows, index_t width, const T* table, const index_t* step, T* x) {
  const T* row = table + *step * width;
  for (index_t i = grid_thread(); i < rows * width; i += grid_threads())
    x[i] = static_cast<T>(static_cast<Wide<T>>(x[i]) + static_cast<Wide<T>>(row[i % width]));
}
/// See begin_table_step_at.
template <class Entry>
__global__ void begin_table_step_at_kernel(kernels::Matrix<Entry> table, const index_t* step) {
  for (index_t r = grid_thread(); r < table.rows; r += grid_threads())
    table.data[r * table.stride + *step] = static_cast<Entry>(r);
}
/// See append_at; an element is a number or a pack of them.
template <class E>
__global__ void append_at_kernel(kernels::Matrix<const E> x, const index_t* step, E* slabs, index_t slab) {
  E* const to = slabs + *step * slab;
  for (index_t i = grid_thread(); i < x.rows * x.columns; i += grid_threads())
    put(to + i, x.data[i / x.columns * x.stride + i % x.columns]);
}
/// See advance.
template <class N>
__global__ void advance_kernel(N* step) {
  if (threadIdx.x == 0) ++*step;
}

}  // namespace attend::cuda

namespace attend::kernels {

/// x[r] += table[step], rows of `width`.
template <class T>
void add_row_at(Cuda, index_t rows, index_t width, const T* table, const index_t* step, T* x) {
  if (rows == 0 || width == 0) return;
  cuda::launch("add_row_at", cuda::add_row_at_kernel<T>, cuda::blocks_for(rows * width), cuda::block_threads, 0, rows, width,
               table, step, x);
}

/// table[r, step] = r: see begin_table_step.
inline void begin_table_step_at(Cuda, Matrix<std::int32_t> table, const index_t* step) {
  if (table.rows == 0) return;
  cuda::launch("begin_table_step_at", cuda::begin_table_step_at_kernel<std::int32_t>, cuda::blocks_for(table.rows),
               cuda::block_threads, 0, table, step);
}

/// The rows of x become the first rows of slab `step`. Slabs are `slab` elements apart, their rows without gaps.
template <class T>
void append_at(Cuda, ConstMatrix<T> x, const index_t* step, T* slabs, index_t slab) {
  using cuda::Pack;
  if (x.rows == 0 || x.columns == 0) return;
  constexpr index_t V = Pack<T>::count;
  const auto run = [&]<class E>(const E* from, E* to, index_t count) {
    const index_t width = x.columns / count;
    cuda::launch("append_at", cuda::append_at_kernel<E>, cuda::blocks_for(x.rows * width), cuda::block_threads, 0,
                 Matrix<const E>{from, x.rows, width, x.stride / count}, step, to, slab / count);
  };
  if (x.columns % V == 0 && x.stride % V == 0 && slab % V == 0 && cuda::aligned(x.data, slabs))
    run(reinterpret_cast<const Pack<T>*>(x.data), reinterpret_cast<Pack<T>*>(slabs), V);
  else run(x.data, slabs, 1);
}

/// `attention_step` over the slabs 0 to `step`.
template <class T>
void attention_step_at(Cuda, const StepHeads& heads, ConstMatrix<T> q, const RoomRows<T>& keys, const index_t* step,
                       Matrix<T> out) {
  constexpr index_t V = cuda::Pack<T>::count;
  cuda::attention_step_rows(out.rows, cuda::StepSizes<T>(heads, q, keys.layout, out, keys.bias), cuda::RoomKeys<T>{keys, step},
                            keys.layout.stride % V == 0 && keys.slab % V == 0 && cuda::aligned(keys.slabs));
}

/// One step more is done.
inline void advance(Cuda, index_t* step) {
  cuda::launch("advance", cuda::advance_kernel<index_t>, 1, cuda::warp_threads, 0, step);
}

}  // namespace attend::kernels
