#include "attend/core/processors.hpp"

#include <map>
#include <string>

#include "catch.hpp"

using namespace attend;

namespace {

/// What control groups leave a process, of files that have these texts.
int left_by(const std::string& groups, const std::map<std::string, std::string>& files) {
  return detail::processors_of_groups(groups, [&](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::string() : found->second;
  });
}

}  // namespace

TEST_CASE("processors: there is one at least, and no more than threads run at the same time") {
  CHECK(available_processors() >= 1);
  CHECK(available_processors() <= static_cast<int>(std::thread::hardware_concurrency()));
}

TEST_CASE("processors: what a control group leaves a process, rounded up") {
  const std::string group = "0::/a/b\n", cpu_max = "/sys/fs/cgroup/a/b/cpu.max";
  CHECK(left_by(group, {}) == 0);
  CHECK(left_by("0::a\n", {{"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}) == 2);  // a name without its slash
  CHECK(left_by("", {{cpu_max, "100000 100000\n"}}) == 0);
  CHECK(left_by(group, {{cpu_max, "max 100000\n"}}) == 0);
  CHECK(left_by(group, {{cpu_max, "200000 100000\n"}}) == 2);
  CHECK(left_by(group, {{cpu_max, "50000 100000\n"}}) == 1);
  CHECK(left_by(group, {{cpu_max, "250000 100000\n"}}) == 3);
  CHECK(left_by(group, {{cpu_max, "9000000000000000000 1\n"}}) == (1 << 20));
  for (const char* text : {"", "x", "5", "5 ", "-1 100000", "100000 0", "0 100000"})
    CHECK(left_by(group, {{cpu_max, text}}) == 0);
}

TEST_CASE("processors: the least of a group and of those above it") {
  CHECK(left_by("0::/a/b", {{"/sys/fs/cgroup/a/b/cpu.max", "400000 100000"}, {"/sys/fs/cgroup/a/cpu.max", "100000 100000"}}) ==
        1);
  CHECK(left_by("0::/a/b", {{"/sys/fs/cgroup/cpu.max", "300000 100000"}}) == 3);
  CHECK(left_by("0::/", {{"/sys/fs/cgroup/cpu.max", "300000 100000"}}) == 3);
}

TEST_CASE("processors: control groups of the first version") {
  const std::string groups = "12:cpuset:/c\n5:cpu,cpuacct:/a\nno line of one\n3:cpuacct2:/b\n";
  const auto left = [&](const std::string& quota, const std::string& period) {
    const std::string folder = "/sys/fs/cgroup/cpu/a/";
    return left_by(groups, {{folder + "cpu.cfs_quota_us", quota}, {folder + "cpu.cfs_period_us", period}});
  };
  CHECK(left("150000\n", "100000\n") == 2);
  CHECK(left("-1\n", "100000\n") == 0);
  CHECK(left("150000\n", "") == 0);
}
