#pragma once

#include "attend/cuda/elements/dropout.cuh"

namespace attend::cuda {

/// x + m * branch.
struct AddMasked {
  template <class W>
  __device__ W operator()(W m, W x, W branch) const {
    return x + m * branch;
  }
};

/// x + branch.
struct Plus {
  template <class W>
  __device__ W operator()(W x, W branch) const {
    return x + branch;
  }
};

}  // namespace attend::cuda

namespace attend::kernels {

/// y[i] = x[i] + mask * branch[i]. y may be x.
template <class T>
void add_dropout_forward(Cuda, index_t n, const DropoutMask& mask, const T* x, const T* branch, T* y) {
  const cuda::Inputs<T, 2> in{{x, branch}};
  if (mask.threshold == 0) cuda::elementwise("add_dropout", n, cuda::Plus{}, in, 0, y);
  else cuda::elementwise("add_dropout", n, cuda::MaskedFunction{cuda::dropout_factors<T>(mask), cuda::AddMasked{}}, in, 0, y);
}

}  // namespace attend::kernels
