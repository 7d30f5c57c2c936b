#include "attend/translate/shortlist.hpp"

#include <map>

#include "attend/core/random.hpp"
#include "attend/train/batches.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using decode::Shortlist;
using Tokens = std::vector<token_t>;

namespace {

Tokens list(std::span<const token_t> tokens) { return {tokens.begin(), tokens.end()}; }

/// Sentences of tokens 0 to 9; token t is translated by 20 + t, in any order, and each target has a 5 besides.
train::EncodedPairs dictionary_pairs(index_t count) {
  train::EncodedPairs pairs;
  for (index_t i = 0; i < count; ++i) {
    const Generator::Stream random{3, static_cast<std::uint64_t>(i)};
    Tokens source, target{5};
    for (std::uint64_t k = 0; k < 4; ++k) {
      source.push_back(static_cast<token_t>(random.below(k, 10)));
      target.insert(target.begin() + static_cast<std::ptrdiff_t>(random.below(k + 9, target.size() + 1)), source.back() + 20);
    }
    pairs.add(source, target);
  }
  return pairs;
}

}  // namespace

TEST_CASE("Shortlist: the expectation and maximisation of Brown et al. in doubles") {
  // das Haus / the house, das Buch / the book, ein Buch / a book; and some pairs by chance.
  train::EncodedPairs pairs;
  pairs.add(Tokens{0, 1}, Tokens{0, 1});
  pairs.add(Tokens{0, 2}, Tokens{0, 2});
  pairs.add(Tokens{3, 2}, Tokens{3, 2});
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Generator::Stream random{7, i};
    Tokens source, target;
    for (std::uint64_t k = 0; k < 3; ++k) {
      source.push_back(static_cast<token_t>(4 + random.below(k, 4)));
      target.push_back(static_cast<token_t>(4 + random.below(k + 9, 4)));
    }
    pairs.add(source, target);
  }
  constexpr int tokens = 8, nothing = 8;
  std::map<std::pair<int, int>, double> t;
  for (int e = 0; e <= nothing; ++e)
    for (int f = 0; f < tokens; ++f) t[{e, f}] = 1;
  for (int round = 0; round < 4; ++round) {
    std::map<std::pair<int, int>, double> counts;
    for (index_t i = 0; i < pairs.size(); ++i)
      for (const token_t f : pairs.target(i)) {
        Tokens source = list(pairs.source(i));
        source.push_back(nothing);
        double sum = 0;
        for (const token_t e : source) sum += t[{e, f}];
        for (const token_t e : source) counts[{e, f}] += t[{e, f}] / sum;
      }
    for (int e = 0; e <= nothing; ++e) {
      double total = 0;
      for (int f = 0; f < tokens; ++f) total += counts[{e, f}];
      for (int f = 0; f < tokens; ++f) t[{e, f}] = total > 0 ? counts[{e, f}] / total : 0;
    }
  }
  const auto shortlist = Shortlist::learn(pairs, tokens, tokens, {.best = tokens, .frequent = 2, .iterations = 4});
  for (int e = 0; e < tokens; ++e) {
    const Tokens best = list(shortlist.best(e));
    std::size_t possible = 0;
    for (int f = 0; f < tokens; ++f) possible += t[{e, f}] > 0 ? 1 : 0;
    CHECK(best.size() == possible);
    for (std::size_t k = 1; k < best.size(); ++k) CHECK(t[{e, best[k - 1]}] >= t[{e, best[k]}] - 1e-5);
  }
  CHECK(shortlist.best(0).front() == 0);
  CHECK(shortlist.best(1).front() == 1);
}

TEST_CASE("Shortlist: finds a dictionary in shuffled sentences, and what everybody needs") {
  const auto pairs = dictionary_pairs(300);
  const auto shortlist = Shortlist::learn(pairs, 12, 30, {.best = 1, .frequent = 1});
  for (token_t e = 0; e < 10; ++e) CHECK(list(shortlist.best(e)) == Tokens{e + 20});
  CHECK(shortlist.best(11).empty());
  CHECK(list(shortlist.frequent()) == Tokens{5});
  CHECK(shortlist.allowed(Tokens{3, 11, 1, 3}) == Tokens{5, 21, 23});
  CHECK(shortlist.allowed(Tokens{}) == Tokens{5});
  const auto few = Shortlist::learn(pairs, 12, 30, {.best = 1, .frequent = 1, .max_pairs = 100});
  CHECK(few.best(7).front() == 27);
  CHECK_THROWS_WITH(shortlist.allowed(Tokens{12}), "Shortlist: a source token is 12, outside the vocabulary of 12");
}

