#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "attend/core/thread_part.hpp"

namespace attend::detail {

/// What has happened at a MemoryShelf since its pool last heard of it.
struct MemoryTally {
  std::ptrdiff_t in_use = 0;  ///< bytes handed out, less those taken back
  std::ptrdiff_t most = 0;    ///< the largest `in_use`
  std::ptrdiff_t cached = 0;  ///< bytes taken back, less those handed out again
  std::uint64_t allocations = 0;
};

/// Small blocks that a thread has freed, for what it asks a CachingPool for next: it then waits for no other thread, and gets
/// memory that is in its own caches. A free block's first bytes say where the next one is. Functions are called with `mutex`
/// locked.
class alignas(cache_line) MemoryShelf {
 public:
  /// In bytes. Larger blocks have no place here.
  static constexpr std::size_t largest = (std::size_t{1} << 16) - 1;

  std::mutex mutex;

  /// A block of a size class, or null.
  void* take(std::size_t size) {
    Free*& first = first_[number_of(size)];
    if (first == nullptr) return nullptr;
    held_ -= size;
    used_ = true;
    count(static_cast<std::ptrdiff_t>(size));
    ++tally_.allocations;
    return std::exchange(first, first->next);
  }
  void put(void* block, std::size_t size) {
    Free*& first = first_[number_of(size)];
    first = ::new (block) Free{first};
    held_ += size;
    used_ = true;
    count(-static_cast<std::ptrdiff_t>(size));
  }

  /// Whether it holds more than should be kept from other threads, half a megabyte.
  [[nodiscard]] bool is_full() const { return held_ > std::size_t{1} << 19; }
  /// receive(block, size) of every block. The tally still counts them as cached.
  template <class F>
  void clear(F&& receive) {
    for (std::size_t n = 0; n < first_.size(); ++n)
      for (Free* block = std::exchange(first_[n], nullptr); block != nullptr;) {
        Free* const next = block->next;
        receive(static_cast<void*>(block), size_of(n));
        block = next;
      }
    held_ = 0;
  }

  /// Whether a block came or went since this was asked before.
  bool was_used() { return std::exchange(used_, false); }
  /// Whether the pool should hear of it: so that what it knows is not far from the truth.
  [[nodiscard]] bool has_news() const {
    constexpr std::ptrdiff_t bytes = std::ptrdiff_t{1} << 16;
    return tally_.in_use > bytes || tally_.in_use < -bytes || tally_.allocations > 256;
  }
  /// What the pool hears, once.
  MemoryTally news() { return std::exchange(tally_, {}); }

 private:
  struct Free {
    Free* next;
  };

  /// Size classes in order: 64, 128, 192, 256, 320, ...; see CachingPool::size_class.
  static std::size_t number_of(std::size_t size) {
    if (size <= 256) return size / 64 - 1;
    const auto power = static_cast<std::size_t>(std::bit_width(size - 1)) - 1;  // size is above 2^power, and at most twice that
    return 4 * (power - 7) + (size >> (power - 2)) - 5;
  }
  static std::size_t size_of(std::size_t number) {
    if (number < 4) return 64 * (number + 1);
    return (number % 4 + 5) << (number / 4 + 5);
  }

  void count(std::ptrdiff_t taken) {
    tally_.in_use += taken, tally_.cached -= taken;
    tally_.most = std::max(tally_.most, tally_.in_use);
  }

  std::array<Free*, 35> first_{};
  std::size_t held_ = 0;  // bytes
  bool used_ = false;
  MemoryTally tally_;
};

}  // namespace attend::detail
