#include "attend/ops/map_dropout.hpp"

#include "attend/ops/activations.hpp"
#include "operation.hpp"

using namespace attend;

TEST_CASE("activate_dropout equals activation and dropout, and agrees with differences") {
  for (const auto activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh, Activation::identity})
    for (const double p : {0.0, 0.3}) {
      INFO(name_of(activation) << ", " << p);
      const auto fused = [=](const auto& in) {
        Generator generator(4);
        return activate_dropout(in[0], activation, p, generator);
      };
      const auto composed = [=](const auto& in) {
        Generator generator(4);
        return dropout(activate(in[0], activation), p, generator);
      };
      const std::vector<Tensor<double>> inputs{operation::random({70, 131})};
      const auto got = operation::value_and_gradients<double>(fused, inputs);
      const auto expected = operation::value_and_gradients<double>(composed, inputs);
      for (std::size_t k = 0; k < got.size(); ++k)
        for (index_t i = 0; i < got[k].size(); ++i) REQUIRE(got[k].data()[i] == Approx(expected[k].data()[i]).margin(1e-12));
      operation::check(fused, inputs, {.entries = 5});
    }
}

TEST_CASE("map_dropout draws one stream, and p has a range") {
  const Var<float> x(Tensor<float>({4}, 1.0f), true);
  Generator generator(1);
  map_dropout(x, Relu{}, 0.5, generator);
  CHECK(generator.drawn() == 1);
  CHECK_THROWS_AS(map_dropout(x, Relu{}, 1.0), ValueError);
  CHECK_THROWS_AS(activate_dropout(x, Activation::gelu, -0.1), ValueError);
}

TEST_CASE("relu with dropout keeps its result alone") {
  auto& pool = MemoryPool::instance();
  pool.release_cached();  // a cached block may be larger than what it is handed out for
  const auto before = pool.use().in_use;
  auto x = Var<double>(Tensor<double>({10000}, 1.0), true);
  auto y = map_dropout(map_dropout(x, Relu{}, 0.1), Relu{}, 0.1);
  CHECK(pool.use().in_use - before < 3 * 100000);
  y.backward(Tensor<double>({10000}, 1.0));
  CHECK(x.grad().size() == 10000);
}
