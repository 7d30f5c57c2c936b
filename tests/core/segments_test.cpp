#include "attend/core/segments.hpp"

#include "catch.hpp"

using namespace attend;

TEST_CASE("ragged segments lie end to end") {
  const auto s = Segments::ragged({3, 0, 5});
  CHECK(s.count() == 3);
  CHECK(s.rows() == 8);
  CHECK(s.begin(0) == 0);
  CHECK(s.begin(1) == 3);
  CHECK(s.begin(2) == 3);
  CHECK(s.length(2) == 5);
  CHECK(s.keys(2) == 5);
  CHECK(s.longest() == 5);
  CHECK(s.most_keys() == 5);
  CHECK(s.lengths() == std::vector<index_t>{3, 0, 5});
  CHECK_THROWS_AS(Segments::ragged({2, -1}), ValueError);
}

TEST_CASE("dense segments are of equal length, with fewer keys where there is padding") {
  const std::vector<index_t> lengths{4, 2, 0};
  const auto s = Segments::dense(3, 4, lengths);
  CHECK(s.rows() == 12);
  CHECK(s.begin(2) == 8);
  CHECK(s.length(1) == 4);
  CHECK(s.keys(1) == 2);
  CHECK(s.keys(2) == 0);
  CHECK(s.most_keys() == 4);
  CHECK(Segments::dense(2, 3).keys(1) == 3);
  CHECK_THROWS_AS(Segments::dense(2, 4, lengths), ShapeError);
  CHECK_THROWS_AS(Segments::dense(3, 3, lengths), ValueError);
  CHECK_THROWS_AS(Segments::dense(-1, 3), ValueError);
}

TEST_CASE("segments twice are all sentences and then all of them again") {
  CHECK(Segments::ragged({3, 0, 5}).twice() == Segments::ragged({3, 0, 5, 3, 0, 5}));
  const std::vector<index_t> once{4, 2}, again{4, 2, 4, 2};
  CHECK(Segments::dense(2, 4, once).twice() == Segments::dense(4, 4, again));
  CHECK(Segments::ragged({3, 5}).twice().rows() == 16);
  CHECK_THROWS_AS(Segments::room(2, 8, 4, nullptr).twice(), ValueError);
}

TEST_CASE("segments compare by what they say") {
  CHECK(Segments::ragged({3, 3}) == Segments::dense(2, 3));
  CHECK_FALSE(Segments::ragged({3, 4}) == Segments::ragged({4, 3}));
  CHECK(Segments().count() == 0);
  CHECK(Segments() == Segments::ragged({}));
}

TEST_CASE("segments refuse a tensor with other rows") {
  CHECK_NOTHROW(Segments::ragged({3, 4}).check_rows("attention", "q", 7));
  CHECK_THROWS_WITH(Segments::ragged({3, 4}).check_rows("attention", "q", 8),
                    "attention: q has 8 rows, expected 7 of 2 sentences");
}
