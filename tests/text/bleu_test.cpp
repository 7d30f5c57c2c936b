#include "attend/text/bleu.hpp"

#include <cmath>
#include <fstream>
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

namespace {

// Expected values in this file were computed by sacreBLEU 2.6.0.
const Lines more_references = {"A fast brown fox of 3.5 years jumped over 1,000 lazy dogs.",
                               "It's raining in Zürich and nobody is caring.", "I didn't say that.", "None."};

double bleu_of(const Lines& hypothesis, const Lines& reference) { return bleu(hypothesis, reference).score; }

}  // namespace

TEST_CASE("bleu: one translation to compare with") {
  const BleuScore score = bleu(hypotheses, references);
  CHECK(std::abs(score.score - 56.25289425995487) < 1e-9);
  CHECK(std::abs(score.precisions[0] - 89.28571428571429) < 1e-9);
  CHECK(std::abs(score.precisions[1] - 76.0) < 1e-9);
  CHECK(std::abs(score.precisions[2] - 63.63636363636363) < 1e-9);
  CHECK(std::abs(score.precisions[3] - 47.36842105263158) < 1e-9);
  CHECK(std::abs(score.brevity_penalty - 0.8364643072929833) < 1e-12);
  CHECK(score.hypothesis_length == 28);
  CHECK(score.reference_length == 33);
  CHECK(score.matches == std::array<index_t, 4>{25, 19, 14, 9});
  CHECK(score.totals == std::array<index_t, 4>{28, 25, 22, 19});
  CHECK(score.text() ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp = 56.25 89.3/76.0/63.6/47.4 "
        "(BP = 0.836 ratio = 0.848 hyp_len = 28 ref_len = 33)");
}

TEST_CASE("bleu: several translations to compare with") {
  const BleuScore score = bleu(hypotheses, std::vector<Lines>{references, more_references});
  CHECK(std::abs(score.score - 68.6552573792178) < 1e-9);
  CHECK(score.reference_length == 31);
  CHECK(score.signature == "nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp");
  // Of two references that are as near in length, the shorter one counts.
  const BleuScore tie = bleu(Lines{"a b c d e"}, std::vector<Lines>{{"a b c d e f g"}, {"a b c"}});
  CHECK(tie.reference_length == 3);
  CHECK(std::abs(tie.score - 100) < 1e-9);
  // An n-gram counts as often as in the reference that has it most often, not as in all together.
  const BleuScore clipped =
      bleu(Lines{"the the the the the the the"}, std::vector<Lines>{{"the cat is on the mat"}, {"there is a cat on the mat"}});
  CHECK(clipped.matches == std::array<index_t, 4>{2, 0, 0, 0});
  CHECK(std::abs(clipped.score - 7.809849842300637) < 1e-9);
}

TEST_CASE("bleu: without tokenization, and in lower case") {
  const BleuScore score = bleu(hypotheses, references, {.tokenize = BleuTokenize::none});
  CHECK(std::abs(score.score - 48.107017492067186) < 1e-9);
  CHECK(score.signature == "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp");
  Lines upper = hypotheses;
  upper[0] = "THE QUICK BROWN FOX, AGED 3.5 YEARS, JUMPED OVER 1,000 LAZY DOGS.";
  upper[1] = "IT'S RAINING IN ZÜRICH & NOBODY CARES!";
  upper[2] = "I NEVER SAID THAT.";
  CHECK(std::abs(bleu(upper, references, {.lowercase = true}).score - 56.25289425995487) < 1e-9);
  CHECK(bleu(upper, references).score < 10);
}

TEST_CASE("bleu: orders without a match are smoothed, orders without an n-gram give zero") {
  CHECK(std::abs(bleu_of({"a b c d e f"}, {"a x c y e z"}) - 10.682175159905853) < 1e-9);
  CHECK(std::abs(bleu_of({"a b c d e f"}, {"a b c d e f"}) - 100) < 1e-9);
  CHECK(bleu_of({"the cat"}, {"the cat"}) == 0);
  CHECK(bleu_of({"a b c d"}, {"w x y z"}) == 0);
  const BleuScore empty = bleu(Lines{""}, Lines{"a b"});
  CHECK(empty.score == 0);
  CHECK(empty.brevity_penalty == 0);
  CHECK(bleu(Lines{""}, Lines{""}).brevity_penalty == 1);
}

TEST_CASE("bleu: a line break at the end of a line is no hyphenation") {
  CHECK(std::abs(bleu_of({"one two three four five-\n"}, {"one two three four five-"}) - 100) < 1e-9);
}

TEST_CASE("bleu: text that is not UTF-8 is scored all the same") {
  CHECK(std::abs(bleu_of({"a b \xFF\xC3 d e"}, {"a b \xFF\xC3 d e"}) - 100) < 1e-9);
}

TEST_CASE("bleu: lists that do not fit are refused") {
  CHECK_THROWS_AS(bleu(Lines{}, Lines{}), ValueError);
  CHECK_THROWS_AS(bleu(Lines{"a"}, Lines{}), ValueError);
  CHECK_THROWS_AS(bleu(Lines{"a"}, Lines{"a", "b"}), ValueError);
  CHECK_THROWS_AS(bleu(Lines{"a"}, std::vector<Lines>{}), ValueError);
  CHECK_THROWS_AS(bleu(Lines{"a"}, std::vector<Lines>{{"a"}, {}}), ValueError);
  CHECK_THROWS_WITH(bleu(Lines{"a", "b"}, std::vector<Lines>{{"a", "b"}, {"a"}}),
                    "bleu: got 2 hypotheses and 1 references in set 2, expected as many of both");
}

TEST_CASE("bleu: equals the published scores of translations from WMT") {
  const auto folder = shared_data("bleu");
  ATTEND_SKIP_WITHOUT(folder);
  int compared = 0;
  for (const std::string& line : read_lines(folder / "scores.tsv")) {
    std::istringstream row(line);
    std::string hypothesis, reference, metric, figure;
    row >> hypothesis >> reference >> metric >> figure;
    if (metric != "BLEU") continue;
    CAPTURE(line);
    const double score = bleu(read_lines(folder / hypothesis), read_lines(folder / reference)).score;
    const bool rounded = figure.size() < 8;
    CHECK(std::abs(score - std::stod(figure)) < (rounded ? 0.005 : 1e-9));
    ++compared;
  }
  CHECK(compared > 0);
}
