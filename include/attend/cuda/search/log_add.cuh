#pragma once

#include <type_traits>

#include "attend/cuda/elements/elementwise.cuh"

namespace attend::cuda {

/// log(exp(y) + exp(x + shift)).
template <class W>
struct LogAdd {
  W shift;
  __device__ W operator()(W x, W y) const {
    const W b = x + shift, most = y > b ? y : b, least = y > b ? b : y;
    return most == -infinity<W>() ? most : most + log1p(exp(least - most));
  }
};

}  // namespace attend::cuda

namespace attend::kernels {

/// y[i] = log(exp(y[i]) + exp(x[i] + shift)), whatever the size of either; that of two minus infinities is one.
template <class T>
void log_add(Cuda, index_t n, std::type_identity_t<Wide<T>> shift, const T* x, T* y) {
  cuda::elementwise("log_add", n, cuda::LogAdd<Wide<T>>{shift}, cuda::Inputs<T, 2>{{x, y}}, 0, y);
}

}  // namespace attend::kernels
