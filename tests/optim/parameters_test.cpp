#include "attend/optim/parameters.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "../catch.hpp"

using namespace attend;
using optim::FlatParameters;

TEST_CASE("FlatParameters: values and gradients move into two buffers, each parameter on a cache line", "[optim]") {
  const Var<float> a(Tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6}), true), b(Tensor<float>({1}, {7}), true);
  a.accumulate(Tensor<float>({2, 3}, 1.0f));
  const FlatParameters<float> flat({a, b});
  CHECK(a.value().values() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(b.item() == 7);
  CHECK(a.grad().values() == std::vector<float>(6, 1.0f));
  CHECK(b.grad().values() == std::vector<float>{0});
  CHECK(flat.count() == 7);
  CHECK(flat.size() == 32);
  CHECK(flat.layout() == "[2, 3] [1]");
  REQUIRE(flat.places().size() == 2);
  CHECK((flat.places()[0].begin == 0 && flat.places()[0].shape == Shape{2, 3}));
  CHECK((flat.places()[1].begin == 16 && flat.places()[1].shape == Shape{1}));
  for (const auto& p : {a, b}) {
    CHECK(reinterpret_cast<std::uintptr_t>(p.data()) % memory_alignment == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(p.grad().data()) % memory_alignment == 0);
  }
  flat.values().data()[16] = 8;
  CHECK(b.item() == 8);
  flat.zero_grad();
  CHECK(a.grad().values() == std::vector<float>(6, 0.0f));
  a.accumulate(Tensor<float>({2, 3}, 2.0f));
  CHECK(flat.gradients().data()[5] == 2.0f);
  CHECK(flat.gradients().data()[6] == 0.0f);
}

TEST_CASE("FlatParameters: the memory of the parameters and gradients before is given back, that of the parameters first",
          "[optim]") {
  auto& pool = MemoryPool::instance();
  const auto own = MemoryPool::size_class(sizeof(float) << 18), buffer = MemoryPool::size_class(sizeof(float) << 20);
  std::vector<Var<float>> parameters;
  std::vector<Tensor<float>> matrices;
  for (int i = 0; i < 4; ++i) {
    parameters.emplace_back(Tensor<float>({512, 512}, 1.0f), true);
    matrices.push_back(parameters.back().value());
  }
  pool.release_cached();
  const auto others = pool.use().in_use - 4 * own;
  pool.reset_peak();
  {
    const FlatParameters<float> flat(parameters, std::move(matrices));
    CHECK(pool.use().in_use == others + 2 * buffer);
    CHECK(pool.use().peak == others + 2 * buffer);
    CHECK(pool.use().cached == 0);
  }
  // Values and gradients lie in the first's buffers, which go.
  const FlatParameters<float> second(parameters);
  CHECK(pool.use().in_use == others + 2 * buffer);
  CHECK(pool.use().cached == 0);
}

TEST_CASE("FlatParameters: tied parameters count once, frozen ones and computed ones do not", "[optim]") {
  const Var<double> a(Tensor<double>({4}, 1.0), true), frozen(Tensor<double>({3}, 1.0));
  const double* before = frozen.data();
  const FlatParameters<double> flat({a, frozen, a});
  CHECK(flat.count() == 4);
  CHECK(frozen.data() == before);
  CHECK_THROWS_AS(FlatParameters<double>({frozen}), ValueError);
  CHECK_THROWS_AS(FlatParameters<double>(std::vector<Var<double>>{}), ValueError);
  const Var<double> computed = record(Tensor<double>({1}, 0.0), std::vector{a}, [](const Tensor<double>&) {});
  CHECK_THROWS_AS(FlatParameters<double>({computed}), ValueError);
}

TEST_CASE("FlatParameters: a value or gradient that was replaced is taken back", "[optim]") {
  const Var<float> a(Tensor<float>({2}, {1, 2}), true), b(Tensor<float>({2}, {3, 4}), true);
  const FlatParameters<float> first({a, b});
  b.set_value(Tensor<float>({2}, {5, 6}));
  CHECK(first.values().data()[16] == 3);
  first.gather();
  CHECK(first.values().data()[16] == 5);
  CHECK(b.data() == first.values().data() + 16);

  const FlatParameters<float> second({b});
  b.accumulate(Tensor<float>({2}, {1, 2}));
  first.gather();
  CHECK(first.gradients().data()[17] == 2);
  CHECK(b.grad().data() == first.gradients().data() + 16);
}
