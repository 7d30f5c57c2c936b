#include "attend/cuda/optim/optimizer.cuh"

#include "attend/cuda/optim/muon.cuh"
#include "attend/cuda/products/gemm.cuh"
#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/average.hpp"
#include "attend/optim/clip.hpp"
#include "device.hpp"

using namespace attend;
using namespace attend::optim;

namespace {

/// A parameter on the processor in float and the same on the device in T, with their optimizers.
template <class T>
struct Both {
  Var<float> here;
  Var<T, Cuda> there;
  AnyOptimizer<float> by_processor;
  AnyOptimizer<T, Cuda> by_device;

  Both(const Tensor<T>& start, const OptimizerOptions& options)
      : here(device::converted<float>(start), true),
        there(start.template to<Cuda>(), true),
        by_processor(FlatParameters<float>({here}), options),
        by_device(FlatParameters<T, Cuda>({there}), options) {}
  void gradient(const Tensor<T>& g) {
    by_processor.zero_grad(), by_device.zero_grad();
    here.accumulate(device::converted<float>(g));
    there.accumulate(g.template to<Cuda>());
  }
};

template <class T>
constexpr double allowed = std::is_same_v<T, bfloat16> ? 1e-2 : 2e-6;

}  // namespace

TEMPLATE_TEST_CASE("cuda: optimizers step as on the processor, clipped and not", "", float, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const std::vector<OptimizerOptions> kinds{AdamOptions{.weight_decay = 0.01}, AdamWOptions{}, SgdOptions{},
                                            SgdOptions{.momentum = 0.9, .weight_decay = 0.01},
                                            SgdOptions{.momentum = 0.9, .nesterov = true}};
  for (const auto& kind : kinds) {
    Both<T> both(device::random<T>({83}, 1), kind);
    for (int step = 0; step < 6; ++step) {
      both.gradient(device::random<T>({83}, 10 + static_cast<std::uint64_t>(step)));
      if (step % 2 == 0) {
        both.by_processor.update(0.01, 1.5), both.by_device.update(0.01, 1.5);
        CHECK(both.by_device.record().item().norm == Approx(both.by_processor.record().item().norm).epsilon(1e-5));
      } else {
        CHECK(both.by_processor.step(0.02, 0.5));
        CHECK(both.by_device.step(0.02, 0.5));
      }
    }
    INFO(optimizer_name(kind));
    CHECK(device::difference(both.there.value(), both.here.value(), allowed<T>) == "");
    CHECK(both.by_device.steps() == 6);
  }
}

TEST_CASE("cuda: updates too small for bfloat16 add up in the optimizer's own copy; a value set by others counts") {
  if (!device::present()) return;
  const Var<bfloat16, Cuda> w(Tensor<bfloat16, Cuda>({8}, bfloat16(1)), true);
  Sgd<bfloat16, Cuda> sgd(std::vector{w}, {.learning_rate = 1e-3});
  const auto step = [&] {
    sgd.zero_grad();
    w.accumulate(Tensor<bfloat16, Cuda>({8}, bfloat16(1)));
    sgd.update(1e-3);
  };
  for (int i = 0; i < 40; ++i) step();  // 1e-3 is less than half of bfloat16's last digit at 1
  CHECK(static_cast<float>(w.value().values()[0]) == Approx(0.96).epsilon(4e-3));
  CHECK(sgd.state().entries.back().values.values()[0] == Approx(0.96f).epsilon(1e-5));
  w.value().fill(bfloat16(5));
  step();
  CHECK(sgd.state().entries.back().values.values()[0] == Approx(4.999f).epsilon(1e-6));
}

