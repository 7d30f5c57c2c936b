#include "attend/cpu/targets.hpp"

#include <cstdlib>
#include <string>

#include "attend/cpu/gemm.hpp"
#include "catch.hpp"

using namespace attend;

TEST_CASE("processor: the set that the environment names, else the last that there is", "[targets]") {
  const auto& least = detail::instruction_sets.front();
  CHECK(detail::choose_instruction_set(std::string(least.name).c_str()).name == least.name);
  CHECK(detail::choose_instruction_set("").level == detail::choose_instruction_set(nullptr).level);
  CHECK(detail::choose_instruction_set(nullptr).level >= least.level);
  CHECK_THROWS_WITH(detail::choose_instruction_set("mmx"), Catch::Matchers::ContainsSubstring("ATTEND_ISA is 'mmx'") &&
                                                               Catch::Matchers::ContainsSubstring(std::string(least.name)));
}
