#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "attend/core/shape.hpp"
#include "attend/core/types.hpp"
#include "attend/cuda/device/device.cuh"
#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/device/memory.cuh"

/// Positions sorted by the token that stands there: a radix sort, eight bits at a time from the lowest on, which keeps the order
/// of the positions of one token.
namespace attend::cuda {

inline constexpr int sort_rounds = 4;  ///< elements that a thread takes
/// Threads of the block that adds up the counts.
inline constexpr int scan_threads = 1024;

/// What a pass reads: at first the tokens, where all outside the vocabulary count as its size; then what the last pass wrote.
struct SortInput {
  const token_t* tokens;
  index_t vocabulary;
  const std::uint32_t* keys;
  const std::int32_t* positions;

  __device__ std::uint32_t key(index_t i) const {
    if (keys) return keys[i];
    const token_t token = tokens[i];
    return static_cast<std::uint32_t>(token < 0 || token >= vocabulary ? vocabulary : token);
  }
  __device__ std::int32_t position(index_t i) const { return positions ? positions[i] : static_cast<std::int32_t>(i); }
};

/// counts[digit, block] = how many keys of the block's tile have this digit. A block has as many threads as there are digits.
template <int bits>
__global__ void sort_count_kernel(index_t n, int shift, SortInput in, std::int32_t* counts) {
  constexpr int bins = 1 << bits;
  static __shared__ int count[bins];
  const int thread = static_cast<int>(threadIdx.x);
  count[thread] = 0;
  __syncthreads();
  for (int round = 0; round < sort_rounds; ++round) {
    const index_t i = (static_cast<index_t>(blockIdx.x) * sort_rounds + round) * bins + thread;
    if (i < n) atomicAdd(&count[(in.key(i) >> shift) % bins], 1);
  }
  __syncthreads();
  counts[static_cast<index_t>(thread) * gridDim.x + blockIdx.x] = count[thread];
}

/// Each count becomes the sum of those before it. One block.
template <class Count>
__global__ void __launch_bounds__(scan_threads) sort_scan_kernel(index_t n, Count* counts) {
  static __shared__ Count room[warp_threads];
  const index_t each = (n + scan_threads - 1) / scan_threads, begin = each * threadIdx.x;
  const index_t end = begin + each < n ? begin + each : n;
  Count sum = 0;
#pragma unroll 4
  for (index_t i = begin; i < end; ++i) sum += counts[i];
  Count through = sum;  // the sum over the lanes up to this one
  for (int step = 1; step < warp_threads; step *= 2) {
    const Count other = __shfl_up_sync(all_lanes, through, step);
    if (lane() >= step) through += other;
  }
  if (lane() == warp_threads - 1) room[warp()] = through;
  __syncthreads();
  Count before = through - sum;
  for (int w = 0; w < warp(); ++w) before += room[w];
  for (index_t i = begin; i < end; ++i) {
    const Count count = counts[i];
    counts[i] = before;
    before += count;
  }
}

/// Writes each key and position where it belongs by the digit: after those of smaller digits, and after those of the same digit
/// that stood before it. first[digit, block]: where the block's keys of this digit begin.
template <int bits>
__global__ void sort_scatter_kernel(index_t n, int shift, SortInput in, const std::int32_t* first, std::uint32_t* keys,
                                    std::int32_t* positions) {
  constexpr int bins = 1 << bits, warps = bins / warp_threads;
  static __shared__ int next[bins], count[warps][bins];
  const int thread = static_cast<int>(threadIdx.x);
  next[thread] = first[static_cast<index_t>(thread) * gridDim.x + blockIdx.x];
  for (int round = 0; round < sort_rounds; ++round) {
    for (int bin = lane(); bin < bins; bin += warp_threads) count[warp()][bin] = 0;
    const index_t i = (static_cast<index_t>(blockIdx.x) * sort_rounds + round) * bins + thread;
    const std::uint32_t key = i < n ? in.key(i) : 0;
    const int digit = static_cast<int>((key >> shift) % bins);
    unsigned peers = __ballot_sync(all_lanes, i < n);  // the lanes with the same digit
    for (int bit = 0; bit < bits; ++bit) {
      const bool set = (digit >> bit) % 2 != 0;
      const unsigned votes = __ballot_sync(all_lanes, set);
      peers &= set ? votes : ~votes;
    }
    const int rank = __popc(peers & ((1u << lane()) - 1));
    __syncwarp();
    if (i < n && rank == 0) count[warp()][digit] = __popc(peers);
    __syncthreads();
    if (i < n) {
      int to = next[digit] + rank;
      for (int w = 0; w < warp(); ++w) to += count[w][digit];
      keys[to] = key;
      positions[to] = in.position(i);
    }
    __syncthreads();
    for (int w = 0; w < warps; ++w) next[thread] += count[w][thread];
    __syncthreads();
  }
}

/// The tokens of n positions in rising order, those outside the vocabulary last and as its size; the positions of one token rise.
struct SortedTokens {
  Buffer<std::uint32_t> keys;
  Buffer<std::int32_t> positions;
};

/// Sorts without waiting. Throws ValueError if there are too many positions for 32 bits. n > 0.
inline SortedTokens sort_tokens(const char* operation, index_t n, index_t vocabulary, const token_t* tokens) {
  constexpr int bits = 8, bins = 1 << bits, tile = bins * sort_rounds;
  check_value(n <= INT32_MAX, operation, n, " tokens on the device, at most 2^31 - 1");
  const index_t tiles = (n + tile - 1) / tile;
  const auto blocks = static_cast<unsigned>(tiles);
  const Buffer<std::int32_t> counts(bins * tiles);
  SortedTokens from, to;
  for (int shift = 0; shift == 0 || vocabulary >> shift != 0; shift += bits) {  // the largest key is `vocabulary`
    const SortInput in{tokens, vocabulary, from.keys.data(), from.positions.data()};
    if (!to.keys.data()) to = {Buffer<std::uint32_t>(n), Buffer<std::int32_t>(n)};
    launch(operation, sort_count_kernel<bits>, blocks, bins, 0, n, shift, in, counts.data());
    launch(operation, sort_scan_kernel<std::int32_t>, 1, scan_threads, 0, bins * tiles, counts.data());
    launch(operation, sort_scatter_kernel<bits>, blocks, bins, 0, n, shift, in, counts.data(), to.keys.data(),
           to.positions.data());
    std::swap(from, to);
  }
  return from;
}

}  // namespace attend::cuda
