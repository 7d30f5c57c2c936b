#include "attend/cuda/elements/broadcast.cuh"

#include "attend/cpu/broadcast.hpp"
#include "rows.hpp"

using namespace attend;

namespace {

struct Divide {
  template <class T>
  ATTEND_FUNCTOR T value(T a, T b) const {
    return a / (T(1) + b * b);
  }
};
struct Gradient {
  template <class T>
  ATTEND_FUNCTOR T operator()(T dy, T a, T b) const {
    return dy * b + a;
  }
};

struct Shapes {
  Shape a, b;
};
// Equal shapes; a row, a column, a scalar against a matrix and the other way round; sums over inner, outer and both sorts of
// dimensions, of few terms and of so many that they are cut; sizes that are whole packs and that are not; nothing at all.
const std::vector<Shapes> shapes{
    {{7}, {7}},
    {{33, 40}, {33, 40}},
    {{40}, {33, 40}},
    {{41}, {33, 41}},
    {{33, 1}, {33, 40}},
    {{33, 1}, {1, 40}},
    {{}, {33, 40}},
    {{}, {}},
    {{1, 1}, {1}},
    {{5, 1, 16}, {5, 9, 16}},
    {{5, 1, 16}, {9, 16}},
    {{3, 1, 4, 1, 8}, {3, 2, 4, 5, 8}},
    {{3, 1, 4, 1, 8}, {2, 1, 5, 1}},
    {{1, 2, 1, 5}, {3, 2, 4, 5}},
    {{2, 1, 3, 1}, {2, 5, 3, 7}},
    {{2, 1, 3, 1}, {5, 3, 7}},
    {{64}, {1100, 64}},
    {{3}, {6000, 3}},
    {{}, {300, 240}},
    {{2, 1}, {2, 36000}},
    {{2, 1}, {36001}},
    {{1, 6, 1}, {700, 6, 8}},
    {{0, 3}, {0, 3}},
    {{3}, {0, 3}},
    {{1, 3}, {0, 1}},
    {{}, {0}},
    {{3, 1}, {3, 0}},
    {{70, 600}, {600}},
    {{70, 600}, {70, 1}},
    {{70, 601}, {70, 1}},
};

// Elements after a multiple of 16 bytes: packs can be read and written only if there are none anywhere.
struct Offsets {
  index_t a, b, y;
};
const std::vector<Offsets> all_offsets{{0, 0, 0}, {1, 1, 1}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};

/// Runs body(strides, a, b, y, offsets) for all shapes, both ways round: a is what gets the gradient.
template <class F>
void for_all(F&& body) {
  for (const Shapes& s : shapes)
    for (const bool swapped : {false, true})
      for (const Offsets& offset : all_offsets) {
        const Shape &a = swapped ? s.b : s.a, &b = swapped ? s.a : s.b, y = broadcast_shape("test", a, b);
        if (y.size() > 1500 && (offset.a != offset.b || offset.a != offset.y)) continue;
        INFO("a " << a.text() << ", b " << b.text() << ", offsets " << offset.a << offset.b << offset.y);
        body(broadcast_strides(y, a, b), a, b, y, offset);
      }
}

// Relative to the largest sum; the terms are of either sign.
template <class T>
constexpr double sums = device::tolerance<T> * 2;

}  // namespace

TEMPLATE_TEST_CASE("cuda: zip is the processor's, whatever is broadcast", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for_all([](const Strides& s, const Shape& shape_a, const Shape& shape_b, const Shape& shape_y, const Offsets& offset) {
    const auto a = device::representable<T>(shape_a, 1), b = device::representable<T>(shape_b, 2);
    const auto dy = device::representable<T>(shape_y, 3);
    const auto device_a = device::upload<T>(a, offset.a), device_b = device::upload<T>(b, offset.b);
    const auto device_dy = device::upload<T>(dy, offset.y);

    const Tensor<W> expected(shape_y);
    const auto y = device::before<T>(expected, 0, offset.y);
    zip_forward(Cuda{}, s, Divide{}, device_a.data(), device_b.data(), y.data());
    zip_forward(Cpu{}, s, Divide{}, a.data(), b.data(), expected.data());
    CHECK(device::difference(y, expected) == "");

    for (const int keep : {0, 1}) {
      INFO("keep " << keep);
      const auto da_expected = device::representable<T>(shape_a, 4);
      const auto da = device::before<T>(da_expected, keep, offset.a);
      zip_backward(Cuda{}, s, Gradient{}, device_dy.data(), device_a.data(), device_b.data(), {da.data(), keep == 1});
      zip_backward(Cpu{}, s, Gradient{}, dy.data(), a.data(), b.data(), {da_expected.data(), keep == 1});
      CHECK(device::difference(da, da_expected, sums<T>) == "");
    }
  });
}

TEMPLATE_TEST_CASE("cuda: sum_broadcast and repeat_broadcast are the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for_all([](const Strides&, const Shape& shape_a, const Shape&, const Shape& shape_y, const Offsets& offset) {
    const Strides s = broadcast_strides(shape_y, shape_a, shape_a);
    const auto a = device::representable<T>(shape_a, 1), y = device::representable<T>(shape_y, 2);
    const auto device_a = device::upload<T>(a, offset.a), device_y = device::upload<T>(y, offset.y);
    for (const int keep : {0, 1}) {
      INFO("keep " << keep);
      const auto sum_expected = device::representable<T>(shape_a, 3);
      const auto sum = device::before<T>(sum_expected, keep, offset.a), again = sum.clone();
      sum_broadcast(Cuda{}, s, W(-1), device_y.data(), {sum.data(), keep == 1});
      sum_broadcast(Cuda{}, s, W(-1), device_y.data(), {again.data(), keep == 1});
      sum_broadcast(Cpu{}, s, W(-1), y.data(), {sum_expected.data(), keep == 1});
      CHECK(device::difference(sum, sum_expected, sums<T>) == "");
      CHECK(device::difference(again, device::converted<W>(sum.to_host()), 0) == "");

      const auto expected = device::representable<T>(shape_y, 4);
      const auto repeated = device::before<T>(expected, keep, offset.y);
      repeat_broadcast(Cuda{}, s, W(0.5), device_a.data(), {repeated.data(), keep == 1});
      repeat_broadcast(Cpu{}, s, W(0.5), a.data(), {expected.data(), keep == 1});
      CHECK(device::difference(repeated, expected) == "");
    }
  });
}
