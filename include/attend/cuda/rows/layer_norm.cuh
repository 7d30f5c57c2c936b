#pragma once

#include <algorithm>
#include <type_traits>

#include "attend/cuda/rows/layer_norm_affine.cuh"
#include "attend/cuda/rows/layer_norm_kernels.cuh"
#include "attend/kernels/layer_norm.hpp"

namespace attend::cuda {

/// The rows of a layer norm forward, by the kernel that fits their width. `vectors`: rows begin on multiples of 16 bytes, in
/// `input` too.
template <class T, class Input>
void layer_norm_rows(const char* operation, const NormLayout& norm, index_t rows, const Input& input, const T* gamma,
                     const T* beta, T* y, Wide<T>* mean, Wide<T>* rstd, bool vectors) {
  const index_t n = norm.width;
  if (rows == 0 || n == 0) return;
  constexpr int V = Pack<T>::count, warp = warp_threads, block = block_threads, most = norm_values<T>;
  const auto run = [&](auto kernel, index_t rows_of_block) {
    launch(operation, kernel, blocks_for(rows, rows_of_block), block, 0, norm, rows, input, gamma, beta, y, mean, rstd);
  };
  if (vectors && rows_of_packs(n, y) && (norm.scalar_affine || aligned(gamma, beta))) {
    if (n <= most / 4 * warp) return run(layer_norm_kernel<T, most / 4 / V, warp, Input>, block / warp);
    if (n <= most / 2 * warp) return run(layer_norm_kernel<T, most / 2 / V, warp, Input>, block / warp);
    if (n <= most * warp) return run(layer_norm_kernel<T, most / V, warp, Input>, block / warp);
    if (n <= most * block) return run(layer_norm_kernel<T, most / V, block, Input>, 1);
  }
  run(layer_norm_long_kernel<T, Input>, 1);
}

/// The backward of a layer norm whose gradient dx goes to `output`. `vectors` as above.
template <class T, class Output>
void layer_norm_rows_backward(const char* operation, const NormLayout& norm, index_t rows, const T* dy, const T* x,
                              const T* gamma, const Wide<T>* mean, const Wide<T>* rstd, const Output& output, bool vectors,
                              Wide<T> gamma_keep, T* dgamma, Wide<T> beta_keep, T* dbeta) {
  const index_t n = norm.width;
  const bool affine = dgamma || dbeta;
  constexpr int V = Pack<T>::count, warp = warp_threads, block = block_threads, most = norm_values<T>;
  // Two blocks for each multiprocessor, each with sums of its own: a number that the rows do not change beyond some.
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
    launch(operation, kernel, static_cast<unsigned>(parts), block, 0, norm, rows, dy, x, gamma, mean, rstd, output,
           partial.data());
  };
  vectors = vectors && rows_of_packs(n, dy, x) && (norm.scalar_affine || aligned(gamma));
  if (rows == 0 || n == 0) {
    // The sums below are then of no parts.
  } else if (vectors && n <= most / 4 * warp) {
    run(layer_norm_backward_kernel<T, most / 4 / V, warp, Output>, block / warp);
  } else if (vectors && n <= most / 2 * warp) {
    run(layer_norm_backward_kernel<T, most / 2 / V, warp, Output>, block / warp);
  } else if (vectors && n <= most * warp) {
    run(layer_norm_backward_kernel<T, most / V, warp, Output>, block / warp);
  } else if (vectors && n <= most / 2 * block) {
    run(layer_norm_backward_kernel<T, most / 2 / V, block, Output>, 1);
  } else {
    launch(operation, layer_norm_backward_long_kernel<T, Output>, blocks_for(rows, 1), block, 0, norm, rows, dy, x, gamma, mean,
           rstd, output);
    if (affine) {
      parts = parts_of(64);
      launch(operation, layer_norm_affine_long_kernel<T>,
             dim3(static_cast<unsigned>((n + block - 1) / block), static_cast<unsigned>(parts)), block, 0, n, rows, dy, x, mean,
             rstd, partial.data());
    }
  }
  if (affine) layer_norm_affine(operation, norm, parts, partial.data(), gamma_keep, dgamma, beta_keep, dbeta);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's.
template <class T>
void layer_norm_forward(Cuda, const NormLayout& norm, index_t rows, const T* x, const T* gamma, const T* beta, T* y,
                        Wide<T>* mean, Wide<T>* rstd) {
  cuda::layer_norm_rows("layer_norm", norm, rows, cuda::NormInput<T>{x}, gamma, beta, y, mean, rstd, cuda::aligned(x));
}

/// dx, dgamma and dbeta as on the CPU, see there; each of them may be null. keep is 0 (what is written then need not hold
/// anything yet) or 1.
template <class T>
void layer_norm_backward(Cuda, const NormLayout& norm, index_t rows, const T* dy, const T* x, const T* gamma, const Wide<T>* mean,
                         const Wide<T>* rstd, std::type_identity_t<Wide<T>> keep, T* dx, std::type_identity_t<Wide<T>> gamma_keep,
                         T* dgamma, std::type_identity_t<Wide<T>> beta_keep, T* dbeta) {
  cuda::layer_norm_rows_backward("layer_norm", norm, rows, dy, x, gamma, mean, rstd, cuda::NormGradient<T>{dx, keep},
                                 cuda::aligned(dx), gamma_keep, dgamma, beta_keep, dbeta);
}

}  // namespace attend::kernels
