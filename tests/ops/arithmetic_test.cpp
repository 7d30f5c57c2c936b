#include "attend/ops/arithmetic.hpp"

#include <utility>

#include "operation.hpp"

using namespace attend;

namespace {

const std::vector<std::pair<Shape, Shape>> shapes{
    {{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{4}, {3, 4}},          {{3, 1}, {3, 4}}, {{2, 1, 3, 1}, {4, 1, 5}},
    {{}, {3, 2}},     {{1}, {1}},    {{2, 3, 4}, {1, 3, 1}}, {{}, {}},         {{2, 3, 4, 5}, {3, 1, 5}}};

/// The element of x at which y's element i stands, by NumPy's rule alone.
template <class T>
T broadcast_element(const Tensor<T>& x, const Shape& y, index_t i) {
  index_t offset = 0, step = 1;
  for (index_t d = 1; d <= y.rank(); ++d) {
    const index_t at = i % y[-d];
    i /= y[-d];
    if (d > x.rank()) continue;
    if (x.dim(-d) > 1) offset += at * step;
    step *= x.dim(-d);
  }
  return x.data()[offset];
}

}  // namespace

TEST_CASE("arithmetic broadcasts as NumPy does") {
  for (const auto& shape : shapes) {
    const Var<double> a(operation::random(shape.first)), b(operation::random(shape.second, 1));
    const auto added = a + b, less = a - b, product = a * b, ratio = a / b;
    INFO(shape.first.text() << " and " << shape.second.text());
    for (index_t i = 0; i < added.size(); ++i) {
      const double u = broadcast_element(a.value(), added.shape(), i), v = broadcast_element(b.value(), added.shape(), i);
      REQUIRE(added.data()[i] == u + v);
      REQUIRE(less.data()[i] == u - v);
      REQUIRE(product.data()[i] == u * v);
      REQUIRE(ratio.data()[i] == u / v);
    }
  }
  CHECK(broadcast_shape("add", {5, 1, 4}, {3, 1}) == Shape{5, 3, 4});
}

TEST_CASE("arithmetic agrees with differences, float with double") {
  for (const auto& shape : shapes) {
    INFO(shape.first.text() << " and " << shape.second.text());
    Tensor<double> divisor = operation::random(shape.second, 1);
    for (double& v : divisor.span()) v = 2 + 0.2 * v;
    const std::vector<Tensor<double>> inputs{operation::random(shape.first), divisor};
    operation::check([](const auto& in) { return in[0] + in[1]; }, inputs);
    operation::check([](const auto& in) { return in[0] - in[1]; }, inputs);
    operation::check([](const auto& in) { return in[0] * in[1]; }, inputs);
    operation::check([](const auto& in) { return in[0] / in[1]; }, inputs);
  }
}

TEST_CASE("arithmetic over many elements does not depend on threads") {
  const auto f = [](const auto& in) { return in[0] * in[1] + in[2] * in[1]; };
  operation::check(f, {operation::random({300, 400}), operation::random({400}, 1), operation::random({300, 1}, 2)},
                   {.entries = 2});
  operation::check(f, {operation::random({100000}), operation::random({}, 1), operation::random({100000}, 2)}, {.entries = 2});
}

TEST_CASE("arithmetic with numbers") {
  Tensor<double> x = operation::random({3, 5});
  for (double& v : x.span()) v = 3 + 0.3 * v;
  operation::check([](const auto& in) { return 2 + in[0] + 0.25; }, {x});
  operation::check([](const auto& in) { return 2 - (in[0] - 1); }, {x});
  operation::check([](const auto& in) { return 3 * in[0] * 1.5f; }, {x});
  operation::check([](const auto& in) { return in[0] / 7; }, {x});
  operation::check([](const auto& in) { return 7 / in[0]; }, {x});
  operation::check([](const auto& in) { return -in[0]; }, {x});
  CHECK((Var<float>(Tensor<float>({}, 6.0f)) / 3).item() == 6.0f / 3.0f);
  CHECK((Var<float>(Tensor<float>({}, 1.0f)) / 49).item() == 1.0f / 49.0f);
}

TEST_CASE("arithmetic of a value with itself counts it twice") {
  operation::check([](const auto& in) { return in[0] + in[0]; }, {operation::random({4})});
  operation::check([](const auto& in) { return in[0] * in[0]; }, {operation::random({4})});
  operation::check([](const auto& in) { return in[0] - in[0]; }, {operation::random({4})});
}

TEST_CASE("arithmetic refuses shapes that do not broadcast") {
  const Var<float> a(Tensor<float>({2, 3})), b(Tensor<float>({2}));
  CHECK_THROWS_WITH(a + b, "add: shapes [2, 3] and [2] do not broadcast");
  CHECK_THROWS_AS(a - b, ShapeError);
  CHECK_THROWS_AS(a * b, ShapeError);
  CHECK_THROWS_AS(a / b, ShapeError);
  CHECK((Var<float>(Tensor<float>({0, 3})) + Var<float>(Tensor<float>({3}, 1.0f))).shape() == Shape{0, 3});
}
