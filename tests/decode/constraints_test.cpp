#include "attend/decode/constraints.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;
using scripted::never;

namespace {

using Tokens = std::vector<token_t>;

bool holds(const Tokens& list, token_t token) { return std::find(list.begin(), list.end(), token) != list.end(); }

/// Where else in `tokens` its last n stand.
bool repeats(const Tokens& tokens, std::size_t n) {
  for (std::size_t i = 0; i + n < tokens.size(); ++i)
    if (std::equal(tokens.end() - static_cast<std::ptrdiff_t>(n), tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i)))
      return true;
  return false;
}

template <class Options>
bool ends(const Options& o, token_t token) {
  return token == o.eos || holds(o.end_tokens, token);
}

/// The log-probabilities x of what follows `tokens` by a shortlist, with penalties, and edited.
template <class Options>
std::vector<double> changed_row(const Options& o, std::vector<double> x, std::size_t sentence, const Tokens& tokens) {
  const Constraints& c = o.constraints;
  if (!c.allowed.empty() && !c.allowed[sentence].empty()) {
    const auto may = [&](std::size_t t) {
      return ends(o, static_cast<token_t>(t)) || holds(c.allowed[sentence], static_cast<token_t>(t));
    };
    double mass = 0;
    for (std::size_t t = 0; t < x.size(); ++t) mass += may(t) ? std::exp(x[t]) : 0;
    for (std::size_t t = 0; t < x.size(); ++t) x[t] = may(t) ? x[t] - std::log(mass) : never;
  }
  for (std::size_t t = 0; t < x.size(); ++t)
    if (holds(tokens, static_cast<token_t>(t))) x[t] *= c.repetition_penalty;
  if (c.unknown_penalty > 0) x[static_cast<std::size_t>(c.unknown)] -= c.unknown_penalty;
  if (!c.edit) return x;
  const std::vector<float> before(x.begin(), x.end());
  auto values = before;
  c.edit(static_cast<index_t>(sentence), tokens, values);
  for (std::size_t t = 0; t < x.size(); ++t)
    if (values[t] != before[t]) x[t] = static_cast<double>(values[t]);
  return x;
}

/// The log-probability of `token` after `tokens` under all rules, worked out one token at a time.
template <class Options>
double ruled(const Options& o, const std::vector<double>& x, std::size_t sentence, Tokens tokens, token_t token) {
  const Constraints& c = o.constraints;
  const std::size_t length = tokens.size();
  const double value = x[static_cast<std::size_t>(token)];
  const std::size_t first = c.first >= 0 ? 1 : 0;
  if (length < first) return token == c.first ? 0 : never;
  if (!c.prefix.empty() && length - first < c.prefix[sentence].size())
    return token == c.prefix[sentence][length - first] ? value : never;
  const auto limit = static_cast<std::size_t>(o.max_length[static_cast<index_t>(sentence)]);
  if (length == limit && c.force_end) return token != o.eos ? never : c.score_forced_end ? value : 0;
  const double changed = changed_row(o, x, sentence, tokens)[static_cast<std::size_t>(token)];
  if (holds(o.suppressed, token) || (ends(o, token) && length < static_cast<std::size_t>(o.min_length))) return never;
  if (c.allowed_next) {
    const auto next = c.allowed_next(static_cast<index_t>(sentence), tokens);
    if (next && !holds(*next, token)) return never;
  }
  tokens.push_back(token);
  for (const Tokens& b : c.banned)
    if (b.size() <= tokens.size() && std::equal(b.begin(), b.end(), tokens.end() - static_cast<std::ptrdiff_t>(b.size())))
      return never;
  const auto n = static_cast<std::size_t>(c.no_repeat_ngram);
  if (n > 0 && tokens.size() >= n && !ends(o, token) && repeats(tokens, n)) return never;
  return changed;
}

