#include "attend/ops/gated.hpp"

#include "operation.hpp"

using namespace attend;

TEST_CASE("gated: gradients with each activation") {
  for (const auto& [activation, name] : names_of(Activation())) {
    if (activation == Activation::relu) continue;  // whose bend differences do not like; it is a composition
    INFO(name);
    operation::check([a = activation](const auto& x) { return gated(x[0], x[1], a); },
                     {operation::random({5, 7}, 1), operation::random({5, 7}, 2)});
  }
}

#if !defined(ATTEND_TEST_CUDA)

TEST_CASE("gated is the activation times the other, to rounding") {
  const Var<double> gate(operation::random({40, 9}, 1), true), x(operation::random({40, 9}, 2), true);
  for (const auto& [activation, name] : names_of(Activation())) {
    INFO(name);
    const auto one = gated(gate, x, activation), other = mul(activate(gate, activation), x);
    const auto weights = operation::random({40, 9}, 3);
    std::vector<Tensor<double>> gradients;
    for (const auto& y : {one, other}) {
      gate.zero_grad(), x.zero_grad();
      y.backward(weights);
      gradients.push_back(gate.grad().clone()), gradients.push_back(x.grad().clone());
    }
    for (index_t i = 0; i < one.size(); ++i) {
      CHECK(one.data()[i] == Approx(other.data()[i]).margin(1e-15));
      CHECK(gradients[0].data()[i] == Approx(gradients[2].data()[i]).margin(1e-14));
      CHECK(gradients[1].data()[i] == Approx(gradients[3].data()[i]).margin(1e-14));
    }
  }
  CHECK(gated(Var<double>(Tensor<double>({1}, 2.0)), Var<double>(Tensor<double>({1}, 3.0)), Activation::silu).item() ==
        Approx(6 / (1 + std::exp(-2.0))));
}

TEST_CASE("gated refuses sides of other shapes, also such as would broadcast") {
  const Var<double> x(operation::random({4, 3}, 1)), row(operation::random({1, 3}, 2));
  CHECK_THROWS_WITH(gated(row, x, Activation::silu),
                    Catch::Matchers::ContainsSubstring("gate has shape [1, 3], expected [4, 3]"));
  CHECK(gated(Var<double>(Tensor<double>({0, 3})), Var<double>(Tensor<double>({0, 3})), Activation::gelu).size() == 0);
}

#endif
