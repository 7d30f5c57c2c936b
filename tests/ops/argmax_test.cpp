#include "attend/ops/argmax.hpp"

#include <limits>

#include "catch.hpp"

using namespace attend;

TEST_CASE("argmax finds the first of the largest values of each row") {
  constexpr double low = -std::numeric_limits<double>::infinity();
  const Tensor<double> x({2, 2, 3}, {1, 3, 2, -1, -1, -2, low, low, low, low, 0, low});
  const auto found = argmax(x);
  CHECK(found.shape() == Shape{2, 2});
  CHECK(found.values() == std::vector<token_t>{1, 0, 0, 1});
  CHECK(argmax(Tensor<float>({3}, {1, 2, 3})).item() == 2);
  CHECK(argmax(Tensor<float>({0, 3})).shape() == Shape{0});
}

TEST_CASE("argmax refuses what has no largest value") {
  CHECK_THROWS_AS(argmax(Tensor<float>(Shape{}, 1.0f)), ShapeError);
  CHECK_THROWS_AS(argmax(Tensor<float>({2, 0})), ValueError);
  CHECK_THROWS_AS(argmax(Tensor<float>({2}, {1, std::numeric_limits<float>::quiet_NaN()})), Error);
}
