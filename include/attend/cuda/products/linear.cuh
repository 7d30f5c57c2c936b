#pragma once

#include "attend/cuda/device/device.cuh"
#include "attend/cuda/elements/basic.cuh"
#include "attend/cuda/products/gemm.cuh"

namespace attend::kernels {

/// y [rows, out] = x [rows, in] * weight^T + bias; weight is [out, in], bias [out] or null.
template <class T>
void linear_forward(Cuda, index_t rows, index_t in, index_t out, const T* x, const T* weight, const T* bias, T* y) {
  using W = Wide<T>;
  if (rows == 0 || out == 0) return;
  if (bias && in > 0) {
    cuda::Product p = cuda::whole_product(false, true, rows, out, in);
    p.epilogue = cuda::Epilogue::bias;
    p.bias = const_cast<T*>(bias);
    if (cuda::Products::instance().run<T>(p, W(1), x, weight, W(0), y)) return;
  }
  gemm(Cuda{}, false, true, rows, out, in, W(1), x, in, weight, in, W(0), y, out);
  if (bias)
    cuda::launch("linear", cuda::add_bias_kernel<T>, cuda::blocks_for(rows * out), cuda::block_threads, 0, rows, out, bias, y);
}

/// dx = keep * dx + dy * weight.
template <class T>
void linear_backward_input(Cuda, index_t rows, index_t in, index_t out, const T* dy, const T* weight,
                           std::type_identity_t<Wide<T>> keep, T* dx) {
  gemm(Cuda{}, false, false, rows, in, out, Wide<T>(1), dy, out, weight, in, keep, dx, in);
}

/// dweight = keep * dweight + dy^T * x, over all rows at once.
template <class T>
void linear_backward_weight(Cuda, index_t rows, index_t in, index_t out, const T* dy, const T* x,
                            std::type_identity_t<Wide<T>> keep, T* dweight) {
  gemm(Cuda{}, true, false, out, in, rows, Wide<T>(1), dy, out, x, in, keep, dweight, in);
}

/// dbias = keep * dbias + the sum of dy's rows.
template <class T>
void linear_backward_bias(Cuda, index_t rows, index_t out, const T* dy, std::type_identity_t<Wide<T>> keep, T* dbias) {
  sum_rows(Cuda{}, rows, out, dy, out, keep, dbias);
}

/// Both at once: the bias's gradient is summed up while the product reads dy.
template <class T>
void linear_backward_weight_bias(Cuda, index_t rows, index_t in, index_t out, const T* dy, const T* x,
                                 std::type_identity_t<Wide<T>> keep, T* dweight, std::type_identity_t<Wide<T>> bias_keep,
                                 T* dbias) {
  using W = Wide<T>;
  if (rows > 0 && in > 0 && out > 0) {
    const cuda::Buffer<T> sums(bias_keep == W(0) ? 0 : out);  // the product overwrites
    cuda::Product p = cuda::whole_product(true, false, out, in, rows);
    p.epilogue = cuda::Epilogue::bias_gradient;
    p.bias = bias_keep == W(0) ? dbias : sums.data();
    if (cuda::Products::instance().run<T>(p, W(1), dy, x, keep, dweight)) {
      if (bias_keep != W(0)) add_into(Cuda{}, out, sums.data(), dbias);
      return;
    }
  }
  linear_backward_weight(Cuda{}, rows, in, out, dy, x, keep, dweight);
  linear_backward_bias(Cuda{}, rows, out, dy, bias_keep, dbias);
}

/// Bytes of what the gradient of an activation needs, of a product with `rows` rows of `out` numbers.
template <class T>
index_t activation_bytes(Cuda, index_t rows, index_t out, bool gelu) {
  const index_t stride = cuda::aux_stride(!gelu, out);
  return rows * (gelu ? stride * static_cast<index_t>(sizeof(T)) : stride / 8);
}

/// y = activation(x * weight^T + bias), the activation ReLU or the approximate GELU; `aux`, if not null, receives what its
/// gradient needs. False, with nothing done, if there is no such product, or where it is not to be used: see
/// `fuses_activations`. GELU's is used for bfloat16 alone: cuBLASLt says nothing of how exact its hyperbolic tangent is, and the
/// device's own instruction for it has 11 bits, which is more than bfloat16 stores and less than float.
template <class T>
bool linear_activation_forward(Cuda, index_t rows, index_t in, index_t out, const T* x, const T* weight, const T* bias, bool gelu,
                               T* y, void* aux) {
  using W = Wide<T>;
  if (rows == 0 || in == 0 || out == 0 || std::is_same_v<T, double> || (gelu && !std::is_same_v<T, bfloat16>)) return false;
  if (!cuda::fuses_activations()) return false;
  cuda::Product p = cuda::whole_product(false, true, rows, out, in);
  p.epilogue = gelu ? cuda::Epilogue::gelu_bias : cuda::Epilogue::relu_bias;
  p.bias = const_cast<T*>(bias);
  p.aux_stride = aux ? cuda::aux_stride(!gelu, out) : 0;
  p.aux = aux;
  return cuda::Products::instance().run<T>(p, W(1), x, weight, W(0), y);
}

}  // namespace attend::kernels

namespace attend::cuda {

/// dx[i] = slope(...) * dx[i] for an activation whose output y, or (GELU) whose input is known.
template <class T>
__global__ void activation_gradient_kernel(index_t rows, index_t width, bool gelu, const T* y, const T* input,
                                           index_t input_stride, T* dx) {
  using W = Wide<T>;
  for (index_t i = grid_thread(); i < rows * width; i += grid_threads()) {
    W slope = static_cast<W>(y[i]) > W(0) ? W(1) : W(0);
    if (gelu) {
      const W x = static_cast<W>(input[i / width * input_stride + i % width]);
      const W t = cuda::tanh(W(0.79788456080286535588) * (x + W(0.044715) * x * x * x));
      slope = W(0.5) * (W(1) + t) + W(0.5) * x * (W(1) - t * t) * W(0.79788456080286535588) * (W(1) + W(3 * 0.044715) * x * x);
    }
    dx[i] = static_cast<T>(slope * static_cast<W>(dx[i]));
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// dx [rows, in] = (dy * weight) * slope of the activation that gave y,  dbias [in] = the sums of dx's columns; y and `aux` as
/// `linear_activation_forward` left them.
template <class T>
void linear_backward_input_activation(Cuda, index_t rows, index_t in, index_t out, const T* dy, const T* weight, bool gelu,
                                      const T* y, const void* aux, T* dx, T* dbias) {
  using W = Wide<T>;
  const index_t stride = cuda::aux_stride(!gelu, in);
  cuda::Product p = cuda::whole_product(false, false, rows, in, out);
  p.epilogue = gelu ? cuda::Epilogue::gelu_gradient_bias : cuda::Epilogue::relu_gradient_bias;
  p.bias = dbias;
  p.aux_stride = stride;
  p.aux = const_cast<void*>(aux);
  if (cuda::Products::instance().run<T>(p, W(1), dy, weight, W(0), dx)) return;
  linear_backward_input(Cuda{}, rows, in, out, dy, weight, W(0), dx);
  cuda::launch("feed_forward", cuda::activation_gradient_kernel<T>, cuda::blocks_for(rows * in), cuda::block_threads, 0, rows, in,
               gelu, y, static_cast<const T*>(aux), stride, dx);
  linear_backward_bias(Cuda{}, rows, in, dx, W(0), dbias);
}

}  // namespace attend::kernels
