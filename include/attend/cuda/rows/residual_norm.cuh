#pragma once

#include "attend/cuda/elements/dropout.cuh"
#include "attend/cuda/rows/layer_norm.cuh"
#include "attend/kernels/residual.hpp"

namespace attend::cuda {

/// m = the factors of elements i to i + V of a dropout. i is a multiple of V.
template <int V, class W>
__device__ void mask_factors(const DropoutFactors<W>& mask, index_t i, W (&m)[V]) {
  if constexpr (V % 4 == 0) {
    mask.factors(i, m);
  } else {
    const uint4 words = mask.random.words(static_cast<std::uint64_t>(i / 4));
    const int at = static_cast<int>(i % 4);
    const auto pick = [&](int j) { return j == 0 ? words.x : j == 1 ? words.y : j == 2 ? words.z : words.w; };
#pragma unroll
    for (int j = 0; j < V; ++j) m[j] = mask.factor(pick(at + j));
  }
}

/// Gives the rows of sum = x + mask * branch, which it writes: what the norm sees is what the backward will read.
template <class T>
struct ResidualInput {
  const T *x, *branch;
  T* sum;
  DropoutFactors<Wide<T>> mask;

  template <int V>
  struct Fetched {
    Piece<T, V> x, branch;
  };
  template <int V>
  __device__ void fetch(index_t i, Fetched<V>& fetched) const {
    fetched.x.load(x + i);
    fetched.branch.load(branch + i);
  }
  template <int V>
  __device__ void finish(index_t i, const Fetched<V>& fetched, Wide<T> (&v)[V]) const {
    Wide<T> m[V];
    if (mask.threshold != 0) mask_factors<V>(mask, i, m);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Wide<T> b = mask.threshold != 0 ? m[j] * fetched.branch[j] : fetched.branch[j];
      v[j] = static_cast<Wide<T>>(static_cast<T>(fetched.x[j] + b));
    }
    store_narrow<V>(sum + i, v);
  }
  [[nodiscard]] __device__ Wide<T> again(index_t i) const { return static_cast<Wide<T>>(sum[i]); }
};

/// Takes the gradient of the sum, and dbranch = mask * it; dbranch may be null, both may.
template <class T>
struct ResidualOutput {
  kernels::Gradient<T> dsum;
  T* dbranch;
  DropoutFactors<Wide<T>> mask;

  __device__ bool wanted() const { return dsum.data != nullptr; }
  template <int V>
  __device__ void store(index_t i, const Wide<T> (&d)[V]) const {
    Wide<T> sum[V] = {};
    if (dsum.add) load_wide<V>(dsum.data + i, sum);
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] += d[j];
    store_narrow<V>(dsum.data + i, sum);
    if (dbranch == nullptr) return;
    Wide<T> m[V];
    mask_factors<V>(mask, i, m);
#pragma unroll
    for (int j = 0; j < V; ++j) m[j] *= static_cast<Wide<T>>(static_cast<T>(sum[j]));
    store_narrow<V>(dbranch + i, m);
  }
};

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's.
template <class T>
void add_dropout_norm_forward(Cuda, const NormOfRows<T>& norm, const ResidualSum<T>& in, T* y, NormStatistics<T> kept) {
  const cuda::ResidualInput<T> input{in.x, in.branch, in.sum, cuda::dropout_factors<T>(in.mask)};
  cuda::layer_norm_rows("add_dropout_norm", norm, input, y, kept, cuda::aligned(in.x, in.branch, in.sum));
}

/// See the CPU's.
template <class T>
void add_dropout_norm_backward(Cuda, const NormOfRows<T>& norm, const T* dy, const T* sum, NormStatistics<T> kept,
                               const ResidualGradients<T>& gradients) {
  const NormGradients<T>& of_norm = gradients.norm;
  const cuda::ResidualOutput<T> output{of_norm.x, gradients.branch, cuda::dropout_factors<T>(gradients.mask)};
  cuda::layer_norm_rows_backward("add_dropout_norm", norm, {dy, sum, kept}, output,
                                 cuda::aligned(of_norm.x.data, gradients.branch), of_norm);
}

}  // namespace attend::kernels
