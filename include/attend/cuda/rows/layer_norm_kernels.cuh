#pragma once

#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/layer_norm.hpp"

/// The kernels of layer norm, also of that which adds and drops out first: `Input` gives a row's numbers, `Output` takes those of
/// its gradient.
namespace attend::cuda {

using kernels::Gradient;
using kernels::NormOfRows;
using kernels::NormStatistics;

/// The rows of a tensor as they are.
template <class T>
struct NormInput {
  const T* x;

  /// V elements on their way: all that a thread wants of a row is asked for before the first of it is used.
  template <int V>
  struct Fetched {
    Piece<T, V> x;
  };
  /// Fetches elements i to i + V of the tensor.
  template <int V>
  __device__ void fetch(index_t i, Fetched<V>& fetched) const {
    fetched.x.load(x + i);
  }
  /// v = those elements.
  template <int V>
  __device__ void finish(index_t, const Fetched<V>& fetched, Wide<T> (&v)[V]) const {
#pragma unroll
    for (int j = 0; j < V; ++j) v[j] = fetched.x[j];
  }
  /// An element again, for the thread that has finished it before.
  [[nodiscard]] __device__ Wide<T> again(index_t i) const { return static_cast<Wide<T>>(x[i]); }
};
/// Takes the gradient of the rows.
template <class T>
struct NormOutput {
  Gradient<T> dx;
  __device__ bool wanted() const { return dx.data != nullptr; }
  template <int V>
  __device__ void store(index_t i, const Wide<T> (&d)[V]) const {
    keep_and_store<V>(dx.data + i, d, Wide<T>(dx.add));
  }
};

/// v = gamma or beta from column c; zeros if there is none.
template <int V, class T>
__device__ void load_affine(const T* affine, bool scalar, int c, Wide<T> (&v)[V]) {
  if (affine != nullptr && !scalar) return load_wide<V>(affine + c, v);
  const auto all = affine != nullptr ? static_cast<Wide<T>>(affine[0]) : Wide<T>(0);
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = all;
}
/// A row's mean, which is 0 for a root mean square norm.
template <class W>
__device__ W norm_mean(const NormLayout& norm, W sum) {
  return norm.kind == NormKind::rms ? W(0) : sum / static_cast<W>(norm.width);
}
/// rstd from the sum of the squared differences from the mean.
template <class W>
__device__ W norm_rstd(const NormLayout& norm, W squares) {
  const auto n = static_cast<W>(norm.width), eps = static_cast<W>(norm.eps);
  return norm.sample_deviation ? W(1) / (sqrt(squares / (n - W(1))) + eps) : W(1) / sqrt(squares / n + eps);
}
/// What xhat is multiplied by in dx; see layer_norm_backward.
template <class W>
__device__ W norm_factor(const NormLayout& norm, W g_xhat, W rstd) {
  const auto n = static_cast<W>(norm.width);
  if (!norm.sample_deviation) return g_xhat / n;
  const W deviation = W(1) / rstd - static_cast<W>(norm.eps);
  return deviation > W(0) ? g_xhat / ((n - W(1)) * deviation * rstd) : W(0);
}

/// The most values of a row that a thread holds.
template <class T>
inline constexpr int norm_values = 128 / static_cast<int>(sizeof(Wide<T>));

/// A team of `threads` for a row of up to P packs a thread, which it holds in registers. Rows are whole packs.
template <class T, int P, int threads, class Input>
__global__ void __launch_bounds__(block_threads, 2)
    layer_norm_kernel(NormOfRows<T> of, Input input, T* y, NormStatistics<T> kept) {
  using W = Wide<T>;
  const NormLayout& norm = of.layout;
  static __shared__ W room[warp_threads];
  constexpr int V = Pack<T>::count, teams = block_threads / threads;
  const int n = static_cast<int>(norm.width), thread = static_cast<int>(threadIdx.x) % threads;
  const index_t step = static_cast<index_t>(gridDim.x) * teams;
  for (index_t row = static_cast<index_t>(blockIdx.x) * teams + threadIdx.x / threads; row < of.rows; row += step) {
    typename Input::template Fetched<V> fetched[P];
    W x[P][V], sum(0), squares(0);
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int c = (p * threads + thread) * V; c < n) input.fetch(row * n + c, fetched[p]);
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int c = (p * threads + thread) * V; c < n) {
        input.finish(row * n + c, fetched[p], x[p]);
#pragma unroll
        for (int i = 0; i < V; ++i) sum += x[p][i];
      }
    const W m = norm_mean(norm, team_sum<threads>(sum, room));
    // Two passes: the sum of squares minus the squared mean loses all digits if the mean is large.
#pragma unroll
    for (int p = 0; p < P; ++p)
      if ((p * threads + thread) * V < n)
#pragma unroll
        for (int i = 0; i < V; ++i) squares += (x[p][i] - m) * (x[p][i] - m);
    const W s = norm_rstd(norm, team_sum<threads>(squares, room));
    if (thread == 0) kept.mean[row] = m, kept.rstd[row] = s;
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int c = (p * threads + thread) * V; c < n) {
        W g[V], b[V];
        load_affine<V>(of.gamma, norm.scalar_affine, c, g);
        load_affine<V>(of.beta, norm.scalar_affine, c, b);
#pragma unroll
        for (int i = 0; i < V; ++i) x[p][i] = (x[p][i] - m) * s * g[i] + b[i];
        store_narrow<V>(y + row * n + c, x[p]);
      }
  }
}

