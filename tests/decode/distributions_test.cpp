#include <cmath>
#include <vector>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;

namespace {

using Tokens = std::vector<token_t>;

/// That a hypothesis has for each of its tokens what it was chosen from.
void check(const scripted::Script& script, index_t sentence, const Hypothesis& h) {
  Tokens prefix;
  Tokens all = h.tokens;
  if (h.finished) all.push_back(h.end_token);
  REQUIRE(h.distributions.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto x = script(sentence, prefix);
    REQUIRE(h.distributions[i].size() == x.size());
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (t == 0) REQUIRE(h.distributions[i][t] == -std::numeric_limits<float>::infinity());  // suppressed
      else REQUIRE(h.distributions[i][t] == Approx(x[t]).epsilon(1e-6));
    }
    REQUIRE(h.distributions[i][static_cast<std::size_t>(all[i])] == h.token_log_probabilities[i]);
    prefix.push_back(all[i]);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("searches give the whole distribution of each step where that is asked for", "[distributions]", float,
                   double) {
  const auto script = scripted::random_script(19, 7, 1);
  scripted::Model<TestType> model(7, script);
  const std::vector<index_t> ids{2, 0, 1};
  for (const bool asked : {false, true}) {
    auto state = model.begin(ids);
    const auto best = greedy(model, state, 3, {.max_length = 6, .suppressed = {0}, .distributions = asked});
    state = model.begin(ids);
    const auto drawn = sample(model, state, 3, {.max_length = 6, .suppressed = {0}, .samples = 4, .distributions = asked});
    for (std::size_t s = 0; s < ids.size(); ++s) {
      if (!asked) REQUIRE(best[s].distributions.empty());
      else check(script, ids[s], best[s]);
      for (const auto& h : drawn[s]) {
        if (!asked) REQUIRE(h.distributions.empty());
        else check(script, ids[s], h);
      }
    }
    for (const bool keep_unfinished : {false, true})
      for (const index_t max_length : {0, 2, 6}) {
        state = model.begin(ids);
        const auto lists = beam_search(model, state, 3,
                                       {.end_tokens = {5},
                                        .max_length = max_length,
                                        .suppressed = {0},
                                        .beam = 3,
                                        .n_best = 3,
                                        .keep_unfinished = keep_unfinished,
                                        .distributions = asked});
        for (std::size_t s = 0; s < ids.size(); ++s)
          for (const auto& h : lists[s]) {
            if (!asked) REQUIRE(h.distributions.empty());
            else check(script, ids[s], h);
          }
      }
  }
}
