#include "attend/decode/results.hpp"

#include <concepts>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;

namespace {

using Tokens = std::vector<token_t>;
using Lists = Results<Results<Hypothesis>>;

/// Says 3 4 and ends.
scripted::Model<double> model() {
  return {5, [](index_t, const Tokens& prefix) {
            return prefix.empty() ? scripted::logs({0, 0, 0, 1, 0})
                                  : scripted::logs(prefix.size() == 1 ? std::vector<double>{0, 0, 0, 0, 1}
                                                                      : std::vector<double>{0, 0, 1, 0, 0});
          }};
}

}  // namespace

TEST_CASE("what is taken out of a temporary result outlives it", "[results]") {
  STATIC_REQUIRE(std::same_as<decltype(std::declval<Lists>().front()), Results<Hypothesis>>);
  STATIC_REQUIRE(std::same_as<decltype(std::declval<Lists>().back()), Results<Hypothesis>>);
  STATIC_REQUIRE(std::same_as<decltype(std::declval<Lists>()[0]), Results<Hypothesis>>);
  STATIC_REQUIRE(std::same_as<decltype(std::declval<Lists>().at(0)), Results<Hypothesis>>);
  STATIC_REQUIRE(std::same_as<decltype(std::declval<Lists>().front().front()), Hypothesis>);
  STATIC_REQUIRE(std::same_as<decltype(std::declval<Lists&>().front()), Results<Hypothesis>&>);
  STATIC_REQUIRE(std::same_as<decltype(std::declval<const Lists&>()[0]), const Results<Hypothesis>&>);

  auto m = model();
  auto state = m.begin({0});
  int samples = 0;
  for (auto& h : sample(m, state, 1, {.samples = 3}).front()) {
    REQUIRE(h.tokens == Tokens{3, 4});
    ++samples;
  }
  REQUIRE(samples == 3);
  state = m.begin({0});
  Tokens seen;
  for (const token_t token : beam_search(m, state, 1).front().front().tokens) seen.push_back(token);
  REQUIRE(seen == Tokens{3, 4});
  state = m.begin({0});
  for (const token_t token : greedy(m, state, 1)[0].tokens) seen.push_back(token);
  REQUIRE(seen == Tokens{3, 4, 3, 4});
}

TEST_CASE("results are vectors, and lists of them become plain ones", "[results]") {
  auto m = model();
  auto state = m.begin({0, 0});
  const auto lists = beam_search(m, state, 2, {.beam = 2});
  REQUIRE(lists.size() == 2);
  REQUIRE(&lists.front() == &lists[0]);
  REQUIRE(&lists.at(1) == &lists.back());
  REQUIRE_THROWS_AS(lists.at(2), std::out_of_range);
  const std::vector<std::vector<Hypothesis>> copied = lists;
  REQUIRE(copied.size() == 2);
  REQUIRE(copied[1][0].tokens == Tokens{3, 4});
  state = m.begin({0});
  const std::vector<std::vector<Hypothesis>> moved = beam_search(m, state, 1);
  REQUIRE(moved[0][0].tokens == Tokens{3, 4});
  state = m.begin({0});
  std::vector<Hypothesis> plain = greedy(m, state, 1);
  REQUIRE(plain[0].tokens == Tokens{3, 4});
  const Results<Hypothesis> again = std::move(plain);
  REQUIRE(again.front().finished);
  REQUIRE(Results<Hypothesis>(3).size() == 3);
}