/// A block for a row of any width and place.
template <class T, class Input>
__global__ void layer_norm_long_kernel(NormOfRows<T> of, Input input, T* y, NormStatistics<T> kept) {
  using W = Wide<T>;
  const NormLayout& norm = of.layout;
  static __shared__ W room[warp_threads];
  const index_t n = norm.width;
  for (index_t row = blockIdx.x; row < of.rows; row += gridDim.x) {
    W sum(0), squares(0);
    for (index_t c = threadIdx.x; c < n; c += blockDim.x) {
      typename Input::template Fetched<1> fetched;
      W x[1];
      input.fetch(row * n + c, fetched);
      input.finish(row * n + c, fetched, x);
      sum += x[0];
    }
    const W m = norm_mean(norm, block_sum(sum, room));
    for (index_t c = threadIdx.x; c < n; c += blockDim.x) {
      const W difference = input.again(row * n + c) - m;
      squares += difference * difference;
    }
    const W s = norm_rstd(norm, block_sum(squares, room));
    if (threadIdx.x == 0) kept.mean[row] = m, kept.rstd[row] = s;
    for (index_t c = threadIdx.x; c < n; c += blockDim.x) {
      const index_t a = norm.scalar_affine ? 0 : c;
      const W b = of.beta != nullptr ? static_cast<W>(of.beta[a]) : W(0);
      y[row * n + c] = static_cast<T>((input.again(row * n + c) - m) * s * static_cast<W>(of.gamma[a]) + b);
    }
  }
}

