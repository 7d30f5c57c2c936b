#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
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
#include "attend/core/memory_shelf.hpp"
#include "attend/core/thread_part.hpp"
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
  /// The largest `in_use` since the program began or `reset_peak`: exact in a program of one thread, otherwise to within 128 KB
  /// for each thread, of at most 64.
  std::size_t peak = 0;
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
  /// How many allocations a free block waits for one that it serves: some dozens of training steps. On a shelf it waits up to
  /// three times as long, once its thread has stopped using the shelf.
  static constexpr std::uint64_t unused_after = std::uint64_t{1} << 16;
  /// Small blocks wait on shelves, of which each thread has one.
  static constexpr bool shelves = true;

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

namespace detail {
/// A source of memory whose small blocks wait on shelves.
template <class Source>
concept HasShelves = Source::shelves;
}  // namespace detail

/// Keeps freed blocks by size class and hands them out again, so that a training step in its steady state asks the system for
/// nothing. Blocks that nobody has wanted for long (`Source::unused_after`, if it says so), as after a training those of its
/// steps, go back to the system. Safe to use from several threads, which seldom wait for one another over small blocks
/// (`Source::shelves`, if it says so); each then keeps up to half a megabyte of these. `Source`: where new blocks come from, see
/// HostMemory.
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
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    const std::size_t size = bytes <= most ? size_class(bytes) : bytes;
    if (size > most) refuse(bytes);
    if (has_shelves && shelves_are_due_.load(std::memory_order_relaxed)) clear_unused_shelves();
    if (const Block kept = take(size); kept.data != nullptr) return kept;
    void* block = Source::take(size);
    if (block == nullptr) Source::make_room(*this), block = Source::take(size);
    if (block == nullptr) refuse(bytes);
    const std::lock_guard lock(mutex_);
    add_taken(size, false);
    return {block, size, this};
  }

  /// Takes back a block of `allocate`, to hand it out again.
  void deallocate(Block block) noexcept {
    Shelf& shelf = own_shelf();
    const std::lock_guard own(shelf.mutex);
    if (on_shelves(block.size)) {
      shelf.put(block.data, block.size);
      if (shelf.is_full()) clear(shelf);
      else if (shelf.has_news()) hear(shelf);
      return;
    }
    const std::lock_guard lock(mutex_);
    add(shelf.news());
    const auto freed = static_cast<std::ptrdiff_t>(block.size);
    add({.in_use = -freed, .cached = freed});
#if defined(ATTEND_NO_POOL)
    if (!always_caches_) return give_back(block.data, block.size);
#endif
    keep(block.data, block.size);
  }

  /// Gives all cached blocks back to the system.
  void release_cached() noexcept {
    for (Shelf& shelf : shelves_) {
      const std::lock_guard own(shelf.mutex);
      clear(shelf);
    }
    const std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_)
      for (const Free& block : blocks) give_back(block.data, size);
    free_.clear();
  }

  /// What is in use and cached at the moment, and the peak.
  [[nodiscard]] MemoryUse use() {
    hear_all();
    const std::lock_guard lock(mutex_);
    const auto size = [](std::ptrdiff_t bytes) { return static_cast<std::size_t>(std::max(bytes, std::ptrdiff_t{0})); };
    return {.in_use = size(total_.in_use), .cached = size(total_.cached), .peak = size(total_.most)};
  }
  /// The peak is counted anew from here.
  void reset_peak() {
    hear_all();
    const std::lock_guard lock(mutex_);
    total_.most = total_.in_use;
  }

 private:
  [[noreturn]] void refuse(std::size_t bytes) {
    throw MemoryError(Source::name, ": ", bytes, " bytes were asked for and are not to be had (in use: ", use().in_use,
                      Source::state(), ")");
  }

  static constexpr std::size_t shared_from = std::size_t{1} << 16;  // smaller blocks keep to their size class

#if defined(ATTEND_NO_POOL)
  static constexpr bool has_shelves = false;
#else
  static constexpr bool has_shelves = detail::HasShelves<Source>;
