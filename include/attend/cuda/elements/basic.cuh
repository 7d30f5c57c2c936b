#pragma once

#include <type_traits>

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/sum.cuh"
#include "attend/kernels/matrix.hpp"
#include "attend/kernels/squares.hpp"

/// Passes over whole arrays that everything else needs.
namespace attend::cuda {

/// *factor * x, the factor on the device.
template <class W>
struct TimesAt {
  const W* factor;
  __device__ W operator()(W x) const { return *factor * x; }
};

/// sums[p] = the sum of the squares of part p of x, a block's work, in double, which a large gradient's square fits into.
template <class T>
__global__ void __launch_bounds__(block_threads) squares_kernel(index_t n, index_t parts, bool packed, const T* x, double* sums) {
  using W = Wide<T>;
  constexpr int count = Pack<T>::count;
  static __shared__ double room[warp_threads];
  for (index_t p = blockIdx.x; p < parts; p += gridDim.x) {
    const T* const first = x + p * kernels::square_part;
    const index_t size =
        n - p * kernels::square_part < kernels::square_part ? n - p * kernels::square_part : kernels::square_part;
    const index_t packs = packed ? size / count : 0;
    double sum = 0;
#pragma unroll 4
    for (index_t i = threadIdx.x; i < packs; i += blockDim.x) {
      W v[count];
      load_values(first + i * count, v);
#pragma unroll
      for (int j = 0; j < count; ++j) {
        const auto d = static_cast<double>(v[j]);
        sum += d * d;
      }
    }
#pragma unroll 1
    for (index_t i = packs * count + threadIdx.x; i < size; i += blockDim.x) {
      const auto v = static_cast<double>(first[i]);
      sum += v * v;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0) sums[p] = sum;
  }
}

/// See kernels::squares_of_parts.
template <class T>
void squares_of_parts(index_t n, const T* x, double* sums) {
  constexpr index_t most_blocks = index_t{1} << 16;
  if (n == 0) return;
  const index_t parts = kernels::square_parts(n);
  launch("sum_of_squares", squares_kernel<T>, static_cast<unsigned>(std::min(parts, most_blocks)), block_threads, 0, n, parts,
         aligned(x), x, sums);
}
/// See kernels::sum_of_parts.
inline void sum_of_parts(index_t n, const double* sums, double* result) {
  if (n == 0) return fill(Cuda{}, 1, 0.0, result);
  Walk one, all;
  one.append(1, {});
  all.append(kernels::square_parts(n), {1, 0, 0});
  sum_along("sum_of_squares", ScaledTerms<double>{sums, 1.0}, {one, all, 1, false, true}, kernels::Gradient{result});
}
/// *result = the sum of x[i]^2, on the device, without waiting. The order of the additions depends on n and on x's alignment
/// alone.
template <class T>
void sum_of_squares_into(index_t n, const T* x, double* result) {
  const Buffer<double> sums(kernels::square_parts(n));
  squares_of_parts(n, x, sums.data());
  sum_of_parts(n, sums.data(), result);
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

/// sums[p] = the sum of the squares of part p of x, see `square_part`, in double.
template <class T>
void squares_of_parts(Cuda, index_t n, const T* x, double* sums) {
  cuda::squares_of_parts(n, x, sums);
}
/// *result = the sum of those of n numbers' parts.
inline void sum_of_parts(Cuda, index_t n, const double* sums, double* result) { cuda::sum_of_parts(n, sums, result); }

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
