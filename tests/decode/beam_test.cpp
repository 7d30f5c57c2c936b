#include "attend/decode/beam.hpp"

#include <algorithm>

#include "attend/decode/greedy.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;
using scripted::never;

namespace {

using Tokens = std::vector<token_t>;
using Lists = std::vector<std::vector<Hypothesis>>;

template <class T>
Lists run(scripted::Model<T>& model, const std::vector<index_t>& sentences, const BeamOptions& options) {
  auto state = model.begin(sentences);
  return beam_search(model, state, static_cast<index_t>(sentences.size()), options);
}

/// Every finished hypothesis of up to max_length tokens with its score, best first.
std::vector<Hypothesis> exhaustive(const scripted::Script& script, index_t sentence, const BeamOptions& options) {
  std::vector<Hypothesis> all;
  std::vector<Hypothesis> open{Hypothesis{}};
  for (index_t length = 0; length <= options.max_length[sentence]; ++length) {
    std::vector<Hypothesis> next;
    for (const auto& h : open) {
      const auto x = script(sentence, h.tokens);
      for (token_t token = 0; token < static_cast<token_t>(x.size()); ++token) {
        if (std::count(options.suppressed.begin(), options.suppressed.end(), token)) continue;
        Hypothesis longer = h;
        longer.log_probability += x[static_cast<std::size_t>(token)];
        if (token != options.eos) {
          longer.tokens.push_back(token);
          next.push_back(longer);
        } else if (length >= options.min_length) {
          longer.score = normalized_score(longer.log_probability, length + 1, options.alpha, options.normalization);
          all.push_back(longer);
        }
      }
    }
    open = std::move(next);
  }
  std::stable_sort(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return all;
}

void require_equal(const Hypothesis& a, const Hypothesis& b) {
  REQUIRE(a.tokens == b.tokens);
  REQUIRE(a.log_probability == b.log_probability);
  REQUIRE(a.score == b.score);
  REQUIRE(a.token_log_probabilities == b.token_log_probabilities);
  REQUIRE(a.finished == b.finished);
}

}  // namespace

TEST_CASE("beam search finds a probable sentence behind an improbable token", "[beam]") {
  // Greedy takes 3 and is left with 0.6 * 0.4 * ...; the best sentence begins with 4.
  scripted::Model<double> model(5, [](index_t, const Tokens& prefix) {
    if (prefix.empty()) return logs({0, 0, 0, 0.6, 0.4});
    if (prefix.size() > 1) return logs({0, 0, 1, 0, 0});
    return prefix[0] == 3 ? logs({0, 0, 0.2, 0.4, 0.4}) : logs({0, 0, 0.9, 0.1, 0});
  });
  auto state = model.begin({0});
  REQUIRE(greedy(model, state, 1)[0].tokens == Tokens{3, 3});
  const auto list = run(model, {0}, {.beam = 2, .n_best = 2, .alpha = 0})[0];
  REQUIRE(list.size() == 2);
  REQUIRE(list[0].tokens == Tokens{4});
  REQUIRE(list[0].log_probability == Approx(std::log(0.36)));
  REQUIRE(list[0].finished);
  REQUIRE(list[1].tokens == Tokens{3, 3});  // before 3 4, which is equally probable
  REQUIRE(list[1].log_probability == Approx(std::log(0.24)));
}

TEST_CASE("a beam as wide as all prefixes finds what looking at every sentence finds", "[beam]") {
  const index_t vocabulary = 4, sentences = 12;
  for (const double alpha : {0.0, 0.6, 2.0, -0.5})
    for (const auto normalization : {LengthNormalization::google, LengthNormalization::marian})
      for (const index_t min_length : {0, 2}) {
        const auto script = scripted::random_script(77, vocabulary, 2);
        scripted::Model<double> model(vocabulary, script);
        BeamOptions options{.max_length = 4,
                            .min_length = min_length,
                            .suppressed = {1},
                            .beam = 200,
                            .n_best = 5,
                            .alpha = alpha,
                            .normalization = normalization};
        std::vector<index_t> ids;
        for (index_t s = 0; s < sentences; ++s) ids.push_back(s);
        const auto lists = run(model, ids, options);
        for (index_t s = 0; s < sentences; ++s) {
          const auto expected = exhaustive(script, s, options);
          const auto& list = lists[static_cast<std::size_t>(s)];
          INFO("alpha " << alpha << ", sentence " << s << ", min_length " << min_length);
          REQUIRE(list.size() == 5);
          for (std::size_t i = 0; i < list.size(); ++i) {
            REQUIRE(list[i].tokens == expected[i].tokens);
            REQUIRE(list[i].score == Approx(expected[i].score).epsilon(1e-12));
            double sum = 0;
            for (const float p : list[i].token_log_probabilities) sum += static_cast<double>(p);
            REQUIRE(list[i].token_log_probabilities.size() == list[i].tokens.size() + 1);
            REQUIRE(sum == Approx(list[i].log_probability).epsilon(1e-6));
          }
        }
      }
}

TEST_CASE("beam search stops early only where nothing is lost by it", "[beam]") {
  // A plain beam search that never stops early: it keeps every ending and sorts them at the end.
  const auto unhurried = [](const scripted::Script& script, index_t sentence, const BeamOptions& o) {
    std::vector<Hypothesis> live{Hypothesis{}}, ended;
    for (index_t length = 0; length <= o.max_length[sentence] && !live.empty(); ++length) {
      std::vector<Hypothesis> candidates;
      for (const auto& h : live) {
        const auto x = script(sentence, h.tokens);
        for (std::size_t t = 0; t < x.size(); ++t) {
          Hypothesis longer = h;
          longer.tokens.push_back(static_cast<token_t>(t));
          longer.log_probability += x[t];
          candidates.push_back(longer);
        }
      }
      std::stable_sort(candidates.begin(), candidates.end(),
                       [](const Hypothesis& a, const Hypothesis& b) { return a.log_probability > b.log_probability; });
      live.clear();
      for (std::size_t i = 0; i < candidates.size() && i < static_cast<std::size_t>(2 * o.beam); ++i) {
        auto& c = candidates[i];
        if (c.tokens.back() == o.eos) {
          if (i >= static_cast<std::size_t>(o.beam)) continue;
          c.score = normalized_score(c.log_probability, length + 1, o.alpha, o.normalization);
          c.tokens.pop_back();
          ended.push_back(c);
        } else if (length < o.max_length[sentence] && live.size() < static_cast<std::size_t>(o.beam)) {
          live.push_back(c);
        }
      }
    }
    std::stable_sort(ended.begin(), ended.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    return ended;
  };
  const auto script = scripted::random_script(3, 7, 1.2);
  scripted::Model<double> model(7, script);
  index_t steps = 0;
  for (const index_t beam : {1, 2, 3, 5})
    for (const double alpha : {0.0, 0.7, 1.5, -1.0})
      for (index_t s = 0; s < 15; ++s) {
        const BeamOptions options{.max_length = 14, .beam = beam, .n_best = std::min<index_t>(beam, 3), .alpha = alpha};
        const auto expected = unhurried(script, s, options);
        model.rows_per_step.clear();
        const auto list = run(model, {s}, options)[0];
        steps += static_cast<index_t>(model.rows_per_step.size());
        INFO("beam " << beam << ", alpha " << alpha << ", sentence " << s);
        if (expected.empty()) {
          REQUIRE_FALSE(list[0].finished);
          continue;
        }
        REQUIRE(list.size() == std::min(expected.size(), static_cast<std::size_t>(options.n_best)));
        for (std::size_t i = 0; i < list.size(); ++i) {
          REQUIRE(list[i].tokens == expected[i].tokens);
          REQUIRE(list[i].score == Approx(expected[i].score).epsilon(1e-12));
        }
      }
  REQUIRE(steps < 15 * 16 * 15 * 3 / 4);  // and it does stop
}

TEST_CASE("a beam of one without length penalty is greedy search", "[beam]") {
  scripted::Model<float> model(11, scripted::random_script(8, 11, 1.2));
  std::vector<index_t> ids;
  for (index_t s = 0; s < 40; ++s) ids.push_back(s);
  auto state = model.begin(ids);
  const auto expected = greedy(model, state, 40, {.max_length = 10, .min_length = 1, .suppressed = {0, 1}});
  for (const auto stop : {Stop::exact, Stop::present_length, Stop::first}) {
    const auto lists =
        run(model, ids, {.max_length = 10, .min_length = 1, .suppressed = {0, 1}, .beam = 1, .alpha = 0, .stop = stop});
    for (std::size_t s = 0; s < ids.size(); ++s) {
      REQUIRE(lists[s].size() == 1);
      require_equal(lists[s][0], expected[s]);
    }
  }
}

TEST_CASE("beam search gives a sentence the same result in every batch and order", "[beam]") {
  scripted::Model<float> model(13, scripted::random_script(21, 13, 1.3));
  for (const auto stop : {Stop::exact, Stop::present_length, Stop::first}) {
    const BeamOptions options{.max_length = 9, .beam = 4, .n_best = 3, .stop = stop};
    std::vector<index_t> ids;
    for (index_t s = 0; s < 25; ++s) ids.push_back(s);
    const auto forward = run(model, ids, options);
    const auto backward = run(model, {ids.rbegin(), ids.rend()}, options);
    for (std::size_t s = 0; s < ids.size(); ++s) {
      const auto alone = run(model, {ids[s]}, options)[0];
      REQUIRE(alone.size() == forward[s].size());
      REQUIRE(alone.size() == backward[24 - s].size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        require_equal(alone[i], forward[s][i]);
        require_equal(alone[i], backward[24 - s][i]);
        if (i) REQUIRE(alone[i].score <= alone[i - 1].score);
      }
    }
  }
}

TEST_CASE("the first step has one row a sentence, and finished sentences leave", "[beam]") {
  // Sentence s ends after exactly s tokens.
  scripted::Model<double> model(6, [](index_t sentence, const Tokens& prefix) {
    return static_cast<index_t>(prefix.size()) == sentence ? logs({0, 0, 1, 0, 0, 0}) : logs({0, 0, 0, 0.5, 0.3, 0.2});
  });
  const auto lists = run(model, {2, 0, 1}, {.beam = 3, .n_best = 1, .alpha = 0});
  REQUIRE(model.rows_per_step == std::vector<index_t>{3, 6, 3});
  REQUIRE(lists[0][0].tokens == Tokens{3, 3});
  REQUIRE(lists[1][0].tokens.empty());
  REQUIRE(lists[2][0].tokens == Tokens{3});
}

TEST_CASE("unfinished hypotheses come back only where nothing has finished", "[beam]") {
  scripted::Model<double> endless(5, [](index_t, const Tokens&) { return logs({0, 0, 0, 0.75, 0.25}); });
  const auto list = run(endless, {0}, {.max_length = 2, .beam = 3, .n_best = 3, .alpha = 0})[0];
  REQUIRE(list.size() == 3);
  REQUIRE(list[0].tokens == Tokens{3, 3});
  REQUIRE(list[1].tokens == Tokens{3, 4});  // the earlier of two equal ones
  REQUIRE(list[2].tokens == Tokens{4, 3});
  for (const auto& h : list) {
    REQUIRE_FALSE(h.finished);
    REQUIRE(h.token_log_probabilities.size() == 2);
  }
  REQUIRE(list[0].log_probability == Approx(2 * std::log(0.75)));
  const auto nothing = run(endless, {0}, {.max_length = 0, .beam = 3, .n_best = 3})[0];
  REQUIRE(nothing.size() == 1);
  REQUIRE(nothing[0].tokens.empty());
  REQUIRE(nothing[0].score == 0);

  scripted::Model<double> dead(4, [](index_t, const Tokens& prefix) {
    return prefix.size() < 3 ? std::vector<double>{never, never, never, -1} : std::vector<double>(4, never);
  });
  const auto end = run(dead, {0}, {})[0];
  REQUIRE(end.size() == 1);
  REQUIRE(end[0].tokens == Tokens{3, 3, 3});
  REQUIRE_FALSE(end[0].finished);
}

TEST_CASE("where nothing finishes, a prefix that nothing could follow is not forgotten", "[beam]") {
  // 3 is a dead end; 4 goes on for ever, ever less probable.
  scripted::Model<double> model(5, [](index_t, const Tokens& prefix) {
    if (prefix.empty()) return logs({0, 0, 0, 0.6, 0.4});
    return prefix.back() == 3 ? std::vector<double>(5, never) : logs({0, 0, 0, 0, 0.1});
  });
  auto state = model.begin({0});
  REQUIRE(greedy(model, state, 1, {.max_length = 3})[0].tokens == Tokens{3});
  const auto lists = run(model, {0, 0}, {.max_length = std::vector<index_t>{3, 1}, .beam = 2, .n_best = 2});
  REQUIRE(lists[0].size() == 2);
  REQUIRE(lists[0][0].tokens == Tokens{3});
  REQUIRE(lists[0][0].score == Approx(std::log(0.6)));
  REQUIRE_FALSE(lists[0][0].finished);
  REQUIRE(lists[0][1].tokens == Tokens{4, 4, 4});
  REQUIRE(lists[0][1].log_probability == Approx(std::log(0.4 * 0.1 * 0.1)));
  // At the limit both stand there, once each.
  REQUIRE(lists[1].size() == 2);
  REQUIRE(lists[1][0].tokens == Tokens{3});
  REQUIRE(lists[1][1].tokens == Tokens{4});
  // What has finished is better than any dead end.
  scripted::Model<double> ends(5, [](index_t, const Tokens& prefix) {
    if (prefix.empty()) return logs({0, 0, 0, 0.9, 0.1});
    return prefix.back() == 3 ? std::vector<double>(5, never) : logs({0, 0, 0.01, 0, 0});
  });
  const auto list = run(ends, {0}, {.beam = 2, .n_best = 2})[0];
  REQUIRE(list.size() == 1);
  REQUIRE(list[0].tokens == Tokens{4});
  REQUIRE(list[0].finished);
}

TEST_CASE("a beam search without any limit ends where nothing better can come, not before", "[beam]") {
  // One live hypothesis, 0.04 then 1, 1, ...: only its long end beats what has ended after one token.
  scripted::Model<double> model(5, [](index_t, const Tokens& prefix) {
    if (prefix.empty()) return logs({0, 0, 0.5, 0, 0.5});
    if (prefix.size() == 1) return logs({0, 0, 0.9, 0, 0.1});
    return prefix.size() < 8 ? logs({0, 0, 0, 0, 1}) : logs({0, 0, 1, 0, 0});
  });
  BeamOptions options{
      .max_length = std::numeric_limits<index_t>::max(), .beam = 2, .alpha = 1, .normalization = LengthNormalization::marian};
  for (const bool keep_unfinished : {false, true}) {
    options.keep_unfinished = keep_unfinished;
    REQUIRE(run(model, {0}, options)[0][0].tokens == Tokens(8, 4));
  }
}

TEST_CASE("beam search takes length limits one by one and a beam beyond the vocabulary", "[beam]") {
  scripted::Model<double> model(5, scripted::random_script(4, 5, 0.5));
  const auto lists = run(model, {0, 1, 2},
                         {.max_length = std::vector<index_t>{1, 6, 0},
                          .min_length = 0,
                          .suppressed = {0, 1},
                          .beam = std::numeric_limits<index_t>::max() / 2,
                          .n_best = 100});
  const std::vector<std::size_t> longest{1, 6, 0};
  for (std::size_t s = 0; s < lists.size(); ++s) {
    std::size_t most = 0;
    for (const auto& h : lists[s]) most = std::max(most, h.tokens.size());
    REQUIRE(most == longest[s]);
  }
  REQUIRE(lists[0].size() == 3);  // the empty one, 3 and 4
  REQUIRE(lists[2].size() == 1);
}

TEST_CASE("a beam search with a temperature is one of the model with that temperature", "[beam]") {
  const auto script = scripted::random_script(14, 6, 1.4);
  for (const double temperature : {0.4, 1.0, 3.0}) {
    scripted::Model<double> model(6, script), tempered(6, [&](index_t sentence, const Tokens&prefix) {
      auto x = script(sentence, prefix);
      double sum = 0;
      for (double& v : x) sum += std::exp(v /= temperature);
      for (double& v : x) v -= std::log(sum);
      return x;
    });
    BeamOptions options{.max_length = 6,
                        .suppressed = {0},
                        .beam = 3,
                        .n_best = 3,
                        .constraints = {.prefix = {{}, {3, 4}, {}}, .no_repeat_ngram = 2}};
    const auto expected = run(tempered, {0, 1, 2}, options);
    options.temperature = temperature;
    const auto lists = run(model, {0, 1, 2}, options);
    for (std::size_t s = 0; s < lists.size(); ++s) {
      REQUIRE(lists[s].size() == expected[s].size());
      for (std::size_t i = 0; i < lists[s].size(); ++i) {
        REQUIRE(lists[s][i].tokens == expected[s][i].tokens);
        REQUIRE(lists[s][i].score == Approx(expected[s][i].score).epsilon(1e-12));
      }
    }
  }
  scripted::Model<float> model(6, script);
  REQUIRE(run(model, {0}, {.temperature = 1e-300})[0][0].tokens == run(model, {0}, {.beam = 1})[0][0].tokens);
  for (const double bad : {0.0, -1.0, std::nan("")}) REQUIRE_THROWS_AS(run(model, {0}, {.temperature = bad}), ValueError);
}

TEST_CASE("however many end tokens there are, as many hypotheses as the beam go on", "[beam]") {
  // The four most probable tokens end, 6 and 7 go on.
  scripted::Model<double> model(8, [](index_t, const Tokens&) { return logs({0, 0, 0.3, 0.2, 0.15, 0.13, 0.12, 0.1}); });
  const auto list = run(model, {0}, {.end_tokens = {3, 4, 5}, .max_length = 2, .beam = 2, .n_best = 2, .alpha = 0})[0];
  REQUIRE(model.rows_per_step.size() == 1);  // nothing can be better than the first two
  REQUIRE(list.size() == 2);
  REQUIRE(list[0].end_token == 2);
  REQUIRE(list[1].end_token == 3);
  REQUIRE(list[1].tokens.empty());
  REQUIRE(list[1].log_probability == Approx(std::log(0.2)));
  model.rows_per_step.clear();
  const auto long_ones = run(model, {0}, {.end_tokens = {3, 4, 5}, .max_length = 2, .beam = 2, .alpha = 20})[0];
  REQUIRE(model.rows_per_step == std::vector<index_t>{1, 2, 2});
  REQUIRE(long_ones[0].tokens == Tokens{6, 6});
  REQUIRE(long_ones[0].end_token == 2);
  // None of them may come before min_length, nor in a prefix.
  REQUIRE(run(model, {0}, {.end_tokens = {3, 4, 5}, .max_length = 2, .min_length = 2})[0][0].tokens == Tokens{6, 6});
  REQUIRE_THROWS_AS(run(model, {0}, {.end_tokens = {8}}), IndexError);
  REQUIRE_THROWS_WITH(run(model, {0}, {.end_tokens = {3}, .constraints = {.prefix = {{6, 3}}}}),
                      "beam_search: prefix 0 holds the end token");
}

TEST_CASE("length penalties are as published", "[beam]") {
  REQUIRE(normalized_score(-6, 7, 1, LengthNormalization::google) == Approx(-3));
  REQUIRE(normalized_score(-6, 4, 0.5, LengthNormalization::marian) == Approx(-3));
  REQUIRE(normalized_score(-6, 9, 0, LengthNormalization::google) == -6);
  REQUIRE(normalized_score(-6, 9, 0, LengthNormalization::marian) == -6);
}

TEST_CASE("beam search refuses options that make no sense", "[beam]") {
  scripted::Model<double> model(5, scripted::random_script(1, 5, 1));
  REQUIRE_THROWS_WITH(run(model, {0}, {.beam = 0}), "beam_search: beam is 0, expected 1 or more");
  REQUIRE_THROWS_AS(run(model, {0}, {.beam = -3}), ValueError);
  REQUIRE_THROWS_WITH(run(model, {0}, {.beam = 3, .n_best = 4}), "beam_search: n_best is 4, expected 1 to the beam 3");
  REQUIRE_THROWS_AS(run(model, {0}, {.n_best = 0}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.alpha = std::nan("")}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.eos = 9}), IndexError);
  REQUIRE_THROWS_AS(run(model, {0}, {.max_length = -1}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.suppressed = {17}}), IndexError);
  REQUIRE_THROWS_AS(run(model, {0}, {.suppressed = {0, 1, 2, 3, 4}}), ValueError);
  REQUIRE(run(model, {}, {}).empty());
  scripted::Model<double> broken(4, [](index_t, const Tokens&) { return std::vector<double>{-1, -1, -1, std::nan("")}; });
  REQUIRE_THROWS_AS(run(broken, {0}, {}), Error);
}
