#pragma once

#include <cstddef>
#include <type_traits>

#include "attend/core/broadcast.hpp"
#include "attend/cuda/elements/broadcast.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/walk.cuh"

namespace attend::cuda {

/// y[o * y_step + i] = keep * itself + x[o * x_step + i] for `outer` runs of `packs` packs; without x, 0.
template <int count, class T>
__global__ void __launch_bounds__(block_threads)
    copy_runs_kernel(index_t n, index_t packs, const T* x, index_t x_step, Wide<T> keep, T* y, index_t y_step) {
  for (index_t p = grid_thread(); p < n; p += grid_threads()) {
    const index_t o = p / packs, i = (p - o * packs) * count;
    Wide<T> v[count] = {};
    if (x) load_values(x + o * x_step + i, v);
    add_values(keep, y + o * y_step + i, v);
  }
}

/// A permutation seen as transpositions: of matrices [m, n] in y that are [n, m] in x.
struct Transposition {
  Walk outer;            ///< over the matrices
  index_t m = 0, n = 0;  ///< rows and columns in y
  index_t y_step = 0;    ///< from row to row in y
  index_t x_step = 0;    ///< from row to row in x
  index_t tiles_m, tiles_n;
};

/// Side of the tiles that go through shared memory: a row of one is a cache line, or half of one.
template <class T>
inline constexpr int tile_side = sizeof(T) == 2 ? 64 : 32;

/// y = keep * y + x, transposed tile by tile, so that both are read and written along their rows.
template <class T>
__global__ void __launch_bounds__(block_threads) transpose_kernel(Transposition t, const T* x, Wide<T> keep, T* y) {
  constexpr int side = tile_side<T>, rows = block_threads / side;
  constexpr int room = side + (sizeof(T) == 2 ? 2 : 1);  // so that a column's elements lie in different banks
  static __shared__ T tile[side][room];
  const int across = static_cast<int>(threadIdx.x) % side, first = static_cast<int>(threadIdx.x) / side;
  const index_t j0 = blockIdx.x % t.tiles_n * side, i0 = blockIdx.x / t.tiles_n % t.tiles_m * side;
  const Place at = t.outer.at(blockIdx.x / (t.tiles_n * t.tiles_m));
  const T* in = x + at.a + i0 + j0 * t.x_step;
  T* out = y + at.y + i0 * t.y_step + j0;
  const int m = static_cast<int>(t.m - i0 < side ? t.m - i0 : side), n = static_cast<int>(t.n - j0 < side ? t.n - j0 : side);
  if (across < m) {
#pragma unroll
    for (int j = first; j < side; j += rows)
      if (j < n) tile[j][across] = in[j * t.x_step + across];
  }
  __syncthreads();
  if (across < n) {
#pragma unroll
    for (int i = first; i < side; i += rows)
      if (i < m) {
        Wide<T> v[1] = {static_cast<Wide<T>>(tile[across][i])};
        add_values(keep, out + i * t.y_step + across, v);
      }
  }
}

/// x itself.
struct Same {
  template <class W>
  __device__ W operator()(W x) const {
    return x;
  }
};

/// Copies `outer` runs of `length` elements, these steps apart, 16 bytes at a time where that fits; a null x stands for zeros.
template <class T>
void launch_runs(const char* operation, index_t outer, index_t length, const T* x, index_t x_step, Wide<T> keep, T* y,
                 index_t y_step) {
  constexpr int count = Pack<T>::count;
  if (outer == 0 || length == 0) return;
  if (outer == 1 || (length == y_step && (x == nullptr || length == x_step))) length *= outer, outer = 1, x_step = y_step = 0;
  const bool good = length % count == 0 && x_step % count == 0 && y_step % count == 0 && aligned(x, y);
  const index_t packs = good ? length / count : length, n = outer * packs;
  launch(operation, good ? copy_runs_kernel<count, T> : copy_runs_kernel<1, T>, blocks_for(n), block_threads, 0, n, packs, x,
         x_step, keep, y, y_step);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// `outer` runs of `length` consecutive elements: y = keep * y + x, the runs x_step and y_step elements apart; keep is 0 (y need
/// not hold anything yet) or 1.
template <class T>
void copy_runs(Cuda, index_t outer, index_t length, const T* x, index_t x_step, std::type_identity_t<Wide<T>> keep, T* y,
               index_t y_step) {
  cuda::launch_runs("copy_runs", outer, length, x, x_step, keep, y, y_step);
}

/// `outer` runs of zeros, `step` elements apart.
template <class T>
void clear_runs(Cuda, index_t outer, index_t length, T* y, index_t step) {
  cuda::launch_runs<T>("clear_runs", outer, length, nullptr, 0, Wide<T>(0), y, step);
}

/// y = keep * y + x with x's dimensions in another order: `s.size` are those of y, `s.a` x's strides along them.
template <class T>
void permute_copy(Cuda, const Strides& s, const T* x, std::type_identity_t<Wide<T>> keep, T* y) {
  if (s.count() == 0) return;
  const cuda::Walk walk = cuda::walk_of(s);
  const int inner = walk.rank - 1;
  int along = inner;  // y's dimension along which x is consecutive
  for (int d = 0; d < inner; ++d)
    if (walk.step[d].a == 1) along = d;
  if (along == inner) return cuda::broadcast("permute", s, cuda::Same{}, cuda::Inputs<T, 1>{{x}}, keep, y);
  constexpr int side = cuda::tile_side<T>;
  cuda::Transposition t;
  t.m = walk.size[along], t.n = walk.size[inner];
  t.y_step = walk.step[along].y, t.x_step = walk.step[inner].a;
  t.tiles_m = (t.m + side - 1) / side, t.tiles_n = (t.n + side - 1) / side;
  for (int d = 0; d < inner; ++d)
    if (d != along) t.outer.append(walk.size[d], walk.step[d]);
  const index_t blocks = t.outer.count * t.tiles_m * t.tiles_n;
  cuda::launch("permute", cuda::transpose_kernel<T>, static_cast<unsigned>(blocks), cuda::block_threads, 0, t, x, keep, y);
}

}  // namespace attend::kernels
