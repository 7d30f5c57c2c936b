#include "attend/nn/norm.hpp"

#include "check.hpp"

using namespace attend;

TEST_CASE("Norm: gradients of every kind") {
  const auto kind = GENERATE(NormKind::layer, NormKind::rms);
  const bool sample = GENERATE(false, true), scalar = GENERATE(false, true), bias = GENERATE(true, false);
  if (sample && kind == NormKind::rms) return;
  const nn::Norm<double> norm(6, {.kind = kind, .eps = 1e-6, .sample_deviation = sample, .scalar_affine = scalar, .bias = bias});
  test::randomise(norm);
  const auto x = test::random_leaf({2, 3, 6}, 0);
  CHECK(norm.weight.size() == (scalar ? 1 : 6));
  CHECK(norm.bias.has_value() == bias);
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

TEST_CASE("A root mean square norm begins as that alone") {
  const nn::Norm<double> norm(6, {.kind = NormKind::rms, .eps = 0, .bias = false});
  CHECK(test::names(norm) == test::Names{"weight"});
  const auto x = test::random_leaf({1, 6}, 0);
  double squares = 0;
  for (const double v : x.value().span()) squares += v * v;
  const auto y = norm(x);
  for (index_t i = 0; i < 6; ++i) CHECK(y.data()[i] == Approx(x.data()[i] / std::sqrt(squares / 6)));
}

TEST_CASE("LayerNorm names what does not fit") {
  CHECK_THROWS_AS(nn::LayerNorm<double>(0), ValueError);
  CHECK_THROWS_AS(nn::LayerNorm<double>(4)(test::random_leaf({2, 5}, 0)), ShapeError);
  CHECK_THROWS_AS(nn::LayerNorm<double>(4, {.eps = -1}), ValueError);
  CHECK_THROWS_AS(nn::Norm<double>(4, {.kind = NormKind::rms, .sample_deviation = true}), ValueError);
}
