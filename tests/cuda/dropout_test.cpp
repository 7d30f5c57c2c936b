#include "attend/cpu/dropout.hpp"

#include "attend/cpu/map_dropout.hpp"
#include "attend/cpu/residual.hpp"
#include "attend/cuda/elements/dropout.cuh"
#include "attend/cuda/elements/map_dropout.cuh"
#include "attend/cuda/rows/residual.cuh"
#include "attend/ops/elementary.hpp"
#include "rows.hpp"

using namespace attend;

namespace {

struct Twice {
  template <class T>
  ATTEND_FUNCTOR T operator()(T x) const {
    return x + x;
  }
};

// Numbers whose upper halves are in use too.
const Generator::Stream stream{0x123456789abcdef0, 0x1000000007};
const DropoutMask half{stream, 0x80000000u, 2.0}, none{};

const std::vector<index_t> sizes{0, 1, 3, 4, 9, 16, 1001, 5000, 40003};

/// Holds operation(device, n, mask, a, b, keep, y) on the device to what it does on the processor.
template <class T, class F>
void same_as_processor(const F& operation) {
  using W = Wide<T>;
  for (const index_t n : sizes)
    for (const index_t offset : {0, 1})
      for (const int keep : {0, 1})
        for (const DropoutMask& mask : {half, none}) {
          if (n > 10000 && (offset == 1 || keep == 1)) continue;
          INFO(n << " elements, offset " << offset << ", keep " << keep << ", scale " << mask.scale);
          const auto a = device::representable<T>({n}, 1), b = device::representable<T>({n}, 2);
          const auto expected = device::representable<T>({n}, 3);
          const auto device_a = device::upload<T>(a, offset), device_b = device::upload<T>(b, offset);
          const auto y = device::before<T>(expected, keep, offset);
          operation(Cuda{}, n, mask, device_a.data(), device_b.data(), W(keep), y.data());
          operation(Cpu{}, n, mask, a.data(), b.data(), W(keep), expected.data());
          CHECK(device::difference(y, expected) == "");
        }
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: dropout drops what the processor drops", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  for (const index_t n : sizes)
    for (const index_t offset : {0, 1}) {
      INFO(n << " elements, offset " << offset);
      const Tensor<Wide<T>> ones({n}, Wide<T>(1)), expected({n});
      const auto y = device::upload<T>(ones, offset);
      dropout_apply(Cpu{}, n, {stream, 0x40000000u, 1.5}, ones.data(), {expected.data()});
      dropout_apply<T>(Cuda{}, n, {stream, 0x40000000u, 1.5}, y.data(), {y.data()});  // in place
      CHECK(device::difference(y, expected, 0) == "");
    }
}

TEST_CASE("cuda: dropout's streams move with the context's offset", "[cuda]") {
  if (!device::present()) return;
  constexpr index_t n = 100;
  const Tensor<float> ones({n}, 1.0f), expected({n});
  const auto x = ones.to<Cuda>();
  const Tensor<float, Cuda> y({n});
  const auto set = [](std::uint64_t offset) { copy_to_device(Cuda{}, 1, &offset, cuda::Context::instance().stream_offset()); };
  set(5);
  dropout_apply<float>(Cuda{}, n, {stream, 0x80000000u, 2}, x.data(), {y.data()});
  set(0);
  dropout_apply(Cpu{}, n, {{stream.key, stream.stream + 5}, 0x80000000u, 2}, ones.data(), {expected.data()});
  CHECK(device::difference(y, expected, 0) == "");
}

TEMPLATE_TEST_CASE("cuda: whatever goes along with a dropout is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  same_as_processor<T>([](auto d, index_t n, const DropoutMask& mask, const auto* a, const auto*, auto keep, auto* y) {
    dropout_apply(d, n, mask, a, kernels::Gradient{y, keep != 0});
  });
  same_as_processor<T>([](auto d, index_t n, const DropoutMask& mask, const auto* a, const auto*, auto, auto* y) {
    map_dropout_forward(d, n, Square{}, mask, a, y);
  });
  same_as_processor<T>([](auto d, index_t n, const DropoutMask& mask, const auto* a, const auto* b, auto keep, auto* y) {
    map_dropout_backward(d, n, Twice{}, mask, a, b, kernels::Gradient{y, keep != 0});
  });
  same_as_processor<T>([](auto d, index_t n, const DropoutMask& mask, const auto* a, const auto* b, auto, auto* y) {
    add_dropout_forward(d, n, mask, a, b, y);
  });
  same_as_processor<T>([](auto d, index_t n, const DropoutMask& mask, const auto* a, const auto* b, auto, auto* y) {
    copy(d, n, a, y);
    add_dropout_forward(d, n, mask, y, b, y);  // in place
  });
}
