#include "attend/ops/elementary.hpp"

#include "operation.hpp"

using namespace attend;

TEST_CASE("elementary functions agree with differences, float with double") {
  Tensor<double> positive = operation::random({4, 9});
  for (double& v : positive.span()) v = 0.5 + v * v;
  operation::check([](const auto& in) { return attend::exp(in[0]); }, {operation::random({4, 9})});
  operation::check([](const auto& in) { return attend::log(in[0]); }, {positive});
  operation::check([](const auto& in) { return attend::sqrt(in[0]); }, {positive});
  operation::check([](const auto& in) { return square(in[0]); }, {operation::random({4, 9})});
}

TEST_CASE("elementary functions undo each other") {
  Tensor<double> positive = operation::random({20});
  for (double& v : positive.span()) v = 0.1 + v * v;
  const Var<double> x(positive);
  const auto back = attend::exp(attend::log(x)), root = square(attend::sqrt(x));
  for (index_t i = 0; i < x.size(); ++i) {
    CHECK(back.value()(i) == Approx(positive(i)).epsilon(1e-14));
    CHECK(root.value()(i) == Approx(positive(i)).epsilon(1e-14));
  }
}
