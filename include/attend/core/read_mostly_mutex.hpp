#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "attend/core/thread_part.hpp"

namespace attend::detail {

/// A mutex for what many threads read all the time and one seldom writes. A reader locks its thread's part alone, so that a few
/// readers neither wait for one another nor take turns with a cache line; a writer locks all parts, and readers that come later
/// wait for it. For std::shared_lock and std::unique_lock, which the same thread has to release.
class ReadMostlyMutex {
 public:
  void lock_shared() {
    if (writing_.load(std::memory_order_acquire)) {
      const std::lock_guard wait(writers_);
    }
    own().lock_shared();
  }
  void unlock_shared() { own().unlock_shared(); }
  void lock() {
    writers_.lock();
    writing_.store(true, std::memory_order_release);
    for (Part& part : parts_) part.mutex.lock();
  }
  void unlock() {
    for (Part& part : parts_) part.mutex.unlock();
    writing_.store(false, std::memory_order_release);
    writers_.unlock();
  }

 private:
  struct alignas(cache_line) Part {
    std::shared_mutex mutex;
  };
  std::shared_mutex& own() { return parts_[thread_part() % parts_.size()].mutex; }

  std::mutex writers_;
  std::atomic<bool> writing_{false};
  std::array<Part, 16> parts_;  // the thread sanitizer cannot follow a thread that holds 64 locks
};

}  // namespace attend::detail
