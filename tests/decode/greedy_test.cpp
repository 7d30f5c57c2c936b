#include "attend/decode/greedy.hpp"

#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;
using scripted::never;

namespace {

using Tokens = std::vector<token_t>;

// Vocabulary 5: 0 padding, 1 begin, 2 end. Sentence s says 3 4 3 4 ... and ends after s tokens.
scripted::Model<double> alternating() {
  return {
      5, [](index_t sentence, const Tokens& prefix) {
        const auto n = static_cast<index_t>(prefix.size());
        return n >= sentence ? logs({0, 0, 0.5, 0.25, 0.25}) : n % 2 ? logs({0, 0, 0.1, 0.2, 0.7}) : logs({0, 0, 0.1, 0.8, 0.1});
      }};
}

std::vector<Hypothesis> run(scripted::Model<double>& model, const std::vector<index_t>& sentences, const GreedyOptions& options) {
  auto state = model.begin(sentences);
  return greedy(model, state, static_cast<index_t>(sentences.size()), options);
}

}  // namespace

TEST_CASE("greedy follows the most probable token to the end", "[greedy]") {
  auto model = alternating();
  const auto results = run(model, {3, 0, 1}, {.max_length = 10});
  REQUIRE(results.size() == 3);
  REQUIRE(results[0].tokens == Tokens{3, 4, 3});
  REQUIRE(results[1].tokens.empty());
  REQUIRE(results[2].tokens == Tokens{3});
  for (const auto& r : results) REQUIRE(r.finished);
  REQUIRE(results[0].log_probability == Approx(std::log(0.8 * 0.7 * 0.8 * 0.5)).epsilon(1e-12));
  REQUIRE(results[0].score == results[0].log_probability);
  REQUIRE(results[0].token_log_probabilities.size() == 4);
  REQUIRE(results[0].token_log_probabilities[1] == Approx(std::log(0.7)));
  REQUIRE(results[1].log_probability == Approx(std::log(0.5)));
  // A finished sentence costs nothing more.
  REQUIRE(model.rows_per_step == std::vector<index_t>{3, 2, 1, 1});
}

TEST_CASE("greedy stops at the length limit, one for all or one for each", "[greedy]") {
  auto model = alternating();
  const auto same = run(model, {3, 2, 0}, {.max_length = 2});
  REQUIRE(same[0].tokens == Tokens{3, 4});
  REQUIRE_FALSE(same[0].finished);
  REQUIRE(same[0].log_probability == Approx(std::log(0.8 * 0.7)));
  REQUIRE(same[1].tokens == Tokens{3, 4});
  REQUIRE(same[1].finished);  // the end follows the last token that was allowed
  REQUIRE(same[2].finished);
  const auto each = run(model, {5, 5, 5}, {.max_length = std::vector<index_t>{0, 4, 9}});
  REQUIRE(each[0].tokens.empty());
  REQUIRE_FALSE(each[0].finished);
  REQUIRE(each[1].tokens == Tokens{3, 4, 3, 4});
  REQUIRE_FALSE(each[1].finished);
  REQUIRE(each[2].tokens == Tokens{3, 4, 3, 4, 3});
  REQUIRE(each[2].finished);
}

TEST_CASE("greedy keeps to min_length and leaves suppressed tokens out", "[greedy]") {
  auto model = alternating();
  REQUIRE(run(model, {0}, {.max_length = 9, .min_length = 2})[0].tokens == Tokens{3, 3});
  REQUIRE(run(model, {2}, {.max_length = 9, .min_length = 1, .suppressed = {3, 0}})[0].tokens == Tokens{4, 4});
}

TEST_CASE("greedy takes the lowest of equally probable tokens", "[greedy]") {
  scripted::Model<double> model(6, [](index_t, const Tokens& prefix) {
    return prefix.empty() ? logs({0, 0, 0.1, 0.3, 0.3, 0.3}) : logs({0, 0, 0.5, 0, 0, 0.5});
  });
  const auto result = run(model, {0}, {})[0];
  REQUIRE(result.tokens == Tokens{3});
  REQUIRE(result.finished);
}

