#include "attend/decode/coverage.hpp"

#include <algorithm>
#include <cmath>

#include "attend/decode/beam.hpp"
#include "attend/decode/ensemble.hpp"
#include "attend/decode/transformer.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;

namespace {

using Tokens = std::vector<token_t>;

constexpr index_t longest = 5;

/// Where the next token looks after a prefix: sentence s has s + 2 source words.
std::vector<double> looks(index_t sentence, const Tokens& prefix) {
  std::vector<double> weights(static_cast<std::size_t>(longest), 0);
  double sum = 0;
  std::size_t hash = prefix.size() + 3;
  for (const token_t token : prefix) hash = hash * 31 + static_cast<std::size_t>(token);
  for (std::size_t j = 0; j < static_cast<std::size_t>(sentence) + 2; ++j)
    sum += weights[j] = std::exp(static_cast<double>((hash + 7 * j * j) % 11) / 3);
  for (double& w : weights) w /= sum;
  return weights;
}

class Attending : public scripted::Model<double> {
 public:
  using Model::Model;
  bool on = true;
  [[nodiscard]] bool attends() const { return on; }
  [[nodiscard]] Tensor<double> attention(const State& state) const {
    const Tensor<double> all({static_cast<index_t>(state.size()), longest});
    for (std::size_t r = 0; r < state.size(); ++r) {
      const auto weights = looks(state[r].sentence, {state[r].tokens.begin() + 1, state[r].tokens.end()});
      std::copy(weights.begin(), weights.end(), all.data() + static_cast<index_t>(r) * longest);
    }
    return all;
  }
  [[nodiscard]] std::vector<index_t> source_lengths(const State& state) const {
    std::vector<index_t> lengths;
    for (const Row& row : state) lengths.push_back(row.sentence + 2);
    return lengths;
  }
};

/// GNMT's penalty of a hypothesis that `looks` as often as it has tokens, the end token among them if it is finished.
double penalty(double beta, index_t sentence, const Tokens& tokens, bool finished) {
  std::vector<double> covered(static_cast<std::size_t>(sentence) + 2, 0);
  for (std::size_t i = 0; i < tokens.size() + finished; ++i) {
    const auto weights = looks(sentence, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i)});
    for (std::size_t j = 0; j < covered.size(); ++j) covered[j] += weights[j];
  }
  double sum = 0;
  for (const double c : covered) sum += std::log(std::min(c, 1.0));
  return beta * sum;
}

/// The `n` best of all finished hypotheses.
std::vector<Hypothesis> exhaustive(const scripted::Script& script, index_t sentence, const BeamOptions& o, std::size_t n) {
  std::vector<Hypothesis> all, open{Hypothesis{}};
  for (index_t length = 0; length <= o.max_length[sentence]; ++length) {
    std::vector<Hypothesis> next;
    for (const auto& h : open) {
      const auto x = script(sentence, h.tokens);
      for (std::size_t token = 0; token < x.size(); ++token) {
        Hypothesis longer = h;
        longer.log_probability += x[token];
        if (static_cast<token_t>(token) == o.eos) {
          longer.score = normalized_score(longer.log_probability, length + 1, o.alpha, o.normalization) +
                         penalty(o.coverage, sentence, h.tokens, true);
          all.push_back(longer);
        } else {
          longer.tokens.push_back(static_cast<token_t>(token));
          next.push_back(longer);
        }
      }
    }
    open = std::move(next);
  }
  std::stable_sort(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  all.resize(std::min(n, all.size()));
  return all;
}

nn::Transformer<double> small_model(std::uint64_t start) {
  seed(start);
  return nn::Transformer<double>(nn::TransformerOptions{
      .vocabulary = 9, .d_model = 8, .heads = 2, .d_k = 3, .d_v = 5, .d_ff = 12, .layers = 2, .dropout = 0, .max_length = 24});
}

const Tensor<token_t> source({9}, {3, 4, 5, 2, 6, 7, 8, 3, 2});
const auto segments = Segments::ragged({4, 5});

}  // namespace

