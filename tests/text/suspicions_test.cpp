#include "attend/text/suspicions.hpp"

#include <string>

#include "../catch.hpp"
#include "attend/text/corpus.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

/// So many pairs of sentences that are all different.
text::Corpus plain(int pairs) {
  text::Corpus corpus;
  for (int i = 0; i < pairs; ++i) corpus.pairs.push_back({"house " + std::to_string(i), "casa " + std::to_string(i)});
  return corpus;
}

}  // namespace

TEST_CASE("suspicions: none of a plain corpus, whatever its script", "[text]") {
  CHECK(text::suspicions(plain(500)).empty());
  CHECK(text::suspicions(text::Corpus()).empty());
  auto monolingual = plain(500);
  for (auto& pair : monolingual.pairs) pair.source.clear();
  CHECK(text::suspicions(monolingual).empty());
  text::Corpus other;
  for (int i = 0; i < 600; ++i) other.pairs.push_back({"дом " + std::to_string(i), "房子 " + std::to_string(i)});
  CHECK(text::suspicions(other).empty());
}

TEST_CASE("suspicions: few pairs", "[text]") {
  const auto found = text::suspicions(plain(499));
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], ContainsSubstring("only 499 pairs"));
}

TEST_CASE("suspicions: one side copied to the other", "[text]") {
  auto corpus = plain(1000);
  for (std::size_t i = 0; i < 500; ++i) corpus.pairs[i].target = corpus.pairs[i].source;
  CHECK(text::suspicions(corpus).empty());  // half, as names and numbers may have it
  corpus.pairs[500].target = corpus.pairs[500].source;
  const auto found = text::suspicions(corpus);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "source and target are the same in 50 % (501 of 1000) of the pairs");
}

TEST_CASE("suspicions: all pairs alike, or a column of codes", "[text]") {
  auto corpus = plain(1000);
  for (auto& pair : corpus.pairs) pair.target = "spa";
  const auto found = text::suspicions(corpus);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "the 1000 pairs have only 1 distinct target, \"spa\" 1000 times; is it the right column?");
}

TEST_CASE("suspicions: a column of numbers", "[text]") {
  auto corpus = plain(1000);
  for (std::size_t i = 0; i < 1000; ++i) corpus.pairs[i].source = std::to_string(1276 + i);
  const auto found = text::suspicions(corpus);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "the source has no letter in 100 % (1000 of 1000) of the pairs; is it the right column?");
}

TEST_CASE("suspicions: a column of notes that are all different and begin alike", "[text]") {
  auto corpus = plain(1000);
  for (std::size_t i = 0; i < 1000; ++i)
    corpus.pairs[i].target = (i < 500 ? "licensed to all" : "licensed  to all") + std::string(" as number ") + std::to_string(i);
  CHECK(text::suspicions(corpus).empty());  // half, as the questions of a phrase book may have it
  corpus.pairs[500].target = "licensed to all at last";
  const auto found = text::suspicions(corpus);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "the target begins with \"licensed to all\" in 50 % (501 of 1000) of the pairs; is it the right column?");
  for (auto& pair : corpus.pairs) pair.target = "licensed to all";  // too short to have a beginning
  CHECK_THAT(text::suspicions(corpus).at(0), ContainsSubstring("only 1 distinct target"));
}
