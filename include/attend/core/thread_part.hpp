#pragma once

#include <atomic>
#include <cstddef>

namespace attend::detail {

/// In bytes, of the processors' caches: threads that write to one of them take turns.
inline constexpr std::size_t cache_line = 64;

/// How many parts there are of what threads would otherwise contend for. Threads beyond so many share a part with others.
inline constexpr std::size_t thread_parts = 64;

/// Which part is this thread's: the first thread that asks has 0, the next one 1, and after `thread_parts` it begins again.
inline std::size_t thread_part() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t part = threads.fetch_add(1, std::memory_order_relaxed) % thread_parts;
  return part;
}

}  // namespace attend::detail
