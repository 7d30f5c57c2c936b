#pragma once

#include <algorithm>

#include "attend/cuda/rows/layer_norm_affine.cuh"
#include "attend/cuda/rows/layer_norm_kernels.cuh"
#include "attend/kernels/layer_norm.hpp"

namespace attend::cuda {

/// The rows of a layer norm forward, by the kernel that fits their width. `vectors`: rows begin on multiples of 16 bytes, in
/// `input` too.
template <class T, class Input>
void layer_norm_rows(const char* operation, const NormOfRows<T>& norm, const Input& input, T* y, NormStatistics<T> kept,
                     bool vectors) {
  const index_t rows = norm.rows, n = norm.layout.width;
  if (rows == 0 || n == 0) return;
  constexpr int V = Pack<T>::count, warp = warp_threads, block = block_threads, most = norm_values<T>;
  const auto run = [&](auto kernel, index_t rows_of_block) {
    launch(operation, kernel, blocks_for(rows, rows_of_block), block, 0, norm, input, y, kept);
  };
  if (vectors && rows_of_packs(n, y) && (norm.layout.scalar_affine || aligned(norm.gamma, norm.beta))) {
    if (n <= most / 4 * warp) return run(layer_norm_kernel<T, most / 4 / V, warp, Input>, block / warp);
    if (n <= most / 2 * warp) return run(layer_norm_kernel<T, most / 2 / V, warp, Input>, block / warp);
    if (n <= most * warp) return run(layer_norm_kernel<T, most / V, warp, Input>, block / warp);
    if (n <= most * block) return run(layer_norm_kernel<T, most / V, block, Input>, 1);
  }
  run(layer_norm_long_kernel<T, Input>, 1);
}

/// What the backward of a norm reads.
template <class T>
struct NormBackwardInput {
  const T *dy, *x;
  NormStatistics<T> kept;
};

/// The backward of a layer norm whose gradient dx goes to `output`, those of gamma and beta to where `gradients` says. `vectors`
/// as above.
template <class T, class Output>
void layer_norm_rows_backward(const char* operation, const NormOfRows<T>& norm,
                              const std::type_identity_t<NormBackwardInput<T>>& input, const Output& output, bool vectors,
                              const kernels::NormGradients<T>& gradients) {
  const T *const dy = input.dy, *const x = input.x;
  const NormStatistics<T> kept = input.kept;
  const Gradient<T> dgamma = gradients.gamma, dbeta = gradients.beta;
  const index_t rows = norm.rows, n = norm.layout.width;
  const bool affine = dgamma || dbeta;
  constexpr int V = Pack<T>::count, warp = warp_threads, block = block_threads, most = norm_values<T>;
  // Two blocks for each multiprocessor, each with sums of its own: a number that no longer depends on the rows once they are
  // many.
  const index_t most_parts = index_t{2} * Context::instance().multiprocessors();
  Buffer<Wide<T>> partial;
  const auto parts_of = [&](index_t teams) {
    const index_t parts = std::min(most_parts, (rows + teams - 1) / teams);
    if (affine) partial = Buffer<Wide<T>>(parts * 2 * n);
    return parts;
  };
  index_t parts = 0;
  const auto run = [&](auto kernel, index_t teams) {
    parts = parts_of(teams);
    launch(operation, kernel, static_cast<unsigned>(parts), block, 0, norm, dy, x, kept, output, partial.data());
  };
  vectors = vectors && rows_of_packs(n, dy, x) && (norm.layout.scalar_affine || aligned(norm.gamma));
  if (rows == 0 || n == 0) {
    // The sums below then have no parts.
  } else if (vectors && n <= most / 4 * warp) {
    run(layer_norm_backward_kernel<T, most / 4 / V, warp, Output>, block / warp);
  } else if (vectors && n <= most / 2 * warp) {
    run(layer_norm_backward_kernel<T, most / 2 / V, warp, Output>, block / warp);
  } else if (vectors && n <= most * warp) {
    run(layer_norm_backward_kernel<T, most / V, warp, Output>, block / warp);
  } else if (vectors && n <= most / 2 * block) {
    run(layer_norm_backward_kernel<T, most / 2 / V, block, Output>, 1);
  } else {
    launch(operation, layer_norm_backward_long_kernel<T, Output>, blocks_for(rows, 1), block, 0, norm, dy, x, kept, output);
    if (affine) {
      parts = parts_of(64);
      launch(operation, layer_norm_affine_long_kernel<T>,
             dim3(static_cast<unsigned>((n + block - 1) / block), static_cast<unsigned>(parts)), block, 0, n, rows, dy, x, kept,
             partial.data());
    }
  }
  if (affine) layer_norm_affine(operation, norm.layout, parts, partial.data(), dgamma, dbeta);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's.
template <class T>
void layer_norm_forward(Cuda, const NormOfRows<T>& norm, const T* x, T* y, NormStatistics<T> kept) {
  cuda::layer_norm_rows("layer_norm", norm, cuda::NormInput<T>{x}, y, kept, cuda::aligned(x));
}

/// See the CPU's.
template <class T>
void layer_norm_backward(Cuda, const NormOfRows<T>& norm, const T* dy, const T* x, NormStatistics<T> kept,
                         const NormGradients<T>& gradients) {
  cuda::layer_norm_rows_backward("layer_norm", norm, {dy, x, kept}, cuda::NormOutput<T>{gradients.x},
                                 cuda::aligned(gradients.x.data), gradients);
}

}  // namespace attend::kernels
