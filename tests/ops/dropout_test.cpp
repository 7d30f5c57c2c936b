#include "attend/ops/dropout.hpp"

#include "operation.hpp"

using namespace attend;

TEST_CASE("dropout keeps element i by word i of its stream") {
  constexpr index_t n = 1000;
  const Var<double> x(operation::random({4, n / 4}), true);
  Generator generator(5);
  generator.restore(5, 3);
  const auto y = dropout(x, 0.3, generator);
  CHECK(generator.drawn() == 4);
  const Generator::Stream stream{5, 3};
  const auto threshold = static_cast<std::uint32_t>(0.3 * 0x1p32);
  y.backward(Tensor<double>(y.shape(), 1.0));
  for (index_t i = 0; i < n; ++i) {
    const double factor = stream.word(static_cast<std::uint64_t>(i)) >= threshold ? 1 / 0.7 : 0;
    REQUIRE(y.data()[i] == x.data()[i] * factor);
    REQUIRE(x.grad().data()[i] == factor);
  }
}

TEST_CASE("dropout agrees with differences, and does not depend on threads") {
  const auto f = [](const auto& in) {
    Generator generator(9);
    return dropout(in[0], 0.4, generator);
  };
  operation::check(f, {operation::random({3, 17})});
  operation::check(f, {operation::random({50001})}, {.entries = 3});
}

TEST_CASE("dropout drops the share that it should, and keeps the mean") {
  constexpr index_t n = 200000;
  const Var<float> x(Tensor<float>({n}, 1.0f));
  Generator generator(1);
  const auto y = dropout(x, 0.25, generator);
  index_t dropped = 0;
  double sum = 0;
  for (const float v : y.value().span()) dropped += v == 0, sum += static_cast<double>(v);
  CHECK(static_cast<double>(dropped) / n == Approx(0.25).margin(0.005));
  CHECK(sum / n == Approx(1).margin(0.01));
}

TEST_CASE("dropout draws a stream of its own each time") {
  const Var<float> x(Tensor<float>({64}, 1.0f));
  Generator generator(1);
  const auto first = dropout(x, 0.5, generator), second = dropout(x, 0.5, generator);
  CHECK(first.value().values() != second.value().values());
  generator.restore(1, 0);
  CHECK(dropout(x, 0.5, generator).value().values() == first.value().values());
  seed(8);
  const auto a = dropout(x, 0.5);
  seed(8);
  CHECK(dropout(x, 0.5).value().values() == a.value().values());
}

TEST_CASE("dropout of nothing draws nothing, and p has a range") {
  const Var<float> x(Tensor<float>({4}, 1.0f));
  Generator generator(1);
  CHECK(dropout(x, 0, generator).id() == x.id());
  CHECK(generator.drawn() == 0);
  CHECK_THROWS_AS(dropout(x, 1.0, generator), ValueError);
  CHECK_THROWS_AS(dropout(x, -0.1, generator), ValueError);
  CHECK_THROWS_AS(dropout(x, std::nan(""), generator), ValueError);
}