/// Every finished hypothesis, best first.
std::vector<Hypothesis> exhaustive(const scripted::Script& script, std::size_t sentence, const BeamOptions& o) {
  std::vector<Hypothesis> all, open{Hypothesis{}};
  for (index_t length = 0; length <= o.max_length[static_cast<index_t>(sentence)]; ++length) {
    std::vector<Hypothesis> next;
    for (const auto& h : open) {
      const auto x = script(static_cast<index_t>(sentence), h.tokens);
      for (token_t token = 0; token < static_cast<token_t>(x.size()); ++token) {
        Hypothesis longer = h;
        longer.log_probability += ruled(o, x, sentence, h.tokens, token);
        if (std::isinf(longer.log_probability)) continue;
        longer.score = normalized_score(longer.log_probability, length + 1, o.alpha, o.normalization);
        if (ends(o, token)) {
          longer.end_token = token;
          all.push_back(longer);
        } else {
          longer.tokens.push_back(token);
          next.push_back(longer);
        }
      }
    }
    open = std::move(next);
  }
  std::stable_sort(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return all;
}

/// Sets of constraints for two sentences, vocabulary 5: 0 padding, 1 begin, 2 end.
std::vector<Constraints> kinds() {
  const AllowedNext every_other = [](index_t sentence, std::span<const token_t> tokens) -> std::optional<Tokens> {
    if (tokens.size() % 2 == static_cast<std::size_t>(sentence)) return std::nullopt;
    return Tokens{3, 2, 0};
  };
  const EditLogProbabilities later = [](index_t sentence, std::span<const token_t> tokens, std::span<float> values) {
    values[2] -= 2.0f / static_cast<float>(tokens.size() + 1);
    if (sentence == 1) values[4] = -std::numeric_limits<float>::infinity();
  };
  return {
      {},
      {.first = 4},
      {.first = 1, .prefix = {{3, 3}, {}}, .no_repeat_ngram = 1, .force_end = true, .repetition_penalty = 1.7},
      {.first = 3, .allowed = {{4}, {}}, .edit = later},
      {.prefix = {{3, 3, 1}, {}}},
      {.prefix = {{4}, {0, 3, 4, 3}}},
      {.allowed = {{3}, {}}},
      {.allowed = {{4, 0, 4}, {2, 3}}},
      {.banned = {{3}}},
      {.banned = {{4, 3}, {3, 3, 3}, {0, 2}}},
      {.no_repeat_ngram = 1},
      {.no_repeat_ngram = 2},
      {.force_end = true},
      {.force_end = true, .score_forced_end = true},
      {.repetition_penalty = 1.7},
      {.repetition_penalty = 0.6},
      {.unknown = 3, .unknown_penalty = 0.8},
      {.allowed_next = every_other},
      {.edit = later},
      {.prefix = {{3}, {3, 1}},
       .allowed = {{3, 0}, {4, 3}},
       .banned = {{0, 3}},
       .repetition_penalty = 1.3,
       .unknown = 0,
       .unknown_penalty = 0.3,
       .allowed_next = every_other,
       .edit = later},
      {.prefix = {{3, 4, 3, 4}, {1}}, .no_repeat_ngram = 2, .force_end = true},
      {.prefix = {{4, 4}, {3}}, .allowed = {{3, 0}, {4, 3}}, .banned = {{4}, {3, 0}}, .no_repeat_ngram = 3, .force_end = true}};
}

}  // namespace

TEST_CASE("a wide beam under constraints finds what looking at every sentence finds", "[constraints]") {
  const auto script = scripted::random_script(31, 5, 1.5);
  scripted::Model<double> model(5, script);
  std::size_t kind = 0;
  for (const Constraints& constraints : kinds())
    for (const index_t min_length : {0, 2}) {
      // Odd rounds have another end token.
      BeamOptions o{.end_tokens = min_length == 2 && constraints.prefix.empty() ? Tokens{0} : Tokens{},
                    .max_length = std::vector<index_t>{5, 4},
                    .min_length = min_length,
                    .suppressed = {1},
                    .beam = 1500,
                    .n_best = 8,
                    .constraints = constraints};
      INFO("constraints " << kind++ / 2 << ", min_length " << min_length);
      auto state = model.begin({0, 1});
      const auto lists = beam_search(model, state, 2, o);
      for (std::size_t s = 0; s < 2; ++s) {
        const auto expected = exhaustive(script, s, o);
        INFO("sentence " << s);
        REQUIRE_FALSE(expected.empty());
        REQUIRE(lists[s].size() == std::min<std::size_t>(8, expected.size()));
        for (std::size_t i = 0; i < lists[s].size(); ++i) {
          REQUIRE(lists[s][i].tokens == expected[i].tokens);
          REQUIRE(lists[s][i].score == Approx(expected[i].score).epsilon(1e-12));
          REQUIRE(lists[s][i].finished);
          REQUIRE(lists[s][i].end_token == expected[i].end_token);
        }
      }
    }
}

