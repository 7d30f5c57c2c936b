#pragma once

#include "attend/cuda/device/device.cuh"
#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/device/segments.cuh"
#include "attend/kernels/attention.hpp"

/// Where kernels find the weights of a sentence among those of a batch.
namespace attend::cuda {

/// Threads of the one block.
inline constexpr int weight_offset_threads = 256;

/// offsets[s] = heads * the sum of queries * keys over the sentences before s: an AttentionLayout's weight_offset, computed from
/// the tables on the device, since the host does not know what a room holds (see Segments::room). One block.
template <class Offset>
__global__ void __launch_bounds__(weight_offset_threads)
    weight_offsets_kernel(int sentences, int heads, SegmentTables queries, SegmentTables keys, Offset* offsets) {
  static __shared__ Offset room[warp_threads];
  const int each = (sentences + weight_offset_threads - 1) / weight_offset_threads;
  const int begin = min(each * static_cast<int>(threadIdx.x), sentences), end = min(begin + each, sentences);
  const auto size = [&](int s) { return static_cast<Offset>(heads) * queries.length[s] * keys.keys[s]; };
  Offset sum = 0;
  for (int s = begin; s < end; ++s) sum += size(s);
  Offset through = sum;  // the sum over the lanes up to this one
  for (int step = 1; step < warp_threads; step *= 2) {
    const Offset other = __shfl_up_sync(all_lanes, through, step);
    if (lane() >= step) through += other;
  }
  if (lane() == warp_threads - 1) room[warp()] = through;
  __syncthreads();
  Offset before = through - sum;
  for (int w = 0; w < warp(); ++w) before += room[w];
  for (int s = begin; s < end; ++s) {
    offsets[s] = before;
    before += size(s);
  }
}

/// Those offsets, [sentences], made on the device: nothing is uploaded, so that a graph can hold it.
inline Buffer<index_t> weight_offsets(const AttentionLayout& a) {
  const index_t sentences = a.queries.count();
  Buffer<index_t> offsets(sentences);
  if (sentences > 0)
    launch("attention", weight_offsets_kernel<index_t>, 1, weight_offset_threads, 0, static_cast<int>(sentences),
           static_cast<int>(a.heads), tables(a.queries), tables(a.keys), offsets.data());
  return offsets;
}

}  // namespace attend::cuda
