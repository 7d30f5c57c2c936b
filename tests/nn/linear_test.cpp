#include "attend/nn/linear.hpp"

#include <type_traits>

#include "attend/nn/embedding.hpp"
#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("Linear: gradients, with and without a bias, on any leading dimensions") {
  const bool bias = GENERATE(true, false);
  const nn::Linear<double> linear(3, 5, {.bias = bias});
  test::randomise(linear);
  const auto x = test::random_leaf({2, 4, 3}, 0);
  CHECK(linear(x).shape() == Shape{2, 4, 5});
  test::check_gradients(linear, [&] { return linear(x); }, {x});
}

TEST_CASE("Linear: names, counts and initial values") {
  seed(1);
  const nn::Linear<float> linear(30, 50);
  CHECK(test::names(linear) == test::Names{"weight", "bias"});
  CHECK(nn::parameter_count(linear) == 30 * 50 + 50);
  CHECK(test::names(nn::Linear<float>(3, 5, {.bias = false})) == test::Names{"weight"});
  CHECK(linear.weight.shape() == Shape{50, 30});
  CHECK(linear.bias->value().values() == std::vector<float>(50, 0));
  const float bound = std::sqrt(6.0f / 80);
  for (const float w : linear.weight.value().span()) REQUIRE(std::abs(w) <= bound);
}

TEST_CASE("Linear names what does not fit") {
  CHECK_THROWS_AS(nn::Linear<float>(0, 5), ValueError);
  CHECK_THROWS_WITH(nn::Linear<float>(3, -1), ContainsSubstring("Linear: widths 3 to -1"));
  const nn::Linear<double> linear(3, 5);
  CHECK_THROWS_WITH(linear(test::random_leaf({2, 4}, 0)), ContainsSubstring("x has shape [2, 4], expected [..., 3]"));
}

TEST_CASE("Linear: a gain scales the initial weights, and options go by their names") {
  seed(1);
  const nn::Linear<float> one(30, 50);
  seed(1);
  const nn::Linear<float> half(30, 50, {.gain = 0.5});
  REQUIRE(half.bias.has_value());
  for (index_t i = 0; i < one.weight.size(); ++i) REQUIRE(half.weight.data()[i] == Approx(0.5f * one.weight.data()[i]));
  STATIC_REQUIRE_FALSE(std::is_constructible_v<nn::Linear<float>, index_t, index_t, bool>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<nn::Embedding<float>, index_t, index_t, bool>);
}
