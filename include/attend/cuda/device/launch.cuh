#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "attend/cuda/device/runtime.cuh"

namespace attend::cuda {

/// Threads of a block, unless a kernel has a reason for another number.
inline constexpr int block_threads = 256;

/// Runs kernel(args...) on `grid` blocks of `block` threads, each block with `shared` bytes of dynamic shared memory, after all
/// that was launched before. Throws CudaError that names the operation.
template <class... Parameters, class... Arguments>
void launch(const char* operation, void (*kernel)(Parameters...), dim3 grid, unsigned block, std::size_t shared,
            Arguments&&... args) {
  constexpr std::size_t without_asking = 40 * 1024;  // of 48 KiB, which static shared memory counts for too
  const auto held = Context::instance().lock();
  if (shared > without_asking)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          operation);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(block);
  config.dynamicSmemBytes = shared;
  config.stream = Context::instance().stream();
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(args)...), operation);
}

/// Blocks for n pieces of work of which a block does `per_block` at a time: at most as many as fill the device several times
/// over, so a kernel must stride over the rest.
inline unsigned blocks_for(index_t n, index_t per_block = block_threads) {
  const index_t all = (n + per_block - 1) / per_block, most = index_t{Context::instance().multiprocessors()} * 16;
  return static_cast<unsigned>(std::max<index_t>(1, std::min(all, most)));
}

}  // namespace attend::cuda
