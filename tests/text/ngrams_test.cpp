#include "attend/text/ngrams.hpp"

#include <map>
#include <vector>

#include "attend/core/random.hpp"
#include "catch.hpp"

using namespace attend;
using detail::Ngrams;

namespace {

using Counts = std::map<std::vector<std::uint32_t>, index_t>;

Counts count_simply(const std::vector<std::uint32_t>& symbols, std::size_t n) {
  Counts counts;
  for (std::size_t i = 0; i + n <= symbols.size(); ++i) ++counts[{symbols.begin() + i, symbols.begin() + i + n}];
  return counts;
}

}  // namespace

TEST_CASE("ngrams: counts and clipped matches equal the plain way of counting") {
  Generator generator(7);
  const auto random = generator.next();
  std::uint64_t drawn = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<std::uint32_t>> sequences(4);
    for (auto& sequence : sequences) {
      sequence.resize(random.below(drawn++, 14));
      for (auto& symbol : sequence) symbol = static_cast<std::uint32_t>(random.below(drawn++, 3));
    }
    const Ngrams hypothesis(sequences[0], 4);
    const std::vector<Ngrams> references{{sequences[1], 4}, {sequences[2], 4}, {sequences[3], 4}};
    for (index_t n = 1; n <= 4; ++n) {
      const auto width = static_cast<std::size_t>(n);
      const Counts mine = count_simply(sequences[0], width);
      Counts found;
      for (Ngrams::Runs runs(hypothesis, n); runs; runs.next()) found[{runs.gram().begin(), runs.gram().end()}] += runs.count();
      REQUIRE(found == mine);
      index_t expected = 0, all = 0;
      for (const auto& [gram, count] : mine) {
        index_t most = 0;
        for (std::size_t r = 1; r < sequences.size(); ++r) {
          const Counts theirs = count_simply(sequences[r], width);
          if (const auto it = theirs.find(gram); it != theirs.end()) most = std::max(most, it->second);
        }
        expected += std::min(count, most);
        all += count;
      }
      REQUIRE(hypothesis.count(n) == all);
      REQUIRE(detail::clipped_matches(hypothesis, references, n) == expected);
    }
  }
}

TEST_CASE("ngrams: numbers are written with a point and fixed decimals") {
  CHECK(detail::fixed(31.2581, 2) == "31.26");
  CHECK(detail::fixed(100, 1) == "100.0");
  CHECK(detail::fixed(0.0004, 3) == "0.000");
}
