#pragma once

#include <cstdint>
#include <type_traits>

#include "attend/cuda/elements/elementwise.cuh"
#include "attend/kernels/dropout.hpp"
#include "attend/kernels/matrix.hpp"

namespace attend::cuda {

/// A factor and what it multiplies.
struct Masked {
  template <class W>
  __device__ W operator()(W m, W x) const {
    return m * x;
  }
};

/// The factors of a mask for arrays of T.
template <class T>
DropoutFactors<Wide<T>> dropout_factors(const DropoutMask& mask) {
  return {random_stream(mask.stream), mask.threshold, static_cast<Wide<T>>(mask.scale)};
}

}  // namespace attend::cuda

namespace attend::kernels {

/// y[i] = mask * x[i], mask = `scale` if word i of the stream is at least `threshold`, otherwise 0: the CPU's mask. y may be x if
/// nothing is added. The backward is the same function, from dy to dx.
template <class T>
void dropout_apply(Cuda, index_t n, const DropoutMask& mask, const T* x, Gradient<T> y) {
  cuda::elementwise("dropout", n, cuda::MaskedFunction{cuda::dropout_factors<T>(mask), cuda::Masked{}}, cuda::Inputs<T, 1>{{x}},
                    Wide<T>(y.add), y.data);
}

}  // namespace attend::kernels
