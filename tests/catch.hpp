#pragma once
/// Catch2, whose second and third version lie at different places: tests include this and write Approx, REQUIRE, GENERATE,
/// REQUIRE_THAT as both versions know them. Matchers: Catch::Matchers::….

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {
// Its name in the third version.
inline auto ContainsSubstring(const std::string& part) { return Contains(part); }  // NOLINT(readability-identifier-naming)
}  // namespace Catch::Matchers
#pragma GCC poison Contains  // so that nobody uses it: in the third version it looks for an element
#endif