TEST_CASE("greedy search and sampling keep to constraints, token by token", "[constraints]") {
  const auto script = scripted::random_script(32, 5, 1);
  scripted::Model<float> model(5, script);
  std::size_t kind = 0;
  for (const Constraints& constraints : kinds()) {
    INFO("constraints " << kind++);
    const GreedyOptions o{.max_length = std::vector<index_t>{7, 5}, .suppressed = {1}, .constraints = constraints};
    const auto check = [&](std::size_t s, const Hypothesis& h, bool best) {
      Tokens all = h.tokens, before;
      if (h.finished) all.push_back(o.eos);
      REQUIRE(h.token_log_probabilities.size() == all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto x = script(static_cast<index_t>(s), before);
        const double value = ruled(o, x, s, before, all[i]);
        REQUIRE(static_cast<double>(h.token_log_probabilities[i]) == Approx(value).epsilon(1e-5).margin(1e-6));
        for (token_t other = 0; best && other < 5; ++other) REQUIRE(ruled(o, x, s, before, other) < value + 1e-6);
        before.push_back(all[i]);
      }
      if (constraints.force_end) REQUIRE(h.finished);
    };
    auto state = model.begin({0, 1});
    const auto results = greedy(model, state, 2, o);
    auto again = model.begin({0, 1});
    const auto samples = sample(model, again, 2,
                                {.max_length = o.max_length,
                                 .suppressed = o.suppressed,
                                 .samples = 20,
                                 .temperature = 1.5,
                                 .top_k = 4,
                                 .seed = 7,
                                 .constraints = constraints});
    for (std::size_t s = 0; s < 2; ++s) {
      check(s, results[s], true);
      bool differ = false;
      for (const Hypothesis& h : samples[s]) {
        check(s, h, false);
        differ = differ || h.tokens != samples[s][0].tokens;
      }
      REQUIRE(differ);
    }
    auto once_more = model.begin({0, 1});
    const auto lists =
        beam_search(model, once_more, 2,
                    {.max_length = o.max_length, .suppressed = o.suppressed, .beam = 1, .alpha = 0, .constraints = constraints});
    for (std::size_t s = 0; s < 2; ++s) REQUIRE(lists[s][0].tokens == results[s].tokens);
  }
}

TEST_CASE("what a constraint leaves nothing ends unfinished", "[constraints]") {
  scripted::Model<double> model(5, [](index_t, const Tokens&) { return logs({0, 0, 0, 0.6, 0.4}); });
  const Constraints once{.no_repeat_ngram = 1};
  auto state = model.begin({0});
  const auto result = greedy(model, state, 1, {.constraints = once})[0];
  REQUIRE(result.tokens == Tokens{3, 4});
  REQUIRE_FALSE(result.finished);
  state = model.begin({0});
  const auto list = beam_search(model, state, 1, {.n_best = 4, .constraints = once})[0];
  REQUIRE(list.size() == 2);
  REQUIRE(list[0].tokens == Tokens{3, 4});
  REQUIRE(list[1].tokens == Tokens{4, 3});
  state = model.begin({0});
  const auto samples = sample(model, state, 1, {.samples = 5, .constraints = once})[0];
  for (const auto& h : samples) {
    REQUIRE(h.tokens.size() == 2);
    REQUIRE_FALSE(h.finished);
  }
  // A shortlist of tokens that the model rules out.
  scripted::Model<double> sure(5, [](index_t, const Tokens&) { return std::vector<double>{never, never, never, 0, never}; });
  state = sure.begin({0});
  REQUIRE(greedy(sure, state, 1, {.constraints = {.allowed = {{4}}}})[0].tokens.empty());
}

