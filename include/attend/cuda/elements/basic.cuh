#pragma once

#include <type_traits>

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/sum.cuh"
#include "attend/kernels/matrix.hpp"

/// Passes over whole arrays that everything else needs.
namespace attend::cuda {

/// *factor * x, the factor on the device.
template <class W>
struct TimesAt {
  const W* factor;
  __device__ W operator()(W x) const { return *factor * x; }
};

/// The most blocks that share a sum of squares.
inline constexpr int square_blocks = 1024;

/// sums[b] = the sum of the squares that block b went over, in double, which a large gradient's square fits into.
template <class T>
__global__ void __launch_bounds__(block_threads) sum_of_squares_kernel(index_t n, index_t packs, const T* x, double* sums) {
  using W = Wide<T>;
  constexpr int count = Pack<T>::count;
  static __shared__ double room[warp_threads];
  double sum = 0;
#pragma unroll 2
  for (index_t p = grid_thread(); p < packs; p += grid_threads()) {
    W v[count];
    load_values(x + p * count, v);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const auto d = static_cast<double>(v[j]);
      sum += d * d;
    }
  }
#pragma unroll 1
  for (index_t i = packs * count + grid_thread(); i < n; i += grid_threads()) {
    const auto v = static_cast<double>(x[i]);
    sum += v * v;
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// *result = the sum of x[i]^2, on the device, without waiting. The order of the additions depends on n and on x's alignment
/// alone.
template <class T>
void sum_of_squares_into(index_t n, const T* x, double* result) {
  if (n == 0) return fill(Cuda{}, 1, 0.0, result);
  const index_t packs = aligned(x) ? n / Pack<T>::count : 0, steps = packs > 0 ? packs : n;
  const index_t blocks = std::min<index_t>(square_blocks, (steps + block_threads - 1) / block_threads);
  const Buffer<double> sums(blocks);
  launch("sum_of_squares", sum_of_squares_kernel<T>, static_cast<unsigned>(blocks), block_threads, 0, n, packs, x, sums.data());
  Walk one, all;
  one.append(1, {});
  all.append(blocks, {1, 0, 0});
  sum_along("sum_of_squares", ScaledTerms<double>{sums.data(), 1.0}, {one, all, 1, false, true}, kernels::Gradient{result});
}

/// y[i] = x[i] in another type: float, double, bfloat16.
template <class From, class To>
void convert(index_t n, const From* x, To* y) {
  elementwise("convert", n, As<Wide<To>>{}, Inputs<From, 1>{{x}}, 0, y);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// y[i] += x[i].
template <class T>
void add_into(Cuda, index_t n, const T* x, T* y) {
  cuda::elementwise("add_into", n, cuda::As<Wide<T>>{}, cuda::Inputs<T, 1>{{x}}, 1, y);
}

/// y[i] = a * x[i] + b * y[i]; with b = 0, y need not hold anything yet. x may be y.
template <class T>
void scale_add(Cuda, index_t n, std::type_identity_t<Wide<T>> a, const T* x, std::type_identity_t<Wide<T>> b, T* y) {
  cuda::elementwise("scale_add", n, cuda::Times<Wide<T>>{a}, cuda::Inputs<T, 1>{{x}}, b, y);
}

/// y[i] = *factor * x[i], the factor on the device.
template <class T>
void scale_add_by(Cuda, index_t n, const std::type_identity_t<Wide<T>>* factor, const T* x, Gradient<T> y) {
  cuda::elementwise("scale_add_by", n, cuda::TimesAt<Wide<T>>{factor}, cuda::Inputs<T, 1>{{x}}, Wide<T>(y.add), y.data);
}

/// The sum of x's rows, into a row. x is not transposed.
template <class T>
void sum_rows(Cuda, ConstMatrix<T> x, Gradient<T> into) {
  cuda::Walk summed;
  const index_t stride = x.stride;
  summed.append(x.rows, {stride, 0, 0});
  cuda::sum_columns("sum_rows", cuda::ScaledTerms<T>{x.data, Wide<T>(1)}, {cuda::Walk{}, summed, x.columns}, into);
}

/// The sum of x[i]^2, in double. Waits for the device.
template <class T>
double sum_of_squares(Cuda, index_t n, const T* x) {
  const cuda::Buffer<double> result(1);
  cuda::sum_of_squares_into(n, x, result.data());
  double host = 0;
  copy_to_host(Cuda{}, 1, result.data(), &host);
  return host;
}

}  // namespace attend::kernels
