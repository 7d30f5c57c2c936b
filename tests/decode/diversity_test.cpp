#include "attend/decode/diversity.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "attend/decode/beam.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;

namespace {

using Tokens = std::vector<token_t>;

void sort_by_score(std::vector<Hypothesis>& list) {
  std::stable_sort(list.begin(), list.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
}

/// Diverse beam search of one sentence as it is written down, over all tokens.
std::vector<Hypothesis> plain_groups(const scripted::Script& script, index_t sentence, const BeamOptions& o) {
  struct Live {
    Tokens tokens;
    double log_probability = 0, total = 0;
  };
  struct Group {
    std::vector<Live> live{Live{}};
    std::vector<Hypothesis> ended;
  };
  const index_t limit = o.max_length[sentence];
  const auto width = static_cast<std::size_t>(o.beam / o.beam_groups);
  const std::size_t wanted = std::min(width, static_cast<std::size_t>(o.n_best));
  const auto score = [&](double total, index_t length) { return normalized_score(total, length, o.alpha, o.normalization); };
  std::vector<Group> groups(static_cast<std::size_t>(o.beam_groups));
  for (index_t length = 0; length <= limit; ++length) {
    Tokens chosen;
    for (auto& [group, ended] : groups) {
      std::vector<Live> candidates;
      for (const Live& live : group) {
        const auto x = script(sentence, live.tokens);
        for (std::size_t t = 0; t < x.size(); ++t) {
          Live longer = live;
          longer.tokens.push_back(static_cast<token_t>(t));
          longer.log_probability += x[t];
          const auto times = std::count(chosen.begin(), chosen.end(), static_cast<token_t>(t));
          longer.total += x[t] - o.diversity_penalty * static_cast<double>(times);
          candidates.push_back(longer);
        }
      }
      std::stable_sort(candidates.begin(), candidates.end(), [](const Live& a, const Live& b) { return a.total > b.total; });
      group.clear();
      for (std::size_t i = 0; i < candidates.size() && i < 2 * width; ++i) {
        Live& c = candidates[i];
        if (c.tokens.back() == o.eos) {
          if (i >= width) continue;
          c.tokens.pop_back();
          ended.push_back({.tokens = c.tokens, .log_probability = c.log_probability, .score = score(c.total, length + 1)});
        } else if (length < limit && group.size() < width) {
          group.push_back(c);
        }
      }
      for (const Live& live : group) chosen.push_back(live.tokens.back());
      // A group ends by itself, once nothing better can come.
      sort_by_score(ended);
      if (ended.size() > wanted) ended.resize(wanted);
      if (group.empty() || ended.size() < wanted) continue;
      const double best = group.front().total;
      if (std::max(score(best, length + 2), score(best, limit + 1)) <= ended.back().score) group.clear();
    }
  }
  std::vector<Hypothesis> all;
  for (const Group& group : groups)
    for (const auto& h : group.ended)
      if (std::none_of(all.begin(), all.end(),
                       [&](const auto& other) { return other.tokens == h.tokens && other.score >= h.score; })) {
        std::erase_if(all, [&](const auto& other) { return other.tokens == h.tokens; });
        all.push_back(h);
      }
  sort_by_score(all);
  if (all.size() > static_cast<std::size_t>(o.n_best)) all.resize(static_cast<std::size_t>(o.n_best));
  return all;
}

}  // namespace

TEST_CASE("diverse beam search finds what it finds written down plainly", "[diversity]") {
  const auto script = scripted::random_script(51, 7, 1.1);
  scripted::Model<double> model(7, script);
  std::vector<index_t> ids;
  for (index_t s = 0; s < 10; ++s) ids.push_back(s);
  for (const auto& [beam, groups] : std::vector<std::pair<index_t, index_t>>{{4, 2}, {6, 3}, {3, 3}, {8, 2}})
    for (const double penalty : {0.3, 1.0, 50.0})
      for (const index_t n_best : {index_t{1}, beam}) {
        const BeamOptions o{
            .max_length = 6, .beam = beam, .n_best = n_best, .alpha = 0.8, .beam_groups = groups, .diversity_penalty = penalty};
        auto state = model.begin(ids);
        const auto lists = beam_search(model, state, 10, o);
        for (std::size_t s = 0; s < ids.size(); ++s) {
          INFO("beam " << beam << " of " << groups << ", penalty " << penalty << ", sentence " << s << ", n_best " << n_best);
          const auto expected = plain_groups(script, ids[s], o);
          if (expected.empty()) REQUIRE_FALSE(lists[s][0].finished);
          else REQUIRE(lists[s].size() == expected.size());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            REQUIRE(lists[s][i].tokens == expected[i].tokens);
            REQUIRE(lists[s][i].score == Approx(expected[i].score).epsilon(1e-12));
            REQUIRE(lists[s][i].log_probability == Approx(expected[i].log_probability).epsilon(1e-12));
          }
        }
      }
}