TEST_CASE("a prefix that the model gives no probability is an error in every search", "[constraints]") {
  scripted::Model<float> model(5, [](index_t sentence, const Tokens& prefix) {
    return prefix.empty() || sentence == 0 ? logs({0, 0, 0.2, 0.4, 0.4}) : logs({0, 0, 0.5, 0.5, 0});
  });
  // What the options forbid is another matter: a prefix may have it.
  const Constraints fine{.prefix = {{4, 4}, {4, 3}}, .banned = {{4}, {4, 3}}}, bad{.prefix = {{4, 4}, {4, 4}}};
  const std::string message = ": the model gives token 4, at position 1 of prefix 1, no probability";
  auto state = model.begin({0, 1});
  REQUIRE(greedy(model, state, 2, {.max_length = 2, .constraints = fine})[1].tokens == Tokens{4, 3});
  state = model.begin({0, 1});
  REQUIRE_THROWS_WITH(greedy(model, state, 2, {.constraints = bad}), "greedy" + message);
  for (const index_t beam : {1, 3}) {
    state = model.begin({0, 1});
    REQUIRE_THROWS_AS(beam_search(model, state, 2, {.beam = beam, .constraints = bad}), ValueError);
  }
  state = model.begin({0, 1});
  REQUIRE_THROWS_WITH(sample(model, state, 2, {.samples = 2, .constraints = bad}), "sample" + message);
}

TEST_CASE("a search stops at a prefix as long as max_length, and with force_end at none", "[constraints]") {
  scripted::Model<double> model(5, scripted::random_script(3, 5, 1));
  const Constraints both{.prefix = {{3, 4}}, .force_end = true};
  for (const bool forced : {false, true}) {
    Constraints c = both;
    c.force_end = forced;
    auto state = model.begin({0});
    const auto result = greedy(model, state, 1, {.max_length = 2, .suppressed = {2}, .constraints = c})[0];
    REQUIRE(result.tokens == Tokens{3, 4});
    REQUIRE(result.finished == forced);
    if (forced) REQUIRE(result.token_log_probabilities[2] == 0);
  }
  auto state = model.begin({0});
  const auto empty = beam_search(model, state, 1, {.max_length = 0, .constraints = {.force_end = true}})[0];
  REQUIRE(empty.size() == 1);
  REQUIRE(empty[0].finished);
  REQUIRE(empty[0].log_probability == 0);
}

TEST_CASE("temperatures and penalties at the ends of their ranges make no NaN of what is impossible", "[constraints]") {
  // The model itself rules out 0 and 1, the shortlist what the prefix has.
  scripted::Model<float> model(6, [](index_t, const Tokens&) { return logs({0, 0, 0.2, 0.1, 0.3, 0.4}); });
  for (const double end : {1e-300, 1e-40, 1e40, 1e300}) {
    INFO(end);
    auto state = model.begin({0});
    const auto found = beam_search(model, state, 1, {.max_length = 3, .n_best = 4, .temperature = end})[0];
    REQUIRE_FALSE(found.empty());
    for (const auto& h : found) REQUIRE(std::isfinite(h.score));
    state = model.begin({0});
    const auto drawn = sample(model, state, 1, {.max_length = 3, .samples = 40, .temperature = end})[0];
    for (const auto& h : drawn) {
      REQUIRE(std::all_of(h.tokens.begin(), h.tokens.end(), [](token_t t) { return t > 2; }));
      if (end < 1) REQUIRE(h.tokens == Tokens{5, 5, 5});
    }
    if (end > 1) REQUIRE(std::any_of(drawn.begin(), drawn.end(), [](const auto& h) { return h.tokens.empty(); }));
    state = model.begin({0});
    const Constraints c{.prefix = {{3}}, .allowed = {{4, 5}}, .repetition_penalty = end};
    REQUIRE(beam_search(model, state, 1, {.max_length = 3, .constraints = c})[0][0].tokens[0] == 3);
  }
}

