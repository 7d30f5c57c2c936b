#include "attend/text/chrf.hpp"

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/text/lines.hpp"
#include "catch.hpp"
#include "text/scored_lines.hpp"
#include "text/shared_data.hpp"

using namespace attend;
using namespace attend::text;
using test::hypotheses;
using test::Lines;
using test::references;

// Expected values in this file were computed by sacreBLEU 2.6.0.

namespace {

double chrf_of(const Lines& hypothesis, const Lines& reference) { return chrf(hypothesis, reference).score; }

}  // namespace

TEST_CASE("chrf: one translation to compare with") {
  const ChrfScore score = chrf(hypotheses, references);
  CHECK(std::abs(score.score - 79.74802117126501) < 1e-9);
  CHECK(score.text() == "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no = 79.75");
}

TEST_CASE("chrf: of several translations to compare with each sentence takes the one it agrees with best") {
  const Lines far = {"Something else.", "Entirely different.", "I never said that!", "None."};
  const ChrfScore score = chrf(hypotheses, std::vector<Lines>{far, references});
  const Lines best = {references[0], references[1], far[2], far[3]};
  CHECK(std::abs(score.score - chrf_of(hypotheses, best)) < 1e-9);
  CHECK(score.score > chrf_of(hypotheses, references));
  CHECK(score.signature == "nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no");
  CHECK(std::abs(chrf(hypotheses, std::vector<Lines>{far, references, far}, {.word_order = 2}).score - 81.44456133908723) < 1e-9);
}

TEST_CASE("chrf: other orders, other weights, words") {
  CHECK(std::abs(chrf(hypotheses, references, {.word_order = 2}).score - 78.00226697414068) < 1e-9);
  CHECK(chrf(hypotheses, references, {.word_order = 2}).name == "chrF2++");
  CHECK(std::abs(chrf(hypotheses, references, {.character_order = 3, .beta = 1}).score - 86.36960059490957) < 1e-9);
  CHECK(std::abs(chrf(Lines{"(hi) there, friend!"}, Lines{"hi there, (friend)"}, {.word_order = 2}).score - 50.65687333418059) <
        1e-9);
}

TEST_CASE("chrf: characters are code points, spaces do not count, case does unless told otherwise") {
  CHECK(std::abs(chrf_of({"日本語のテキスト"}, {"日本語テキスト"}) - 43.23387961659629) < 1e-9);
  CHECK(std::abs(chrf_of({"wa ter\u00A0fall"}, {"water fall"}) - 100) < 1e-9);
  CHECK(chrf_of({"WATER"}, {"water"}) == 0);
  CHECK(std::abs(chrf(Lines{"WATER"}, Lines{"water"}, {.lowercase = true}).score - 100) < 1e-9);
}

TEST_CASE("chrf: short and empty sentences") {
  CHECK(std::abs(chrf_of({"ab"}, {"ab"}) - 100) < 1e-9);
  CHECK(chrf_of({"a"}, {"b"}) == 0);
  CHECK(chrf_of({""}, {"b"}) == 0);
  CHECK(chrf_of({"ab"}, {""}) == 0);
  CHECK(std::abs(chrf_of({"a\xFF"}, {"a\xFF"}) - 100) < 1e-9);
}

TEST_CASE("chrf: lists that do not fit and options out of range are refused") {
  CHECK_THROWS_AS(chrf(Lines{}, Lines{}), ValueError);
  CHECK_THROWS_AS(chrf(Lines{"a"}, Lines{"a", "b"}), ValueError);
  CHECK_THROWS_AS(chrf(Lines{"a"}, std::vector<Lines>{}), ValueError);
  CHECK_THROWS_AS(chrf(Lines{"a"}, Lines{"a"}, {.character_order = 0}), ValueError);
  CHECK_THROWS_AS(chrf(Lines{"a"}, Lines{"a"}, {.word_order = -1}), ValueError);
  CHECK_THROWS_AS(chrf(Lines{"a"}, Lines{"a"}, {.beta = 0}), ValueError);
  CHECK_THROWS_AS(chrf(Lines{"a"}, Lines{"a"}, {.character_order = index_t{1} << 40}), ValueError);
}

TEST_CASE("chrf: equals the published scores of translations from WMT") {
  const auto folder = shared_data("bleu");
  ATTEND_SKIP_WITHOUT(folder);
  int compared = 0;
  for (const std::string& line : read_lines(folder / "scores.tsv")) {
    std::istringstream row(line);
    std::string hypothesis, reference, metric, figure;
    row >> hypothesis >> reference >> metric >> figure;
    if (metric != "chrF2") continue;
    CAPTURE(line);
    CHECK(std::abs(chrf_of(read_lines(folder / hypothesis), read_lines(folder / reference)) - std::stod(figure)) < 1e-9);
    ++compared;
  }
  CHECK(compared > 0);
}
