#pragma once

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/layer_norm.hpp"

/// The sums over rows that the gradients of gamma and beta are: first of parts of the rows, then of the parts, in an order that
/// never changes.
namespace attend::cuda {

/// The sums of dy * xhat and of dy over every gridDim.y-th row, a thread a column. partial [gridDim.y, 2, n].
template <class T>
__global__ void layer_norm_affine_long_kernel(index_t n, index_t rows, const T* dy, const T* x, kernels::NormStatistics<T> kept,
                                              Wide<T>* partial) {
  using W = Wide<T>;
  const index_t c = grid_thread();
  if (c >= n) return;
  W gamma_sum(0), beta_sum(0);
  for (index_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const W d = static_cast<W>(dy[row * n + c]);
    gamma_sum += d * (static_cast<W>(x[row * n + c]) - kept.mean[row]) * kept.rstd[row];
    beta_sum += d;
  }
  W* to = partial + static_cast<index_t>(blockIdx.y) * 2 * n + c;
  to[0] = gamma_sum;
  to[n] = beta_sum;
}

/// Threads of a block that adds up parts.
inline constexpr int column_sum_threads = 512;

/// The sums over the parts of partial [parts, 2, n], column by column: dgamma in the blocks with blockIdx.y 0, dbeta in the
/// others.
template <class T>
__global__ void column_sums_kernel(index_t parts, index_t n, const Wide<T>* partial, kernels::Gradient<T> dgamma,
                                   kernels::Gradient<T> dbeta) {
  using W = Wide<T>;
  constexpr int warps = column_sum_threads / warp_threads;
  static __shared__ W room[warps][warp_threads];
  const auto [out, add] = blockIdx.y == 0 ? dgamma : dbeta;
  const index_t column = static_cast<index_t>(blockIdx.x) * warp_threads + lane();
  W sum[1] = {W(0)};
  if (out != nullptr && column < n) {
    const W* from = partial + blockIdx.y * n + column;
#pragma unroll 8
    for (index_t p = warp(); p < parts; p += warps) sum[0] += from[p * 2 * n];
  }
  room[warp()][lane()] = sum[0];
  __syncthreads();
  if (warp() > 0 || out == nullptr || column >= n) return;
  for (int w = 1; w < warps; ++w) sum[0] += room[w][lane()];
  keep_and_store<1>(out + column, sum, W(add));
}
/// The same for one gamma and one beta for all columns: columns [2, n] are the sums of each.
template <class T>
__global__ void scalar_sums_kernel(index_t n, const Wide<T>* columns, kernels::Gradient<T> dgamma, kernels::Gradient<T> dbeta) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  const auto [out, add] = blockIdx.x == 0 ? dgamma : dbeta;
  W sum(0);
  if (out != nullptr)
    for (index_t c = threadIdx.x; c < n; c += blockDim.x) sum += columns[blockIdx.x * n + c];
  const W total[1] = {block_sum(sum, room)};
  if (threadIdx.x == 0 && out != nullptr) keep_and_store<1>(out, total, W(add));
}

/// dgamma and dbeta from `parts` sums for each column: partial [parts, 2, width], the sums of dy * xhat and those of dy.
template <class T>
void layer_norm_affine(const char* operation, const NormLayout& norm, index_t parts, const Wide<T>* partial,
                       kernels::Gradient<T> dgamma, kernels::Gradient<T> dbeta) {
  using W = Wide<T>;
  const index_t n = norm.width;
  const dim3 grid(static_cast<unsigned>((n + warp_threads - 1) / warp_threads), 2);
  if (!norm.scalar_affine) {
    if (n > 0) launch(operation, column_sums_kernel<T>, grid, column_sum_threads, 0, parts, n, partial, dgamma, dbeta);
    return;
  }
  const Buffer<W> columns(2 * n);
  if (n > 0)
    launch(operation, column_sums_kernel<W>, grid, column_sum_threads, 0, parts, n, partial, kernels::Gradient<W>{columns.data()},
           kernels::Gradient<W>{columns.data() + n});
  launch(operation, scalar_sums_kernel<T>, 2u, block_threads, 0, n, columns.data(), dgamma, dbeta);
}

}  // namespace attend::cuda
