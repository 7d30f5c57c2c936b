#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "attend/core/error.hpp"
#include "attend/core/types.hpp"

// Under the address sanitizer every tensor is a heap block of its own, so that a read past its end is seen.
#if defined(__SANITIZE_ADDRESS__)
#define ATTEND_NO_POOL 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATTEND_NO_POOL 1
#endif
#endif

namespace attend {

/// Every tensor begins on a cache line, which is as wide as the widest vector register.
inline constexpr std::size_t memory_alignment = 64;

/// What the pool holds at the moment, in bytes.
struct MemoryUse {
  std::size_t in_use = 0;  ///< handed out to tensors
  std::size_t cached = 0;  ///< kept for the next tensor of that size
  std::size_t peak = 0;    ///< the largest `in_use` since the program began or `reset_peak`
};

/// A piece of a pool's memory.
struct MemoryBlock {
  void* data = nullptr;
  std::size_t size = 0;  ///< bytes that it really has, which `deallocate` goes by
  void* pool = nullptr;  ///< where it goes back to, on a device with several pools
};

/// Where the processor's memory comes from.
struct HostMemory {
  static constexpr const char* name = "memory";
  /// How many allocations a free block waits for one that it serves: some dozens of training steps.
  static constexpr std::uint64_t unused_after = std::uint64_t{1} << 16;

  /// Null if there is none left.
  static void* take(std::size_t size) noexcept {
    void* block = ::operator new(size, std::align_val_t(alignment(size)), std::nothrow);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    // Large tensors in large pages: fewer address translations to miss. A refusal costs nothing.
    if (block && size >= 2 * huge_page) (void)madvise(block, size, MADV_HUGEPAGE);
#endif
    return block;
  }
  static void give_back(void* block, std::size_t size) noexcept {
#if defined(__linux__) && !defined(ATTEND_NO_POOL)
    // malloc may keep it, and then for nobody: its pages go at once.
    constexpr std::size_t page = std::size_t{1} << 16;  // no system's pages are larger
    const auto begin = reinterpret_cast<std::uintptr_t>(block), first = (begin + page - 1) / page * page;
    const std::uintptr_t last = (begin + size) / page * page;
    if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
#endif
    ::operator delete(block, std::align_val_t(alignment(size)));
  }
  /// What the system could say about a refusal.
  static std::string state() { return {}; }
  /// Gives back what it can before a second try.
  template <class Pool>
  static void make_room(Pool& pool) noexcept {
    pool.release_cached();
  }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  static std::size_t alignment(std::size_t size) { return size >= 2 * huge_page ? huge_page : memory_alignment; }
};

/// Keeps freed blocks by size class and hands them out again, so that a training step in its steady state asks the system for
/// nothing. Blocks that nobody has wanted for long (`Source::unused_after`, if it says so), as after a training those of its
/// steps, go back to the system. Safe to use from several threads. `Source`: where new blocks come from, see HostMemory.
template <class Source>
class CachingPool {
 public:
  /// The pool of the process. It is never destroyed, so that tensors of static duration may outlive `main`.
  static CachingPool& instance() {
    static CachingPool* pool = new CachingPool;
    return *pool;
  }

  CachingPool() = default;
  /// A pool that keeps its blocks even under the address sanitizer, because somebody still has their addresses.
  struct AlwaysCaches {};
  explicit CachingPool(AlwaysCaches) : always_caches_(true) {}

