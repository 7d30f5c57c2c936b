#pragma once

#include <type_traits>

#include "attend/core/shape.hpp"
#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/sum.cuh"

namespace attend::cuda {

/// A number and where it stands.
template <class T>
struct Largest {
  T value;
  index_t at;
};

/// True if `a` comes before `b`: it is larger, or is equal and stands first. A NaN counts as the largest.
template <class T>
__device__ inline bool before(const Largest<T>& a, const Largest<T>& b) {
  const auto u = static_cast<Wide<T>>(a.value), v = static_cast<Wide<T>>(b.value);
  const bool a_none = u != u, b_none = v != v;
  if (a_none != b_none) return a_none;
  if (!a_none && u != v) return u > v;
  return a.at < b.at;
}

/// y [outer, inner]: the largest of x [outer, n, inner]. A block's threads stand `across` neighbours of inner, `team` of them to
/// an element of y, and for as many outer places as are left over.
template <class T>
__global__ void __launch_bounds__(block_threads)
    max_kernel(AroundAxis size, int across, int team, const T* x, T* y, index_t* at) {
  const index_t outer = size.outer, n = size.n, inner = size.inner;
  static __shared__ Largest<T> room[block_threads];
  const int thread = static_cast<int>(threadIdx.x), member = thread / across % team;
  const int outers = block_threads / (across * team);
  const index_t tiles = (inner + across - 1) / across;
  const index_t j = blockIdx.x % tiles * across + thread % across, o = blockIdx.x / tiles * outers + thread / (across * team);
  const bool active = j < inner && o < outer && member < n;
  Largest<T> best{};
  if (active) {
    const T* in = x + o * n * inner + j;
    best = {in[member * inner], member};
#pragma unroll 4
    for (index_t k = member + team; k < n; k += team) {
      const Largest<T> next{in[k * inner], k};
      if (before(next, best)) best = next;
    }
  }
  room[thread] = best;
  for (int half = team / 2; half > 0; half /= 2) {
    __syncthreads();
    if (active && member < half && member + half < n) {
      const Largest<T> other = room[thread + half * across];
      if (before(other, best)) room[thread] = best = other;
    }
  }
  if (active && member == 0) y[o * inner + j] = best.value, at[o * inner + j] = best.at;
}

/// dx[o, at[o, j], j] += dy[o, j].
template <class T>
__global__ void __launch_bounds__(block_threads)
    max_backward_kernel(index_t outer, index_t n, index_t inner, const T* dy, const index_t* at, T* dx) {
  for (index_t i = grid_thread(); i < outer * inner; i += grid_threads()) {
    const index_t o = i / inner, j = i - o * inner;
    T* place = dx + (o * n + at[i]) * inner + j;
    *place = static_cast<T>(static_cast<Wide<T>>(*place) + static_cast<Wide<T>>(dy[i]));
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// y [outer, inner] = the largest of x [outer, n, inner], as `size` has it, over the middle dimension, n > 0; `at`: the first
/// place where it stands. A NaN counts as the largest.
template <class T>
void max_forward(Cuda, const AroundAxis& size, const T* x, T* y, index_t* at) {
  const index_t outer = size.outer, n = size.n, inner = size.inner;
  if (outer == 0 || inner == 0) return;
  const int across = cuda::detail::power_of_two(inner, cuda::warp_threads);
  const int team = cuda::detail::power_of_two(n, cuda::block_threads / across), outers = cuda::block_threads / (across * team);
  const index_t blocks = cuda::detail::pieces(inner, across) * cuda::detail::pieces(outer, outers);
  cuda::launch("max", cuda::max_kernel<T>, static_cast<unsigned>(blocks), cuda::block_threads, 0, size, across, team, x, y, at);
}

/// dx = dy at the places `at`, nothing elsewhere.
template <class T>
void max_backward(Cuda, const AroundAxis& size, const T* dy, const index_t* at, Gradient<T> dx) {
  const index_t outer = size.outer, n = size.n, inner = size.inner;
  if (outer == 0 || inner == 0) return;
  if (!dx.add) fill(Cuda{}, outer * n * inner, T(0), dx.data);
  cuda::launch("max", cuda::max_backward_kernel<T>, cuda::blocks_for(outer * inner), cuda::block_threads, 0, outer, n, inner, dy,
               at, dx.data);
}

}  // namespace attend::kernels
