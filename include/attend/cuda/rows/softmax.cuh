#pragma once

#include <type_traits>

#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/matrix.hpp"

namespace attend::cuda {

/// A team of `threads` for a row: y = its softmax or, if `logs`, the logarithm of that. y may be x if their types are the same:
/// each thread writes what it alone has read.
template <class T, class Y, int threads, bool logs>
__global__ void softmax_kernel(index_t rows, int n, bool packs, const T* x, Y* y) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  const auto teams = static_cast<index_t>(blockDim.x) / threads;
  const index_t first = static_cast<index_t>(blockIdx.x) * teams + threadIdx.x / threads;
  for (index_t r = first; r < rows; r += static_cast<index_t>(gridDim.x) * teams) {
    const index_t begin = r * n;
    const ReadRow<T, threads> row(x, begin, n, packs);
    LogSum<W> all;
    row.for_each([&](int, const auto& v) { all.add(v); });
    all.template join<threads>(room);
    const W shift = all.shift(), factor = all.sum == W(0) ? W(0) : W(1) / all.sum;
    const W log_sum = all.sum == W(0) ? W(0) : log(all.sum);
    row.for_each([&](int c, auto& v) {
      constexpr int count = sizeof(v) / sizeof(W);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        // In two steps: shift + log_sum would lose the digits of log_sum if the shift is large.
        if constexpr (logs) v[i] = (v[i] - shift) - log_sum;
        else v[i] = exp(v[i] - shift) * factor;
      }
      store_narrow<count>(y + begin + c, v);
    });
  }
}

/// dx = the gradient of a row through its softmax y, or its logarithm y.
template <class T, int threads, bool logs>
__global__ void softmax_backward_kernel(index_t rows, int n, bool packs, const T* dy, const T* y, kernels::Gradient<T> dx) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  const auto teams = static_cast<index_t>(blockDim.x) / threads;
  const index_t first = static_cast<index_t>(blockIdx.x) * teams + threadIdx.x / threads;
  for (index_t r = first; r < rows; r += static_cast<index_t>(gridDim.x) * teams) {
    const index_t begin = r * n;
    const ReadRow<T, threads> row(dy, begin, n, packs);
    W sum(0);
    row.for_each([&](int c, const auto& d) {
      constexpr int count = sizeof(d) / sizeof(W);
      W out[count];
      if constexpr (!logs) load_wide<count>(y + begin + c, out);
#pragma unroll
      for (int i = 0; i < count; ++i) sum += logs ? d[i] : d[i] * out[i];
    });
    sum = team_sum<threads>(sum, room);
    row.for_each([&](int c, auto& d) {
      constexpr int count = sizeof(d) / sizeof(W);
      W out[count];
      load_wide<count>(y + begin + c, out);
#pragma unroll
      for (int i = 0; i < count; ++i) d[i] = logs ? d[i] - exp(out[i]) * sum : out[i] * (d[i] - sum);
      keep_and_store<count>(dx.data + begin + c, d, W(dx.add));
    });
  }
}

/// Softmax or its logarithm of each row: a warp a row if rows are short, otherwise a block.
template <bool logs, class T, class Y>
void softmax_rows(const char* operation, index_t rows, index_t n, const T* x, Y* y) {
  if (rows == 0 || n == 0) return;
  const bool packs = aligned(x, y);
  const int width = static_cast<int>(n);
  constexpr int warp = warp_threads, block = wide_row_threads, most = 32 * warp_threads;
  if (n <= most)
    launch(operation, softmax_kernel<T, Y, warp, logs>, blocks_for(rows, block_threads / warp), block_threads, 0, rows, width,
           packs, x, y);
  else launch(operation, softmax_kernel<T, Y, block, logs>, blocks_for(rows, 1), block, 0, rows, width, packs, x, y);
}
/// The backward of softmax_rows.
template <bool logs, class T>
void softmax_rows_backward(const char* operation, index_t rows, index_t n, const T* dy, const T* y, kernels::Gradient<T> dx) {
  if (rows == 0 || n == 0) return;
  const bool packs = aligned(dy, y, dx.data);
  const int width = static_cast<int>(n);
  constexpr int warp = warp_threads, block = wide_row_threads, most = 32 * warp_threads;
  if (n <= most)
    launch(operation, softmax_backward_kernel<T, warp, logs>, blocks_for(rows, block_threads / warp), block_threads, 0, rows,
           width, packs, dy, y, dx);
  else launch(operation, softmax_backward_kernel<T, block, logs>, blocks_for(rows, 1), block, 0, rows, width, packs, dy, y, dx);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// y = exp(x - max) / sum over rows of width n; a row of minus infinities gives zeros.
template <class T>
void softmax_forward(Cuda, index_t rows, index_t n, const T* x, T* y) {
  cuda::softmax_rows<false>("softmax", rows, n, x, y);
}

/// dx = y * (dy - sum(dy * y)).
template <class T>
void softmax_backward(Cuda, index_t rows, index_t n, const T* dy, const T* y, Gradient<T> dx) {
  cuda::softmax_rows_backward<false>("softmax", rows, n, dy, y, dx);
}

/// y = x - max - log(sum(exp(x - max))) over rows of width n; a row of minus infinities stays so. y may be x if their types are
/// the same; logits in bfloat16 may give log-probabilities in float.
template <class T, class Y>
void log_softmax_forward(Cuda, index_t rows, index_t n, const T* x, Y* y) {
  cuda::softmax_rows<true>("log_softmax", rows, n, x, y);
}

/// dx = dy - exp(y) * sum(dy).
template <class T>
void log_softmax_backward(Cuda, index_t rows, index_t n, const T* dy, const T* y, Gradient<T> dx) {
  cuda::softmax_rows_backward<true>("log_softmax", rows, n, dy, y, dx);
}

}  // namespace attend::kernels