TEST_CASE("with a coverage penalty a wide beam finds what looking at every sentence finds", "[coverage]") {
  const auto script = scripted::random_script(12, 4, 1.2);
  Attending model(4, script);
  bool differ = false;
  for (const double alpha : {0.0, 1.0})
    for (const double beta : {0.0, 0.4, 3.0}) {
      const BeamOptions o{.max_length = 4, .beam = 300, .n_best = 6, .alpha = alpha, .coverage = beta};
      const std::vector<index_t> sentences{2, 0, 1, 3};
      auto state = model.begin(sentences);
      const auto lists = beam_search(model, state, 4, o);
      for (std::size_t s = 0; s < 4; ++s) {
        INFO("alpha " << alpha << ", beta " << beta << ", sentence " << sentences[s]);
        const auto expected = exhaustive(script, sentences[s], o, 6);
        REQUIRE(lists[s].size() == 6);
        for (std::size_t i = 0; i < 6; ++i) {
          REQUIRE(lists[s][i].tokens == expected[i].tokens);
          REQUIRE(lists[s][i].score == Approx(expected[i].score).epsilon(1e-12));
          REQUIRE(lists[s][i].log_probability == Approx(expected[i].log_probability).epsilon(1e-12));
        }
        BeamOptions without = o;
        without.coverage = 0;
        differ = differ || exhaustive(script, sentences[s], without, 1)[0].tokens != lists[s][0].tokens;
      }
    }
  REQUIRE(differ);
}

TEST_CASE("a narrow beam's scores have the penalty of the tokens that they belong to", "[coverage]") {
  Attending model(7, scripted::random_script(5, 7, 1));
  const std::vector<index_t> sentences{3, 1, 0, 2, 3};
  for (const auto stop : {Stop::exact, Stop::present_length, Stop::first})
    for (const bool keep_unfinished : {false, true})
      for (const token_t eos : {2, 6}) {
        // If the end token may not come, what comes back is unfinished.
        const BeamOptions o{.eos = eos,
                            .max_length = 6,
                            .suppressed = eos == 6 ? Tokens{6} : Tokens{},
                            .beam = 3,
                            .n_best = 3,
                            .stop = stop,
                            .keep_unfinished = keep_unfinished,
                            .coverage = 0.8};
        auto state = model.begin(sentences);
        const auto lists = beam_search(model, state, 5, o);
        for (std::size_t s = 0; s < sentences.size(); ++s)
          for (std::size_t i = 0; i < lists[s].size(); ++i) {
            const Hypothesis& h = lists[s][i];
            REQUIRE((eos == 2 || !h.finished));
            const auto length = static_cast<index_t>(h.tokens.size()) + h.finished;
            REQUIRE(h.score == Approx(normalized_score(h.log_probability, length, o.alpha, o.normalization) +
                                      penalty(0.8, sentences[s], h.tokens, h.finished))
                                   .epsilon(1e-12));
            if (i > 0) REQUIRE(h.score <= lists[s][i - 1].score);
          }
      }
}

TEST_CASE("coverage needs a model that attends, and a strength", "[coverage]") {
  scripted::Model<double> blind(4, scripted::random_script(1, 4, 1));
  auto state = blind.begin({0});
  const std::string message = "beam_search: coverage needs the model's attention to its source, which it does not give";
  REQUIRE_THROWS_WITH(beam_search(blind, state, 1, {.coverage = 0.2}), message);
  Attending model(4, scripted::random_script(1, 4, 1));
  auto rows = model.begin({0});
  REQUIRE_THROWS_AS(beam_search(model, rows, 1, {.coverage = -0.1}), ValueError);
  REQUIRE_THROWS_AS(beam_search(model, rows, 1, {.coverage = std::nan("")}), ValueError);
  model.on = false;
  REQUIRE_THROWS_AS(beam_search(model, rows, 1, {.coverage = 0.2}), ValueError);

  const auto transformer = small_model(1);
  const TransformerModel<double> steps(transformer);
  auto begun = steps.begin(source, segments);
  REQUIRE_THROWS_WITH(beam_search(steps, begun, 2, {.coverage = 0.2}), message);
  REQUIRE_THROWS_WITH(steps.attention(begun), "TransformerModel: made without StepOptions::attention");
}

