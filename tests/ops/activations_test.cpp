#include "attend/ops/activations.hpp"

#include <limits>

#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("activations agree with differences, float with double") {
  const std::vector<Tensor<double>> inputs{operation::random({5, 13}, 4)};
  Tensor<double> off_zero = operation::random({5, 13});  // relu has no slope at 0 for differences to find
  for (double& v : off_zero.span()) v += v < 0 ? -0.1 : 0.1;
  operation::check([](const auto& in) { return relu(in[0]); }, {off_zero});
  operation::check([](const auto& in) { return gelu(in[0]); }, inputs);
  operation::check([](const auto& in) { return gelu_tanh(in[0]); }, inputs);
  operation::check([](const auto& in) { return silu(in[0]); }, inputs);
  operation::check([](const auto& in) { return attend::tanh(in[0]); }, inputs);
  operation::check([](const auto& in) { return sigmoid(in[0]); }, inputs);
}

TEST_CASE("activate chooses by name and value") {
  const Var<double> x(operation::random({11}));
  CHECK(activate(x, Activation::relu).value().values() == relu(x).value().values());
  CHECK(activate(x, Activation::gelu).value().values() == gelu(x).value().values());
  CHECK(activate(x, Activation::gelu_tanh).value().values() == gelu_tanh(x).value().values());
  CHECK(activate(x, Activation::silu).value().values() == silu(x).value().values());
  CHECK(activate(x, Activation::tanh).value().values() == attend::tanh(x).value().values());
  CHECK(activate(x, Activation::identity).id() == x.id());
  for (const char* name : {"relu", "gelu", "gelu_tanh", "silu", "tanh", "identity"})
    CHECK(name_of(from_name<Activation>("activation", name)) == name);
  CHECK_THROWS_AS(activate(x, static_cast<Activation>(99)), ValueError);
}

TEMPLATE_TEST_CASE("activations of extreme numbers", "", float, double) {
  using T = TestType;
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const Var<T> x(Tensor<T>({6}, {T(-1e4), T(-100), T(0), T(100), T(1e4), nan}), true);
  const auto values = [&](Activation a) {
    const auto y = activate(x, a);
    x.zero_grad();
    y.backward(Tensor<T>({6}, T(1)));
    return y.value();
  };
  for (const auto a : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    const auto y = values(a);
    INFO(name_of(a));
    CHECK(y(0) == T(0));
    CHECK(y(1) == Approx(0).margin(1e-30));
    CHECK(y(2) == T(0));
    CHECK(y(3) == Approx(100));
    CHECK(y(4) == Approx(1e4));
    CHECK(std::isnan(y(5)));
    CHECK(x.grad()(0) == Approx(0).margin(1e-12));
    CHECK(x.grad()(4) == Approx(1));
  }
  const auto y = values(Activation::tanh);
  CHECK(y(0) == T(-1));
  CHECK(y(4) == T(1));
  CHECK(std::isnan(y(5)));
  const auto s = sigmoid(Var<T>(Tensor<T>({5}, {-inf, T(-1e4), T(0), T(1e4), inf}))).value();
  CHECK(s.values() == std::vector<T>{T(0), T(0), T(0.5), T(1), T(1)});
}
