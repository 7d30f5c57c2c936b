#include "attend/train/batches.hpp"

#include <numeric>
#include <set>

#include "../catch.hpp"
#include "attend/train/checkpoint.hpp"

using namespace attend;
using train::Batches;
using train::EncodedPairs;

namespace {

constexpr token_t bos = 1, eos = 2;

/// Pairs of 0 to 30 tokens a side; every token is different, so that a pair can be told from all others.
EncodedPairs make_pairs(index_t count) {
  EncodedPairs pairs;
  token_t next = 3;
  for (index_t i = 0; i < count; ++i) {
    const Generator::Stream random{7, static_cast<std::uint64_t>(i)};
    std::vector<token_t> source(random.below(0, 31)), target(random.below(1, 31));
    std::iota(source.begin(), source.end(), next);
    next += static_cast<token_t>(source.size());
    std::iota(target.begin(), target.end(), next);
    next += static_cast<token_t>(target.size());
    pairs.add(source, target);
  }
  return pairs;
}

index_t longer_side(const EncodedPairs& pairs, index_t i) {
  return static_cast<index_t>(std::max(pairs.source(i).size(), pairs.target(i).size())) + 1;
}

}  // namespace

TEST_CASE("Batches: every pair that is short enough comes exactly once an epoch, within the limit of tokens", "[train]") {
  const EncodedPairs pairs = make_pairs(500);
  for (const index_t bucket_width : {0, 1, 8}) {
    const Batches batches(pairs, bos, eos, {.tokens_per_batch = 100, .max_length = 25, .bucket_width = bucket_width});
    std::multiset<index_t> expected;
    for (index_t i = 0; i < pairs.size(); ++i)
      if (longer_side(pairs, i) <= 25) expected.insert(i);
    REQUIRE(!expected.empty());
    CHECK(batches.size() == static_cast<index_t>(expected.size()));
    CHECK(batches.dropped() == 500 - batches.size());
    CHECK(batches.dropped() > 0);
    for (const auto& epoch : {batches.epoch(0), batches.epoch(1), batches.in_order()}) {
      CHECK(std::multiset<index_t>(epoch.pairs.begin(), epoch.pairs.end()) == expected);
      index_t full = 0;
      for (index_t b = 0; b < epoch.size(); ++b) {
        const auto batch = batches.make(epoch[b]);
        REQUIRE(batch.source.size() <= 100);
        REQUIRE(batch.target.size() <= 100);
        REQUIRE(batch.sentences() > 0);
        full += std::max(batch.source.size(), batch.target.size()) > 75;
      }
      CHECK(full >= epoch.size() - 1);  // what no pair fits into any more is less than the longest pair
    }
  }
}

TEST_CASE("Batches: sentences of a batch have similar lengths, and batches come in no order of length", "[train]") {
  const EncodedPairs pairs = make_pairs(2000);
  const Batches batches(pairs, bos, eos, {.tokens_per_batch = 200, .bucket_width = 4});
  const auto epoch = batches.epoch(0);
  index_t wide = 0, falls = 0, before = 0;
  for (index_t b = 0; b < epoch.size(); ++b) {
    index_t shortest = 1000, longest = 0;
    for (const index_t i : epoch[b]) {
      shortest = std::min(shortest, longer_side(pairs, i));
      longest = std::max(longest, longer_side(pairs, i));
    }
    wide += longest - shortest >= 4;
    falls += longest < before;
    before = longest;
  }
  CHECK(wide <= 7);  // the batches on the seams of eight buckets
  CHECK(falls > epoch.size() / 4);
}

TEST_CASE("Batches: the order follows from seed and epoch alone", "[train]") {
  const EncodedPairs pairs = make_pairs(300);
  const Batches a(pairs, bos, eos, {.tokens_per_batch = 100, .seed = 5}),
      b(pairs, bos, eos, {.tokens_per_batch = 100, .seed = 6});
  CHECK(a.epoch(3).pairs == Batches(pairs, bos, eos, a.options()).epoch(3).pairs);
  CHECK(a.epoch(3).pairs != a.epoch(4).pairs);
  CHECK(a.epoch(3).pairs != b.epoch(3).pairs);
  // Pinned, so that a change of platform or library that would change training is seen.
  const auto epoch = Batches(make_pairs(12), bos, eos, {.tokens_per_batch = 64, .seed = 1}).epoch(0);
  CHECK(epoch.pairs == std::vector<index_t>{11, 0, 1, 2, 10, 9, 6, 7, 8, 4, 3, 5});
}

TEST_CASE("Batches: a batch is source and eos, bos and target, target and eos", "[train]") {
  EncodedPairs pairs;
  pairs.add(std::vector<token_t>{5, 6}, std::vector<token_t>{7});
  pairs.add(std::vector<token_t>{8}, std::vector<token_t>{9, 10, 11});
  const Batches batches(pairs, bos, eos);
  const auto batch = batches.make(std::vector<index_t>{1, 0});
  CHECK(batch.source.values() == std::vector<token_t>{8, eos, 5, 6, eos});
  CHECK(batch.target.values() == std::vector<token_t>{bos, 9, 10, 11, bos, 7});
  CHECK(batch.labels.values() == std::vector<token_t>{9, 10, 11, eos, 7, eos});
  CHECK(batch.source_segments == Segments::ragged({2, 3}));
  CHECK(batch.target_segments == Segments::ragged({4, 2}));
  CHECK(batches.labels(std::vector<index_t>{1, 0}) == 6);
  CHECK(batches.longest() == 4);
}

