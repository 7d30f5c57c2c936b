#pragma once

#include "attend/cuda/device/device.cuh"
#include "attend/cuda/elements/basic.cuh"
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

/// Numbers of what the gradient of an activation needs besides the activation's values, of a product with `rows` rows of `out`
/// numbers: none for ReLU, for GELU what it was applied to.
inline index_t activation_inputs(Cuda, index_t rows, index_t out, bool gelu) {
  return gelu ? rows * cuda::activation_input_stride(out) : 0;
}

/// y = activation(x * weight^T + bias), the activation ReLU or the approximate GELU; `inputs`, if not null, receives what the
/// gradient of GELU needs. False, with nothing done, if there is no such product, or if it is not to be used: see
/// `fuses_activations`. GELU's is used for bfloat16 alone: cuBLASLt does not document how exact its hyperbolic tangent is, and
/// the device's own instruction for it has 11 bits, which is more than bfloat16 stores and less than float.
template <class T>
bool linear_activation_forward(Cuda, ConstMatrix<T> x, ConstMatrix<T> weight, const T* bias, bool gelu, Matrix<T> y, T* inputs) {
  using W = Wide<T>;
  if (y.rows == 0 || x.columns == 0 || y.columns == 0 || std::is_same_v<T, double>) return false;
  if (!cuda::fuses_activations() || (gelu && !std::is_same_v<T, bfloat16>)) return false;
  cuda::Product p(x, weight.transpose(), y);
  p.epilogue = gelu ? cuda::Epilogue::gelu_bias : cuda::Epilogue::relu_bias;
  p.bias = const_cast<T*>(bias);
  if (gelu && inputs) p.aux = inputs, p.aux_stride = cuda::activation_input_stride(y.columns);
  return cuda::Products::instance().run<T>(p, W(1), x.data, weight.data, W(0), y.data);
}

}  // namespace attend::kernels

namespace attend::cuda {

/// The slope of ReLU where its value is y.
template <class T>
struct ReluSlope {
  const T* y;
  using Loaded = Pack<T>;
  [[nodiscard]] __device__ Wide<T> one(index_t i, index_t) const { return slope(y[i]); }
  [[nodiscard]] __device__ Loaded load(index_t i, index_t) const { return load_pack(y + i); }
  [[nodiscard]] __device__ static Wide<T> slope(T value) {
    return static_cast<Wide<T>>(value) > Wide<T>(0) ? Wide<T>(1) : Wide<T>(0);
  }
  [[nodiscard]] bool packs() const { return aligned(y); }
};
/// That of the approximate GELU where it was applied to x, whose rows lie further apart.
template <class T>
struct GeluSlope {
  const T* x;
  using Loaded = Pack<T>;
  [[nodiscard]] __device__ Wide<T> one(index_t, index_t i) const { return slope(x[i]); }
  [[nodiscard]] __device__ Loaded load(index_t, index_t i) const { return load_pack(x + i); }
  [[nodiscard]] __device__ static Wide<T> slope(T value) {
    using W = Wide<T>;
    const W v = static_cast<W>(value), t = cuda::tanh(W(0.79788456080286535588) * (v + W(0.044715) * v * v * v));
    return W(0.5) * (W(1) + t) + W(0.5) * v * (W(1) - t * t) * W(0.79788456080286535588) * (W(1) + W(3 * 0.044715) * v * v);
  }
  [[nodiscard]] bool packs() const { return aligned(x); }
};

/// Terms of `sum_columns`: dx * slope, which also becomes dx, so that one pass does both. Each place is visited once.
template <class T, class Slope>
struct ActivationTerms {
  using Number = T;
  static constexpr int ahead = 2;
  T* dx;
  Slope slope;

  __device__ Wide<T> one(const Place& at) const {
    dx[at.y] = static_cast<T>(slope.one(at.y, at.a) * static_cast<Wide<T>>(dx[at.y]));
    return static_cast<Wide<T>>(dx[at.y]);
  }
  struct Loaded {
    Pack<T> dx;
    typename Slope::Loaded from;
    T* to;
  };
  __device__ Loaded load(const Place& at, bool, bool) const { return {load_pack(dx + at.y), slope.load(at.y, at.a), dx + at.y}; }
  template <int n>
  __device__ void add(const Loaded& in, Wide<T> (&sums)[n]) const {
    Pack<T> product;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      product.x[j] = static_cast<T>(Slope::slope(in.from.x[j]) * static_cast<Wide<T>>(in.dx.x[j]));
      sums[j] += static_cast<Wide<T>>(product.x[j]);
    }
    store_pack(in.to, product);
  }
  [[nodiscard]] bool packs(bool, bool) const { return aligned(dx) && slope.packs(); }
};

/// dx = dx * slope,  dbias = the sums of dx's columns. `stride`: from row to row of what the slope follows from, if not dx's own.
template <class T, class Slope>
void multiply_by_slope(const Slope& slope, index_t stride, const kernels::Matrix<T>& dx, T* dbias) {
  Walk rows;
  rows.append(dx.rows, Place{dx.columns, stride, 0});
  const ActivationTerms<T, Slope> terms{dx.data, slope};
  sum_columns("feed_forward", terms, SumOver{Walk{}, rows, dx.columns}, kernels::Gradient<T>{dbias});
}

}  // namespace attend::cuda

namespace attend::kernels {

/// What `linear_activation_forward` left: its y, without gaps between its rows, and for GELU its inputs.
template <class T>
struct KeptActivation {
  bool gelu = false;
  const T* y = nullptr;
  const T* inputs = nullptr;
};

/// dx [rows, in] = (dy * weight) * slope of that activation,  dbias [in] = the sums of dx's columns. dx has no gaps between its
/// rows. (cuBLASLt's products with an activation's gradient run a second kernel on an H100, too, and a slower one.)
template <class T>
void linear_backward_input_activation(Cuda, ConstMatrix<T> dy, ConstMatrix<T> weight, const KeptActivation<T>& kept, Matrix<T> dx,
                                      T* dbias) {
  linear_backward_input(Cuda{}, dy, weight, dx, false);
  if (kept.gelu) cuda::multiply_by_slope(cuda::GeluSlope<T>{kept.inputs}, cuda::activation_input_stride(dx.columns), dx, dbias);
  else cuda::multiply_by_slope(cuda::ReluSlope<T>{kept.y}, index_t{0}, dx, dbias);
}

}  // namespace attend::kernels
