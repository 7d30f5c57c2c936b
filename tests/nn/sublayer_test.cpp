#include "attend/nn/sublayer.hpp"

#include "check.hpp"

using namespace attend;
using nn::NormOrder;

namespace {

nn::StackOptions options(NormOrder order, double residual, double norm) {
  nn::StackOptions o{.d_model = 4, .heads = 2, .norm_order = order};
  o.dropout.residual = residual, o.dropout.norm = norm;
  return o;
}

}  // namespace

TEST_CASE("Sublayer: post-norm and pre-norm as their formulas say, each dropout at its place") {
  const auto order = GENERATE(NormOrder::post, NormOrder::pre);
  const double p = GENERATE(0.0, 0.4), q = GENERATE(0.0, 0.3);
  const nn::Sublayer<double> around(options(order, p, q));
  test::randomise(around);
  const nn::Linear<double> f(4, 4);
  const auto x = test::random_leaf({5, 4}, 0);
  const auto run = [&] {
    seed(3);
    return around({x}, f).value();
  };
  const auto& norm = around.norm;
  seed(3);
  const auto expected =
      order == NormOrder::post ? dropout(norm(x + dropout(f(x), p)), q) : x + dropout(f(dropout(norm(x), q)), p);
  CHECK(test::distance(run().value(), expected.value()) < 1e-14);
  test::check_gradients(around, run, {x});
}

TEST_CASE("Sublayer: in evaluation nothing is dropped") {
  nn::Sublayer<double> around(options(NormOrder::post, 0.4, 0.3));
  const nn::Linear<double> f(4, 4);
  const auto x = test::random_leaf({5, 4}, 0);
  nn::set_training(around, false);
  CHECK(test::distance(around({x}, f).value().value(), around.norm(x + f(x)).value()) < 1e-14);
}

TEST_CASE("Sublayer: names and wrong rates") {
  const nn::Sublayer<double> around(options(NormOrder::post, 0, 0));
  CHECK(test::names(around) == test::Names{"weight", "bias"});
  CHECK_THROWS_WITH(nn::Sublayer<double>(options(NormOrder::post, -0.1, 0)),
                    Catch::Matchers::ContainsSubstring("residual dropout is -0.1"));
  CHECK_THROWS_WITH(nn::Sublayer<double>(options(NormOrder::post, 0, 1)),
                    Catch::Matchers::ContainsSubstring("norm dropout is 1,"));
}
