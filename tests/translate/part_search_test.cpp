#include "attend/translate/part_search.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"

using namespace attend;
using decode::detail::dealt_batches;
using Batches = std::vector<std::vector<index_t>>;

TEST_CASE("dealt_batches: each thread gets a batch, long and short sentences alike, unless there are too few") {
  CHECK(dealt_batches(0, 32, 2, 8).empty());
  CHECK(dealt_batches(3, 32, 2, 8) == Batches{{0, 1, 2}});
  CHECK(dealt_batches(7, 32, 2, 3) == Batches{{0, 2, 4, 6}, {1, 3, 5}});
  CHECK(dealt_batches(7, 32, 4, 3) == Batches{{0, 2, 4, 6}, {1, 3, 5}});
  CHECK(dealt_batches(5, 2, 2, 8) == Batches{{0, 2}, {1}, {3, 4}});
  const auto two_rounds = dealt_batches(70, 32, 2, 8);
  REQUIRE(two_rounds.size() == 4);
  CHECK(two_rounds[0].size() == 18);
  CHECK(two_rounds[1].front() == 1);
  CHECK(two_rounds[2].front() == 35);
}

TEST_CASE("dealt_batches: every sentence is in one batch, and none has more than it may") {
  for (index_t n = 1; n < 80; ++n)
    for (const index_t most : {1, 3, 32})
      for (const index_t together : {2, 3, 16}) {
        std::vector<index_t> all;
        for (const auto& batch : dealt_batches(n, most, together, 4)) {
          CHECK_FALSE(batch.empty());
          CHECK(count_of(batch) <= most);
          all.insert(all.end(), batch.begin(), batch.end());
        }
        std::sort(all.begin(), all.end());
        std::vector<index_t> expected;
        for (index_t i = 0; i < n; ++i) expected.push_back(i);
        CHECK(all == expected);
      }
}
