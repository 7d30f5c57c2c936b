#pragma once

#include <cstdint>
#include <type_traits>

#include "attend/cuda/elements/elementwise.cuh"
#include "attend/kernels/dropout.hpp"

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

/// y[i] = keep * y[i] + mask * x[i], mask = `scale` where word i of the stream is at least `threshold`, otherwise 0: the CPU's
/// mask. keep is 0 (y need not hold anything yet; it may be x) or 1. The backward is the same function, from dy to dx.
template <class T>
void dropout_apply(Cuda, index_t n, const Generator::Stream& stream, std::uint32_t threshold, std::type_identity_t<Wide<T>> scale,
                   const T* x, std::type_identity_t<Wide<T>> keep, T* y) {
  const cuda::DropoutFactors<Wide<T>> factors{cuda::random_stream(stream), threshold, scale};
  cuda::elementwise("dropout", n, factors, cuda::Masked{}, cuda::Inputs<T, 1>{{x}}, keep, y);
}

}  // namespace attend::kernels
