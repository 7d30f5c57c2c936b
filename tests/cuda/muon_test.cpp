#include "attend/cpu/muon.hpp"

#include "attend/cpu/gemm.hpp"
#include "attend/cuda/optim/muon.cuh"
#include "attend/cuda/products/gemm.cuh"
#include "attend/optim/muon.hpp"
#include "device.hpp"

using namespace attend;
using namespace attend::optim;

TEMPLATE_TEST_CASE("cuda: Muon steps as on the processor, matrices of several shapes and the rest", "", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  constexpr double allowed = std::is_same_v<T, bfloat16> ? 3e-2 : std::is_same_v<T, double> ? 1e-9 : 2e-5;
  const auto first = device::random<T>({24, 8}, 1), second = device::random<T>({8, 16}, 2), rest = device::random<T>({11}, 3);
  const Var<W> a(device::converted<W>(first), true), b(device::converted<W>(second), true), c(device::converted<W>(rest), true);
  const Var<T, Cuda> x(first.template to<Cuda>(), true), y(second.template to<Cuda>(), true), z(rest.template to<Cuda>(), true);
  // A number near 0 may have one sign here and another there where bfloat16 rounds on the way, so that type steps plainly; its
  // cautious steps are held to the processor's below.
  const MuonOptions options{.learning_rate = 0.02, .weight_decay = 0.01, .cautious = !std::is_same_v<T, bfloat16>};
  Muon<W> here({a, b, c}, {a.value().rows(0, 8), a.value().rows(8, 16), b.value()}, options);
  Muon<T, Cuda> there({x, y, z}, {x.value().rows(0, 8), x.value().rows(8, 16), y.value()}, options);
  for (std::uint64_t step = 0; step < 5; ++step) {
    here.zero_grad(), there.zero_grad();
    const auto accumulate = [&](const Var<W>& on_host, const Var<T, Cuda>& on_device, std::uint64_t stream) {
      const auto g = device::random<T>(on_host.shape(), 10 * step + stream);
      on_host.accumulate(device::converted<W>(g));
      on_device.accumulate(g.template to<Cuda>());
    };
    accumulate(a, x, 100), accumulate(b, y, 101), accumulate(c, z, 102);
    here.update(0.02, 1.5), there.update(0.02, 1.5);
  }
  CHECK(device::difference(x.value(), a.value(), allowed) == "");
  CHECK(device::difference(y.value(), b.value(), allowed) == "");
  CHECK(device::difference(z.value(), c.value(), allowed) == "");
  CHECK(there.steps() == 5);

  const auto before = x.value().values();
  there.zero_grad();
  x.accumulate(Tensor<T, Cuda>({24, 8}, static_cast<T>(std::numeric_limits<float>::infinity())));
  there.update(0.02, 1.5);
  CHECK(std::equal(before.begin(), before.end(), x.value().values().begin(),
                   [](T p, T q) { return static_cast<W>(p) == static_cast<W>(q); }));
  CHECK(there.skipped() == 1);
}

TEMPLATE_TEST_CASE("cuda: what is cautious about a step is as on the processor, from the same numbers", "", float, double,
                   bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for (const index_t n : {1, 300, 70'000}) {
    const auto gradient = device::random<T>({n}, 1), direction = device::random<T>({n}, 2), value = device::random<T>({n}, 3);
    const auto g = device::converted<W>(gradient), d = device::converted<W>(direction), v = device::converted<W>(value);
    const Tensor<T, Cuda> there = direction.template to<Cuda>(), rounded = value.template to<Cuda>();
    const auto wide = v.template to<Cuda>();
    // The count goes on from what was there, so that those of all matrices are cleared at once.
    const Tensor<index_t> kept({1}, index_t{7});
    const Tensor<index_t, Cuda> kept_there({1}, index_t{7});
    keep_descending(Cpu{}, n, g.data(), d.data(), kept.data());
    keep_descending(Cuda{}, n, gradient.template to<Cuda>().data(), there.data(), kept_there.data());
    REQUIRE(kept_there.item() == kept.item());
    REQUIRE(kept.item() >= 7);
    REQUIRE(device::difference(there, d, 0) == "");

    const Tensor<UpdateRecord> record({1}, UpdateRecord{.taken = true});
    const auto record_there = record.template to<Cuda>();
    muon_apply(Cpu{}, n, {0.1, 0.99, record.data(), kept.data()}, d.data(), v.data(), static_cast<W*>(nullptr));
    constexpr bool rounds = std::is_same_v<T, bfloat16>;
    muon_apply(Cuda{}, n, {0.1, 0.99, record_there.data(), kept_there.data()}, there.data(), wide.data(),
               rounds ? rounded.data() : static_cast<T*>(nullptr));
    REQUIRE(device::difference(wide, v, std::is_same_v<W, double> ? 1e-14 : 1e-6) == "");
    if (rounds) REQUIRE(device::difference(rounded, v, 5e-3) == "");
  }
}
