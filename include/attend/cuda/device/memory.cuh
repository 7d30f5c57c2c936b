#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "attend/core/memory.hpp"
#include "attend/core/weights_version.hpp"
#include "attend/cuda/device/launch.cuh"

/// Memory of the device, and the way to and from it.
namespace attend::cuda {

/// Where the device's memory comes from.
struct DeviceMemory {
  static constexpr const char* name = "cuda: out of memory";

  static void* take(std::size_t size) {
    const DeviceScope scope(Context::instance().device());  // which throws if there is none
    void* block = nullptr;
    if (cudaMalloc(&block, size) == cudaSuccess) return block;
    (void)cudaGetLastError();
    return nullptr;
  }
  static void give_back(void* block, std::size_t) noexcept {
    const DeviceScope scope(Context::instance().device());
    (void)cudaFree(block);
  }
  /// Gives back what the process's pool keeps for later and, if no graph is left that may run again, what the graphs' pool keeps.
  template <class Pool>
  static void make_room(Pool& pool);
  static std::string state() {
    const DeviceScope scope(Context::instance().device());
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
    return ", free on the device: " + std::to_string(free) + " of " + std::to_string(total);
  }
};
/// Blocks are handed out again as soon as they are given back: whoever gets one works later on the same stream.
using DevicePool = CachingPool<DeviceMemory>;

/// The memory of all captured graphs. They run one after the other and leave nothing in it, so they share it; nobody else may
/// have it, because a graph that runs again writes where it wrote when it was captured.
inline DevicePool& graph_pool() {
  static DevicePool* pool = new DevicePool(DevicePool::AlwaysCaches{});
  return *pool;
}

namespace detail {

/// How many graphs may run again.
inline std::atomic<int>& live_graphs() {
  static std::atomic<int> count{0};
  return count;
}
/// Gives back what the pools keep, unless a capture is under way.
inline void release_pools() {
  const auto held = Context::instance().lock();
  if (Context::instance().capturing()) return;  // nothing can be freed now
  DevicePool::instance().release_cached();
  if (live_graphs() == 0) graph_pool().release_cached();
}

/// What a PoolScope has chosen in this thread; null for the process's pool.
inline DevicePool*& selected_pool() {
  thread_local DevicePool* pool = nullptr;
  return pool;
}
}  // namespace detail

/// Gives back what the pools keep for later tensors; while a graph is captured, nothing.
template <class Pool>
void DeviceMemory::make_room(Pool& pool) {
  const auto held = Context::instance().lock();
  if (Context::instance().capturing()) return;
  detail::release_pools();
  if (&pool != &graph_pool()) pool.release_cached();
}

/// The pool that this thread's tensors come from: that of the process, unless a `PoolScope` stands in scope.
inline DevicePool& pool() {
  DevicePool* selected = detail::selected_pool();
  return selected ? *selected : DevicePool::instance();
}
/// While one stands in scope, this thread's tensors come from another pool: the memory of a captured graph, which nobody else
/// may get as long as the graph may run again. The pool must live as long as any tensor from it.
class PoolScope {
 public:
  /// Until its end, memory of this thread's tensors comes from `pool`.
  explicit PoolScope(DevicePool& pool) : before_(std::exchange(detail::selected_pool(), &pool)) {}
  ~PoolScope() { detail::selected_pool() = before_; }
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  DevicePool* before_;
};

/// What the device's pool of the process holds, in bytes.
inline MemoryUse memory_use() { return DevicePool::instance().use(); }

/// A temporary array on the device, given back when this object is destroyed.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  /// Room for `count` elements, not initialised. Throws MemoryError, CudaError.
  explicit Buffer(index_t count) {
    if (count > 0) block_ = pool().allocate(count * sizeof(T));
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

/// Pinned memory through which data go to the device while the host works on. A piece is reused once the device has read it.
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
    const auto held = context.lock();
    if (context.capturing()) {
      context.spoil_capture();
      throw CudaError("cuda: host data cannot be copied to the device within a captured graph");
    }
    for (std::size_t done = 0; done < bytes; done += most_bytes)
      upload_piece(context, static_cast<const char*>(host) + done, static_cast<char*>(device) + done,
                   std::min(most_bytes, bytes - done));
  }