TEST_CASE("a callback hears of every token in order and can stop a hypothesis", "[constraints]") {
  // Sentence 0 says 3 4 and ends, sentence 1 goes on.
  scripted::Model<double> model(5, [](index_t sentence, const Tokens& prefix) {
    return prefix.size() == 2 && sentence == 0 ? logs({0, 0, 1, 0, 0})
           : prefix.size() % 2                 ? logs({0, 0, 0, 0, 1})
                                               : logs({0, 0, 0, 1, 0});
  });
  struct Told {
    index_t sentence, sample, position;
    token_t token;
    bool last;
    bool operator==(const Told&) const = default;
  };
  std::vector<Told> told;
  double sum = 0;
  GreedyOptions o{.max_length = 4, .on_token = [&](const TokenEvent& e) {
                    told.push_back({e.sentence, e.sample, e.position, e.token, e.last});
                    sum += e.log_probability;
                    return true;
                  }};
  auto state = model.begin({0, 1});
  const auto results = greedy(model, state, 2, o);
  REQUIRE(told == std::vector<Told>{{0, 0, 0, 3, false},
                                    {1, 0, 0, 3, false},
                                    {0, 0, 1, 4, false},
                                    {1, 0, 1, 4, false},
                                    {0, 0, 2, 2, true},
                                    {1, 0, 2, 3, false},
                                    {1, 0, 3, 4, true}});
  REQUIRE(sum == results[0].log_probability + results[1].log_probability);

  o.on_token = [](const TokenEvent& e) { return e.position < 1; };
  model.rows_per_step.clear();
  state = model.begin({0, 1});
  for (const auto& h : greedy(model, state, 2, o)) {
    REQUIRE(h.tokens == Tokens{3, 4});
    REQUIRE_FALSE(h.finished);
  }
  REQUIRE(model.rows_per_step == std::vector<index_t>{2, 2});

  // Of the samples of sentence 1, the second stops after one token.
  told.clear();
  state = model.begin({0, 1});
  const auto samples = sample(model, state, 2, {.max_length = 2, .samples = 2, .on_token = [&](const TokenEvent& e) {
                                                  told.push_back({e.sentence, e.sample, e.position, e.token, e.last});
                                                  return !(e.sentence == 1 && e.sample == 1);
                                                }});
  REQUIRE(told == std::vector<Told>{{0, 0, 0, 3, false},
                                    {0, 1, 0, 3, false},
                                    {1, 0, 0, 3, false},
                                    {1, 1, 0, 3, false},
                                    {0, 0, 1, 4, true},
                                    {0, 1, 1, 4, true},
                                    {1, 0, 1, 4, true},
                                    {0, 0, 2, 2, true},
                                    {0, 1, 2, 2, true}});
  REQUIRE(samples[0][1].finished);
  REQUIRE(samples[1][0].tokens == Tokens{3, 4});
  REQUIRE(samples[1][1].tokens == Tokens{3});
}

