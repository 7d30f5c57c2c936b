#pragma once

#include <type_traits>

#include "attend/cuda/elements/elementwise.cuh"
#include "attend/kernels/matrix.hpp"

namespace attend::cuda {

/// f.value(x).
template <class F>
struct ValueOf {
  F f;
  template <class W>
  __device__ W operator()(W x) const {
    return f.value(x);
  }
};

/// dy * slope(at).
template <class Slope>
struct TimesSlope {
  Slope slope;
  template <class W>
  __device__ W operator()(W dy, W at) const {
    return dy * slope(at);
  }
};

}  // namespace attend::cuda

namespace attend::kernels {

/// y[i] = f.value(x[i]).
template <class T, class F>
void map_forward(Cuda, index_t n, const F& f, const T* x, T* y) {
  cuda::elementwise("map", n, cuda::ValueOf<F>{f}, cuda::Inputs<T, 1>{{x}}, 0, y);
}

/// dx[i] = dy[i] * slope(at[i]).
template <class T, class Slope>
void map_backward(Cuda, index_t n, const Slope& slope, const T* dy, const T* at, Gradient<T> dx) {
  cuda::elementwise("map", n, cuda::TimesSlope<Slope>{slope}, cuda::Inputs<T, 2>{{dy, at}}, Wide<T>(dx.add), dx.data);
}

}  // namespace attend::kernels
