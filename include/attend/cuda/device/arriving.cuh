#pragma once

#include <utility>
#include <vector>

#include "attend/core/arriving.hpp"
#include "attend/cuda/device/memory.cuh"

namespace attend {

namespace cuda {

/// Memory of the host that the device writes to by itself.
struct PinnedMemory {
  static constexpr const char* name = "cuda: out of pinned memory";
  static void* take(std::size_t size) noexcept {
    void* block = nullptr;
    if (cudaMallocHost(&block, size) == cudaSuccess) return block;
    (void)cudaGetLastError();
    return nullptr;
  }
  static void give_back(void* block, std::size_t) noexcept { (void)cudaFreeHost(block); }
  static std::string state() { return {}; }
  template <class Pool>
  static void make_room(Pool& pool) noexcept {
    pool.release_cached();
  }
};
/// Blocks of host memory that the device copies to by itself.
using PinnedPool = CachingPool<PinnedMemory>;

}  // namespace cuda

template <class T>
class Arriving<T, Cuda> {
 public:
  explicit Arriving(const Tensor<T, Cuda>& x) : Arriving(x.size()) {  // so that what was made is freed if the rest fails
    const auto bytes = count_ * sizeof(T);
    const auto held = cuda::Context::instance().lock();
    const cudaStream_t stream = cuda::Context::instance().stream();
    cuda::check(cudaEventCreateWithFlags(&there_, cudaEventDisableTiming), "copy to host");
    block_ = cuda::PinnedPool::instance().allocate(bytes);
    cuda::check(cudaMemcpyAsync(block_.data, x.data(), bytes, cudaMemcpyDeviceToHost, stream), "copy to host");
    cuda::check(cudaEventRecord(there_, stream), "copy to host");
  }
  Arriving(Arriving&& other) noexcept
      : count_(other.count_),
        block_(std::exchange(other.block_, {})),
        there_(std::exchange(other.there_, nullptr)),
        values_(std::move(other.values_)) {}
  Arriving& operator=(Arriving&& other) noexcept {
    std::swap(count_, other.count_);
    std::swap(block_, other.block_);
    std::swap(there_, other.there_);
    std::swap(values_, other.values_);
    return *this;
  }
  ~Arriving() { release(); }

  const std::vector<T>& values() {
    if (there_) {
      cuda::check(cudaEventSynchronize(there_), "copy to host");
      const T* from = static_cast<const T*>(block_.data);
      values_.assign(from, from + count_);
      release();
      cuda::Context::instance().throw_faults();
    }
    return values_;
  }

 private:
  explicit Arriving(index_t count) : count_(count) {}
  void release() noexcept {
    if (!there_) return;
    (void)cudaEventSynchronize(there_);  // else the device might write into memory that somebody else has got
    (void)cudaEventDestroy(std::exchange(there_, nullptr));
    if (block_.data) cuda::PinnedPool::instance().deallocate(std::exchange(block_, {}));
  }

  index_t count_;
  MemoryBlock block_;
  cudaEvent_t there_ = nullptr;
  std::vector<T> values_;
};

}  // namespace attend
