#include "attend/decode/beam_trace.hpp"

#include <algorithm>

#include "attend/decode/beam.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;

namespace {

using Tokens = std::vector<token_t>;

/// The tokens of a candidate's prefix.
Tokens prefix_of(const std::vector<BeamCandidate>& list, const BeamCandidate& c) {
  Tokens tokens;
  for (index_t at = c.parent; at >= 0; at = list[static_cast<std::size_t>(at)].parent)
    tokens.push_back(list[static_cast<std::size_t>(at)].token);
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace

TEST_CASE("a trace holds every candidate of a search with its fate", "[beam]") {
  // Vocabulary 5: 2 ends. 3 or 4, then 3 ends surely and 4 goes on to the limit.
  scripted::Model<double> model(5, [](index_t, const Tokens& prefix) {
    if (prefix.empty()) return logs({0, 0, 0.1, 0.6, 0.3});
    return prefix[0] == 3 ? logs({0, 0, 1, 0, 0}) : logs({0, 0, 0.25, 0.75, 0});
  });
  BeamTrace trace;
  trace.sentences.resize(7);
  auto state = model.begin({0});
  const auto list = beam_search(
      model, state, 1,
      {.max_length = 2, .beam = 2, .n_best = 2, .alpha = 1, .normalization = LengthNormalization::marian, .trace = &trace})[0];
  REQUIRE(trace.sentences.size() == 1);
  const auto& found = trace.sentences[0];
  struct Row {
    index_t step, parent;
    token_t token;
    double probability, total;
    Fate fate;
  };
  const std::vector<Row> expected{{0, -1, 3, 0.6, 0.6, Fate::live},      {0, -1, 4, 0.3, 0.3, Fate::live},
                                  {0, -1, 2, 0.1, 0.1, Fate::dropped},  // not among the first two
                                  {1, 0, 2, 1, 0.6, Fate::ended},        {1, 1, 3, 0.75, 0.225, Fate::live},
                                  {1, 1, 2, 0.25, 0.075, Fate::dropped}, {2, 4, 3, 0.75, 0.16875, Fate::dropped},
                                  {2, 4, 2, 0.25, 0.05625, Fate::ended}};
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("candidate " << i);
    const BeamCandidate& got = found[i];
    const Row& row = expected[i];
    REQUIRE(got.step == row.step);
    REQUIRE(got.parent == row.parent);
    REQUIRE(got.token == row.token);
    REQUIRE(got.log_probability == Approx(std::log(row.probability)).margin(1e-12));
    REQUIRE(got.total == Approx(std::log(row.total)).epsilon(1e-12));
    REQUIRE(got.score == Approx(std::log(row.total) / static_cast<double>(row.step + 1)).epsilon(1e-12));
    REQUIRE(got.fate == row.fate);
  }
  REQUIRE(list[0].tokens == Tokens{3});
  REQUIRE(list[0].score == found[3].score);
  REQUIRE(list[1].tokens == Tokens{4, 3});
  REQUIRE(list[1].score == found[7].score);
}

TEST_CASE("traces of a batch are trees whose ends are the results, and change nothing", "[beam]") {
  const auto script = scripted::random_script(6, 8, 1.3);
  scripted::Model<double> model(8, script);
  std::vector<index_t> ids{4, 0, 3, 1, 2};
  for (const bool keep_unfinished : {false, true}) {
    BeamTrace trace;
    BeamOptions o{
        .max_length = 7, .beam = 3, .n_best = 3, .keep_unfinished = keep_unfinished, .constraints = {.no_repeat_ngram = 2}};
    auto plain_state = model.begin(ids), state = model.begin(ids);
    const auto plain = beam_search(model, plain_state, 5, o);
    o.trace = &trace;
    const auto lists = beam_search(model, state, 5, o);
    REQUIRE(trace.sentences.size() == ids.size());
    for (std::size_t s = 0; s < ids.size(); ++s) {
      const auto& all = trace.sentences[s];
      std::vector<double> scores;
      std::vector<index_t> live(9, 0);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const BeamCandidate& c = all[i];
        REQUIRE(c.parent < static_cast<index_t>(i));
        REQUIRE((c.parent == -1) == (c.step == 0));
        double before = 0;
        if (c.parent >= 0) {
          const auto& parent = all[static_cast<std::size_t>(c.parent)];
          REQUIRE(parent.fate == Fate::live);
          REQUIRE(parent.step == c.step - 1);
          before = parent.total;
        }
        REQUIRE(c.log_probability == script(ids[s], prefix_of(all, c))[static_cast<std::size_t>(c.token)]);
        REQUIRE(c.total == Approx(before + c.log_probability).epsilon(1e-12));
        REQUIRE(c.score == normalized_score(c.total, c.step + 1, o.alpha, o.normalization));
        if (i > 0 && all[i - 1].step == c.step) REQUIRE(c.total <= all[i - 1].total);
        if (c.fate == Fate::live) ++live[static_cast<std::size_t>(c.step)];
        if (c.fate == Fate::ended) scores.push_back(c.score);
      }
      REQUIRE(*std::max_element(live.begin(), live.end()) <= 3);
      std::sort(scores.rbegin(), scores.rend());
      REQUIRE(lists[s].size() == plain[s].size());
      for (std::size_t i = 0; i < lists[s].size(); ++i) {
        REQUIRE(lists[s][i].tokens == plain[s][i].tokens);
        REQUIRE(lists[s][i].score == plain[s][i].score);
        if (i < scores.size()) REQUIRE(lists[s][i].score == scores[i]);
      }
    }
  }
}
