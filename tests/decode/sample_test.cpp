#include "attend/decode/sample.hpp"

#include <algorithm>
#include <numeric>

#include "attend/decode/greedy.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;
using scripted::never;

namespace {

using Tokens = std::vector<token_t>;

template <class T>
std::vector<std::vector<Hypothesis>> run(scripted::Model<T>& model, const std::vector<index_t>& sentences,
                                         const SampleOptions& options) {
  auto state = model.begin(sentences);
  return sample(model, state, static_cast<index_t>(sentences.size()), options);
}

/// softmax(x / temperature), cut to the k most probable, then to the fewest that hold p of the rest, then to those that are not
/// much less probable than the first, written plainly.
std::vector<double> shaped(const std::vector<double>& x, double temperature, index_t k, double p, double min_p) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  if (k > 0 && static_cast<std::size_t>(k) < order.size()) order.resize(static_cast<std::size_t>(k));
  double sum = 0, mass = 0, kept = 0;
  for (const auto i : order) sum += std::exp(x[i] / temperature);
  std::vector<double> result(x.size(), 0.0);
  for (const auto i : order) {
    if (mass >= p * sum || std::exp((x[i] - x[order.front()]) / temperature) < min_p) break;
    mass += result[i] = std::exp(x[i] / temperature);
  }
  for (const double r : result) kept += r;
  for (double& r : result) r /= kept;
  return result;
}

/// Whether counts of tokens could well have come from these probabilities: chi squared within 4.5 deviations of its mean, and
/// nothing drawn that has no probability.
bool plausible(const std::vector<index_t>& counts, const std::vector<double>& probabilities) {
  const auto n = static_cast<double>(std::accumulate(counts.begin(), counts.end(), index_t{0}));
  double chi = 0, freedom = -1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = n * probabilities[i], seen = static_cast<double>(counts[i]);
    if (probabilities[i] == 0 && counts[i] > 0) return false;
    if (expected < 5) continue;
    chi += (seen - expected) * (seen - expected) / expected;
    freedom += 1;
  }
  return std::abs(chi - freedom) <= 4.5 * std::sqrt(2 * std::max(freedom, 1.0));
}

std::vector<index_t> counts_of(const std::vector<Hypothesis>& samples, std::size_t position, std::size_t vocabulary) {
  std::vector<index_t> counts(vocabulary, 0);
  for (const auto& h : samples) {
    if (h.tokens.size() > position) ++counts[static_cast<std::size_t>(h.tokens[position])];
    else if (h.tokens.size() == position && h.finished) ++counts[2];
  }
  return counts;
}

}  // namespace

TEMPLATE_TEST_CASE("samples follow the distribution that the options describe", "[sample]", float, double) {
  struct Shape {
    double temperature;
    index_t top_k;
    double top_p;
    double min_p = 0;
  };
  for (const index_t vocabulary : {12, 300}) {  // less and more than one block
    // The distribution depends on the last token alone, so that few of them need computing.
    std::vector<std::vector<double>> after;
    const auto random = scripted::random_script(31, vocabulary, 1.5);
    for (token_t token = 0; token < static_cast<token_t>(vocabulary); ++token) after.push_back(random(0, {token}));
    const auto script = [&](index_t, const Tokens& prefix) {
      return after[prefix.empty() ? 0 : static_cast<std::size_t>(prefix.back())];
    };
    scripted::Model<TestType> model(vocabulary, script);
    for (const Shape s : {Shape{1, 0, 1}, Shape{0.6, 0, 1}, Shape{2, 0, 1}, Shape{1, 4, 1}, Shape{1, 0, 0.8}, Shape{1.7, 0, 0.97},
                          Shape{0.8, 7, 0.7}, Shape{1, 5000, 1}, Shape{1, 1, 0.3}, Shape{1, 0, 1e-9}, Shape{1, 0, 1, 0.1},
                          Shape{2, 0, 1, 0.03}, Shape{1, 6, 0.9, 0.2}, Shape{1, 0, 1, 1}}) {
      const auto samples = run(model, {0},
                               {.max_length = 2,
                                .samples = 1500,
                                .temperature = s.temperature,
                                .top_k = s.top_k,
                                .top_p = s.top_p,
                                .min_p = s.min_p,
                                .seed = 5})[0];
      INFO("vocabulary " << vocabulary << ", temperature " << s.temperature << ", top_k " << s.top_k << ", top_p " << s.top_p
                         << ", min_p " << s.min_p);
      const auto first = shaped(script(0, {}), s.temperature, s.top_k, s.top_p, s.min_p);
      REQUIRE(plausible(counts_of(samples, 0, first.size()), first));
      // The second token, given the commonest first one that goes on.
      auto next = first;
      next[2] = 0;
      const auto token = static_cast<token_t>(std::max_element(next.begin(), next.end()) - next.begin());
      std::vector<Hypothesis> with_token;
      for (const auto& h : samples)
        if (!h.tokens.empty() && h.tokens[0] == token) with_token.push_back(h);
      if (with_token.size() < 100) continue;
      REQUIRE(plausible(counts_of(with_token, 1, first.size()),
                        shaped(script(0, {token}), s.temperature, s.top_k, s.top_p, s.min_p)));
    }
  }
}

