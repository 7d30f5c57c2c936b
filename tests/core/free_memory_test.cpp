#include "attend/core/free_memory.hpp"

#include <map>
#include <optional>
#include <string>

#include "catch.hpp"

using namespace attend;

namespace {

/// What control groups leave a process, of files that have these texts.
std::optional<std::uint64_t> left_by(const std::string& groups, const std::map<std::string, std::string>& files) {
  return detail::memory_of_groups(groups, [&](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::string() : found->second;
  });
}

}  // namespace

#if defined(__linux__)
TEST_CASE("free memory: some, and no more than an exabyte") {
  const auto free = detail::free_memory();
  REQUIRE(free);
  CHECK(*free > 0);
  CHECK(*free >> 60 == 0);
}
#endif

TEST_CASE("free memory: the least that control groups leave, files that are not used counted as free") {
  const std::string a = "/sys/fs/cgroup/a/", top = "/sys/fs/cgroup/";
  CHECK_FALSE(left_by("0::/a\n", {}));
  CHECK_FALSE(left_by("0::/a\n", {{a + "memory.max", "max\n"}, {a + "memory.current", "5000\n"}}));
  CHECK(left_by("0::/a\n", {{a + "memory.max", "8000\n"}, {a + "memory.current", "5000\n"}}) == 3000u);
  CHECK(left_by("0::/a\n", {{a + "memory.max", "8000\n"},
                            {a + "memory.current", "5000\n"},
                            {a + "memory.stat", "anon 4000\nworkingset_inactive_file 7\ninactive_file 600\n"}}) == 3600u);
  CHECK(left_by("0::/a\n", {{a + "memory.max", "4000\n"}, {a + "memory.current", "5000\n"}}) == 0u);
  CHECK(left_by("0::/a\n", {{a + "memory.max", "8000\n"},
                            {a + "memory.current", "5000\n"},
                            {a + "memory.stat", "active_file 50\nslab_reclaimable 6000\n"}}) == 8000u);
  CHECK(left_by("0::/a\n", {{a + "memory.max", "max\n"},
                            {a + "memory.current", "5000\n"},
                            {top + "memory.max", "9000\n"},
                            {top + "memory.current", "8500\n"}}) == 500u);
  CHECK(left_by("0::/a\n", {{a + "memory.max", "8000\n"},
                            {a + "memory.current", "5000\n"},
                            {top + "memory.max", "9000\n"},
                            {top + "memory.current", "8500\n"}}) == 500u);
}

TEST_CASE("free memory: control groups of the first version") {
  const std::string a = "/sys/fs/cgroup/memory/a/";
  CHECK(left_by("4:cpu,cpuacct:/b\n9:memory:/a\n", {{a + "memory.limit_in_bytes", "8000\n"},
                                                    {a + "memory.usage_in_bytes", "5000\n"},
                                                    {a + "memory.stat", "inactive_file 1\ntotal_inactive_file 600\n"}}) == 3600u);
  const std::string none = "9223372036854771712\n";
  CHECK(left_by("9:memory:/a\n", {{a + "memory.limit_in_bytes", none},
                                  {a + "memory.usage_in_bytes", "5000\n"},
                                  {a + "memory.stat", "total_active_file 900000\n"}}) == 9223372036854771712u);
}