TEST_CASE("cuda: an update with gradients that are not finite is left out and counted, without a wait") {
  if (!device::present()) return;
  Both<float> both(device::random<float>({20}, 1), AdamOptions{});
  const auto before = both.there.value().values();
  auto bad = device::random<float>({20}, 2);
  bad(7) = std::numeric_limits<float>::infinity();
  both.gradient(bad);
  both.by_device.update(0.1, 1.0);
  CHECK(both.there.value().values() == before);
  CHECK(both.by_device.skipped() == 1);
  CHECK(both.by_device.steps() == 0);
  CHECK(!std::isfinite(grad_norm(both.by_device.parameters())));
  CHECK(!both.by_device.step(0.1));
  CHECK(both.by_device.skipped() == 2);
  both.gradient(device::random<float>({20}, 3));
  CHECK(clip_grad_norm(both.by_device.parameters(), 0.5) ==
        Approx(clip_grad_norm(both.by_processor.parameters(), 0.5)).epsilon(1e-5));
  both.by_device.update(0.1, 1.0);
  CHECK(both.by_device.steps() == 1);
  CHECK(both.there.value().values() != before);
}

TEMPLATE_TEST_CASE("cuda: gradients that are not finite leave weights and memory as they are, without clipping too", "", float,
                   bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const auto wide = [](const auto& values) {
    std::vector<float> all;
    for (const auto x : values) all.push_back(static_cast<float>(x));
    return all;
  };
  for (const auto& kind :
       std::vector<OptimizerOptions>{AdamOptions{}, AdamWOptions{}, SgdOptions{}, SgdOptions{.momentum = 0.9}, MuonOptions{}}) {
    INFO(optimizer_name(kind));
    const Var<T, Cuda> w(device::random<T>({8, 16}, 1).template to<Cuda>(), true);
    const Var<T, Cuda> b(device::random<T>({24}, 2).template to<Cuda>(), true);
    AnyOptimizer<T, Cuda> optimizer(FlatParameters<T, Cuda>({w, b}, {w.value()}), kind);
    const auto numbers = [&] {
      auto all = wide(optimizer.parameters().values().values());
      for (const auto& entry : optimizer.state().entries)
        for (const float x : wide(entry.values.values())) all.push_back(x);
      return all;
    };
    const auto accumulate = [&](float worst) {
      optimizer.zero_grad();
      w.accumulate(device::random<T>({8, 16}, 3).template to<Cuda>());
      auto g = device::random<T>({24}, 4);
      g(23) = static_cast<T>(worst);
      b.accumulate(g.template to<Cuda>());
    };
    accumulate(1);
    CHECK(optimizer.step(0.01));
    const auto before = numbers();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      accumulate(bad);
      CHECK_FALSE(optimizer.step(0.01));
      optimizer.update(0.01);
    }
    accumulate(1e30f);
    CHECK_FALSE(optimizer.step(0.01, 1e20));
    accumulate(1);
    optimizer.parameters().mark_not_finite();
    optimizer.update(0.01);
    CHECK(optimizer.skipped() == 6);
    CHECK(numbers() == before);
    accumulate(1);
    CHECK(optimizer.step(0.01));
    CHECK(numbers() != before);
  }
}

TEMPLATE_TEST_CASE("cuda: a moving average follows the formula, and changes places with the weights and back", "", float,
                   bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const Var<T, Cuda> w(device::random<T>({33}, 1).template to<Cuda>(), true);
  const FlatParameters<T, Cuda> flat({w});
  const WeightAverage<T, Cuda> average(flat, 0.5);
  auto expected = device::converted<double>(w.value().to_host());
  const Tensor<UpdateRecord, Cuda> left_out({1}, UpdateRecord{});
  for (index_t step = 1; step <= 10; ++step) {
    w.value().assign(device::random<T>({33}, 40 + static_cast<std::uint64_t>(step)));
    average.update(step, left_out.data());  // counts for nothing
    average.update(step);
    const double d = std::min(0.5, (1 + static_cast<double>(step)) / (10 + static_cast<double>(step)));
    const auto now = w.value().to_host();
    for (index_t i = 0; i < 33; ++i) expected.data()[i] = d * expected.data()[i] + (1 - d) * static_cast<double>(now.data()[i]);
  }
  const auto before = w.value().values();
  {
    const typename WeightAverage<T, Cuda>::Scope scope(&average);
    CHECK(device::difference(w.value(), expected, allowed<T>) == "");
  }
  CHECK(device::difference(average.values().rows(0, 33), expected, 1e-6) == "");
  CHECK(std::equal(before.begin(), before.end(), w.value().values().begin(),
                   [](T a, T b) { return static_cast<float>(a) == static_cast<float>(b); }));
}
