#pragma once

#include <type_traits>

#include "attend/cuda/elements/dropout.cuh"
#include "attend/cuda/elements/map.cuh"
#include "attend/kernels/matrix.hpp"

namespace attend::cuda {

/// m * f.value(x).
template <class F>
struct MaskedValueOf {
  F f;
  template <class W>
  __device__ W operator()(W m, W x) const {
    return m * static_cast<W>(f.value(x));
  }
};

/// m * dy * slope(x).
template <class Slope>
struct MaskedTimesSlope {
  Slope slope;
  template <class W>
  __device__ W operator()(W m, W dy, W x) const {
    return m * dy * slope(x);
  }
};

}  // namespace attend::cuda

namespace attend::kernels {

/// y[i] = mask * f.value(x[i]).
template <class T, class F>
void map_dropout_forward(Cuda, index_t n, const F& f, const DropoutMask& mask, const T* x, T* y) {
  if (mask.threshold == 0) return map_forward(Cuda{}, n, f, x, y);
  cuda::elementwise("map_dropout", n, cuda::MaskedFunction{cuda::dropout_factors<T>(mask), cuda::MaskedValueOf<F>{f}},
                    cuda::Inputs<T, 1>{{x}}, 0, y);
}

/// dx[i] = mask * dy[i] * slope(x[i]).
template <class T, class Slope>
void map_dropout_backward(Cuda, index_t n, const Slope& slope, const DropoutMask& mask, const T* dy, const T* x, Gradient<T> dx) {
  if (mask.threshold == 0) return map_backward(Cuda{}, n, slope, dy, x, dx);
  cuda::elementwise("map_dropout", n, cuda::MaskedFunction{cuda::dropout_factors<T>(mask), cuda::MaskedTimesSlope<Slope>{slope}},
                    cuda::Inputs<T, 2>{{dy, x}}, Wide<T>(dx.add), dx.data);
}

}  // namespace attend::kernels
