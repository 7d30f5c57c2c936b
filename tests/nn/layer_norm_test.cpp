#include "attend/nn/layer_norm.hpp"

#include "check.hpp"

using namespace attend;

TEST_CASE("LayerNorm: gradients of every kind") {
  const bool sample = GENERATE(false, true), scalar = GENERATE(false, true);
  const nn::LayerNorm<double> norm(6, {.eps = 1e-6, .sample_deviation = sample, .scalar_affine = scalar});
  test::randomise(norm);
  const auto x = test::random_leaf({2, 3, 6}, 0);
  CHECK(norm.weight.size() == (scalar ? 1 : 6));
  test::check_gradients(
      norm, [&] { return norm(x); }, {x}, 64);
}

TEST_CASE("LayerNorm over several trailing dimensions") {
  const nn::LayerNorm<double> norm(Shape{2, 3});
  test::randomise(norm);
  const auto x = test::random_leaf({4, 2, 3}, 0);
  test::check_gradients(
      norm, [&] { return norm(x); }, {x}, 64);
  CHECK(nn::parameter_count(norm) == 12);
}

TEST_CASE("LayerNorm begins as plain normalisation") {
  const nn::LayerNorm<double> norm(6, {.eps = 0});
  CHECK(test::names(norm) == test::Names{"weight", "bias"});
  const auto y = norm(test::random_leaf({1, 6}, 0));
  double sum = 0, squares = 0;
  for (const double v : y.value().span()) sum += v, squares += v * v;
  CHECK(sum == Approx(0).margin(1e-12));
  CHECK(squares == Approx(6));
}

TEST_CASE("LayerNorm names what does not fit") {
  CHECK_THROWS_AS(nn::LayerNorm<double>(0), ValueError);
  CHECK_THROWS_AS(nn::LayerNorm<double>(4)(test::random_leaf({2, 5}, 0)), ShapeError);
  CHECK_THROWS_AS(nn::LayerNorm<double>(4, {.eps = -1}), ValueError);
}
