#include "attend/core/broadcast.hpp"

#include <vector>

#include "catch.hpp"

using namespace attend;

TEST_CASE("shapes broadcast by NumPy's rule") {
  CHECK(broadcast_shape("add", {3, 4}, {3, 4}) == Shape{3, 4});
  CHECK(broadcast_shape("add", {5, 1, 4}, {3, 1}) == Shape{5, 3, 4});
  CHECK(broadcast_shape("add", {}, {2, 2}) == Shape{2, 2});
  CHECK(broadcast_shape("add", {0, 3}, {1, 1}) == Shape{0, 3});
  CHECK_THROWS_WITH(broadcast_shape("add", {2, 3}, {2}), "add: shapes [2, 3] and [2] do not broadcast");
  CHECK_THROWS_AS(broadcast_shape("add", {0}, {2}), ShapeError);
}

TEST_CASE("dimensions walked alike are joined") {
  const auto equal = broadcast_strides({2, 3, 4}, {2, 3, 4}, {2, 3, 4});
  CHECK(equal.rank == 1);
  CHECK(equal.inner() == 24);
  CHECK(equal.inner_a() == 1);

  const auto row = broadcast_strides({2, 3, 4}, {2, 3, 4}, {4});
  CHECK(row.rank == 2);
  CHECK(row.size[0] == 6);
  CHECK(row.inner() == 4);
  CHECK(row.b[0] == 0);
  CHECK(row.inner_b() == 1);

  const auto one = broadcast_strides({1, 1}, {1, 1}, {});
  CHECK(one.rank == 1);
  CHECK(one.count() == 1);
  CHECK(one.inner_a() == 0);
}

TEST_CASE("a walk visits what the strides say, from any place on") {
  StridedWalk walk;
  walk.append(2, 12, 0, 5);
  walk.append(3, 4, 1, 0);
  CHECK(walk.count() == 6);
  std::vector<index_t> y, a, b;
  for (walk.go_to(2); y.size() < 4; walk.next()) y.push_back(walk.y), a.push_back(walk.a), b.push_back(walk.b);
  CHECK(y == std::vector<index_t>{8, 12, 16, 20});
  CHECK(a == std::vector<index_t>{2, 0, 1, 2});
  CHECK(b == std::vector<index_t>{0, 5, 5, 5});
}

TEST_CASE("rows are split into those where a moves and those where it stands") {
  const RowWalks walks(broadcast_strides({2, 3, 4}, {3, 1}, {2, 1, 4}));
  CHECK(walks.all.count() == 6);
  CHECK(walks.kept.count() == 3);
  CHECK(walks.summed.count() == 2);
}