TEST_CASE("greedy ends where nothing can follow", "[greedy]") {
  scripted::Model<double> model(4, [](index_t, const Tokens& prefix) {
    return prefix.empty() ? std::vector<double>{never, never, never, 0} : std::vector<double>(4, never);
  });
  const auto result = run(model, {0}, {})[0];
  REQUIRE(result.tokens == Tokens{3});
  REQUIRE_FALSE(result.finished);
  REQUIRE(result.log_probability == 0);
}

TEST_CASE("greedy gives a sentence the same result in every batch and order", "[greedy]") {
  scripted::Model<float> model(9, scripted::random_script(5, 9, 1.5));
  const auto decode = [&](const std::vector<index_t>& sentences) {
    auto state = model.begin(sentences);
    return greedy(model, state, static_cast<index_t>(sentences.size()), {.max_length = 12});
  };
  std::vector<index_t> all;
  for (index_t s = 0; s < 20; ++s) all.push_back(s);
  const auto forward = decode(all);
  const auto backward = decode({all.rbegin(), all.rend()});
  for (std::size_t s = 0; s < all.size(); ++s) {
    const auto alone = decode({all[s]})[0];
    REQUIRE(alone.tokens == forward[s].tokens);
    REQUIRE(alone.log_probability == forward[s].log_probability);
    REQUIRE(alone.tokens == backward[19 - s].tokens);
    REQUIRE(alone.log_probability == backward[19 - s].log_probability);
    REQUIRE(alone.finished == backward[19 - s].finished);
  }
}

TEST_CASE("greedy of no sentences asks the model nothing", "[greedy]") {
  auto model = alternating();
  REQUIRE(run(model, {}, {}).empty());
  REQUIRE(model.rows_per_step.empty());
}

TEST_CASE("greedy refuses options that make no sense", "[greedy]") {
  auto model = alternating();
  REQUIRE_THROWS_AS(run(model, {1}, {.bos = 5}), IndexError);
  REQUIRE_THROWS_WITH(run(model, {1}, {.eos = 5}), "greedy: eos is 5, outside the vocabulary of 5");
  REQUIRE_THROWS_AS(run(model, {1}, {.eos = -1}), IndexError);
  REQUIRE_THROWS_WITH(run(model, {1}, {.max_length = -1}), "greedy: max_length is negative: -1");
  REQUIRE_THROWS_AS(run(model, {1}, {.max_length = -1}), ValueError);
  REQUIRE_THROWS_WITH(run(model, {1}, {.max_length = std::vector<index_t>{1, 2}}),
                      "greedy: max_length has 2 values for 1 sentences");
  REQUIRE_THROWS_WITH(run(model, {1, 1}, {.max_length = std::vector<index_t>{9, 2}, .min_length = 3}),
                      "greedy: max_length of sentence 1 is 2, below min_length 3");
  REQUIRE_THROWS_AS(run(model, {1}, {.min_length = -1}), ValueError);
  REQUIRE_THROWS_AS(run(model, {1}, {.suppressed = {5}}), IndexError);
  REQUIRE_THROWS_AS(run(model, {1}, {.suppressed = {-1}}), IndexError);
  REQUIRE_THROWS_WITH(run(model, {1}, {.suppressed = {0, 1, 2, 3, 4, 4}}), "greedy: all 5 tokens are suppressed");
  auto state = model.begin({});
  REQUIRE_THROWS_AS(greedy(model, state, -1), ValueError);
}

TEST_CASE("greedy refuses what is no log-probability", "[greedy]") {
  scripted::Model<double> logits(4, [](index_t, const Tokens&) { return std::vector<double>{0, 1, 2, 3}; });
  REQUIRE_THROWS_AS(run(logits, {0}, {}), ValueError);
  scripted::Model<double> broken(4, [](index_t, const Tokens&) { return std::vector<double>{-1, -1, std::nan(""), -1}; });
  REQUIRE_THROWS_WITH(run(broken, {0}, {}), "top_k: row 0 holds NaN in column 2");
  scripted::Model<double> narrow(4, [](index_t, const Tokens&) { return std::vector<double>(4, -1.0); });
  auto state = narrow.begin({0, 1});
  REQUIRE_THROWS(greedy(narrow, state, 1));
}