TEST_CASE("a Transformer's steps attend as the last layer of a whole pass does", "[coverage]") {
  const auto model = small_model(2);
  const TransformerModel<double> steps(model, {.attention = true});
  auto state = steps.begin(source, segments);
  REQUIRE_THROWS_AS(steps.attention(state), Error);
  REQUIRE(steps.source_lengths(state) == std::vector<index_t>{4, 5});
  const std::vector<token_t> target{1, 4, 7, 1, 6, 3};
  const NoGrad no_grad;
  std::vector<AttentionWeights<double>> all;
  nn::Transformer<double> evaluated(model);
  const nn::EvaluationScope evaluation(evaluated);
  const auto memory = evaluated.encode(source, segments);
  (void)evaluated.decode(Tensor<token_t>({6}, std::span<const token_t>(target)), Segments::ragged({3, 3}), memory,
                         {.cross_weights = &all});
  for (index_t t = 0; t < 3; ++t) {
    (void)steps.step(state, Tokens{target[static_cast<std::size_t>(t)], target[static_cast<std::size_t>(3 + t)]});
    const auto got = steps.attention(state);
    REQUIRE(got.shape() == Shape{2, 5});
    REQUIRE(got(0, 4) == 0);
    for (index_t s = 0; s < 2; ++s)
      for (index_t j = 0; j < 4 + s; ++j) {
        const double expected = (all.back().matrix(s, 0)(t, j) + all.back().matrix(s, 1)(t, j)) / 2;
        REQUIRE(got(s, j) == Approx(expected).epsilon(1e-10));
      }
  }
  steps.reorder(state, std::vector<index_t>{1, 0, 1});
  REQUIRE_THROWS_AS(steps.attention(state), Error);
  REQUIRE(steps.source_lengths(state) == std::vector<index_t>{5, 4, 5});
  (void)steps.step(state, Tokens{4, 5, 6});
  const auto got = steps.attention(state);
  REQUIRE(got.shape() == Shape{3, 5});
  REQUIRE(got(1, 4) == 0);
  REQUIRE(got(2, 4) > 0);
}

TEST_CASE("an ensemble of Transformers attends as they do on average, in searches too", "[coverage]") {
  const auto first = small_model(3), second = small_model(4);
  const TransformerModel<double> a(first, {.attention = true}), b(second, {.attention = true});
  const Ensemble<TransformerModel<double>> both({a, b}, {.weights = {1, 3}});
  STATIC_REQUIRE(AttendingModel<const Ensemble<TransformerModel<double>>>);
  REQUIRE(both.attends());
  REQUIRE(both.longest() == 23);
  auto state = both.begin(source, segments);
  auto state_a = a.begin(source, segments), state_b = b.begin(source, segments);
  (void)both.step(state, Tokens{1, 1});
  (void)a.step(state_a, Tokens{1, 1});
  (void)b.step(state_b, Tokens{1, 1});
  const auto mean = both.attention(state), of_a = a.attention(state_a), of_b = b.attention(state_b);
  for (index_t i = 0; i < 10; ++i)
    REQUIRE(mean.data()[i] == Approx(0.25 * of_a.data()[i] + 0.75 * of_b.data()[i]).epsilon(1e-12));
  auto fresh = both.begin(source, segments);
  const auto lists = beam_search(both, fresh, 2, {.max_length = 6, .beam = 3, .coverage = 0.3});
  REQUIRE(lists[1][0].score <= normalized_score(lists[1][0].log_probability, 7, 0.6, LengthNormalization::google));

  const Ensemble<TransformerModel<double>> half({a, TransformerModel<double>(second)});
  REQUIRE_FALSE(half.attends());
}
