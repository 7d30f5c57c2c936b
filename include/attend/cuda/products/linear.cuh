#pragma once

#include "attend/cuda/device/device.cuh"
#include "attend/cuda/elements/basic.cuh"
#include "attend/cuda/elements/map.cuh"
#include "attend/cuda/products/gemm.cuh"

namespace attend::kernels {

/// y [rows, out] = x [rows, in] * weight^T + bias; weight is [out, in], bias [out] or null.
template <class T>
void linear_forward(Cuda, ConstMatrix<T> x, ConstMatrix<T> weight, const T* bias, Matrix<T> y) {
  using W = Wide<T>;
  if (y.rows == 0 || y.columns == 0) return;
  if (bias && x.columns > 0) {
    cuda::Product p(x, weight.transpose(), y);
    p.epilogue = cuda::Epilogue::bias;
    p.bias = const_cast<T*>(bias);
    if (cuda::Products::instance().run<T>(p, W(1), x.data, weight.data, W(0), y.data)) return;
  }
  gemm(Cuda{}, x, weight.transpose(), y);
  if (bias)
    cuda::launch("linear", cuda::add_bias_kernel<T>, cuda::blocks_for(y.rows * y.columns), cuda::block_threads, 0, y, bias);
}

/// dx = dy * weight, added to dx if `add`.
template <class T>
void linear_backward_input(Cuda, ConstMatrix<T> dy, ConstMatrix<T> weight, Matrix<T> dx, bool add) {
  gemm(Cuda{}, dy, weight, dx, {.add = add});
}

/// dweight = dy^T * x, over all rows at once, added to dweight if `add`.
template <class T>
void linear_backward_weight(Cuda, ConstMatrix<T> dy, ConstMatrix<T> x, Matrix<T> dweight, bool add) {
  gemm(Cuda{}, dy.transpose(), x, dweight, {.add = add});
}

/// dbias = the sum of dy's rows.
template <class T>
void linear_backward_bias(Cuda, ConstMatrix<T> dy, Gradient<T> dbias) {
  sum_rows(Cuda{}, dy, dbias);
}

/// Both. (On an H100 cuBLASLt's product that sums up dy on the way runs a kernel of its own for that, too, and a slower one.)
template <class T>
void linear_backward_weight_bias(Cuda, ConstMatrix<T> dy, ConstMatrix<T> x, Matrix<T> dweight, bool add, Gradient<T> dbias) {
  linear_backward_weight(Cuda{}, dy, x, dweight, add);
  linear_backward_bias(Cuda{}, dy, dbias);
}

/// From row to row of what GELU was applied to, which its gradient needs: cuBLASLt wants whole packs of eight.
inline index_t activation_input_stride(Cuda, index_t out) { return (out + 7) / 8 * 8; }

/// y = activation(x * weight^T + bias), the activation ReLU or the approximate GELU; `inputs`, if not null, receives what
/// GELU is applied to, rows as far apart as `activation_input_stride` says. False, with nothing done, if there is no such
/// product, or if it is not to be used: see `fuses_activations`. GELU's is used for bfloat16 alone: cuBLASLt does not document
/// how exact its hyperbolic tangent is, and the device's own instruction for it has 11 bits, which is more than bfloat16 stores
/// and less than float.
template <class T>
bool linear_activation_forward(Cuda, ConstMatrix<T> x, ConstMatrix<T> weight, const T* bias, bool gelu, Matrix<T> y, T* inputs) {
  using W = Wide<T>;
  if (y.rows == 0 || x.columns == 0 || y.columns == 0 || std::is_same_v<T, double>) return false;
  if (!cuda::fuses_activations() || (gelu && !std::is_same_v<T, bfloat16>)) return false;
  cuda::Product p(x, weight.transpose(), y);
  p.epilogue = gelu ? cuda::Epilogue::gelu_bias : cuda::Epilogue::relu_bias;
  p.bias = const_cast<T*>(bias);
  if (gelu && inputs) p.aux = inputs, p.aux_stride = activation_input_stride(Cuda{}, y.columns);
  return cuda::Products::instance().run<T>(p, W(1), x.data, weight.data, W(0), y.data);
}

}  // namespace attend::kernels

namespace attend::cuda {

/// Terms of `sum_columns`: f(x, a), which also becomes x, so that one pass does both. Each place is visited once.
template <class T, class F>
struct InPlaceTerms {
  using Number = T;
  static constexpr int ahead = 2;
  F f;
  T* x;
  const T* a;

  __device__ Wide<T> one(const Place& at) const {
    x[at.y] = value(x[at.y], a[at.a]);
    return static_cast<Wide<T>>(x[at.y]);
  }
  struct Loaded {
    Pack<T> x, a;
    T* to;
  };
  __device__ Loaded load(const Place& at, bool, bool) const { return {load_pack(x + at.y), load_pack(a + at.a), x + at.y}; }
  template <int n>
  __device__ void add(const Loaded& in, Wide<T> (&sums)[n]) const {
    Pack<T> y;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      y.x[j] = value(in.x.x[j], in.a.x[j]);
      sums[j] += static_cast<Wide<T>>(y.x[j]);
    }
    store_pack(in.to, y);
  }
  [[nodiscard]] bool packs(bool, bool) const { return aligned(x, a); }

 private:
  __device__ T value(T u, T v) const { return static_cast<T>(f(static_cast<Wide<T>>(u), static_cast<Wide<T>>(v))); }
};

}  // namespace attend::cuda

namespace attend::kernels {

/// The way back through a layer and the activation before it:  dx = (dy * weight) * slope(at),  dbias = the sums of dx's columns.
/// `at` is what the slope is a function of. (cuBLASLt's products with an activation's gradient run a second kernel on an H100,
/// too, and a slower one.)
template <class T, class Slope>
void linear_backward_input_activation(Cuda, ConstMatrix<T> dy, ConstMatrix<T> weight, const Slope& slope, ConstMatrix<T> at,
                                      Matrix<T> dx, T* dbias) {
  linear_backward_input(Cuda{}, dy, weight, dx, false);
  cuda::Walk rows;
  rows.append(dx.rows, cuda::Place{dx.stride, at.stride, 0});
  const cuda::InPlaceTerms<T, cuda::TimesSlope<Slope>> terms{{slope}, dx.data, at.data};
  cuda::sum_columns("feed_forward", terms, cuda::SumOver{cuda::Walk{}, rows, dx.columns}, Gradient<T>{dbias});
}

}  // namespace attend::kernels
