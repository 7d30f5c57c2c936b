#include "attend/core/shape.hpp"

#include <limits>
#include <vector>

#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a shape knows its sizes") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape.size() == 24);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 4);
  CHECK(shape.axis(-3) == 0);
  CHECK(shape.text() == "[2, 3, 4]");
  CHECK(shape.with(1, 7) == Shape{2, 7, 4});
  CHECK(shape.with(1, 7).size() == 56);
  CHECK(std::vector<index_t>(shape.begin(), shape.end()) == std::vector<index_t>{2, 3, 4});
  CHECK_FALSE(shape == Shape{2, 3});
  CHECK_FALSE(shape == Shape{2, 3, 5});
}

TEST_CASE("a scalar's shape has one element, an empty one none") {
  CHECK(Shape{}.rank() == 0);
  CHECK(Shape{}.size() == 1);
  CHECK(Shape{}.text() == "[]");
  CHECK(Shape{3, 0, 5}.size() == 0);
}

TEST_CASE("a shape refuses what cannot be") {
  CHECK_THROWS_AS((Shape{2, -1}), ShapeError);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  constexpr index_t huge = std::numeric_limits<index_t>::max();
  CHECK_THROWS_AS((Shape{huge, 2}), ShapeError);
  CHECK_THROWS_AS((Shape{index_t{1} << 32, index_t{1} << 32}), ShapeError);
  CHECK(Shape{huge}.size() == huge);
  CHECK((Shape{2, 3}.with(0, huge / 3).size()) == huge / 3 * 3);
  CHECK_THROWS_AS((Shape{2, 3}.with(0, huge)), ShapeError);
  CHECK_THROWS_AS((Shape{2, 3}[2]), IndexError);
  CHECK_THROWS_AS((Shape{2, 3}[-3]), IndexError);
  CHECK_THROWS_AS(Shape{}[0], IndexError);
  CHECK_THROWS_WITH((Shape{2, 3}[2]), ContainsSubstring("[2, 3]"));
}

TEST_CASE("rows_and_width joins all dimensions but the last") {
  const auto size = rows_and_width({2, 3, 4});
  CHECK(size.rows == 6);
  CHECK(size.width == 4);
  CHECK(rows_and_width({5}).rows == 1);
  CHECK(rows_and_width({5, 0}).rows == 5);
  CHECK_THROWS_AS(rows_and_width({}), ShapeError);
}

TEST_CASE("checks name the operation, what it got and what it expected") {
  CHECK_NOTHROW(check_shape("norm", "gamma", {4}, {4}));
  CHECK_THROWS_WITH(check_shape("norm", "gamma", {5}, {4}), "norm: gamma has shape [5], expected [4]");
  CHECK_NOTHROW(check_value(true, "norm", "bad"));
  CHECK_THROWS_WITH(check_value(false, "norm", "eps is negative"), "norm: eps is negative");
  CHECK_THROWS_AS(check_value(false, "norm", "eps is negative"), ValueError);
}
