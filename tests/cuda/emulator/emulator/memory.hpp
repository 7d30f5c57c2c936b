#pragma once
/// \file
/// Device memory and pinned host memory. Device memory is out of the host's reach: its pages may be touched only while a kernel
/// or a copy runs, so a host that follows a device pointer dies at once. (Where there are many blocks they are closed after some
/// of the kernels alone: the system calls would cost more than the kernels.) Under the address sanitizer it is an ordinary heap
/// block instead, whose ends the sanitizer watches.

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "emulator/api.hpp"
#include "emulator/fault.hpp"

namespace emulator {

/// One call of the runtime at a time, and with it one kernel.
inline std::recursive_mutex& mutex() {
  static std::recursive_mutex* one = new std::recursive_mutex;  // outlives whatever has static duration
  return *one;
}
using Lock = std::lock_guard<std::recursive_mutex>;

inline thread_local cudaError_t last_error = cudaSuccess;
/// That of this thread.
inline thread_local int current_device = 0;
/// What every call of the runtime returns through: an error stays to be asked for.
inline cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// Ranges of memory by where they begin.
class Ranges {
 public:
  void add(void* at, std::size_t bytes) { ranges_[reinterpret_cast<std::uintptr_t>(at)] = bytes; }
  bool remove(const void* at, std::size_t& bytes) {
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(at));
    if (found == ranges_.end()) return false;
    bytes = found->second;
    ranges_.erase(found);
    return true;
  }
  /// Whether all of `at` … `at + bytes` lies in one of them.
  bool holds(const void* at, std::size_t bytes) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    auto after = ranges_.upper_bound(begin);
    if (after == ranges_.begin()) return false;
    --after;
    return begin + bytes <= after->first + after->second && begin < after->first + (after->second == 0 ? 1 : after->second);
  }
  auto begin() const { return ranges_.begin(); }
  auto end() const { return ranges_.end(); }
  std::size_t size() const { return ranges_.size(); }

 private:
  std::map<std::uintptr_t, std::size_t> ranges_;
};

class Memory {
 public:
  static Memory& instance() {
    static Memory* one = new Memory;
    return *one;
  }

  void* allocate(std::size_t bytes) {
    if (bytes > total_ || used_ > total_ - bytes) return nullptr;
#if defined(EMULATOR_ADDRESS_SANITIZER)
    void* at = nullptr;
    if (::posix_memalign(&at, alignment, bytes) != 0) return nullptr;
    std::memset(at, 0xff, bytes);
#else
    const std::size_t pages = pages_of(bytes);
    void* memory = ::mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    // Ends where its pages end, as near as its alignment lets it; behind them is one that nobody may touch.
    auto* at = static_cast<unsigned char*>(memory) + (pages - (bytes + alignment - 1) / alignment * alignment);
    std::memset(memory, 0xff, pages);
    ::mprotect(static_cast<unsigned char*>(memory) + pages, page, PROT_NONE);
    if (closed_) ::mprotect(memory, pages, PROT_NONE);
#endif
    device_.add(at, bytes);
    owners_[reinterpret_cast<std::uintptr_t>(at)] = current_device;
    used_ += bytes;
    return at;
  }

  bool free(void* at) {
    std::size_t bytes = 0;
    if (!device_.remove(at, bytes)) return false;
    owners_.erase(reinterpret_cast<std::uintptr_t>(at));
    used_ -= bytes;
#if defined(EMULATOR_ADDRESS_SANITIZER)
    std::free(at);
#else
    ::munmap(page_of(at), pages_of(bytes) + page);
#endif
    return true;
  }

  void* allocate_pinned(std::size_t bytes) {
    void* at = nullptr;
    if (::posix_memalign(&at, page, bytes) != 0) return nullptr;
    std::memset(at, 0xff, bytes);
    pinned_.add(at, bytes);
    return at;
  }
  bool free_pinned(void* at) {
    std::size_t bytes = 0;
    if (!pinned_.remove(at, bytes)) return false;
    std::free(at);
    return true;
  }

  bool is_device(const void* at, std::size_t bytes) const { return device_.holds(at, bytes); }
  /// The device whose memory this address lies in, which is_device says.
  int device_of(const void* at) const { return std::prev(owners_.upper_bound(reinterpret_cast<std::uintptr_t>(at)))->second; }
  bool is_pinned(const void* at, std::size_t bytes) const { return pinned_.holds(at, bytes); }
  std::size_t used() const { return used_; }
  std::size_t blocks() const { return device_.size(); }
  std::size_t pinned_blocks() const { return pinned_.size(); }
  std::size_t total() const { return total_; }
  void set_total(std::size_t bytes) { total_ = bytes; }

  /// As long as one of these lives, device memory may be touched.
  class Open {
   public:
    Open() {
      if (instance().open_++ == 0) instance().set_closed(false);
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() {
      if (--instance().open_ == 0) instance().set_closed(instance().closes());
    }
  };

 private:
  static constexpr std::size_t alignment = 256;
  static constexpr std::size_t page = 4096;
  static std::size_t pages_of(std::size_t bytes) { return (bytes + page - 1) / page * page; }
  static void* page_of(void* at) { return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(at) / page * page); }

  /// Whether memory is closed this time: always where it has few blocks, otherwise so often that a mistake that is made all the
  /// time is found. A prime number, so that it does not keep step with a loop.
  bool closes() {
    constexpr std::size_t few = 32;
    constexpr unsigned period = 17;
    return device_.size() <= few || ++since_closed_ % period == 0;
  }
  void set_closed(bool closed) {
    if (closed_ == closed) return;
    closed_ = closed;
#if !defined(EMULATOR_ADDRESS_SANITIZER)
    const int protection = closed ? PROT_NONE : PROT_READ | PROT_WRITE;
    for (const auto& [at, bytes] : device_) ::mprotect(page_of(reinterpret_cast<void*>(at)), pages_of(bytes), protection);
#endif
  }

  Ranges device_, pinned_;
  std::map<std::uintptr_t, int> owners_;  // by where blocks begin: the device that was current
  std::size_t used_ = 0, total_ = std::size_t{4} << 30;
  int open_ = 0;
  bool closed_ = true;
  unsigned since_closed_ = 0;
};

/// How much memory the device has, from now on; 4 GiB at the start.
inline void set_device_memory(std::size_t bytes) {
  const Lock lock(mutex());
  Memory::instance().set_total(bytes);
}
/// Bytes and blocks that are allocated at the moment, to see that a program gives everything back.
inline std::size_t device_memory_in_use() {
  const Lock lock(mutex());
  return Memory::instance().used();
}

inline int& device_count() {
  static int count = 1;
  return count;
}
/// How many devices there seem to be: 0 (every call gives cudaErrorNoDevice), 1, as at the start, or more, which differ by their
/// numbers alone.
inline void set_device_count(int count) { device_count() = count; }

}  // namespace emulator
