#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#if defined(__linux__)
#include <sys/resource.h>
#include <unistd.h>
#endif

#include "attend/core/control_groups.hpp"
#include "attend/core/windows.hpp"

namespace attend::detail {

/// `least` becomes so many bytes if it is more, or nothing yet. Fewer than none are none.
inline void allow(std::optional<std::uint64_t>& least, long long bytes) {
  const auto rest = static_cast<std::uint64_t>(std::max(0LL, bytes));
  least = least ? std::min(*least, rest) : rest;
}

/// Bytes that the control groups of a process leave it beside what they use already, see `for_each_group`. What the system takes
/// back when it is short of memory, files above all, is counted as free. `read` gives a file's text.
template <class Read>
std::optional<std::uint64_t> memory_of_groups(std::string_view groups, const Read& read) {
  std::optional<std::uint64_t> least;
  for_each_group(groups, "memory", [&](const std::string& folder, int version) {
    const bool second = version == 2;
    const long long limit = number_at(read(folder + (second ? "/memory.max" : "/memory.limit_in_bytes")));
    const long long used = number_at(read(folder + (second ? "/memory.current" : "/memory.usage_in_bytes")));
    if (limit < 0 || used < 0) return;
    const std::string stat = read(folder + "/memory.stat");
    long long taken_back = 0;
    for (const char* name : {"inactive_file ", "active_file ", "slab_reclaimable "})
      taken_back += std::max(0LL, number_after(stat, (second ? "" : "total_") + std::string(name)));
    allow(least, limit - std::max(0LL, used - taken_back));
  });
  return least;
}

/// Bytes that this process can still have: of the system's memory and its swap, of its control group's and of its addresses
/// (`ulimit -v`); on Windows of what all programs may have together. Nothing where the system does not say.
inline std::optional<std::uint64_t> free_memory() {
#if defined(__linux__)
  const std::string all = system_text("/proc/meminfo");
  const long long swap = 1024 * std::max(0LL, number_after(all, "SwapFree:"));
  std::optional<std::uint64_t> least = memory_of_groups(system_text("/proc/self/cgroup"), system_text);
  if (least) *least += static_cast<std::uint64_t>(swap);  // which a group may have too, or part of it
  if (const long long available = number_after(all, "MemAvailable:"); available >= 0) allow(least, 1024 * available + swap);
  rlimit limit{};
  const long long pages = number_at(system_text("/proc/self/statm"));
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && pages >= 0)
    allow(least, static_cast<long long>(std::min<std::uint64_t>(limit.rlim_cur, std::uint64_t{1} << 62)) -
                     pages * ::sysconf(_SC_PAGESIZE));
  return least;
#elif defined(_WIN32)
  MEMORYSTATUSEX all{};
  all.dwLength = sizeof all;
  if (!::GlobalMemoryStatusEx(&all)) return std::nullopt;
  return std::min(all.ullAvailPageFile, all.ullAvailVirtual);
#else
  return std::nullopt;
#endif
}

}  // namespace attend::detail
