#pragma once

#include "attend/cuda/optim/optimizer.cuh"

/// What Muon does to matrices besides multiplying them.
namespace attend::cuda {

/// velocity and direction of `muon_momentum`; the direction is 0 if the update is left out.
template <class T, class W>
__global__ void muon_momentum_kernel(index_t n, W momentum, const UpdateRecord* record, const T* gradient, W* velocity,
                                     T* direction) {
  const bool taken = record->taken;
  const W scale = static_cast<W>(record->gradient_scale);
  for (index_t i = grid_thread(); i < n; i += grid_threads()) {
    if (!taken) {  // the products that follow cannot know that, and must not read what was never written
      direction[i] = static_cast<T>(W(0));
      continue;
    }
    const W g = scale * static_cast<W>(gradient[i]), v = momentum * velocity[i] + g;
    velocity[i] = v;
    direction[i] = static_cast<T>(g + momentum * v);
  }
}

/// A block a matrix: its norm, then the division.
template <class T>
__global__ void __launch_bounds__(block_threads) unit_norm_kernel(index_t n, T* x) {
  static __shared__ double room[warp_threads];
  T* matrix = x + static_cast<index_t>(blockIdx.x) * n;
  double sum = 0;
#pragma unroll 1
  for (index_t i = threadIdx.x; i < n; i += blockDim.x) {
    const auto v = static_cast<double>(matrix[i]);
    sum += v * v;
  }
  sum = block_sum(sum, room);
  const double norm = ::sqrt(sum);
  const auto factor = static_cast<Wide<T>>(1 / (norm > 1e-7 ? norm : 1e-7));
#pragma unroll 1
  for (index_t i = threadIdx.x; i < n; i += blockDim.x) matrix[i] = static_cast<T>(factor * static_cast<Wide<T>>(matrix[i]));
}

/// y = b x + a I, of `n` numbers of matrices [size, size].
template <class T, class W>
__global__ void scaled_plus_identity_kernel(index_t n, index_t size, W a, W b, const T* x, T* y) {
  for (index_t i = grid_thread(); i < n; i += grid_threads()) {
    const bool diagonal = i / size % size == i % size;
    y[i] = static_cast<T>(b * static_cast<W>(x[i]) + (diagonal ? a : W(0)));
  }
}

/// Clears what would go uphill, and counts what is left.
template <class T>
__global__ void __launch_bounds__(block_threads)
    keep_descending_kernel(index_t n, const T* gradient, T* direction, unsigned long long* kept) {
  static __shared__ int room[warp_threads];
  int count = 0;
  for (index_t i = grid_thread(); i < n; i += grid_threads()) {
    const bool descends = static_cast<Wide<T>>(direction[i]) * static_cast<Wide<T>>(gradient[i]) > Wide<T>(0);
    if (!descends) direction[i] = static_cast<T>(Wide<T>(0));
    count += descends;
  }
  count = block_sum(count, room);
  if (threadIdx.x == 0 && count > 0) atomicAdd(kept, static_cast<unsigned long long>(count));  // in any order: whole numbers
}

/// Moves the values, and rounds them if the parameters are of a narrower type.
template <class T, class W>
__global__ void muon_apply_kernel(index_t n, kernels::MuonStep by, const T* direction, W* value, T* rounded) {
  if (!by.record->taken) return;
  double wide_rate = by.rate;
  if (by.kept) wide_rate *= ::fmin(static_cast<double>(n) / static_cast<double>(*by.kept > 1 ? *by.kept : 1), most_cautious);
  const W rate = static_cast<W>(wide_rate), shrink = static_cast<W>(by.shrink);
  for (index_t i = grid_thread(); i < n; i += grid_threads()) {
    const W p = shrink * (rounded ? current(value[i], rounded[i]) : value[i]) - rate * static_cast<W>(direction[i]);
    value[i] = p;
    if (rounded) rounded[i] = static_cast<T>(p);
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's. If the update is left out, the direction is 0.
template <class T>
void muon_momentum(Cuda, index_t n, double momentum, const UpdateRecord* record, const T* gradient, Wide<T>* velocity,
                   T* direction) {
  if (n == 0) return;
  cuda::launch("Muon", cuda::muon_momentum_kernel<T, Wide<T>>, cuda::blocks_for(n), cuda::block_threads, 0, n,
               static_cast<Wide<T>>(momentum), record, gradient, velocity, direction);
}
/// See the CPU's.
template <class T>
void unit_norm(Cuda, index_t count, index_t n, T* x) {
  if (count == 0) return;
  cuda::launch("Muon", cuda::unit_norm_kernel<T>, static_cast<unsigned>(count), cuda::block_threads, 0, n, x);
}
/// See the CPU's.
template <class T>
void scaled_plus_identity(Cuda, index_t count, index_t size, std::type_identity_t<Wide<T>> a, std::type_identity_t<Wide<T>> b,
                          const T* x, T* y) {
  const index_t n = count * size * size;
  if (n == 0) return;
  cuda::launch("Muon", cuda::scaled_plus_identity_kernel<T, Wide<T>>, cuda::blocks_for(n), cuda::block_threads, 0, n, size, a, b,
               x, y);
}
/// See the CPU's; `kept` is on the device.
template <class T>
void keep_descending(Cuda, index_t n, const T* gradient, T* direction, index_t* kept) {
  static_assert(sizeof(index_t) == sizeof(unsigned long long));
  if (n == 0) return;
  cuda::launch("Muon", cuda::keep_descending_kernel<T>, cuda::blocks_for(n), cuda::block_threads, 0, n, gradient, direction,
               reinterpret_cast<unsigned long long*>(kept));
}
/// See the CPU's; `rounded`, if not null, are the parameters.
template <class T>
void muon_apply(Cuda, index_t n, const MuonStep& by, const T* direction, Wide<T>* value, T* rounded) {
  if (n == 0) return;
  cuda::launch("Muon", cuda::muon_apply_kernel<T, Wide<T>>, cuda::blocks_for(n), cuda::block_threads, 0, n, by, direction, value,
               rounded);
}

}  // namespace attend::kernels