  /// `bytes` rounded up to its size class: four classes between one power of two and the next, so that at most a fifth of
  /// a block is unused; up to 256 bytes, classes 64 bytes apart.
  static std::size_t size_class(std::size_t bytes) {
    if (bytes <= memory_alignment) return memory_alignment;
    const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes - 1) / 4, memory_alignment);
    return (bytes + step - 1) / step * step;
  }

  using Block = MemoryBlock;

  /// A block of at least `bytes`: a freed one of that size class or of the next few (batches differ a little in their sizes, and
  /// each class would otherwise keep blocks of its own), at most twice as large; otherwise a new one.
  /// Throws MemoryError if the system has no memory left, with the size that was asked for.
  Block allocate(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max())) refuse(bytes);  // which has no size class
    const std::size_t size = size_class(bytes);
    {
      const std::lock_guard lock(mutex_);
      give_back_unused();
      for (std::size_t other = size; other <= 2 * size; other = size_class(other + 1)) {
        const auto blocks = free_.find(other);
        if (blocks != free_.end() && !blocks->second.empty()) {
          void* block = blocks->second.back().data;
          blocks->second.pop_back();
          use_.cached -= other;
          count(other);
          return {block, other, this};
        }
        if (size < shared_from) break;
      }
      count(size);
    }
    if (void* block = Source::take(size)) return {block, size, this};
    Source::make_room(*this);
    if (void* block = Source::take(size)) return {block, size, this};
    {
      const std::lock_guard lock(mutex_);
      use_.in_use -= size;
    }
    refuse(bytes);
  }

  /// Takes back a block of `allocate`, to hand it out again.
  void deallocate(Block block) noexcept {
    const std::lock_guard lock(mutex_);
    use_.in_use -= block.size;
#if defined(ATTEND_NO_POOL)
    if (!always_caches_) {
      Source::give_back(block.data, block.size);
      return;
    }
#endif
    try {
      free_[block.size].push_back({block.data, allocations_});
      use_.cached += block.size;
    } catch (...) {
      Source::give_back(block.data, block.size);
    }
  }

  /// Gives all cached blocks back to the system.
  void release_cached() noexcept {
    const std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      for (const Free& block : blocks) Source::give_back(block.data, size);
      blocks.clear();
    }
    use_.cached = 0;
  }

  /// What is in use and cached at the moment, and the peak.
  [[nodiscard]] MemoryUse use() const {
    const std::lock_guard lock(mutex_);
    return use_;
  }
  /// The peak is counted anew from here.
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak = use_.in_use;
  }

 private:
  [[noreturn]] void refuse(std::size_t bytes) const {
    throw MemoryError(Source::name, ": ", bytes, " bytes were asked for and are not to be had (in use: ", use().in_use,
                      Source::state(), ")");
  }

  static constexpr std::size_t shared_from = std::size_t{1} << 16;  // smaller blocks keep to their size class

  struct Free {
    void* data;
    std::uint64_t since;  // how many allocations there had been
  };

  /// The blocks of a size wait in the order in which they came, the one that is taken next last.
  void give_back_unused() noexcept {
    if constexpr (requires { Source::unused_after; }) {
      if (++allocations_ % (Source::unused_after / 16) != 0) return;
      for (auto& [size, blocks] : free_) {
        const auto wanted = std::find_if(blocks.begin(), blocks.end(),
                                         [this](const Free& block) { return allocations_ - block.since < Source::unused_after; });
        for (auto block = blocks.begin(); block != wanted; ++block) {
          Source::give_back(block->data, size);
          use_.cached -= size;
        }
        blocks.erase(blocks.begin(), wanted);
      }
    }
  }

  void count(std::size_t size) {
    use_.in_use += size;
    use_.peak = std::max(use_.peak, use_.in_use);
  }

  [[maybe_unused]] bool always_caches_ = false;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Free>> free_;
  std::uint64_t allocations_ = 0;
  MemoryUse use_;
};

/// The processor's pool.
using MemoryPool = CachingPool<HostMemory>;

namespace kernels {

/// Memory for a tensor, and back; see CachingPool.
inline MemoryPool::Block allocate(Cpu, std::size_t bytes) { return MemoryPool::instance().allocate(bytes); }
/// Back to the pool.
inline void deallocate(Cpu, MemoryPool::Block block) noexcept { MemoryPool::instance().deallocate(block); }

/// Gives all cached memory back to the system.
inline void release_cached(Cpu) noexcept { MemoryPool::instance().release_cached(); }

/// y[i] = value.
template <class T>
void fill(Cpu, index_t n, T value, T* y) {
  std::fill(y, y + n, value);
}

/// y[i] = x[i]; the ranges do not overlap.
template <class T>
void copy(Cpu, index_t n, const T* x, T* y) {
  if (n > 0) std::memcpy(y, x, n * sizeof(T));
}

}  // namespace kernels

/// Memory of the processor to which a file is mapped for this program alone: the system reads what is looked at, and what is
/// written stays in the program (`MAP_PRIVATE`). See io::map_privately.
struct MappedMemory {
  void* data = nullptr;
  std::size_t size = 0;                ///< in bytes
  std::shared_ptr<const void> keeper;  ///< keeps it mapped; not null
};

/// A block of the device's memory, given back to its pool when the last tensor that looks into it goes.
template <class T, Device D = Cpu>
class Storage {
 public:
  /// Room for `count` elements, not initialised. Throws MemoryError.
  explicit Storage(index_t count) {
    if (count > 0) block_ = allocate(D{}, count * sizeof(T));
  }
  /// A part of a file.
  explicit Storage(MappedMemory memory) requires std::same_as<D, Cpu> : block_{.data = memory.data, .size = memory.size},
                                                                        keeper_(std::move(memory.keeper)) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() {
    if (block_.data && !keeper_) deallocate(D{}, block_);
  }
  T* data() { return static_cast<T*>(block_.data); }
  [[nodiscard]] bool is_mapped() const { return keeper_ != nullptr; }

 private:
  MemoryBlock block_;
  std::shared_ptr<const void> keeper_;  // of memory that is none of the pool's
};

}  // namespace attend