#endif
  using Shelf = detail::MemoryShelf;
  Shelf& own_shelf() { return shelves_[has_shelves ? detail::thread_part() : 0]; }
  /// Whether blocks of this size class wait on shelves.
  static constexpr bool on_shelves(std::size_t size) { return has_shelves && size <= Shelf::largest; }

  struct Free {
    void* data;
    std::uint64_t since;  // how many allocations there had been
    std::size_t part;     // of the thread that freed it
  };

  /// A block that was freed, or null.
  Block take(std::size_t size) {
    Shelf& shelf = own_shelf();
    const std::lock_guard own(shelf.mutex);
    if (void* block = on_shelves(size) ? shelf.take(size) : nullptr) {
      if (shelf.has_news()) hear(shelf);
      return {block, size, this};
    }
    const std::lock_guard lock(mutex_);
    add(shelf.news());
    // Up to twice the size; what comes after the largest size class is 0.
    for (std::size_t other = size; other >= size && other - size <= size; other = size_class(other + 1)) {
      const auto blocks = free_.find(other);
      if (blocks != free_.end() && !blocks->second.empty()) {
        void* const data = remove_nearest(blocks->second);
        add_taken(other, true);
        return {data, other, this};
      }
      if (size < shared_from) break;
    }
    return {};
  }

  /// The block freed last, or one of those freed shortly before if that was by this thread, whose caches may still hold it.
  static void* remove_nearest(std::vector<Free>& blocks) {
    constexpr std::ptrdiff_t recent = 8;
    const auto last = blocks.rbegin(), end = last + std::min(recent, std::ssize(blocks));
    const auto own = std::find_if(last, end, [](const Free& block) { return block.part == detail::thread_part(); });
    const auto nearest = own != end ? own : last;
    void* const data = nearest->data;
    blocks.erase(std::next(nearest).base());
    return data;
  }

  // What follows is called with `mutex_` locked, but for what locks it. A shelf's mutex is locked before it.

  void add(const detail::MemoryTally& news) {
    total_.most = std::max(total_.most, total_.in_use + news.most);
    total_.in_use += news.in_use;
    total_.cached += news.cached;
    const std::uint64_t before = std::exchange(total_.allocations, total_.allocations + news.allocations);
    if constexpr (requires { Source::unused_after; }) {
      constexpr std::uint64_t period = Source::unused_after / 16;
      if (before / period != total_.allocations / period) give_back_unused();
      if (before / Source::unused_after != total_.allocations / Source::unused_after)
        shelves_are_due_.store(true, std::memory_order_relaxed);
    }
  }

  /// A block of that size has been handed out.
  void add_taken(std::size_t size, bool was_cached) {
    const auto bytes = static_cast<std::ptrdiff_t>(size);
    add({.in_use = bytes, .most = bytes, .cached = was_cached ? -bytes : 0, .allocations = 1});
  }

  /// The blocks of a size wait in the order in which they came.
  void give_back_unused() noexcept {
    for (auto& [size, blocks] : free_) {
      const auto wanted = std::find_if(blocks.begin(), blocks.end(), [this](const Free& block) {
        return total_.allocations - block.since < Source::unused_after;
      });
      for (auto block = blocks.begin(); block != wanted; ++block) give_back(block->data, size);
      blocks.erase(blocks.begin(), wanted);
    }
  }

  /// For any thread to take.
  void keep(void* block, std::size_t size) noexcept {
    try {
      free_[size].push_back({block, total_.allocations, detail::thread_part()});
    } catch (...) {
      give_back(block, size);
    }
  }
  /// To the system.
  void give_back(void* block, std::size_t size) noexcept {
    Source::give_back(block, size);
    total_.cached -= static_cast<std::ptrdiff_t>(size);
  }

  /// Locks `mutex_`.
  void hear_all() {
    for (Shelf& shelf : shelves_) {
      const std::lock_guard own(shelf.mutex);
      hear(shelf);
    }
  }
  /// Locks `mutex_`.
  void hear(Shelf& shelf) {
    const std::lock_guard lock(mutex_);
    add(shelf.news());
  }
  /// So that blocks on shelves of threads that have ended are not kept for ever. Locks shelves and `mutex_`.
  void clear_unused_shelves() {
    if (!shelves_are_due_.exchange(false, std::memory_order_relaxed)) return;  // another thread is at it
    for (Shelf& shelf : shelves_) {
      const std::unique_lock own(shelf.mutex, std::try_to_lock);  // if its thread is at it, it is used
      if (own.owns_lock() && !shelf.was_used()) clear(shelf);
    }
  }
  /// Its blocks are now for any thread to take. Locks `mutex_`.
  void clear(Shelf& shelf) noexcept {
    const std::lock_guard lock(mutex_);
    add(shelf.news());
    shelf.clear([this](void* block, std::size_t size) { keep(block, size); });
  }

  [[maybe_unused]] bool always_caches_ = false;
  // As many whether they are in use or not: files with and without the address sanitizer may share a pool.
  std::array<Shelf, detail::HasShelves<Source> ? detail::thread_parts : 1> shelves_;
  std::atomic<bool> shelves_are_due_{false};  // to be looked through
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Free>> free_;
  detail::MemoryTally total_;  // `most` since `reset_peak`
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
  /// Room for `count` elements, not initialised. Throws MemoryError, also if their bytes are more than can be counted.
  explicit Storage(index_t count) {
    if (count > 0) block_ = allocate(D{}, std::min(SIZE_MAX / sizeof(T), static_cast<std::size_t>(count)) * sizeof(T));
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
