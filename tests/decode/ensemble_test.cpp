#include "attend/decode/ensemble.hpp"

#include <cmath>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;
using scripted::never;

namespace {

using Tokens = std::vector<token_t>;
using Model = scripted::Model<double>;
using State = Ensemble<Model>::State;

Model random_model(std::uint64_t seed) { return {7, scripted::random_script(seed, 7, 1.5)}; }

State begin(const Ensemble<Model>& ensemble, const std::vector<index_t>& sentences) { return ensemble.begin(sentences); }

/// The mean of the models' distributions after a prefix, added up in plain numbers.
std::vector<double> mean_after(const std::vector<scripted::Script>& scripts, const std::vector<double>& weights, bool of_logs,
                               const Tokens& prefix) {
  std::vector<double> mean(7, 0);
  double sum = 0;
  for (std::size_t m = 0; m < scripts.size(); ++m) {
    const auto x = scripts[m](0, prefix);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weights[m] * (of_logs ? x[i] : std::exp(x[i]));
  }
  for (double& v : mean) sum += v = of_logs ? std::exp(v) : v;
  for (double& v : mean) v = std::log(v / sum);
  return mean;
}

}  // namespace

TEST_CASE("an ensemble's step is the mean of its models' probabilities, or of their logarithms", "[ensemble]") {
  const std::vector<scripted::Script> scripts{scripted::random_script(1, 7, 1.5), scripted::random_script(2, 7, 1.5),
                                              scripted::random_script(3, 7, 1.5)};
  std::vector<Model> models;
  for (const auto& script : scripts) models.emplace_back(7, script);
  for (const auto mean : {EnsembleMean::probabilities, EnsembleMean::log_probabilities})
    for (const bool weighted : {false, true}) {
      Ensemble<Model> ensemble(models,
                               {.mean = mean, .weights = weighted ? std::vector<double>{3, 1, 4} : std::vector<double>{}});
      REQUIRE(ensemble.vocabulary() == 7);
      const std::vector<double> weights =
          weighted ? std::vector<double>{0.375, 0.125, 0.5} : std::vector<double>{1. / 3, 1. / 3, 1. / 3};
      State state = begin(ensemble, {0});
      ensemble.step(state, Tokens{1});
      ensemble.reorder(state, std::vector<index_t>{0, 0});
      const auto got = ensemble.step(state, Tokens{3, 5});
      const bool of_logs = mean == EnsembleMean::log_probabilities;
      const auto after_3 = mean_after(scripts, weights, of_logs, {3}), after_5 = mean_after(scripts, weights, of_logs, {5});
      for (index_t i = 0; i < 7; ++i) {
        CHECK(got(0, i) == Approx(after_3[static_cast<std::size_t>(i)]).epsilon(1e-12));
        CHECK(got(1, i) == Approx(after_5[static_cast<std::size_t>(i)]).epsilon(1e-12));
      }
    }
}

TEST_CASE("a search of an ensemble is that of a model with the mean distribution", "[ensemble]") {
  const std::vector<scripted::Script> scripts{scripted::random_script(4, 7, 1.5), scripted::random_script(5, 7, 1.5)};
  Ensemble<Model> ensemble({{7, scripts[0]}, {7, scripts[1]}});
  Model one(7, [&](index_t, const Tokens& prefix) { return mean_after(scripts, {0.5, 0.5}, false, prefix); });
  auto state = begin(ensemble, {0});
  auto same = one.begin({0});
  const BeamOptions options{.max_length = 8, .beam = 3, .n_best = 3};
  const auto got = beam_search(ensemble, state, 1, options)[0], expected = beam_search(one, same, 1, options)[0];
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].tokens == expected[i].tokens);
    CHECK(got[i].score == Approx(expected[i].score).epsilon(1e-12));
  }
}

TEST_CASE("an ensemble of one model, and of one twice, is that model", "[ensemble]") {
  auto model = random_model(9);
  auto state = model.begin({0, 1});
  const auto expected = greedy(model, state, 2, {.max_length = 9});
  for (const std::size_t count : {1u, 2u}) {
    Ensemble<Model> ensemble(std::vector<Model>(count, model));
    auto both = begin(ensemble, {0, 1});
    const auto got = greedy(ensemble, both, 2, {.max_length = 9});
    for (std::size_t s = 0; s < 2; ++s) {
      CHECK(got[s].tokens == expected[s].tokens);
      CHECK(got[s].log_probability == Approx(expected[s].log_probability).epsilon(1e-12));
    }
  }
}

TEST_CASE("tokens that one model or all of them rule out, and very improbable ones, keep their share in an ensemble",
          "[ensemble]") {
  const auto check = [](auto number, double allowed) {
    using T = decltype(number);
    using Some = scripted::Model<T>;
    const auto fixed = [](std::vector<double> x) { return Some(4, [x](index_t, const Tokens&) { return x; }); };
    Ensemble<Some> ensemble({fixed({never, never, -1000, std::log(0.5)}), fixed({never, std::log(0.2), -1002, -300})});
    typename Ensemble<Some>::State state = ensemble.begin(std::vector<index_t>{0});
    const auto x = ensemble.step(state, Tokens{1});
    CHECK(x(0, 0) == -std::numeric_limits<T>::infinity());
    CHECK(static_cast<double>(x(0, 1)) == Approx(std::log(0.1)).epsilon(allowed));
    CHECK(static_cast<double>(x(0, 2)) == Approx(-1000 + std::log(0.5 * (1 + std::exp(-2)))).epsilon(allowed));
    CHECK(static_cast<double>(x(0, 3)) == Approx(std::log(0.25)).epsilon(allowed));
  };
  check(double{}, 1e-14);
  check(float{}, 3e-7);
}

TEST_CASE("only the ratios of an ensemble's weights count, whatever their size", "[ensemble]") {
  const auto step = [](const std::vector<double>& weights, EnsembleMean mean) {
    Ensemble<Model> ensemble({random_model(1), random_model(2)}, {.mean = mean, .weights = weights});
    State state = begin(ensemble, {0});
    return ensemble.step(state, Tokens{1});
  };
  for (const auto mean : {EnsembleMean::probabilities, EnsembleMean::log_probabilities}) {
    const auto expected = step({1, 1}, mean), large = step({1e308, 1e308}, mean), small = step({1e-300, 1e-300}, mean);
    for (index_t i = 0; i < 7; ++i) {
      CHECK(large(0, i) == expected(0, i));
      CHECK(small(0, i) == expected(0, i));
    }
  }
}

TEST_CASE("an ensemble refuses what cannot be one", "[ensemble]") {
  using Some = std::vector<Model>;
  CHECK_THROWS_WITH(Ensemble<Model>(Some{}), "Ensemble: no models");
  CHECK_THROWS_WITH(Ensemble<Model>(Some{random_model(1), Model(8, scripted::random_script(1, 8, 1))}),
                    "Ensemble: models with vocabularies of 7 and 8");
  CHECK_THROWS_WITH(Ensemble<Model>(Some{random_model(1)}, {.weights = {1, 2}}), "Ensemble: 2 weights for 1 models");
  CHECK_THROWS_AS(Ensemble<Model>(Some{random_model(1)}, {.weights = {0}}), ValueError);
  CHECK_THROWS_AS(Ensemble<Model>(Some{random_model(1)}, {.weights = {std::nan("")}}), ValueError);
  Ensemble<Model> two({random_model(1), random_model(2)});
  State state;
  CHECK_THROWS_WITH(two.step(state, Tokens{1}), "Ensemble: a state of 0 models for 2");
}
