#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "attend/core/memory.hpp"
#include "attend/core/weights_version.hpp"
#include "attend/cuda/launch.cuh"

/// Memory of the device, and the way to and from it.
namespace attend {

namespace cuda {

/// Where the device's memory comes from.
struct DeviceMemory {
  static constexpr const char* name = "cuda: out of memory";

  static void* take(std::size_t size) noexcept {
    void* block = nullptr;
    if (cudaMalloc(&block, size) == cudaSuccess) return block;
    (void)cudaGetLastError();
    return nullptr;
  }
  static void give_back(void* block, std::size_t) noexcept { (void)cudaFree(block); }
  static std::string state() {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
    return ", free on the device: " + std::to_string(free) + " of " + std::to_string(total);
  }
};
/// Blocks are handed out again as soon as they are given back: whoever gets one works later on the same stream.
using DevicePool = CachingPool<DeviceMemory>;

namespace detail {
inline DevicePool*& selected_pool() {
  thread_local DevicePool* pool = nullptr;
  return pool;
}
}  // namespace detail

/// The pool that this thread's tensors come from: that of the process, unless a `PoolScope` stands in scope.
inline DevicePool& pool() {
  DevicePool* selected = detail::selected_pool();
  return selected ? *selected : DevicePool::instance();
}
/// While one stands in scope, this thread's tensors come from another pool: the memory of a captured graph, which nobody else
/// may get as long as the graph may run again. The pool must live as long as any tensor from it.
class PoolScope {
 public:
  explicit PoolScope(DevicePool& pool) : before_(std::exchange(detail::selected_pool(), &pool)) {}
  ~PoolScope() { detail::selected_pool() = before_; }
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  DevicePool* before_;
};

/// What the device's pool of the process holds, in bytes.
inline MemoryUse memory_use() { return DevicePool::instance().use(); }

/// A temporary array on the device, given back when it goes.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(index_t count) {
    if (count > 0) block_ = pool().allocate(static_cast<std::size_t>(count) * sizeof(T));
  }
  Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, {})) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Buffer() {
    if (block_.data) static_cast<DevicePool*>(block_.pool)->deallocate(block_);
  }
  [[nodiscard]] T* data() const { return static_cast<T*>(block_.data); }

 private:
  MemoryBlock block_;
};

/// Pinned memory through which data go to the device while the host works on. A piece is used again when the device has read it.
class Staging {
 public:
  static Staging& instance() {
    static Staging* staging = new Staging;
    return *staging;
  }

  /// Copies `bytes` from `host`, which may change as soon as this returns, to `device`.
  void upload(const void* host, void* device, std::size_t bytes) {
    if (bytes == 0) return;
    Context& context = Context::instance();
    if (context.capturing()) throw CudaError("cuda: host data cannot be copied to the device within a captured graph");
    const std::lock_guard lock(mutex_);
    Piece piece = take(bytes);
    std::memcpy(piece.data, host, bytes);
    const cudaError_t copied = cudaMemcpyAsync(device, piece.data, bytes, cudaMemcpyHostToDevice, context.stream());
    const cudaError_t recorded = cudaEventRecord(piece.read, context.stream());
    pieces_.push_back(piece);
    check(copied, "copy to device");
    check(recorded, "copy to device");
  }

 private:
  struct Piece {
    void* data;
    std::size_t size;
    cudaEvent_t read;
  };
  static constexpr std::size_t most_pieces = 64;

  /// The oldest piece, if the device is done with it and it is large enough, else a new one. With many under way, waits.
  Piece take(std::size_t bytes) {
    for (auto at = pieces_.begin(); at != pieces_.end(); ++at) {
      if (at->size < bytes) continue;
      const bool wait = pieces_.size() >= most_pieces;
      const cudaError_t state = wait ? cudaEventSynchronize(at->read) : cudaEventQuery(at->read);
      if (state == cudaErrorNotReady) {
        (void)cudaGetLastError();
        break;  // those after it are younger
      }
      check(state, "copy to device");
      const Piece piece = *at;
      pieces_.erase(at);
      return piece;
    }
    Piece piece{nullptr, CachingPool<HostMemory>::size_class(std::max<std::size_t>(bytes, 4096)), nullptr};
    check(cudaMallocHost(&piece.data, piece.size), "copy to device");
    check(cudaEventCreateWithFlags(&piece.read, cudaEventDisableTiming), "copy to device");
    return piece;
  }

  std::mutex mutex_;
  std::deque<Piece> pieces_;
};

/// The same numbers on the device. Does not wait.
template <class T>
Buffer<T> upload(const T* host, index_t count) {
  Buffer<T> buffer(count);
  Staging::instance().upload(host, buffer.data(), static_cast<std::size_t>(count) * sizeof(T));
  return buffer;
}
template <class T>
Buffer<T> upload(const std::vector<T>& host) {
  return upload(host.data(), static_cast<index_t>(host.size()));
}

template <class T>
__global__ void fill_kernel(index_t n, T value, T* y) {
  const index_t threads = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += threads) y[i] = value;
}

}  // namespace cuda

inline MemoryBlock allocate(Cuda, std::size_t bytes) {
  cuda::Context::instance();  // for its words where there is no device
  return cuda::pool().allocate(bytes);
}
inline void deallocate(Cuda, MemoryBlock block) noexcept { static_cast<cuda::DevicePool*>(block.pool)->deallocate(block); }

/// Gives all cached memory of the process's pool back to the device.
inline void release_cached(Cuda) noexcept { cuda::DevicePool::instance().release_cached(); }

/// y[i] = value.
template <class T>
void fill(Cuda, index_t n, T value, T* y) {
  if (n == 0) return;
  constexpr unsigned char zeros[sizeof(T)] = {};
  if (std::memcmp(&value, zeros, sizeof(T)) == 0)
    cuda::check(cudaMemsetAsync(y, 0, static_cast<std::size_t>(n) * sizeof(T), cuda::Context::instance().stream()), "fill");
  else cuda::launch("fill", cuda::fill_kernel<T>, cuda::blocks_for(n), cuda::block_threads, 0, n, value, y);
}

/// y[i] = x[i], both on the device; the ranges do not overlap.
template <class T>
void copy(Cuda, index_t n, const T* x, T* y) {
  if (n > 0)
    cuda::check(cudaMemcpyAsync(y, x, static_cast<std::size_t>(n) * sizeof(T), cudaMemcpyDeviceToDevice,
                                cuda::Context::instance().stream()),
                "copy");
}
/// y[i] = x[i] from the host to the device. x may change as soon as this returns; nobody waits.
template <class T>
void copy_to_device(Cuda, index_t n, const T* x, T* y) {
  cuda::Staging::instance().upload(x, y, static_cast<std::size_t>(n) * sizeof(T));
}
/// y[i] = x[i] from the device to the host, after all that was launched before. Throws what went wrong until then.
template <class T>
void copy_to_host(Cuda, index_t n, const T* x, T* y) {
  auto& context = cuda::Context::instance();
  if (n > 0)
    cuda::check(cudaMemcpyAsync(y, x, static_cast<std::size_t>(n) * sizeof(T), cudaMemcpyDeviceToHost, context.stream()),
                "copy to host");
  context.synchronize("copy to host");
}

}  // namespace attend
