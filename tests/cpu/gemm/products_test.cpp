// Products by the library that the program was compiled for, beside plain loops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/linear.hpp"
#include "catch.hpp"
#include "with_threads.hpp"

using namespace attend;

namespace {

constexpr index_t m = 97, n = 110, k = 131;  // more multiply-adds than stay the library's own

template <class T>
std::vector<T> numbers(index_t count, std::uint64_t stream) {
  std::vector<T> x;
  const Generator::Stream random{5, stream};
  for (index_t i = 0; i < count; ++i) x.push_back(static_cast<T>(random.normal(static_cast<std::uint64_t>(i))));
  return x;
}

template <class T>
double at(const kernels::Matrix<const T>& x, index_t i, index_t j) {
  return static_cast<double>(x.transposed ? x.data[j * x.stride + i] : x.data[i * x.stride + j]);
}

/// y [m, n], whose rows begin `ld` apart, is alpha * a * b (+ before) (+ bias); what lies between its rows is as before.
template <class T>
void check(const kernels::Matrix<const T>& a, const kernels::Matrix<const T>& b, double alpha, const T* bias,
           const std::vector<T>& before, bool add, const std::vector<T>& y, index_t ld) {
  const double close = std::is_same_v<T, float> ? 2e-4 : 1e-12;
  double worst = 0;
  bool untouched = true;
  for (index_t i = 0; i < a.rows; ++i)
    for (index_t j = 0; j < ld; ++j) {
      const auto here = static_cast<std::size_t>(i * ld + j);
      if (j >= b.columns) {
        untouched = untouched && y[here] == before[here];
        continue;
      }
      double sum = 0;
      for (index_t l = 0; l < a.columns; ++l) sum += at(a, i, l) * at(b, l, j);
      sum = alpha * sum + (add ? static_cast<double>(before[here]) : 0) + (bias != nullptr ? static_cast<double>(bias[j]) : 0);
      const double off = std::abs(sum - static_cast<double>(y[here]));
      if (!std::isnan(worst) && !(off <= worst)) worst = off;
    }
  CHECK(worst < close);
  CHECK(untouched);
}

}  // namespace

TEST_CASE("products are computed with " ATTEND_TEST_GEMM) { CHECK(std::string(detail::gemm_provider) == ATTEND_TEST_GEMM); }

TEMPLATE_TEST_CASE("gemm: transposed or not, within a larger matrix, scaled and added, with any number of threads", "", float,
                   double) {
  using T = TestType;
  const WithThreads afterwards;
  for (const int count : {1, 3})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const bool add : {false, true})
          for (const bool tall : {false, true}) {
            INFO(count << " threads, a " << ta << ", b " << tb << ", add " << add << ", tall " << tall);
            set_threads(count);
            const index_t rows = tall ? m * 3 : m, columns = tall ? n / 3 : n, ld = columns + 5;
            const auto a = numbers<T>((rows + 3) * (k + 3), 0), b = numbers<T>((columns + 2) * (k + 2), 1);
            const kernels::Matrix<const T> left{a.data(), rows, k, (ta ? rows : k) + 3, ta};
            const kernels::Matrix<const T> right{b.data(), k, columns, (tb ? k : columns) + 2, tb};
            const auto old = numbers<T>(rows * ld, 2);
            auto y = old;
            for (index_t i = 0; !add && i < rows; ++i)  // need not hold numbers
              std::fill_n(y.begin() + i * ld, columns, std::numeric_limits<T>::quiet_NaN());
            kernels::gemm<T>(Cpu{}, left, right, {y.data(), rows, columns, ld}, {.alpha = 0.5, .add = add});
            check<T>(left, right, 0.5, nullptr, old, add, y, ld);
          }
}

TEMPLATE_TEST_CASE("linear: forward with a bias, and both gradients", "", float, double) {
  using T = TestType;
  const auto x = numbers<T>(m * k, 0), weight = numbers<T>(n * k, 1), bias = numbers<T>(n, 2), dy = numbers<T>(m * n, 3);
  const kernels::Matrix<const T> in{x.data(), m, k}, w{weight.data(), n, k}, dout{dy.data(), m, n};
  std::vector<T> y(m * n);
  for (const T* b : {bias.data(), static_cast<const T*>(nullptr)}) {
    kernels::linear_forward<T>(Cpu{}, in, w, b, {y.data(), m, n});
    check<T>(in, w.transpose(), 1, b, y, false, y, n);
  }
  for (const bool add : {false, true}) {
    const auto old_dx = numbers<T>(m * k, 4), old_dw = numbers<T>(n * k, 5);
    auto dx = old_dx, dw = old_dw;
    std::vector<T> db(n);
    kernels::linear_backward_input<T>(Cpu{}, dout, w, {dx.data(), m, k}, add);
    check<T>(dout, w, 1, nullptr, old_dx, add, dx, k);
    kernels::linear_backward_weight_bias<T>(Cpu{}, dout, in, {dw.data(), n, k}, add, kernels::Gradient<T>{db.data()});
    check<T>(dout.transpose(), in, 1, nullptr, old_dw, add, dw, k);
  }
}

TEST_CASE("gemm: sums of nothing, and a row alone") {
  std::vector<float> y(600 * 600, 7.0f);
  const std::vector<float> x(600 * 600, 1.0f);
  kernels::gemm<float>(Cpu{}, {x.data(), 600, 0, 1}, {x.data(), 0, 600, 600}, {y.data(), 600, 600});
  CHECK(y == std::vector<float>(600 * 600, 0.0f));
  kernels::gemm<float>(Cpu{}, {x.data(), 1, 600}, {x.data(), 600, 600}, {y.data(), 1, 600});
  CHECK(y.front() == 600.0f);
  CHECK(y[599] == 600.0f);
  CHECK(y[600] == 0.0f);
  // One row, read many times.
  kernels::gemm<float>(Cpu{}, {x.data(), 600, 600, 0}, {x.data(), 600, 600}, {y.data(), 600, 600});
  CHECK(y == std::vector<float>(600 * 600, 600.0f));
}
