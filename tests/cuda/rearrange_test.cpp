#include "attend/cuda/elements/rearrange.cuh"

#include <algorithm>
#include <numeric>

#include "attend/cpu/positions.hpp"
#include "attend/cpu/rearrange.hpp"
#include "attend/cpu/reduce.hpp"
#include "attend/cuda/elements/positions.cuh"
#include "attend/cuda/elements/reduce.cuh"
#include "rows.hpp"

using namespace attend;

namespace {

/// The walk over y along with x where y's dimension i is x's dimension axes[i].
Strides permutation(const Shape& x, const std::vector<index_t>& axes) {
  std::vector<index_t> step(axes.size());
  index_t n = 1;
  for (std::size_t i = axes.size(); i-- > 0;) step[i] = n, n *= x[static_cast<index_t>(i)];
  Strides s;
  for (const index_t axis : axes) s.append(x[axis], step[static_cast<std::size_t>(axis)], 0);
  s.finish();
  return s;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: runs are copied and cleared as on the processor", "[cuda]", float, double, bfloat16, std::int32_t) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  struct Runs {
    index_t outer, length, x_step, y_step;
  };
  for (const Runs r : std::initializer_list<Runs>{{0, 4, 4, 4},
                                                  {3, 0, 2, 4},
                                                  {1, 1, 1, 1},
                                                  {1, 5003, 5003, 5003},
                                                  {7, 16, 16, 48},
                                                  {7, 16, 48, 16},
                                                  {9, 16, 24, 40},
                                                  {9, 24, 24, 24},
                                                  {9, 5, 7, 16},
                                                  {5, 8, 9, 8},
                                                  {40, 200, 200, 208}})
    for (const index_t offset : {0, 1}) {
      INFO(r.outer << " runs of " << r.length << ", steps " << r.x_step << " and " << r.y_step << ", offset " << offset);
      const auto x = device::representable<T>({r.outer, r.x_step}, 1);
      const auto device_x = device::upload<T>(x, offset);
      for (const int keep : {0, 1}) {
        const auto expected = device::representable<T>({r.outer, r.y_step}, 2);
        const auto y = device::upload<T>(expected, offset);
        // If nothing is kept, what stood there before must not matter; what stands between the runs must stay.
        if (keep == 0) {
          auto nan = expected.clone();
          for (index_t o = 0; o < r.outer; ++o)
            std::fill_n(nan.data() + o * r.y_step, r.length, std::numeric_limits<W>::quiet_NaN());
          copy_to_device(Cuda{}, nan.size(), device::converted<T>(nan).data(), y.data());
        }
        copy_runs<T>(Cuda{}, {device_x.data(), r.outer, r.length, r.x_step}, {y.data(), r.outer, r.length, r.y_step}, keep == 1);
        copy_runs<W>(Cpu{}, {x.data(), r.outer, r.length, r.x_step}, {expected.data(), r.outer, r.length, r.y_step}, keep == 1);
        CHECK(device::difference(y, expected) == "");
      }
      const auto expected = device::representable<T>({r.outer, r.y_step}, 3);
      const auto y = device::upload<T>(expected, offset);
      clear_runs(Cuda{}, kernels::Matrix{y.data(), r.outer, r.length, r.y_step});
      clear_runs(Cpu{}, kernels::Matrix{expected.data(), r.outer, r.length, r.y_step});
      CHECK(device::difference(y, expected, 0) == "");
    }
}

TEMPLATE_TEST_CASE("cuda: permute_copy is the processor's for every order of the axes", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{70, 130}, Shape{64, 64}, Shape{3, 8, 16}, Shape{2, 3, 4, 5},
                             Shape{2, 1, 4, 8}, Shape{2, 0, 3}, Shape{3, 33, 65}})
    for (const index_t offset : {0, 1}) {
      const auto x = device::representable<T>(shape, 1);
      const auto device_x = device::upload<T>(x, offset);
      std::vector<index_t> axes(static_cast<std::size_t>(shape.rank()));
      std::iota(axes.begin(), axes.end(), index_t{0});
      do {
        const Strides s = permutation(shape, axes);
        for (const int keep : {0, 1}) {
          INFO(shape.text() << ", offset " << offset << ", keep " << keep);
          const auto expected = device::representable<T>({x.size()}, 2);
          const auto y = device::before<T>(expected, keep, offset);
          permute_copy(Cuda{}, s, device_x.data(), {y.data(), keep == 1});
          permute_copy(Cpu{}, s, x.data(), {expected.data(), keep == 1});
          CHECK(device::difference(y, expected) == "");
        }
      } while (std::next_permutation(axes.begin(), axes.end()));
    }
}

