#include "attend/ops/softmax.hpp"

#include <limits>

#include "attend/ops/arithmetic.hpp"
#include "attend/ops/elementary.hpp"
#include "attend/ops/reduce.hpp"
#include "operation.hpp"

using namespace attend;

TEST_CASE("softmax agrees with differences, float with double") {
  for (const Shape& shape : {Shape{3, 4, 6}, Shape{1}, Shape{2, 1}, Shape{2, 100}}) {
    operation::check([](const auto& in) { return softmax(in[0]); }, {operation::random(shape)});
    operation::check([](const auto& in) { return log_softmax(in[0]); }, {operation::random(shape)});
  }
  operation::check([](const auto& in) { return softmax(in[0]); }, {operation::random({300, 77})}, {.entries = 3});
}

TEST_CASE("softmax equals its composition from simple operations") {
  const Tensor<double> x = operation::random({5, 9}), weights = operation::random({5, 9}, 3);
  const Var<double> a(x, true), b(x, true), c(x, true), d(x, true);
  const auto fused = softmax(a), composed = attend::exp(b) / sum(attend::exp(b), -1, {.keep = true});
  const auto log_fused = log_softmax(c), log_composed = d - attend::log(sum(attend::exp(d), -1, {.keep = true}));
  fused.backward(weights.clone()), composed.backward(weights.clone());
  log_fused.backward(weights.clone()), log_composed.backward(weights.clone());
  for (index_t i = 0; i < x.size(); ++i) {
    CHECK(fused.data()[i] == Approx(composed.data()[i]).epsilon(1e-13));
    CHECK(a.grad().data()[i] == Approx(b.grad().data()[i]).margin(1e-13));
    CHECK(log_fused.data()[i] == Approx(log_composed.data()[i]).epsilon(1e-13));
    CHECK(c.grad().data()[i] == Approx(d.grad().data()[i]).margin(1e-13));
  }
}

TEMPLATE_TEST_CASE("softmax of extreme numbers", "", float, double) {
  using T = TestType;
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const Var<T> x(Tensor<T>({4, 3}, {T(1e4), T(1e4), T(-1e4), -inf, T(2), -inf, -inf, -inf, -inf, T(1), nan, T(2)}), true);
  const auto y = softmax(x);
  CHECK(y.value().rows(0, 3).values() == std::vector<T>{T(0.5), T(0.5), 0, 0, 1, 0, 0, 0, 0});
  for (index_t i = 0; i < 3; ++i) CHECK(std::isnan(y.value()(3, i)));
  y.backward(operation::random<T>({4, 3}));
  for (index_t i = 0; i < 9; ++i) CHECK(std::isfinite(x.grad().data()[i]));
  for (index_t i = 6; i < 9; ++i) CHECK(x.grad().data()[i] == T(0));

  const auto z = log_softmax(x).value();
  CHECK(z(0, 0) == Approx(std::log(0.5)));
  CHECK(z(0, 2) == Approx(-2e4 + std::log(0.5)));
  CHECK(z(1, 1) == T(0));
  CHECK(z(1, 0) == -inf);
  for (index_t i = 0; i < 3; ++i) CHECK(z(2, i) == -inf);
}

TEST_CASE("log_softmax keeps its digits where all logits are large") {
  const Var<float> x(Tensor<float>({2}, {10000.0f, 10001.0f}));
  CHECK(log_softmax(x).value()(1) == Approx(-std::log1p(std::exp(-1.0))).epsilon(1e-6));
}

TEST_CASE("softmax of a scalar is refused, of nothing is nothing") {
  CHECK_THROWS_AS(softmax(Var<float>(Tensor<float>({}, 1.0f))), ShapeError);
  CHECK_THROWS_AS(log_softmax(Var<float>(Tensor<float>({}, 1.0f))), ShapeError);
  CHECK(softmax(Var<float>(Tensor<float>({0, 4}))).shape() == Shape{0, 4});
  CHECK(softmax(Var<float>(Tensor<float>({4, 0}))).shape() == Shape{4, 0});
}
