#pragma once

#include <cstddef>
#include <type_traits>

#include "attend/core/broadcast.hpp"
#include "attend/cuda/elements/broadcast.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/walk.cuh"

namespace attend::cuda {

/// y = x, or y += x if `add`, for `n` packs of which a row has `packs`; without x, x counts as 0.
template <int count, class T>
__global__ void __launch_bounds__(block_threads)
    copy_runs_kernel(index_t n, index_t packs, kernels::Matrix<const T> x, kernels::Matrix<T> y, bool add) {
  for (index_t p = grid_thread(); p < n; p += grid_threads()) {
    const index_t o = p / packs, i = (p - o * packs) * count;
    Wide<T> v[count] = {};
    if (x.data) load_values(x.data + o * x.stride + i, v);
    add_values(Wide<T>(add), y.data + o * y.stride + i, v);
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

/// y = x, transposed tile by tile, so that both are read and written along their rows.
template <class T>
__global__ void __launch_bounds__(block_threads) transpose_kernel(Transposition t, const T* x, kernels::Gradient<T> y) {
  constexpr int side = tile_side<T>, rows = block_threads / side;
  constexpr int room = side + (sizeof(T) == 2 ? 2 : 1);  // so that a column's elements lie in different banks
  static __shared__ T tile[side][room];
  const int across = static_cast<int>(threadIdx.x) % side, first = static_cast<int>(threadIdx.x) / side;
  const index_t j0 = blockIdx.x % t.tiles_n * side, i0 = blockIdx.x / t.tiles_n % t.tiles_m * side;
  const Place at = t.outer.at(blockIdx.x / (t.tiles_n * t.tiles_m));
  const T* in = x + at.a + i0 + j0 * t.x_step;
  T* out = y.data + at.y + i0 * t.y_step + j0;
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
        add_values(Wide<T>(y.add), out + i * t.y_step + across, v);
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

/// Copies the rows of x to those of y, 16 bytes at a time if they allow it; x without data stands for zeros.
template <class T>
void launch_runs(const char* operation, kernels::Matrix<const T> x, kernels::Matrix<T> y, bool add) {
  constexpr int count = Pack<T>::count;
  index_t outer = y.rows, length = y.columns;
  if (outer == 0 || length == 0) return;
  if (outer == 1 || (length == y.stride && (x.data == nullptr || length == x.stride)))
    length *= outer, outer = 1, x.stride = y.stride = 0;
  const bool good = length % count == 0 && x.stride % count == 0 && y.stride % count == 0 && aligned(x.data, y.data);
  const index_t packs = good ? length / count : length, n = outer * packs;
  launch(operation, good ? copy_runs_kernel<count, T> : copy_runs_kernel<1, T>, blocks_for(n), block_threads, 0, n, packs, x, y,
         add);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// y = x, or y += x if `add`. Neither is transposed.
template <class T>
void copy_runs(Cuda, ConstMatrix<T> x, Matrix<T> y, bool add = false) {
  cuda::launch_runs<T>("copy_runs", x, y, add);
}

/// y = 0.
template <class T>
void clear_runs(Cuda, Matrix<T> y) {
  cuda::launch_runs<T>("clear_runs", {}, y, false);
}

/// y = x with x's dimensions in another order: `s.size` are those of y, `s.a` x's strides along them.
template <class T>
void permute_copy(Cuda, const Strides& s, const T* x, Gradient<T> y) {
  if (s.count() == 0) return;
  const cuda::Walk walk = cuda::walk_of(s);
  const int inner = walk.rank - 1;
  int along = inner;  // y's dimension along which x is consecutive
  for (int d = 0; d < inner; ++d)
    if (walk.step[d].a == 1) along = d;
  if (along == inner) return cuda::broadcast("permute", s, cuda::Same{}, cuda::Inputs<T, 1>{{x}}, y);
  constexpr int side = cuda::tile_side<T>;
  cuda::Transposition t;
  t.m = walk.size[along], t.n = walk.size[inner];
  t.y_step = walk.step[along].y, t.x_step = walk.step[inner].a;
  t.tiles_m = (t.m + side - 1) / side, t.tiles_n = (t.n + side - 1) / side;
  for (int d = 0; d < inner; ++d)
    if (d != along) t.outer.append(walk.size[d], walk.step[d]);
  const index_t blocks = t.outer.count * t.tiles_m * t.tiles_n;
  cuda::launch("permute", cuda::transpose_kernel<T>, static_cast<unsigned>(blocks), cuda::block_threads, 0, t, x, y);
}

}  // namespace attend::kernels