 private:
  struct Piece {
    void* data;
    std::size_t size;
    cudaEvent_t read;
  };
  static constexpr std::size_t most_pieces = 64, most_bytes = std::size_t{4} << 20;

  void upload_piece(Context& context, const void* host, void* device, std::size_t bytes) {
    Piece piece = take(bytes);
    std::memcpy(piece.data, host, bytes);
    const cudaError_t copied = cudaMemcpyAsync(device, piece.data, bytes, cudaMemcpyHostToDevice, context.stream());
    const cudaError_t recorded = cudaEventRecord(piece.read, context.stream());
    pieces_.push_back(piece);
    check(copied, "copy to device");
    check(recorded, "copy to device");
  }

  /// The oldest piece, if the device is done with it and it is large enough, otherwise a new one. With many under way, waits.
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

  std::deque<Piece> pieces_;
};

/// The same numbers on the device. Does not wait.
template <class T>
Buffer<T> upload(const T* host, index_t count) {
  Buffer<T> buffer(count);
  Staging::instance().upload(host, buffer.data(), count * sizeof(T));
  return buffer;
}
/// See above.
template <class T>
Buffer<T> upload(const std::vector<T>& host) {
  return upload(host.data(), count_of(host));
}

/// y[i] = value.
template <class T>
__global__ void fill_kernel(index_t n, T value, T* y) {
  const index_t threads = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += threads) y[i] = value;
}

}  // namespace attend::cuda

namespace attend::kernels {

/// Memory for a tensor, of the pool of this thread. Throws MemoryError, CudaError.
inline MemoryBlock allocate(Cuda, std::size_t bytes) {
  cuda::Context::instance();  // for its message if there is no device
  return cuda::pool().allocate(bytes);
}
/// Gives a block back to the pool that it came from.
inline void deallocate(Cuda, MemoryBlock block) noexcept { static_cast<cuda::DevicePool*>(block.pool)->deallocate(block); }

/// Whether this thread records what it gives the device: see `Repeated`. Waits while another thread does.
inline bool recording(Cuda) {
  const auto held = cuda::Context::instance().lock();
  return cuda::Context::instance().capturing();
}
/// See the CPU's.
inline void spoil_recording(Cuda) {
  const auto held = cuda::Context::instance().lock();
  cuda::Context::instance().spoil_capture();
}

/// Gives all cached memory back to the device, that of graphs if none is left that may run again.
inline void release_cached(Cuda) { cuda::detail::release_pools(); }

/// y[i] = value.
template <class T>
void fill(Cuda, index_t n, T value, T* y) {
  if (n == 0) return;
  const auto held = cuda::Context::instance().lock();
  constexpr unsigned char zeros[sizeof(T)] = {};
  if (std::memcmp(&value, zeros, sizeof(T)) == 0)
    cuda::check(cudaMemsetAsync(y, 0, n * sizeof(T), cuda::Context::instance().stream()), "fill");
  else cuda::launch("fill", cuda::fill_kernel<T>, cuda::blocks_for(n), cuda::block_threads, 0, n, value, y);
}

/// y[i] = x[i], both on the device; the ranges do not overlap.
template <class T>
void copy(Cuda, index_t n, const T* x, T* y) {
  const auto held = cuda::Context::instance().lock();
  if (n > 0)
    cuda::check(cudaMemcpyAsync(y, x, n * sizeof(T), cudaMemcpyDeviceToDevice, cuda::Context::instance().stream()), "copy");
}
/// y[i] = x[i] from the host to the device. x may change as soon as this returns; nobody waits.
template <class T>
void copy_to_device(Cuda, index_t n, const T* x, T* y) {
  cuda::Staging::instance().upload(x, y, n * sizeof(T));
}
/// y[i] = x[i] from the device to the host, after all that was launched before. Throws what has gone wrong by then.
template <class T>
void copy_to_host(Cuda, index_t n, const T* x, T* y) {
  auto& context = cuda::Context::instance();
  const auto held = context.lock();
  if (n > 0) cuda::check(cudaMemcpyAsync(y, x, n * sizeof(T), cudaMemcpyDeviceToHost, context.stream()), "copy to host");
  context.synchronize("copy to host");
}

}  // namespace attend::kernels
