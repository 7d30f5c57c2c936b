#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "attend/core/control_groups.hpp"

namespace attend {

namespace detail {

/// Processors for `quota` microseconds in every `period`, rounded up; 0 if that is no limit.
inline int processors_for(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<long long>((quota - 1) / period + 1, 1 << 20));
}

/// The least that the control groups of a process leave it, see `for_each_group`; 0 if that is no limit. `read` gives a file's
/// text, as `system_text` does.
/// Source: Linux's documentation, "Control Group v2" (cpu.max) and "CFS Bandwidth Control" (cpu.cfs_quota_us).
template <class Read>
int processors_of_groups(std::string_view groups, const Read& read) {
  int least = 0;
  for_each_group(groups, "cpu", [&](const std::string& folder, int version) {
    int n = 0;
    if (version == 2) {
      const std::string text = read(folder + "/cpu.max");
      if (const std::size_t space = text.find(' '); space != text.npos)
        n = processors_for(number_at(text), number_at(std::string_view(text).substr(space)));
    } else {
      n = processors_for(number_at(read(folder + "/cpu.cfs_quota_us")), number_at(read(folder + "/cpu.cfs_period_us")));
    }
    if (n > 0) least = least == 0 ? n : std::min(least, n);
  });
  return least;
}

}  // namespace detail

/// The processors that this process may use: those that there are, or that it is bound to, and no more than its control group
/// leaves it, as a container's limit does.
inline int available_processors() {
  int n = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) n = CPU_COUNT(&set);
  const int limit = detail::processors_of_groups(detail::system_text("/proc/self/cgroup"), detail::system_text);
  if (limit > 0) n = std::min(n, limit);
#endif
  return std::max(1, n);
}

}  // namespace attend
