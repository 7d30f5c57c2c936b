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

/// Both at once: the bias's gradient is summed up while the product reads dy.
template <class T>
void linear_backward_weight_bias(Cuda, ConstMatrix<T> dy, ConstMatrix<T> x, Matrix<T> dweight, bool add, Gradient<T> dbias) {
  using W = Wide<T>;
  if (dy.rows > 0 && dweight.rows > 0 && dweight.columns > 0) {
    const cuda::Buffer<T> sums(dbias.add ? dy.columns : 0);  // the product overwrites
    cuda::Product p(dy.transpose(), x, dweight);
    p.epilogue = cuda::Epilogue::bias_gradient;
    p.bias = dbias.add ? sums.data() : dbias.data;
    if (cuda::Products::instance().run<T>(p, W(1), dy.data, x.data, W(add), dweight.data)) {
      if (dbias.add) add_into(Cuda{}, dy.columns, sums.data(), dbias.data);
      return;
    }
  }
  linear_backward_weight(Cuda{}, dy, x, dweight, add);
  linear_backward_bias(Cuda{}, dy, dbias);
}

/// Bytes of what the gradient of an activation needs, of a product with `rows` rows of `out` numbers.
template <class T>
index_t activation_bytes(Cuda, index_t rows, index_t out, bool gelu) {
  const index_t stride = cuda::aux_stride(!gelu, out);
  return rows * (gelu ? stride * static_cast<index_t>(sizeof(T)) : stride / 8);
}

/// y = activation(x * weight^T + bias), the activation ReLU or the approximate GELU; `aux`, if not null, receives what its
/// gradient needs. False, with nothing done, if there is no such product, or if it is not to be used: see `fuses_activations`.
/// GELU's is used for bfloat16 alone: cuBLASLt does not document how exact its hyperbolic tangent is, and the device's own
/// instruction for it has 11 bits, which is more than bfloat16 stores and less than float.
template <class T>
bool linear_activation_forward(Cuda, ConstMatrix<T> x, ConstMatrix<T> weight, const T* bias, bool gelu, Matrix<T> y, void* aux) {
  using W = Wide<T>;
  if (y.rows == 0 || x.columns == 0 || y.columns == 0 || std::is_same_v<T, double>) return false;
  if (!cuda::fuses_activations() || (gelu && !std::is_same_v<T, bfloat16>)) return false;
  cuda::Product p(x, weight.transpose(), y);
  p.epilogue = gelu ? cuda::Epilogue::gelu_bias : cuda::Epilogue::relu_bias;
  p.bias = const_cast<T*>(bias);
  p.aux_stride = aux ? cuda::aux_stride(!gelu, y.columns) : 0;
  p.aux = aux;
  return cuda::Products::instance().run<T>(p, W(1), x.data, weight.data, W(0), y.data);
}

}  // namespace attend::kernels

namespace attend::cuda {

/// dx[i] = slope(...) * dx[i] for an activation whose output y, or (with an input, then it is GELU) whose input is known.
template <class T>
__global__ void activation_gradient_kernel(index_t rows, index_t width, const T* y, kernels::Matrix<const T> input, T* dx) {
  using W = Wide<T>;
  for (index_t i = grid_thread(); i < rows * width; i += grid_threads()) {
    W slope = static_cast<W>(y[i]) > W(0) ? W(1) : W(0);
    if (input.data) {
      const W x = static_cast<W>(input.data[i / width * input.stride + i % width]);
      const W t = cuda::tanh(W(0.79788456080286535588) * (x + W(0.044715) * x * x * x));
      slope = W(0.5) * (W(1) + t) + W(0.5) * x * (W(1) - t * t) * W(0.79788456080286535588) * (W(1) + W(3 * 0.044715) * x * x);
    }
    dx[i] = static_cast<T>(slope * static_cast<W>(dx[i]));
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// What `linear_activation_forward` left: its y, without gaps between its rows, and `aux`.
template <class T>
struct KeptActivation {
  bool gelu = false;
  const T* y = nullptr;
  const void* aux = nullptr;
};

/// dx [rows, in] = (dy * weight) * slope of that activation,  dbias [in] = the sums of dx's columns. dx has no gaps between its
/// rows.
template <class T>
void linear_backward_input_activation(Cuda, ConstMatrix<T> dy, ConstMatrix<T> weight, const KeptActivation<T>& kept, Matrix<T> dx,
                                      T* dbias) {
  using W = Wide<T>;
  const bool gelu = kept.gelu;
  const index_t rows = dx.rows, in = dx.columns, stride = cuda::aux_stride(!gelu, in);
  cuda::Product p(dy, weight, dx);
  p.epilogue = gelu ? cuda::Epilogue::gelu_gradient_bias : cuda::Epilogue::relu_gradient_bias;
  p.bias = dbias;
  p.aux_stride = stride;
  p.aux = const_cast<void*>(kept.aux);
  if (cuda::Products::instance().run<T>(p, W(1), dy.data, weight.data, W(0), dx.data)) return;
  linear_backward_input(Cuda{}, dy, weight, dx, false);
  cuda::launch("feed_forward", cuda::activation_gradient_kernel<T>, cuda::blocks_for(rows * in), cuda::block_threads, 0, rows, in,
               kept.y, Matrix<const T>{gelu ? static_cast<const T*>(kept.aux) : nullptr, rows, in, stride}, dx.data);
  linear_backward_bias(Cuda{}, dx, Gradient{dbias});
}

}  // namespace attend::kernels