/// A team for a row at a time, of up to P packs a thread. Each thread adds up dy * xhat and dy of its columns over all rows that
/// its team gets; partial [gridDim.x, 2, width], which may be null, takes the sums of each block.
template <class T, int P, int threads, class Output>
__global__ void __launch_bounds__(block_threads)
    layer_norm_backward_kernel(NormOfRows<T> of, const T* dy, const T* x, NormStatistics<T> kept, Output output,
                               Wide<T>* partial) {
  using W = Wide<T>;
  const NormLayout& norm = of.layout;
  constexpr int V = Pack<T>::count, teams = block_threads / threads, values = V * P;
  static __shared__ W room[2 * warp_threads];
  const int n = static_cast<int>(norm.width), thread = static_cast<int>(threadIdx.x) % threads;
  const index_t step = static_cast<index_t>(gridDim.x) * teams;
  W gamma_sums[values] = {}, beta_sums[values] = {};
  for (index_t row = static_cast<index_t>(blockIdx.x) * teams + threadIdx.x / threads; row < of.rows; row += step) {
    Piece<T, V> in[P], dout[P];
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int c = (p * threads + thread) * V; c < n) {
        in[p].load(x + row * n + c);
        dout[p].load(dy + row * n + c);
      }
    const W m = kept.mean[row], s = kept.rstd[row];
    W g_sum(0), g_xhat(0);
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int c = (p * threads + thread) * V; c < n) {
        W g[V];
        load_affine<V>(of.gamma, norm.scalar_affine, c, g);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const W xhat = (in[p][i] - m) * s, d = dout[p][i];
          g_sum += d * g[i];
          g_xhat += d * g[i] * xhat;
          gamma_sums[p * V + i] += d * xhat;
          beta_sums[p * V + i] += d;
        }
      }
    if (!output.wanted()) continue;  // all threads or none
    team_sums<threads>(g_sum, g_xhat, room);
    const W g_mean = norm_mean(norm, g_sum), factor = norm_factor(norm, g_xhat, s);
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int c = (p * threads + thread) * V; c < n) {
        W g[V];
        load_affine<V>(of.gamma, norm.scalar_affine, c, g);
#pragma unroll
        for (int i = 0; i < V; ++i) g[i] = s * (dout[p][i] * g[i] - g_mean - (in[p][i] - m) * s * factor);
        output.template store<V>(row * n + c, g);
      }
  }
  if (partial == nullptr) return;  // all threads or none
  W* to = partial + static_cast<index_t>(blockIdx.x) * 2 * n;
  if constexpr (teams == 1) {
#pragma unroll
    for (int p = 0; p < P; ++p)
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (const int c = (p * threads + thread) * V + i; c < n) to[c] = gamma_sums[p * V + i], to[n + c] = beta_sums[p * V + i];
  } else {
    // One team after the other adds its sums; column (p * threads + thread) * V + i stands where no two threads of a warp meet.
    static __shared__ W sums[2][values][threads];
    for (int team = 0; team < teams; ++team) {
      if (static_cast<int>(threadIdx.x) / threads == team) {
#pragma unroll
        for (int v = 0; v < values; ++v) {
          sums[0][v][thread] = team == 0 ? gamma_sums[v] : sums[0][v][thread] + gamma_sums[v];
          sums[1][v][thread] = team == 0 ? beta_sums[v] : sums[1][v][thread] + beta_sums[v];
        }
      }
      __syncthreads();
    }
    for (int c = static_cast<int>(threadIdx.x); c < n; c += block_threads) {
      const int v = c / (threads * V) * V + c % V, owner = c / V % threads;
      to[c] = sums[0][v][owner];
      to[n + c] = sums[1][v][owner];
    }
  }
}

/// A block for a row of any width and place: dx alone.
template <class T, class Output>
__global__ void layer_norm_backward_long_kernel(NormOfRows<T> of, const T* dy, const T* x, NormStatistics<T> kept,
                                                Output output) {
  using W = Wide<T>;
  const NormLayout& norm = of.layout;
  static __shared__ W room[2 * warp_threads];
  const index_t n = norm.width;
  if (!output.wanted()) return;  // all threads or none
  for (index_t row = blockIdx.x; row < of.rows; row += gridDim.x) {
    const W m = kept.mean[row], s = kept.rstd[row];
    const auto g = [&](index_t c) {
      return static_cast<W>(dy[row * n + c]) * static_cast<W>(of.gamma[norm.scalar_affine ? 0 : c]);
    };
    const auto xhat = [&](index_t c) { return (static_cast<W>(x[row * n + c]) - m) * s; };
    W g_sum(0), g_xhat(0);
    for (index_t c = threadIdx.x; c < n; c += blockDim.x) g_sum += g(c), g_xhat += g(c) * xhat(c);
    team_sums<block_threads>(g_sum, g_xhat, room);
    const W g_mean = norm_mean(norm, g_sum), factor = norm_factor(norm, g_xhat, s);
    for (index_t c = threadIdx.x; c < n; c += blockDim.x) {
      const W d[1] = {s * (g(c) - g_mean - xhat(c) * factor)};
      output.template store<1>(row * n + c, d);
    }
  }
}

}  // namespace attend::cuda