TEST_CASE("a sample's probabilities are the model's own", "[sample]") {
  const auto script = scripted::random_script(2, 8, 1);
  scripted::Model<double> model(8, script);
  const auto samples =
      run(model, {3}, {.max_length = 6, .suppressed = {0}, .samples = 30, .temperature = 3, .top_k = 5, .seed = 1})[0];
  for (const auto& h : samples) {
    double sum = 0;
    Tokens prefix;
    for (const token_t token : h.tokens) {
      REQUIRE(token != 0);
      sum += script(3, prefix)[static_cast<std::size_t>(token)];
      prefix.push_back(token);
    }
    if (h.finished) sum += script(3, prefix)[2];
    REQUIRE(h.log_probability == Approx(sum).epsilon(1e-12));
    REQUIRE(h.score == h.log_probability);
    REQUIRE(h.token_log_probabilities.size() == h.tokens.size() + (h.finished ? 1 : 0));
    REQUIRE((h.finished || h.tokens.size() == 6));
  }
}

TEST_CASE("samples depend on the seed, the sentence's number and the sample, not on the batch", "[sample]") {
  scripted::Model<float> model(20, scripted::random_script(9, 20, 0.7));
  const SampleOptions five{.max_length = 8, .samples = 5, .top_p = 0.95, .seed = 40};
  const auto all = run(model, {0, 1, 2, 3}, five);
  for (index_t s = 0; s < 4; ++s) {
    auto options = five;
    options.samples = 3;
    options.sentence_ids = {static_cast<std::uint64_t>(s)};
    const auto alone = run(model, {s}, options)[0];
    for (std::size_t i = 0; i < alone.size(); ++i) {
      REQUIRE(alone[i].tokens == all[static_cast<std::size_t>(s)][i].tokens);
      REQUIRE(alone[i].log_probability == all[static_cast<std::size_t>(s)][i].log_probability);
    }
  }
  auto other = five;
  other.sentence_ids = {3, 2, 1, 0};
  const auto reversed = run(model, {3, 2, 1, 0}, other);
  for (std::size_t s = 0; s < 4; ++s)
    for (std::size_t i = 0; i < 5; ++i) REQUIRE(reversed[3 - s][i].tokens == all[s][i].tokens);
  other = five;
  other.seed = 41;
  REQUIRE(run(model, {0}, other)[0][0].tokens != all[0][0].tokens);
  REQUIRE(all[0][0].tokens != all[0][1].tokens);
}

TEST_CASE("sampling the one most probable token is greedy search", "[sample]") {
  scripted::Model<float> model(15, scripted::random_script(6, 15, 1));
  auto state = model.begin({0, 1, 2, 3, 4, 5});
  const auto expected = greedy(model, state, 6, {.max_length = 7});
  for (const SampleOptions& options :
       {SampleOptions{.max_length = 7, .top_k = 1}, SampleOptions{.max_length = 7, .temperature = 1e-300},
        SampleOptions{.max_length = 7, .top_p = 1e-12}, SampleOptions{.max_length = 7, .min_p = 1},
        SampleOptions{.max_length = 7, .temperature = 1e-300, .min_p = 0.5}}) {
    const auto samples = run(model, {0, 1, 2, 3, 4, 5}, options);
    for (std::size_t s = 0; s < expected.size(); ++s) {
      REQUIRE(samples[s][0].tokens == expected[s].tokens);
      REQUIRE(samples[s][0].finished == expected[s].finished);
      REQUIRE(samples[s][0].log_probability == expected[s].log_probability);
    }
  }
}