TEST_CASE("Batches: sources may end with more than the end token", "[train]") {
  EncodedPairs pairs;
  pairs.add(std::vector<token_t>{5, 6}, std::vector<token_t>{7});
  pairs.add(std::vector<token_t>{8}, std::vector<token_t>{9, 10});
  const Batches batches(pairs, bos, eos, {.tokens_per_batch = 4, .bucket_width = 0, .source_end = {eos, 4}});
  const auto batch = batches.make(std::vector<index_t>{0, 1});
  CHECK(batch.source.values() == std::vector<token_t>{5, 6, eos, 4, 8, eos, 4});
  CHECK(batch.source_segments == Segments::ragged({4, 3}));
  CHECK(batch.target_segments == Segments::ragged({2, 3}));
  CHECK(batches.longest() == 4);
  CHECK(batches.in_order().size() == 2);  // 7 source tokens are more than a batch may have
  CHECK(batches.tokens(std::vector<index_t>{0, 1}) == 12);
  CHECK(Batches(pairs, bos, eos, {.max_length = 3, .source_end = {eos, 4}}).dropped() == 1);
}

TEST_CASE("resume: states written before sources could end otherwise had them end with the end token", "[train]") {
  const auto differences = [](const char* source_end) {
    return train::detail::differences({{"run.eos", "2"}}, {{"eos", "2"}, {"source_end", source_end}});
  };
  CHECK(differences("2").empty());
  CHECK(differences("2 7") == "source_end 2 (this run: 2 7)");
  CHECK(train::detail::differences({{"run.eos", "2"}, {"run.source_end", "2 7"}}, {{"eos", "2"}, {"source_end", "2"}}) ==
        "source_end 2 7 (this run: 2)");
}

TEST_CASE("Batches: parts of a batch for accumulation", "[train]") {
  const EncodedPairs pairs = make_pairs(400);
  const Batches whole(pairs, bos, eos, {.tokens_per_batch = 400}),
      split(pairs, bos, eos, {.tokens_per_batch = 100, .accumulate = 4});
  const auto epoch = split.epoch(2);
  CHECK(epoch.pairs == whole.epoch(2).pairs);  // the same updates as with one batch four times as large
  CHECK(epoch.begin == whole.epoch(2).begin);
  for (index_t b = 0; b < epoch.size(); ++b) {
    const auto parts = split.passes(epoch[b]);
    REQUIRE(parts.size() <= 4);
    if (b + 1 < epoch.size() && epoch[b].size() >= 12) REQUIRE(parts.size() == 4);
    std::vector<index_t> joined;
    index_t total = 0;
    std::vector<index_t> tokens;
    for (const auto& part : parts) {
      REQUIRE(!part.empty());
      joined.insert(joined.end(), part.begin(), part.end());
      const auto batch = split.make(part);
      tokens.push_back(batch.source.size() + batch.target.size());
      total += tokens.back();
    }
    REQUIRE(std::equal(joined.begin(), joined.end(), epoch[b].begin(), epoch[b].end()));
    for (const index_t n : tokens) REQUIRE(n <= total / 4 + 62);  // a pair has at most 62 tokens
  }
  CHECK(whole.passes(epoch[0]).size() == 1);
  const std::vector<index_t> two = {0, 1};
  CHECK(split.passes(two).size() <= 2);
}

TEST_CASE("Batches: what cannot be batched is refused", "[train]") {
  const EncodedPairs pairs = make_pairs(10);
  CHECK_THROWS_AS(Batches(pairs, bos, eos, {.tokens_per_batch = 0}), ValueError);
  CHECK_THROWS_AS(Batches(pairs, bos, eos, {.accumulate = 0}), ValueError);
  CHECK_THROWS_AS(Batches(pairs, bos, eos, {.max_length = 0}), ValueError);
  CHECK_THROWS_AS(Batches(pairs, bos, eos, {.bucket_width = -1}), ValueError);
  CHECK_THROWS_AS(Batches(pairs, bos, eos, {.tokens_per_batch = index_t{1} << 40, .accumulate = index_t{1} << 40}), ValueError);
  CHECK_THROWS_AS(Batches(EncodedPairs(), bos, eos), ValueError);
  EncodedPairs long_pair;
  long_pair.add(std::vector<token_t>(50, 3), std::vector<token_t>(2, 3));
  CHECK_THROWS_AS(Batches(long_pair, bos, eos, {.tokens_per_batch = 40}), ValueError);
}

TEST_CASE("EncodedPairs: the fingerprint sees tokens, order and bounds", "[train]") {
  const auto of = [](std::vector<std::vector<token_t>> sides) {
    EncodedPairs pairs;
    for (std::size_t i = 0; i < sides.size(); i += 2) pairs.add(sides[i], sides[i + 1]);
    return pairs.fingerprint();
  };
  const std::set<std::uint64_t> all = {of({}),
                                       of({{1, 2}, {3}}),
                                       of({{1, 2}, {4}}),
                                       of({{1}, {2, 3}}),
                                       of({{1, 2, 3}, {}}),
                                       of({{1}, {3}, {2}, {}}),
                                       of({{2}, {}, {1}, {3}})};
  CHECK(all.size() == 7);
  CHECK(of({{1, 2}, {3}}) == of({{1, 2}, {3}}));
}
