#pragma once

#include <cstdint>

#include "attend/cuda/attention/attention_step.cuh"

/// What a recorded step of decoding is made of: its kernels find out on the device which step it is, because a recording is
/// repeated for one step after the other. `step` [1]: the steps done.
namespace attend::cuda {

/// Keys in slabs that stand one after the other, of which a table says in which row of each slab a prefix went on.
template <class T>
struct RoomKeys {
  const T* slabs;
  const std::int32_t* table;
  index_t table_stride, slab_stride, row_stride;
  const index_t* step;
  [[nodiscard]] __device__ int count(index_t) const { return static_cast<int>(*step) + 1; }
  [[nodiscard]] __device__ const T* at(index_t row, int j) const {
    return slabs + j * slab_stride + table[row * table_stride + j] * row_stride;
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
__global__ void begin_table_step_at_kernel(index_t rows, const index_t* step, Entry* table, index_t stride) {
  for (index_t r = grid_thread(); r < rows; r += grid_threads()) table[r * stride + *step] = static_cast<Entry>(r);
}
/// See append_at; an element is a number or a pack of them.
template <class E>
__global__ void append_at_kernel(index_t rows, index_t width, const E* x, index_t stride, const index_t* step, E* slabs,
                                 index_t slab_stride) {
  E* const slab = slabs + *step * slab_stride;
  for (index_t i = grid_thread(); i < rows * width; i += grid_threads()) put(slab + i, x[i / width * stride + i % width]);
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
inline void begin_table_step_at(Cuda, index_t rows, const index_t* step, std::int32_t* table, index_t stride) {
  if (rows == 0) return;
  cuda::launch("begin_table_step_at", cuda::begin_table_step_at_kernel<std::int32_t>, cuda::blocks_for(rows), cuda::block_threads,
               0, rows, step, table, stride);
}

/// The rows x [rows, width], `stride` elements apart, become the first rows of slab `step`.
template <class T>
void append_at(Cuda, index_t rows, index_t width, const T* x, index_t stride, const index_t* step, T* slabs,
               index_t slab_stride) {
  using cuda::Pack;
  if (rows == 0 || width == 0) return;
  constexpr index_t V = Pack<T>::count;
  const auto run = [&](auto kernel, index_t count, const auto* from, auto* to) {
    cuda::launch("append_at", kernel, cuda::blocks_for(rows * width / count), cuda::block_threads, 0, rows, width / count, from,
                 stride / count, step, to, slab_stride / count);
  };
  if (width % V == 0 && stride % V == 0 && slab_stride % V == 0 && cuda::aligned(x, slabs))
    run(cuda::append_at_kernel<Pack<T>>, V, reinterpret_cast<const Pack<T>*>(x), reinterpret_cast<Pack<T>*>(slabs));
  else run(cuda::append_at_kernel<T>, 1, x, slabs);
}

/// `attention_step` over the slabs 0 to `step`, slab_stride elements apart, with rows of `row_stride` elements: the keys of all
/// heads and then their values.
template <class T>
void attention_step_at(Cuda, index_t rows, index_t heads, index_t d_k, index_t d_v, const index_t* step, double scale, const T* q,
                       index_t q_stride, const T* slabs, index_t slab_stride, index_t row_stride, const std::int32_t* table,
                       index_t table_stride, T* out, index_t out_stride) {
  const auto sizes = cuda::step_sizes(heads, d_k, d_v, scale, q, q_stride, index_t{0}, heads * d_k, out, out_stride);
  const cuda::RoomKeys<T> keys{slabs, table, table_stride, slab_stride, row_stride, step};
  constexpr index_t V = cuda::Pack<T>::count;
  cuda::attention_step_rows(rows, sizes, keys, row_stride % V == 0 && slab_stride % V == 0 && cuda::aligned(slabs));
}

/// One step more is done.
inline void advance(Cuda, index_t* step) {
  cuda::launch("advance", cuda::advance_kernel<index_t>, 1, cuda::warp_threads, 0, step);
}

}  // namespace attend::kernels
