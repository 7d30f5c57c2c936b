#include "attend/ops/reduce.hpp"

#include <limits>

#include "attend/ops/arithmetic.hpp"
#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("sum, mean and max of a small tensor") {
  const Var<double> x(Tensor<double>({2, 3}, {1, 5, 3, 4, 2, 6}));
  CHECK(sum(x).item() == 21);
  CHECK(mean(x).item() == 3.5);
  CHECK(sum(x).shape() == Shape{});
  CHECK(sum(x, 0).value().values() == std::vector<double>{5, 7, 9});
  CHECK(sum(x, -1).value().values() == std::vector<double>{9, 12});
  CHECK(mean(x, 1).value().values() == std::vector<double>{3, 4});
  CHECK(max(x, 0).value().values() == std::vector<double>{4, 5, 6});
  CHECK(max(x, 1).value().values() == std::vector<double>{5, 6});
  CHECK(sum(x, 0).shape() == Shape{3});
  CHECK(sum(x, 0, {.keep = true}).shape() == Shape{1, 3});
  CHECK(mean(x, -1, {.keep = true}).shape() == Shape{2, 1});
  CHECK(max(x, -1, {.keep = true}).shape() == Shape{2, 1});
}

TEST_CASE("reductions agree with differences, float with double") {
  const std::vector<Tensor<double>> inputs{operation::random({3, 4, 5})};
  operation::check([](const auto& in) { return sum(in[0]); }, inputs);
  operation::check([](const auto& in) { return mean(in[0]); }, inputs);
  for (const index_t axis : {0, 1, 2, -1})
    for (const bool keep : {false, true}) {
      operation::check([=](const auto& in) { return sum(in[0], axis, {.keep = keep}); }, inputs);
      operation::check([=](const auto& in) { return mean(in[0], axis, {.keep = keep}); }, inputs);
      operation::check([=](const auto& in) { return max(in[0], axis, {.keep = keep}); }, inputs);
    }
}

TEST_CASE("reductions of many elements do not depend on threads, and stay exact in float") {
  // Long rows, many short rows, one long row, wide and high.
  for (const Shape& shape : {Shape{3, 40000}, Shape{5000, 7}, Shape{90000}, Shape{30, 70, 50}}) {
    INFO(shape.text());
    for (index_t axis = 0; axis < shape.rank(); ++axis)
      operation::check([=](const auto& in) { return sum(in[0], axis); }, {operation::random(shape)}, {.entries = 2});
    operation::check([](const auto& in) { return mean(in[0]); }, {operation::random(shape)}, {.entries = 2});
  }
  CHECK(mean(Var<float>(Tensor<float>({3000000}, 0.1f))).item() == Approx(0.1).epsilon(1e-5));
}

TEST_CASE("max gives its gradient to the first of equal values, and lets through what is not a number") {
  const Var<double> x(Tensor<double>({2, 3}, {2, 2, 1, 0, 3, 3}), true);
  max(x, 1).backward(Tensor<double>({2}, {10, 20}));
  CHECK(x.grad().values() == std::vector<double>{10, 0, 0, 0, 20, 0});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(max(Var<double>(Tensor<double>({3}, {1, nan, 2})), 0).item()));
  CHECK(std::isnan(max(Var<double>(Tensor<double>({3}, {nan, 1, 2})), 0).item()));
}

TEST_CASE("reductions of nothing, and along axes that do not exist") {
  const Var<float> empty(Tensor<float>({0, 3}));
  CHECK(sum(empty).item() == 0);
  CHECK(sum(empty, 0).value().values() == std::vector<float>{0, 0, 0});
  CHECK_THROWS_AS(mean(empty), ShapeError);
  CHECK_THROWS_AS(mean(empty, 0), ShapeError);
  CHECK_THROWS_AS(max(empty, 0), ShapeError);
  CHECK(max(empty, 1).shape() == Shape{0});
  const Var<float> x(Tensor<float>({2, 3}, 1.0f));
  CHECK_THROWS_AS(sum(x, 2), IndexError);
  CHECK_THROWS_WITH(max(x, -3), ContainsSubstring("max: axis -3 of x [2, 3]"));
  CHECK_THROWS_AS(sum(Var<float>(Tensor<float>({}, 1.0f)), 0), IndexError);
}
