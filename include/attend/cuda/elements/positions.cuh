#pragma once

#include <type_traits>

#include "attend/core/segments.hpp"
#include "attend/cuda/device/segments.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/sum.cuh"

namespace attend::cuda {

/// y = x + table for a sentence a block column: block b takes part b % parts of sentence b / parts.
template <int count, class T>
__global__ void __launch_bounds__(block_threads)
    add_positions_kernel(SegmentTables segments, index_t parts, index_t width, const T* x, const T* table, T* y) {
  const index_t s = blockIdx.x / parts, n = segments.length[s] * width, first = segments.begin[s] * width;
  const index_t i = ((blockIdx.x - s * parts) * block_threads + threadIdx.x) * count;
  if (i >= n) return;
  Wide<T> a[count], b[count];
  load_values(x + first + i, a);
  load_values(table + i, b);
#pragma unroll
  for (int j = 0; j < count; ++j) a[j] += b[j];
  store_values(y + first + i, a);
}

/// Warps of a block.
inline constexpr int position_teams = block_threads / warp_threads;

/// dtable = the sum over the sentences of dy at each position, which is 0 beyond the first `reached` elements of the table. Each
/// lane takes `count` elements of the table, each warp of a block every eighth sentence.
template <int count, class T>
__global__ void __launch_bounds__(block_threads, 3)
    positions_backward_kernel(SegmentTables segments, index_t sentences, index_t width, index_t reached, index_t size,
                              const T* dy, kernels::Gradient<T> dtable) {
  using W = Wide<T>;
  // No sentence has the positions of this block.
  if (static_cast<index_t>(blockIdx.x) * warp_threads * count >= reached) sentences = 0;
  constexpr int ahead = 4;  // sentences that are read before the first is used
  static __shared__ W room[position_teams][warp_threads * count];
  const int own = lane() * count, team = warp();
  const index_t i = static_cast<index_t>(blockIdx.x) * warp_threads * count + own;
  W sum[count] = {};
  for (index_t first = team; first < sentences; first += ahead * position_teams) {
    // A sentence that is too short is read from the beginning of dy, for nothing: so there is no branch between the reads.
    bool there[ahead];
    index_t from[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const index_t s = first + k * position_teams, at = s < sentences ? s : 0;
      there[k] = s < sentences && i < segments.length[at] * width;
      from[k] = there[k] ? segments.begin[at] * width + i : 0;
    }
    W v[ahead][count];
#pragma unroll
    for (int k = 0; k < ahead; ++k) load_values(dy + from[k], v[k]);
#pragma unroll
    for (int k = 0; k < ahead; ++k)
#pragma unroll
      for (int j = 0; j < count; ++j) sum[j] += there[k] ? v[k][j] : W(0);
  }
#pragma unroll
  for (int j = 0; j < count; ++j) room[team][own + j] = sum[j];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < warp_threads * count; c += block_threads) {
    W all[1] = {};
#pragma unroll
    for (int k = 0; k < position_teams; ++k) all[0] += room[k][c];
    const index_t to = static_cast<index_t>(blockIdx.x) * warp_threads * count + c;
    if (to < size) add_values(W(dtable.add), dtable.data + to, all);
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// y = x + table[position]; positions count from 0 in each sentence. x, y [rows, width]; y may be x.
template <class T>
void add_positions_forward(Cuda, const Segments& segments, index_t width, const T* x, const T* table, T* y) {
  constexpr int pack = cuda::Pack<T>::count;
  const index_t most = segments.longest() * width;
  if (segments.count() == 0 || most == 0) return;
  const bool good = width % pack == 0 && cuda::aligned(x, table, y);
  const index_t parts = cuda::detail::pieces(most, index_t{cuda::block_threads} * (good ? pack : 1));
  cuda::launch("add_positions", good ? cuda::add_positions_kernel<pack, T> : cuda::add_positions_kernel<1, T>,
               static_cast<unsigned>(segments.count() * parts), cuda::block_threads, 0, cuda::tables(segments), parts, width, x,
               table, y);
}

/// dtable = the sum over the sentences of dy at each position; `size`: elements of dtable.
template <class T>
void add_positions_backward_table(Cuda, const Segments& segments, index_t width, index_t size, const T* dy, Gradient<T> dtable) {
  constexpr int pack = cuda::Pack<T>::count;
  if (size == 0) return;
  const index_t sentences = segments.longest() == 0 ? 0 : segments.count();  // without any row there is nothing to read
  const bool good = width % pack == 0 && cuda::aligned(dy);
  const index_t blocks = cuda::detail::pieces(size, index_t{cuda::warp_threads} * (good ? pack : 1));
  cuda::launch("add_positions", good ? cuda::positions_backward_kernel<pack, T> : cuda::positions_backward_kernel<1, T>,
               static_cast<unsigned>(blocks), cuda::block_threads, 0, cuda::tables(segments), sentences, width,
               segments.longest() * width, size, dy, dtable);
}

}  // namespace attend::kernels
