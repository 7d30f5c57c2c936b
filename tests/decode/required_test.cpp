#include "attend/decode/required.hpp"

#include <algorithm>
#include <cmath>

#include "attend/decode/beam.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;

namespace {

using Tokens = std::vector<token_t>;
using Phrases = std::vector<Tokens>;

bool has(const Tokens& tokens, const Tokens& phrase) {
  return std::search(tokens.begin(), tokens.end(), phrase.begin(), phrase.end()) != tokens.end();
}
bool has_all(const Tokens& tokens, const Phrases& phrases) {
  return std::all_of(phrases.begin(), phrases.end(), [&](const Tokens& p) { return has(tokens, p); });
}

/// Every finished hypothesis with all phrases, best first.
std::vector<Hypothesis> exhaustive(const scripted::Script& script, index_t sentence, const BeamOptions& o) {
  const auto s = static_cast<std::size_t>(sentence);
  std::vector<Hypothesis> all, open{Hypothesis{}};
  for (index_t length = 0; length <= o.max_length[sentence]; ++length) {
    std::vector<Hypothesis> next;
    for (const auto& h : open) {
      const auto x = script(sentence, h.tokens);
      for (std::size_t t = 0; t < x.size(); ++t) {
        if (t < 2) continue;
        Hypothesis longer = h;
        longer.log_probability += x[t];
        longer.score = normalized_score(longer.log_probability, length + 1, o.alpha, o.normalization);
        if (static_cast<token_t>(t) == o.eos) {
          if (has_all(h.tokens, o.required[s])) all.push_back(longer);
        } else {
          longer.tokens.push_back(static_cast<token_t>(t));
          next.push_back(longer);
        }
      }
    }
    open = std::move(next);
  }
  std::stable_sort(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return all;
}

}  // namespace

TEST_CASE("required phrases are followed through all of their beginnings", "[required]") {
  const decode::detail::RequiredPhrases phrases({{3, 3, 4}, {4, 3}, {3, 3, 3, 5}});
  REQUIRE(phrases.tokens() == 9);
  auto state = phrases.begin();
  REQUIRE(phrases.met(state) == 0);
  REQUIRE(phrases.next(state) == Tokens{3, 4});
  const auto follow = [&](token_t token) {
    phrases.follow(state, token);
    return phrases.met(state);
  };
  REQUIRE(follow(3) == 1);
  REQUIRE(follow(3) == 2);
  REQUIRE(follow(3) == 3);
  REQUIRE(state == decode::detail::PhraseState{2, 0, 3});
  REQUIRE(phrases.next(state) == Tokens{4, 5});
  REQUIRE(follow(4) == 4);  // 3 3 4, and the 4 begins 4 3
  REQUIRE(follow(3) == 6);  // 3 3 4, 4 3, and the 3 begins 3 3 3 5
  REQUIRE(phrases.next(state) == Tokens{3});
  REQUIRE(follow(6) == 5);
  for (const token_t token : {3, 3, 3, 3}) follow(token);
  REQUIRE(follow(5) == 9);
  REQUIRE(phrases.next(state).empty());
}

TEST_CASE("a beam is shared out among banks, and what one cannot use goes to the fullest", "[required]") {
  using Counts = std::vector<index_t>;
  REQUIRE(decode::detail::share_out({10, 10, 10}, 6) == Counts{2, 2, 2});
  REQUIRE(decode::detail::share_out({10, 10, 10}, 8) == Counts{2, 2, 4});
  REQUIRE(decode::detail::share_out({10, 1, 0}, 6) == Counts{5, 1, 0});
  REQUIRE(decode::detail::share_out({10, 9, 1}, 6) == Counts{2, 3, 1});
  REQUIRE(decode::detail::share_out({1, 1, 0}, 6) == Counts{1, 1, 0});
  REQUIRE(decode::detail::share_out({9, 2, 0, 0, 0}, 3) == Counts{1, 2, 0, 0, 0});
}

TEST_CASE("a wide beam with required phrases finds what looking at every sentence finds", "[required]") {
  const auto script = scripted::random_script(41, 5, 1.3);
  scripted::Model<double> model(5, script);
  for (const auto& required : std::vector<std::vector<Phrases>>{{{{3}}, {{4, 4}}},
                                                                {{{4, 3}, {3, 4}}, {}},
                                                                {{{3, 3, 4}, {4}}, {{4, 3, 4}, {3, 4}}},
                                                                {{{3}, {3}, {3, 3}}, {{4}, {3}}}}) {
    const BeamOptions o{
        .max_length = std::vector<index_t>{5, 4}, .suppressed = {0, 1}, .beam = 300, .n_best = 5, .required = required};
    auto state = model.begin({0, 1});
    const auto lists = beam_search(model, state, 2, o);
    for (std::size_t s = 0; s < 2; ++s) {
      const auto expected = exhaustive(script, static_cast<index_t>(s), o);
      REQUIRE(lists[s].size() == std::min<std::size_t>(5, expected.size()));
      for (std::size_t i = 0; i < lists[s].size(); ++i) {
        REQUIRE(lists[s][i].tokens == expected[i].tokens);
        REQUIRE(lists[s][i].score == Approx(expected[i].score).epsilon(1e-12));
        REQUIRE(lists[s][i].finished);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a narrow beam finds hypotheses with all required phrases, however improbable", "[required]", float, double) {
  scripted::Model<TestType> model(40, scripted::random_script(23, 40, 2.5));
  std::vector<index_t> ids;
  for (index_t s = 0; s < 12; ++s) ids.push_back(s);
  for (const auto stop : {Stop::exact, Stop::present_length, Stop::first})
    for (const index_t beam : {1, 4, 8}) {
      BeamOptions o{.end_tokens = {30},
                    .max_length = 16,
                    .suppressed = {0, 1},
                    .beam = beam,
                    .stop = stop,
                    .constraints = {.force_end = true}};
      for (token_t s = 0; s < 12; ++s)
        o.required.push_back(s % 4 == 3 ? Phrases{} : Phrases{{20 + s % 8, 7}, {static_cast<token_t>(10 + s), 35, 36}});
      auto state = model.begin(ids);
      const auto lists = beam_search(model, state, 12, o);
      for (std::size_t s = 0; s < ids.size(); ++s) {
        INFO("sentence " << s << ", beam " << beam);
        REQUIRE_FALSE(lists[s].empty());
        const Hypothesis& h = lists[s][0];
        REQUIRE(h.finished);
        REQUIRE(has_all(h.tokens, o.required[s]));
        // Alone it finds the same, and without phrases what it would have found without.
        BeamOptions one = o;
        one.required = {o.required[s]};
        auto alone = model.begin({ids[s]});
        REQUIRE(beam_search(model, alone, 1, one)[0][0].tokens == h.tokens);
        if (!o.required[s].empty()) continue;
        one.required = {};
        alone = model.begin({ids[s]});
        REQUIRE(beam_search(model, alone, 1, one)[0][0].tokens == h.tokens);
      }
    }
}

TEST_CASE("required phrases go with prefixes, shortlists and rules, and with looking at a search", "[required]") {
  scripted::Model<double> model(12, scripted::random_script(7, 12, 1));
  BeamTrace trace;
  const BeamOptions o{.max_length = 9,
                      .suppressed = {0, 1},
                      .beam = 5,
                      .n_best = 3,
                      .constraints = {.prefix = {{5, 6}, {}}, .allowed = {{}, {4, 5, 6}}, .no_repeat_ngram = 2},
                      .trace = &trace,
                      .distributions = true,
                      .required = {{{6, 9}}, {{4, 4}, {6}}}};
  auto state = model.begin({0, 1});
  const auto lists = beam_search(model, state, 2, o);
  for (std::size_t s = 0; s < 2; ++s) {
    REQUIRE(lists[s].size() == 3);
    for (const auto& h : lists[s]) {
      REQUIRE(h.finished);
      REQUIRE(has_all(h.tokens, o.required[s]));
      REQUIRE(h.distributions.size() == h.tokens.size() + 1);
    }
    REQUIRE(std::any_of(trace.sentences[s].begin(), trace.sentences[s].end(),
                        [&](const BeamCandidate& c) { return c.fate == Fate::ended && c.score == lists[s][0].score; }));
  }
  for (const auto& h : lists[0]) REQUIRE(Tokens(h.tokens.begin(), h.tokens.begin() + 2) == Tokens{5, 6});
}

TEST_CASE("where a required phrase cannot come, what has most of them comes back unfinished", "[required]") {
  // 5 never comes; 3 is much less probable than 4.
  scripted::Model<double> model(6, [](index_t, const Tokens&) { return logs({0, 0, 0.3, 0.1, 0.6, 0}); });
  auto state = model.begin({0});
  const auto list = beam_search(model, state, 1, {.max_length = 3, .beam = 4, .n_best = 2, .required = {{{3, 5}, {3, 3}}}})[0];
  REQUIRE(list.size() == 2);
  for (const auto& h : list) {
    REQUIRE_FALSE(h.finished);
    REQUIRE(has(h.tokens, {3, 3}));
  }
  state = model.begin({0});
  const auto kept =
      beam_search(model, state, 1, {.max_length = 4, .beam = 4, .keep_unfinished = true, .required = {{{3, 3}}}})[0];
  REQUIRE(has(kept[0].tokens, {3, 3}));
}

TEST_CASE("where results may be unfinished too, what lacks a phrase has all tokens up to the limit", "[required]") {
  // Two phrases of two tokens in two: one of them is the most that there can be. 6 is the best but for that.
  scripted::Model<double> model(7, [](index_t, const Tokens&) { return logs({0, 0, 0.1, 0.1, 0.1, 0.2, 0.5}); });
  auto state = model.begin({0, 1});
  BeamOptions o{.max_length = 2, .beam = 8, .n_best = 2, .keep_unfinished = true, .required = {{{3, 4}, {5, 4}}, {{3, 4}}}};
  const auto lists = beam_search(model, state, 2, o);
  REQUIRE(lists[0].size() == 2);
  REQUIRE(lists[0][0].tokens == Tokens{5, 4});
  REQUIRE(lists[0][0].score == Approx(normalized_score(std::log(0.1 * 0.2), 2, o.alpha, o.normalization)));
  REQUIRE(lists[0][1].tokens == Tokens{3, 4});
  for (const auto& h : lists[0]) REQUIRE_FALSE(h.finished);
  REQUIRE(lists[1].size() == 1);
  REQUIRE(lists[1][0].tokens == Tokens{3, 4});
  // A prefix comes whole, though it leaves no room for a phrase.
  o.constraints.prefix = {{6, 6}, {6, 3}};
  state = model.begin({0, 1});
  const auto forced = beam_search(model, state, 2, o);
  REQUIRE(forced[0][0].tokens == Tokens{6, 6});
  REQUIRE(forced[1][0].tokens == Tokens{6, 3});
}

TEST_CASE("required phrases that make no sense are refused", "[required]") {
  scripted::Model<double> model(6, scripted::random_script(1, 6, 1));
  const auto run = [&](const std::vector<Phrases>& required, BeamOptions o = {}) {
    o.max_length = 4;
    o.required = required;
    auto state = model.begin({0});
    return beam_search(model, state, 1, o);
  };
  REQUIRE_THROWS_WITH(run({{}, {}}), "beam_search: required has 2 lists for 1 sentences");
  REQUIRE_THROWS_WITH(run({{{3}, {}}}), "beam_search: required phrase 1 of sentence 0 is empty");
  REQUIRE_THROWS_WITH(run({{Tokens(5, 3)}}), "beam_search: required phrase 0 of sentence 0 has 5 tokens, max_length is 4");
  REQUIRE_THROWS_AS(run({{{6}}}), IndexError);
  const std::string message = "beam_search: required phrase 0 of sentence 0 has token 3, which may not come";
  REQUIRE_THROWS_WITH(run({{{4, 3}}}, {.suppressed = {3}}), message);
  REQUIRE_THROWS_WITH(run({{{4, 3}}}, {.end_tokens = {3}}), message);
  REQUIRE_THROWS_WITH(run({{{4, 3}}}, {.constraints = {.banned = {{3}}}}), message);
  REQUIRE_THROWS_WITH(run({{{4, 3}}}, {.constraints = {.allowed = {{4, 5}}}}), message);
  REQUIRE_THROWS_AS(run({{{2}}}), ValueError);
  REQUIRE_THROWS_WITH(run({{{4, 3}}}, {.beam_groups = 2, .diversity_penalty = 1}),
                      "beam_search: required and beam_groups exclude each other");
}