TEST_CASE("searches refuse constraints that make no sense", "[constraints]") {
  scripted::Model<double> model(5, scripted::random_script(1, 5, 1));
  const auto run = [&](const Constraints& c) {
    auto state = model.begin({0, 1});
    return greedy(model, state, 2, {.max_length = std::vector<index_t>{4, 2}, .constraints = c});
  };
  REQUIRE_THROWS_WITH(run({.prefix = {{3}}}), "greedy: prefix has 1 lists for 2 sentences");
  REQUIRE_THROWS_AS(run({.prefix = {{3}}}), ValueError);
  REQUIRE_THROWS_WITH(run({.prefix = {{}, {3, 5}}}), "greedy: a token of prefix 1 is 5, outside the vocabulary of 5");
  REQUIRE_THROWS_AS(run({.prefix = {{}, {3, 5}}}), IndexError);
  REQUIRE_THROWS_WITH(run({.prefix = {{3, 3, 3}, {3, 3, 3}}}), "greedy: prefix 1 has 3 tokens, max_length is 2");
  REQUIRE_THROWS_WITH(run({.prefix = {{3, 2}, {}}}), "greedy: prefix 0 holds the end token");
  REQUIRE_THROWS_WITH(run({.first = -2}), "greedy: first is -2, expected a token, or -1 for none");
  REQUIRE_THROWS_WITH(run({.first = 5}), "greedy: first is 5, outside the vocabulary of 5");
  REQUIRE_THROWS_AS(run({.first = 5}), IndexError);
  REQUIRE_THROWS_WITH(run({.first = 2}), "greedy: first is the end token 2");
  REQUIRE_THROWS_WITH(run({.first = 1, .prefix = {{}, {3, 3}}}),
                      "greedy: prefix 1 has 2 tokens, max_length is 2, of which first is one");
  REQUIRE_THROWS_WITH(run({.allowed = {{3}, {4}, {3}}}), "greedy: allowed has 3 lists for 2 sentences");
  REQUIRE_THROWS_WITH(run({.allowed = {{3, -1}, {}}}), "greedy: a token of allowed 0 is -1, outside the vocabulary of 5");
  REQUIRE_THROWS_WITH(run({.banned = {{3}, {}}}), "greedy: banned sequence 1 is empty");
  REQUIRE_THROWS_WITH(run({.banned = {{3, 9}}}), "greedy: a banned token is 9, outside the vocabulary of 5");
  REQUIRE_THROWS_WITH(run({.no_repeat_ngram = -1}), "greedy: constraints.no_repeat_ngram is -1, expected 0 or more");
  REQUIRE_THROWS_WITH(run({.score_forced_end = true}), "greedy: score_forced_end goes with force_end, which is not asked for");
  REQUIRE_THROWS_AS(run({.repetition_penalty = 0}), ValueError);
  REQUIRE_THROWS_AS(run({.repetition_penalty = std::nan("")}), ValueError);
  REQUIRE_THROWS_AS(run({.unknown = 3, .unknown_penalty = -1}), ValueError);
  REQUIRE_THROWS_WITH(run({.unknown_penalty = 1}),
                      "greedy: unknown, which unknown_penalty is for, is -1, outside the vocabulary of 5");
  const AllowedNext outside = [](index_t, std::span<const token_t>) { return Tokens{3, 5}; };
  REQUIRE_THROWS_WITH(run({.allowed_next = outside}), "greedy: a token of allowed_next is 5, outside the vocabulary of 5");
  const EditLogProbabilities raise = [](index_t, std::span<const token_t>, std::span<float> values) { values[3] = 1; };
  REQUIRE_THROWS_WITH(run({.edit = raise}), "greedy: edit gives token 3 the log-probability 1, expected at most 0");
  const EditLogProbabilities spoil = [](index_t, std::span<const token_t>, std::span<float> values) {
    values[3] = std::nanf("");
  };
  REQUIRE_THROWS_WITH(run({.edit = spoil}), "greedy: edit gives token 3 the log-probability nan, expected at most 0");
  // Drawn or not, and whatever is drawn among.
  const EditLogProbabilities infinite = [](index_t, std::span<const token_t>, std::span<float> values) {
    values[4] = std::numeric_limits<float>::infinity();
  };
  auto state = model.begin({0});
  for (const double top_p : {0.9, 1.0})
    REQUIRE_THROWS_WITH(sample(model, state, 1, {.top_p = top_p, .constraints = {.edit = infinite}}),
                        "sample: edit gives token 4 the log-probability inf, expected at most 0");
  state = model.begin({0});
  REQUIRE_THROWS_WITH(beam_search(model, state, 1, {.constraints = {.banned = {{}}}}), "beam_search: banned sequence 0 is empty");
  REQUIRE_THROWS_WITH(sample(model, state, 1, {.constraints = {.banned = {{}}}}), "sample: banned sequence 0 is empty");
  REQUIRE_THROWS_WITH(beam_search(model, state, 1, {.keep_unfinished = true, .constraints = {.force_end = true}}),
                      "beam_search: keep_unfinished and force_end exclude each other");
}