TEMPLATE_TEST_CASE("cuda: max finds the first of the largest, as on the processor", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  struct Size {
    index_t outer, n, inner;
  };
  for (const Size size : std::initializer_list<Size>{{0, 3, 4},
                                                     {3, 4, 0},
                                                     {1, 1, 1},
                                                     {5, 7, 1},
                                                     {300, 3, 1},
                                                     {2, 5000, 1},
                                                     {4, 9, 70},
                                                     {2, 100, 33},
                                                     {100, 6, 2},
                                                     {1, 1000, 5}}) {
    INFO(size.outer << " x " << size.n << " x " << size.inner);
    const Shape small{size.outer, size.inner}, large{size.outer, size.n, size.inner};
    const AroundAxis around(large, 1);
    const auto x = device::representable<T>(large, 1);
    // Many that are equal, infinities, and some that are no numbers.
    for (index_t i = 0; i < x.size(); ++i) x.data()[i] = std::round(x.data()[i] * W(2));
    for (index_t i = 5; i < x.size(); i += 37) x.data()[i] = -std::numeric_limits<W>::infinity();
    for (index_t i = 11; i < x.size(); i += 401) x.data()[i] = std::numeric_limits<W>::quiet_NaN();
    const Tensor<W> expected(small);
    const Tensor<index_t> at_expected(small);
    const auto device_x = device::upload<T>(x);
    const Tensor<T, Cuda> y(small);
    const Tensor<index_t, Cuda> at(small, index_t{-1});
    max_forward(Cuda{}, around, device_x.data(), y.data(), at.data());
    max_forward(Cpu{}, around, x.data(), expected.data(), at_expected.data());
    CHECK(device::difference(y, expected, 0) == "");
    CHECK(at.values() == at_expected.values());

    const auto dy = device::representable<T>(small, 2);
    const auto device_dy = device::upload<T>(dy);
    for (const int keep : {0, 1}) {
      const auto dx_expected = device::representable<T>(large, 3);
      const auto dx = device::before<T>(dx_expected, keep);
      max_backward(Cuda{}, around, device_dy.data(), at.data(), {dx.data(), keep == 1});
      max_backward(Cpu{}, around, dy.data(), at_expected.data(), {dx_expected.data(), keep == 1});
      CHECK(device::difference(dx, dx_expected) == "");
    }
  }
}

TEMPLATE_TEST_CASE("cuda: positions are added as on the processor", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  std::vector<index_t> many;
  for (index_t i = 0; i < 70; ++i) many.push_back(i * 7 % 11);
  for (const Segments& segments : {Segments{}, Segments::ragged({5}), Segments::ragged({3, 0, 9, 1}), Segments::ragged(many),
                                   Segments::dense(3, 4), Segments::ragged({40})})
    for (const index_t width : {1, 7, 8, 64, 260})
      for (const index_t offset : {0, 1}) {
        INFO(segments.count() << " sentences, width " << width << ", offset " << offset);
        const Shape shape{segments.rows(), width};
        const auto x = device::representable<T>(shape, 1);
        const auto table = device::representable<T>({segments.longest() + 3, width}, 2);
        const auto device_x = device::upload<T>(x, offset), device_table = device::upload<T>(table, offset);
        const Tensor<W> expected(shape);
        const auto y = device::before<T>(expected, 0, offset);
        add_positions_forward(Cuda{}, segments, width, device_x.data(), device_table.data(), y.data());
        add_positions_forward(Cpu{}, segments, width, x.data(), table.data(), expected.data());
        CHECK(device::difference(y, expected) == "");
        add_positions_forward(Cuda{}, segments, width, device_x.data(), device_table.data(), device_x.data());  // in place
        CHECK(device::difference(device_x, expected) == "");

        for (const int keep : {0, 1}) {
          const auto dtable_expected = table.clone();
          const auto dtable = device::before<T>(dtable_expected, keep, offset);
          add_positions_backward_table(Cuda{}, segments, width, table.size(), y.data(), {dtable.data(), keep == 1});
          const auto dy = device::converted<W>(y.to_host());
          add_positions_backward_table(Cpu{}, segments, width, table.size(), dy.data(), {dtable_expected.data(), keep == 1});
          CHECK(device::difference(dtable, dtable_expected) == "");
        }
      }
}
