#include "attend/optim/average.hpp"

#include <vector>

#include "catch.hpp"

using namespace attend;

TEST_CASE("WeightAverage: follows the formula, changes places with the weights and back") {
  const Var<double> a(Tensor<double>({2}, {1, -2}), true), b(Tensor<double>({1}, 3.0), true);
  const optim::FlatParameters<double> flat({a, b});
  const optim::WeightAverage<double> average(flat, 0.5);
  double expected = 1;
  for (index_t step = 1; step <= 20; ++step) {
    a.data()[0] += 0.25 * static_cast<double>(step);
    average.update(step);
    const double d = std::min(0.5, (1 + static_cast<double>(step)) / (10 + static_cast<double>(step)));
    expected = d * expected + (1 - d) * a.data()[0];
  }
  const double now = a.data()[0];
  {
    const optim::WeightAverage<double>::Scope scope(&average);
    CHECK(a.data()[0] == Approx(expected).epsilon(1e-14));
    CHECK(a.data()[1] == Approx(-2));
    CHECK(b.item() == Approx(3));
  }
  CHECK(a.data()[0] == now);
  CHECK_THROWS_WITH(optim::WeightAverage<double>(flat, 1.0), "WeightAverage: decay is 1, outside (0, 1)");
}