TEST_CASE("Shortlist: saved and loaded, and what is none is refused") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "shortlist.safetensors";
  const auto shortlist = Shortlist::learn(dictionary_pairs(50), 12, 30, {.best = 3, .frequent = 4});
  shortlist.save(path);
  const auto loaded = Shortlist::load(path);
  CHECK(loaded.source_vocabulary() == 12);
  CHECK(loaded.target_vocabulary() == 30);
  CHECK(list(loaded.frequent()) == list(shortlist.frequent()));
  for (token_t e = 0; e < 12; ++e) CHECK(list(loaded.best(e)) == list(shortlist.best(e)));

  const auto write = [&](const char* format, const char* size, Tokens frequent, std::vector<std::int64_t> begin, Tokens tokens) {
    io::SafetensorsWriter writer;
    writer.metadata("format", format);
    writer.metadata("target_vocabulary", size);
    const auto length = [](const auto& v) { return Shape{static_cast<index_t>(v.size())}; };
    writer.add<token_t>("frequent", length(frequent), std::span<const token_t>(frequent));
    writer.add<std::int64_t>("begin", length(begin), std::span<const std::int64_t>(begin));
    writer.add<token_t>("tokens", length(tokens), std::span<const token_t>(tokens));
    writer.write(path);
  };
  const char* format = "attend shortlist";
  write(format, "4", {1, 2}, {0, 1, 2}, {3, 0});
  CHECK(Shortlist::load(path).allowed(Tokens{1}) == Tokens{0, 1, 2});
  write("pt", "4", {1, 2}, {0, 1, 2}, {3, 0});
  CHECK_THROWS_WITH(Shortlist::load(path), Catch::Matchers::EndsWith("is no shortlist"));
  for (const char* size : {"", "-4", "4x", "99999999999"}) {
    write(format, size, {1, 2}, {0, 1, 2}, {3, 0});
    CHECK_THROWS_AS(Shortlist::load(path), FormatError);
  }
  write(format, "4", {1, 4}, {0, 1, 2}, {3, 0});
  CHECK_THROWS_WITH(Shortlist::load(path), Catch::Matchers::ContainsSubstring("has token 4, outside its target vocabulary of 4"));
  for (const auto& begin : {std::vector<std::int64_t>{}, {0, 1}, {0, 3, 2}, {1, 1, 2}, {0, -1, 2}, {0, 2, 9}}) {
    write(format, "4", {1, 2}, begin, {3, 0});
    CHECK_THROWS_AS(Shortlist::load(path), FormatError);
  }
  CHECK_THROWS_AS(Shortlist::load(folder.path() / "none"), IoError);
}

TEST_CASE("Shortlist: options out of range") {
  const auto pairs = dictionary_pairs(3);
  CHECK_THROWS_WITH(Shortlist::learn(pairs, 12, 30, {.best = -1}), "Shortlist: best is -1, expected 0 or more");
  CHECK_THROWS_AS(Shortlist::learn(pairs, 12, 30, {.frequent = -1}), ValueError);
  CHECK_THROWS_AS(Shortlist::learn(pairs, 12, 30, {.iterations = 0}), ValueError);
  CHECK_THROWS_AS(Shortlist::learn(pairs, 12, 30, {.max_pairs = 0}), ValueError);
  CHECK_THROWS_AS(Shortlist::learn(train::EncodedPairs{}, 12, 30), ValueError);
  CHECK_THROWS_AS(Shortlist::learn(pairs, 5, 30), IndexError);
  CHECK_THROWS_AS(Shortlist::learn(pairs, 12, 25), IndexError);
}
