#pragma once

#include "attend/cuda/elements/dropout.cuh"
#include "attend/cuda/rows/layer_norm.cuh"

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

/// dsum = keep * dsum + the gradient, dbranch = mask * dsum; dbranch may be null, both may.
template <class T>
struct ResidualGradient {
  T *dsum, *dbranch;
  Wide<T> keep;
  DropoutFactors<Wide<T>> mask;

  __device__ bool wanted() const { return dsum != nullptr; }
  template <int V>
  __device__ void store(index_t i, const Wide<T> (&d)[V]) const {
    Wide<T> sum[V] = {};
    if (keep != Wide<T>(0)) load_wide<V>(dsum + i, sum);
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] = keep * sum[j] + d[j];
    store_narrow<V>(dsum + i, sum);
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

/// sum = x + mask * branch,  y = layer norm of its rows; mean, rstd [rows] are kept for the backward.
template <class T>
void add_dropout_norm_forward(Cuda, const NormLayout& norm, index_t rows, const DropoutMask& mask, const T* x, const T* branch,
                              const T* gamma, const T* beta, T* sum, T* y, Wide<T>* mean, Wide<T>* rstd) {
  const cuda::ResidualInput<T> input{x, branch, sum, cuda::dropout_factors<T>(mask)};
  cuda::layer_norm_rows("add_dropout_norm", norm, rows, input, gamma, beta, y, mean, rstd, cuda::aligned(x, branch, sum));
}

/// dsum = keep * dsum + the gradient of the sum by the norm, see `layer_norm_backward`; dbranch = mask * dsum. dbranch, dgamma
/// and dbeta may be null, and dsum where dbranch is. keep is 0 (dsum need not hold anything yet) or 1.
template <class T>
void add_dropout_norm_backward(Cuda, const NormLayout& norm, index_t rows, const DropoutMask& mask, const T* dy, const T* sum,
                               const T* gamma, const Wide<T>* mean, const Wide<T>* rstd, std::type_identity_t<Wide<T>> keep,
                               T* dsum, T* dbranch, std::type_identity_t<Wide<T>> gamma_keep, T* dgamma,
                               std::type_identity_t<Wide<T>> beta_keep, T* dbeta) {
  const cuda::ResidualGradient<T> output{dsum, dbranch, keep, cuda::dropout_factors<T>(mask)};
  cuda::layer_norm_rows_backward("add_dropout_norm", norm, rows, dy, sum, gamma, mean, rstd, output, cuda::aligned(dsum, dbranch),
                                 gamma_keep, dgamma, beta_keep, dbeta);
}
/// The same where the sum has no other gradient.
template <class T>
void add_dropout_norm_backward(Cuda, const NormLayout& norm, index_t rows, const DropoutMask& mask, const T* dy, const T* sum,
                               const T* gamma, const Wide<T>* mean, const Wide<T>* rstd, T* dsum, T* dbranch,
                               std::type_identity_t<Wide<T>> gamma_keep, T* dgamma, std::type_identity_t<Wide<T>> beta_keep,
                               T* dbeta) {
  add_dropout_norm_backward(Cuda{}, norm, rows, mask, dy, sum, gamma, mean, rstd, Wide<T>(0), dsum, dbranch, gamma_keep, dgamma,
                            beta_keep, dbeta);
}

}  // namespace attend::kernels
