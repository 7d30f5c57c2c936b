#include "attend/autograd/gradcheck.hpp"

#include <limits>

#include "attend/ops/arithmetic.hpp"
#include "attend/ops/elementary.hpp"
#include "attend/ops/softmax.hpp"
#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

Var<double> leaf(const Shape& shape) {
  Tensor<double> x(shape);
  const Generator::Stream random{1, 2};
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = random.normal(static_cast<std::uint64_t>(i));
  return Var<double>(x, true);
}

/// x^2 with the slope `factor` * x at entry `at`, 2x elsewhere.
Var<double> square_with_slope(const Var<double>& x, double factor, index_t at) {
  return record((x.detach() * x.detach()).value(), {x}, [=](const Tensor<double>& dy) {
    Tensor<double> dx(x.shape());
    for (index_t i = 0; i < dx.size(); ++i) dx.data()[i] = (i == at ? factor : 2.0) * x.data()[i] * dy.data()[i];
    x.accumulate(dx);
  });
}

}  // namespace

TEST_CASE("gradcheck passes what is right") {
  const auto x = leaf({3, 4}), w = leaf({4});
  const auto result = gradcheck([&] { return softmax(x * w) + attend::exp(w); }, {x, w});
  CHECK(result.passed);
  CHECK(static_cast<bool>(result));
  CHECK(result.worst < 1e-9);
  CHECK(gradcheck([&] { return square_with_slope(x, 2.0, 5); }, {x}).passed);
}

TEST_CASE("gradcheck finds one wrong entry and names it") {
  const auto x = leaf({3, 4});
  const auto result = gradcheck([&] { return square_with_slope(x, 2.00001, 5); }, {x});
  CHECK_FALSE(result.passed);
  CHECK_THAT(result.message, ContainsSubstring("input 0 of shape [3, 4], entry 5"));
}

TEST_CASE("gradcheck finds a gradient that is missing, of the wrong sign, doubled, or not a number") {
  const auto x = leaf({5}), w = leaf({5});
  CHECK_FALSE(gradcheck([&] { return x * w.detach(); }, {x, w}).passed);
  const auto scaled = [&](double factor) {
    return [=] {
      return record(x.value().clone(), {x}, [=](const Tensor<double>& dy) { x.accumulate((Var<double>(dy) * factor).value()); });
    };
  };
  CHECK(gradcheck(scaled(1), {x}).passed);
  CHECK_FALSE(gradcheck(scaled(-1), {x}).passed);
  CHECK_FALSE(gradcheck(scaled(2), {x}).passed);
  CHECK_FALSE(gradcheck(scaled(std::numeric_limits<double>::quiet_NaN()), {x}).passed);
}

TEST_CASE("gradcheck does not forget one entry that is not a number over good ones after it") {
  const auto x = leaf({5});
  CHECK_FALSE(gradcheck([&] { return square_with_slope(x, std::numeric_limits<double>::quiet_NaN(), 1); }, {x}).passed);
}

TEST_CASE("gradcheck sees what a plain sum as the loss would hide") {
  // The sum of a softmax is 1 whatever its input: a gradient of nothing at all would pass.
  const auto x = leaf({4});
  const auto result = gradcheck([&] { return record(softmax(x.detach()).value(), {x}, [](const Tensor<double>&) {}); }, {x});
  CHECK_FALSE(result.passed);
}

TEST_CASE("gradcheck puts its inputs back, and probes large ones at some entries only") {
  const auto x = leaf({1000});
  const auto before = x.value().values();
  int calls = 0;
  CHECK(gradcheck(
            [&] {
              ++calls;
              return x * x;
            },
            {x}, {.entries = 10})
            .passed);
  CHECK(x.value().values() == before);
  CHECK(calls == 1 + 4 * 10);
}