TEST_CASE("the first step of sampling has one row a sentence, and finished samples leave", "[sample]") {
  scripted::Model<double> model(6, [](index_t sentence, const Tokens& prefix) {
    return static_cast<index_t>(prefix.size()) == sentence ? logs({0, 0, 1, 0, 0, 0}) : logs({0, 0, 0, 0.5, 0.3, 0.2});
  });
  const auto lists = run(model, {2, 0, 1}, {.samples = 4});
  REQUIRE(model.rows_per_step == std::vector<index_t>{3, 8, 4});
  REQUIRE(lists[0][3].tokens.size() == 2);
  REQUIRE(lists[1][3].tokens.empty());
}

TEST_CASE("a token without probability is never drawn", "[sample]") {
  scripted::Model<float> model(600, [](index_t, const Tokens&) {
    std::vector<double> x(600, never);
    x[500] = std::log(0.5), x[7] = std::log(0.5);
    return x;
  });
  const auto drawn = run(model, {0}, {.max_length = 4, .samples = 200})[0];
  for (const auto& h : drawn)
    for (const token_t token : h.tokens) REQUIRE((token == 7 || token == 500));
  const auto samples = run(model, {0}, {.max_length = 4, .suppressed = {7, 500}, .samples = 3})[0];
  for (const auto& h : samples) {
    REQUIRE(h.tokens.empty());
    REQUIRE_FALSE(h.finished);
  }
  // Uniforms at either end.
  const std::vector<double> x = logs({0, 0.5, 0, 0.5, 0}), ends{0, 1 - 0x1p-53};
  const std::vector<index_t> rows{0, 0};
  for (const index_t k : {0, 4})
    for (const double p : {1.0, 0.999999}) {
      std::vector<double> values(2);
      Tokens tokens(2);
      sample_rows(Cpu{}, {1, k, p, k == 0 ? 0.0 : 0.9}, {2, rows.data(), ends.data()}, kernels::Matrix{x.data(), 1, 5},
                  values.data(), tokens.data());
      REQUIRE(tokens == Tokens{1, 3});
    }
}

TEST_CASE("sampling refuses options that make no sense", "[sample]") {
  scripted::Model<double> model(5, scripted::random_script(1, 5, 1));
  REQUIRE_THROWS_WITH(run(model, {0}, {.temperature = 0}),
                      "sample: temperature is 0, expected more than 0; for the most probable tokens use greedy");
  REQUIRE_THROWS_AS(run(model, {0}, {.temperature = -1}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.temperature = std::nan("")}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.samples = 0}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.samples = index_t{1} << 40}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.top_k = -1}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.top_p = 0}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.top_p = 1.5}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.min_p = -0.1}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.min_p = 1.1}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.sentence_ids = {1, 2}}), ValueError);
  REQUIRE_THROWS_AS(run(model, {0}, {.eos = 5}), IndexError);
  REQUIRE_THROWS_AS(run(model, {0}, {.max_length = -1}), ValueError);
  REQUIRE(run(model, {}, {}).empty());
  scripted::Model<double> broken(4, [](index_t, const Tokens&) { return std::vector<double>{-1, -1, -1, std::nan("")}; });
  for (const index_t k : {0, 2}) REQUIRE_THROWS_AS(run(broken, {0}, {.top_k = k}), Error);
  scripted::Model<double> endless(4, [](index_t, const Tokens&) { return std::vector<double>{-1, -1, INFINITY, -1}; });
  for (const index_t k : {0, 2})
    for (const double p : {0.5, 1.0})
      REQUIRE_THROWS_WITH(run(endless, {0}, {.top_k = k, .top_p = p}),
                          "sample: row 0 has infinity at column 2, expected log-probabilities");
}
