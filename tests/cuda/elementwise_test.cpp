#include "attend/cpu/basic.hpp"
#include "attend/cpu/map.hpp"
#include "attend/cuda/elements/basic.cuh"
#include "attend/cuda/elements/map.cuh"
#include "attend/ops/math.hpp"
#include "rows.hpp"

using namespace attend;

namespace {

struct Softsign {  // x / (1 + |x|)
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x / (T(1) + (x < T(0) ? -x : x));
  }
};
struct ExpSlope {
  double scale;
  template <class T>
  ATTEND_FUNCTOR T operator()(T x) const {
    return static_cast<T>(scale) * math::exp(-x * x);
  }
};

// Elements after a multiple of 16 bytes: packs can be read and written only if there are none anywhere.
struct Offsets {
  index_t a, b, y;
};
const std::vector<Offsets> all_offsets{{0, 0, 0}, {1, 1, 1}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};

/// Holds operation(device, n, a, b, keep, y) on the device to what it does on the processor: sizes with and without a rest, less
/// and more than a grid takes at once.
template <class T, class F>
void same_as_processor(const F& operation) {
  using W = Wide<T>;
  for (const index_t n : {0, 1, 7, 8, 64, 1003, 5000, 70001})
    for (const Offsets& offset : all_offsets)
      for (const int keep : {0, 1}) {
        if (n > 1100 && offset.a != offset.y) continue;
        if (n > 10000 && offset.a != keep) continue;
        INFO(n << " elements, offsets " << offset.a << offset.b << offset.y << ", keep " << keep);
        const auto a = device::representable<T>({n}, 1), b = device::representable<T>({n}, 2);
        const auto expected = device::representable<T>({n}, 3);
        const auto device_a = device::upload<T>(a, offset.a), device_b = device::upload<T>(b, offset.b);
        const auto y = device::before<T>(expected, keep, offset.y);
        operation(Cuda{}, n, device_a.data(), device_b.data(), W(keep), y.data());
        operation(Cpu{}, n, a.data(), b.data(), W(keep), expected.data());
        CHECK(device::difference(y, expected) == "");
      }
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: sums and multiples of arrays are the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  same_as_processor<T>([](auto d, index_t n, const auto* a, const auto* b, auto keep, auto* y) {
    copy(d, n, a, y);
    if (keep != 0) add_into(d, n, b, y);
  });
  same_as_processor<T>([](auto d, index_t n, const auto* a, const auto*, auto keep, auto* y) {
    scale_add(d, n, decltype(keep)(0.75), a, keep * decltype(keep)(-1.5), y);
  });
  same_as_processor<T>([](auto d, index_t n, const auto* a, const auto*, auto, auto* y) {  // in place
    copy(d, n, a, y);
    scale_add(d, n, decltype (*a + *a)(3), y, decltype (*a + *a)(0), y);
  });
}

TEMPLATE_TEST_CASE("cuda: scale_add_by takes its factor from the device", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const Tensor<Wide<T>> factor({1}, Wide<T>(-2.25));
  const auto device_factor = factor.template to<Cuda>();
  for (const index_t n : {0, 3, 1000})
    for (const int keep : {0, 1}) {
      const auto x = device::representable<T>({n}, 1), expected = device::representable<T>({n}, 2);
      const auto y = device::before<T>(expected, keep);
      const auto device_x = device::upload<T>(x);
      scale_add_by(Cuda{}, n, device_factor.data(), device_x.data(), {y.data(), keep == 1});
      scale_add(Cpu{}, n, factor.item(), x.data(), Wide<T>(keep), expected.data());
      CHECK(device::difference(y, expected) == "");
    }
}

TEMPLATE_TEST_CASE("cuda: map is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  same_as_processor<T>([](auto d, index_t n, const auto* a, const auto*, auto, auto* y) { map_forward(d, n, Softsign{}, a, y); });
  same_as_processor<T>([](auto d, index_t n, const auto* a, const auto* b, auto keep, auto* y) {
    map_backward(d, n, ExpSlope{0.5}, a, b, kernels::Gradient{y, keep != 0});
  });
}

TEMPLATE_TEST_CASE("cuda: sum_rows is the processor's, whatever the stride", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  struct Size {
    index_t rows, width, stride;
  };
  // One part and several, packs and not, narrow and wide, rows that stand apart.
  for (const Size size : std::initializer_list<Size>{{0, 5, 5},
                                                     {1, 1, 1},
                                                     {3, 0, 0},
                                                     {3, 7, 9},
                                                     {40, 64, 64},
                                                     {129, 33, 40},
                                                     {300, 256, 264},
                                                     {300, 257, 257},
                                                     {40, 64, 67},
                                                     {9000, 8, 8},
                                                     {9000, 3, 4},
                                                     {33, 1100, 1100}})
    for (const index_t offset : {0, 1})
      for (const bool add : {false, true}) {
        INFO(size.rows << " rows of " << size.width << ", stride " << size.stride << ", offset " << offset << ", add " << add);
        const auto x = device::representable<T>({size.rows, size.stride}, 1);
        const auto expected = device::representable<T>({size.width}, 2);
        const auto device_x = device::upload<T>(x, offset);
        const auto y = device::before<T>(expected, add ? 1 : 0, offset);
        const auto again = y.clone();
        const kernels::Matrix<T> rows{device_x.data(), size.rows, size.width, size.stride};
        sum_rows(Cuda{}, rows, kernels::Gradient<T>{y.data(), add});
        sum_rows(Cuda{}, rows, kernels::Gradient<T>{again.data(), add});
        sum_rows(Cpu{}, {x.data(), size.rows, size.width, size.stride}, kernels::Gradient{expected.data(), add});
        CHECK(device::difference(y, expected) == "");
        CHECK(device::difference(again, device::converted<W>(y.to_host()), 0) == "");
      }
}

TEMPLATE_TEST_CASE("cuda: sum_of_squares is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  for (const index_t n : {0, 1, 17, 1000, 70001})
    for (const index_t offset : {0, 1}) {
      INFO(n << " elements, offset " << offset);
      const auto x = device::representable<T>({n}, 1);
      const auto device_x = device::upload<T>(x, offset);
      const double got = sum_of_squares(Cuda{}, n, device_x.data()), expected = sum_of_squares(Cpu{}, n, x.data());
      CHECK(std::abs(got - expected) <= device::tolerance<Wide<T>> / 10 * expected);
      const Tensor<double, Cuda> there({1}, 7.0);
      cuda::sum_of_squares_into(n, device_x.data(), there.data());
      CHECK(there.item() == got);
    }
}

TEMPLATE_TEST_CASE("cuda: convert rounds as the processor does", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using From = TestType;
  const auto check = [](auto to) {
    using To = decltype(to);
    for (const index_t n : {0, 1, 13, 1000, 5001})
      for (const index_t offset : {0, 1}) {
        const auto x = device::converted<From>(device::random<double>({n}));
        if (n > 4) {
          x.data()[0] = std::numeric_limits<From>::infinity();
          x.data()[1] = From(-0.0);
          x.data()[2] = std::numeric_limits<From>::quiet_NaN();
          x.data()[3] = From(1.00390625);  // half way between two numbers of bfloat16
        }
        const auto device_x = device::upload<From>(x, offset);
        const auto y = device::placed<To>({n}, offset);
        cuda::convert(n, device_x.data(), y.data());
        CHECK(device::difference(y, device::converted<To>(x), 0) == "");
      }
  };
  check(float{});
  check(double{});
  check(bfloat16{});
}
