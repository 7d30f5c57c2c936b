#include "attend/cpu/softmax.hpp"

#include "attend/cuda/rows/softmax.cuh"
#include "rows.hpp"

using namespace attend;

namespace {

struct Size {
  index_t rows, width;
};
const std::vector<Size> sizes{{0, 5},    {2, 0},    {3, 1},    {2, 2},     {600, 13}, {5, 64},
                              {3, 1000}, {2, 1024}, {2, 1025}, {66, 1100}, {1, 9001}};

/// Numbers with a row of minus infinities, and one with a single other number, where there are so many.
template <class T>
Tensor<Wide<T>> with_gaps(index_t rows, index_t width) {
  const auto x = device::representable<T>({rows, width}, 1);
  const auto low = -std::numeric_limits<Wide<T>>::infinity();
  if (rows > 1) std::fill_n(x.data() + width, width, low);
  if (rows > 2) std::fill_n(x.data() + 2 * width, width - 1, low);
  if (rows > 0 && width > 0) x.data()[0] = Wide<T>(500);
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: softmax is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for (const Size size : sizes)
    for (const index_t offset : {0, 1}) {
      const index_t rows = size.rows, n = size.width;
      INFO(rows << " rows of " << n << ", offset " << offset);
      const auto x = with_gaps<T>(rows, n), dy = device::representable<T>(x.shape(), 2),
                 old = device::representable<T>(x.shape(), 3);
      const Tensor<W> y(x.shape()), log_y(x.shape());
      softmax_forward(Cpu{}, rows, n, x.data(), y.data());
      log_softmax_forward(Cpu{}, rows, n, x.data(), log_y.data());

      const auto device_x = device::upload<T>(x, offset), device_dy = device::upload<T>(dy, offset);
      const auto got_y = device::before<T>(x, 0, offset);
      const auto got_log_y = device::before<W>(x, 0, offset);
      softmax_forward(Cuda{}, rows, n, device_x.data(), got_y.data());
      log_softmax_forward(Cuda{}, rows, n, device_x.data(), got_log_y.data());
      REQUIRE(device::difference(got_y, y) == "");
      REQUIRE(device::difference(got_log_y, log_y) == "");

      const auto plain = device::converted<W>(got_y.to_host());
      const auto logs = device::converted<W>(device::converted<T>(got_log_y.to_host()));  // in T, as the backward takes them
      const auto device_logs = device::upload<T>(logs, offset);
      for (const int keep : {0, 1}) {
        const auto dx = old.clone(), log_dx = old.clone();
        softmax_backward(Cpu{}, rows, n, dy.data(), plain.data(), {dx.data(), keep == 1});
        log_softmax_backward(Cpu{}, rows, n, dy.data(), logs.data(), {log_dx.data(), keep == 1});
        const auto got_dx = device::before<T>(old, keep, offset), got_log_dx = device::before<T>(old, keep, offset);
        softmax_backward(Cuda{}, rows, n, device_dy.data(), got_y.data(), {got_dx.data(), keep == 1});
        log_softmax_backward(Cuda{}, rows, n, device_dy.data(), device_logs.data(), {got_log_dx.data(), keep == 1});
        REQUIRE(device::difference(got_dx, dx) == "");
        REQUIRE(device::difference(got_log_dx, log_dx) == "");
      }
    }
}

TEMPLATE_TEST_CASE("cuda: log_softmax may be taken in place", "[cuda]", float, double) {
  if (!device::present()) return;
  using T = TestType;
  for (const index_t n : {7, 64, 1029}) {
    const auto x = with_gaps<T>(5, n);
    const auto there = device::upload<T>(x), here = device::upload<T>(x), y = device::placed<T>(x.shape(), 0);
    log_softmax_forward(Cuda{}, 5, n, there.data(), y.data());
    log_softmax_forward(Cuda{}, 5, n, here.data(), here.data());
    REQUIRE(here.values() == y.values());
  }
}