TEST_CASE("groups of a beam begin differently where that is worth much, as one beam they need not", "[diversity]") {
  // 3 is by far the best, whatever stands before; after three tokens all end.
  scripted::Model<float> model(7, [](index_t, const Tokens& prefix) {
    return prefix.size() == 3 ? logs({0, 0, 1, 0, 0, 0, 0}) : logs({0, 0, 0, 0.9, 0.06, 0.03, 0.01});
  });
  const auto firsts = [&](const BeamOptions& o) {
    auto state = model.begin({0});
    std::set<token_t> tokens;
    for (const auto& h : beam_search(model, state, 1, o)[0]) tokens.insert(h.tokens[0]);
    return tokens;
  };
  BeamOptions o{.beam = 4, .n_best = 4};
  REQUIRE(firsts(o).size() < 4);
  o.beam_groups = 4, o.diversity_penalty = 100;
  REQUIRE(firsts(o) == std::set<token_t>{3, 4, 5, 6});
  // What a prefix says is no choice: it costs no group anything.
  o.constraints.prefix = {{3}};
  auto state = model.begin({0});
  const auto list = beam_search(model, state, 1, o)[0];
  REQUIRE(list.size() == 4);
  REQUIRE(list[0].tokens == Tokens{3, 3, 3});
  REQUIRE(list[1].tokens == Tokens{3, 4, 4});
  REQUIRE(list[0].score == Approx(normalized_score(list[0].log_probability, 4, 0.6, o.normalization)));
  REQUIRE(list[1].score == Approx(normalized_score(list[1].log_probability, 4, 0.6, o.normalization)));
}

TEST_CASE("groups know of each other's last tokens too where hypotheses are cut off after them", "[diversity]") {
  // As the group beam search of transformers 4 has it.
  scripted::Model<double> model(7, [](index_t, const Tokens&) { return logs({0, 0, 0.01, 0.6, 0.3, 0.06, 0.03}); });
  auto state = model.begin({0});
  const BeamOptions o{
      .max_length = 2, .beam = 3, .n_best = 3, .keep_unfinished = true, .beam_groups = 3, .diversity_penalty = 2.5};
  const auto list = beam_search(model, state, 1, o)[0];
  REQUIRE(list.size() == 3);
  REQUIRE(list[0].tokens == Tokens{3, 3});
  REQUIRE(list[1].tokens == Tokens{4, 4});
  REQUIRE(list[2].tokens == Tokens{5, 5});
}

TEST_CASE("diverse beams keep to rules, with traces and distributions, in any batch", "[diversity]") {
  scripted::Model<double> model(9, scripted::random_script(61, 9, 1));
  BeamTrace trace;
  BeamOptions o{.max_length = 8,
                .suppressed = {0, 1},
                .beam = 6,
                .n_best = 6,
                .stop = Stop::first,
                .constraints = {.no_repeat_ngram = 1, .force_end = true},
                .trace = &trace,
                .distributions = true,
                .beam_groups = 2,
                .diversity_penalty = 0.7};
  auto state = model.begin({0, 1, 2, 3});
  const auto lists = beam_search(model, state, 4, o);
  const auto traces = trace;
  for (std::size_t s = 0; s < 4; ++s) {
    auto alone = model.begin({static_cast<index_t>(s)});
    const auto own = beam_search(model, alone, 1, o)[0];
    REQUIRE(own.size() == lists[s].size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Hypothesis& h = lists[s][i];
      REQUIRE(own[i].tokens == h.tokens);
      REQUIRE(h.finished);
      REQUIRE(std::set<token_t>(h.tokens.begin(), h.tokens.end()).size() == h.tokens.size());
      REQUIRE(h.distributions.size() == h.token_log_probabilities.size());
      REQUIRE(std::any_of(traces.sentences[s].begin(), traces.sentences[s].end(),
                          [&](const BeamCandidate& c) { return c.fate == Fate::ended && c.score == h.score; }));
    }
  }
}

TEST_CASE("diverse beams that make no sense are refused", "[diversity]") {
  scripted::Model<double> model(5, scripted::random_script(1, 5, 1));
  const auto run = [&](const BeamOptions& o) {
    auto state = model.begin({0});
    return beam_search(model, state, 1, o);
  };
  REQUIRE_THROWS_WITH(run({.beam_groups = 3, .diversity_penalty = 1}),
                      "beam_search: beam_groups is 3, expected a divisor of the beam 4");
  REQUIRE_THROWS_AS(run({.beam_groups = 0}), ValueError);
  REQUIRE_THROWS_AS(run({.beam_groups = 2, .diversity_penalty = -1}), ValueError);
  REQUIRE_THROWS_AS(run({.beam_groups = 2}), ValueError);
  REQUIRE_THROWS_AS(run({.diversity_penalty = 1}), ValueError);
}
