#include "attend/cpu/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"
#include "catch.hpp"
#include "same_products.hpp"
#include "with_threads.hpp"

using namespace attend;
using kernels::stored;

namespace {

std::vector<float> numbers(index_t n, std::uint64_t stream) {
  std::vector<float> x(static_cast<std::size_t>(n));
  const Generator::Stream random{9, stream};
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

template <class T>
std::vector<T> numbers_in(index_t n, std::uint64_t stream) {
  const auto x = numbers(n, stream);
  return std::vector<T>(x.begin(), x.end());
}

std::vector<float> product(bool ta, bool tb, index_t m, index_t n, index_t k, const std::vector<float>& a,
                           const std::vector<float>& b) {
  std::vector<float> c(static_cast<std::size_t>(m * n), 7.0f);
  gemm<float>(Cpu{}, stored(ta, a.data(), m, k), stored(tb, b.data(), k, n), {c.data(), m, n});
  return c;
}

/// The largest difference from sums in double precision.
double worst(bool ta, bool tb, index_t m, index_t n, index_t k, const std::vector<float>& a, const std::vector<float>& b,
             const std::vector<float>& c) {
  double found = 0;
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      double sum = 0;
      for (index_t l = 0; l < k; ++l)
        sum += static_cast<double>(a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)]) *
               static_cast<double>(b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)]);
      const double off = std::abs(static_cast<double>(c[static_cast<std::size_t>(i * n + j)]) - sum);
      if (!std::isnan(found) && !(off <= found)) found = off;  // what is no number is the worst, and stays it
    }
  return found;
}

struct Size {
  index_t m, n, k;
};

}  // namespace

TEST_CASE("gemm: the sum of products, each way of storing, any number of threads the same bits") {
  const WithThreads afterwards;
  for (const auto& [m, n, k] :
       {Size{3, 5, 7}, Size{129, 129, 129}, Size{5, 2048, 512}, Size{161, 97, 300}, Size{1, 500, 100}, Size{97, 1, 400},
        Size{300, 49, 33}, Size{65, 193, 64}, Size{2, 2, 20000}, Size{40, 16, 30}, Size{25, 48, 40}, Size{300, 80, 600},
        Size{1100, 20, 70}, Size{200, 230, 90}, Size{300, 90, 1100}, Size{300, 530, 600}}) {
    const auto a = numbers(m * k, 0), b = numbers(k * n, 1);
    for (int way = 0; way < 4; ++way) {
      const bool ta = way & 1, tb = way & 2;
      set_threads(1);
      const auto one = product(ta, tb, m, n, k, a, b);
      INFO(m << " x " << n << " x " << k << ", way " << way);
      CHECK(worst(ta, tb, m, n, k, a, b, one) < 1e-5 * std::sqrt(static_cast<double>(k)));
      for (const int count : {2, 3, 5, 40}) {
        set_threads(count);
        INFO(count << " threads");
        CHECK(same_products(product(ta, tb, m, n, k, a, b), one));
      }
    }
  }
}

TEST_CASE("gemm: a row's product has the same bits whatever rows are beside it") {
  for (const auto& [n, k] : {std::pair<index_t, index_t>{130, 70}, {32, 13}, {700, 1200}, {5, 64}, {16, 100}, {48, 40}}) {
    constexpr index_t rows = 150;
    const auto a = numbers(rows * k, 0), b = numbers(k * n, 1);
    for (const bool tb : {false, true}) {
      const auto whole = product(false, tb, rows, n, k, a, b);
      for (const index_t count : {index_t{1}, index_t{2}, index_t{3}, index_t{5}, index_t{14}, index_t{29}, index_t{113}})
        for (const index_t first : {index_t{0}, index_t{7}, rows - count}) {
          INFO("rows " << first << " to " << first + count << " of [" << rows << ", " << k << "] times [" << k << ", " << n
                       << "]");
          const std::vector<float> part(a.begin() + first * k, a.begin() + (first + count) * k);
          const auto alone = product(false, tb, count, n, k, part, b);
          CHECK(same_products(alone, std::vector<float>(whole.begin() + first * n, whole.begin() + (first + count) * n)));
        }
    }
  }
}

TEST_CASE("gemm: few sums over many rows that several threads wrote, as gradients of weights, have one thread's bits") {
  const WithThreads afterwards;
  for (const auto& [m, n, k] : {Size{128, 128, 2048}, Size{256, 130, 1100}, Size{40, 300, 1600}, Size{30, 47, 5000},
                                Size{256, 64, 9000}, Size{90, 64, 513}}) {
    const index_t gap = 3, ldc = n + gap;
    const auto a = numbers(m * k, 0), b = numbers(k * n, 1);
    auto before = numbers(m * ldc, 2);
    set_threads(2);
    CHECK(cpu::goes_by_depth(cpu::Product<float>(stored(true, a.data(), m, k), {b.data(), k, n}, nullptr,
                                                 {before.data(), m, n, ldc}, {})) == (k >= 1024));
    for (const bool add : {false, true}) {
      const auto with_threads = [&, m = m, n = n, k = k](int count) {
        set_threads(count);
        auto c = before;
        gemm<float>(Cpu{}, stored(true, a.data(), m, k), {b.data(), k, n}, {c.data(), m, n, ldc}, {.alpha = 0.75, .add = add});
        return c;
      };
      const auto one = with_threads(1);
      for (index_t j = n; j < ldc; ++j) CHECK(nth(one, j) == nth(before, j));
      for (const int count : {2, 3, 5, 12, 40}) {
        INFO(m << " x " << n << " x " << k << ", " << count << " threads");
        CHECK(same_products(with_threads(count), one));
      }
    }
  }
}

#if !defined(ATTEND_GEMM_EIGEN) && !defined(ATTEND_GEMM_BLAS)
TEST_CASE("gemm: each product is added with one rounding where the processor can, in the order of k") {
#if defined(__x86_64__) || defined(__i386__)
  if (processor().level < 2) return;  // no fused multiply-add
#endif
  for (const auto& [m, n, k] : {Size{1, 40, 70}, Size{2, 70, 31}, Size{3, 5, 64}, Size{7, 16, 100}, Size{30, 130, 33}}) {
    const auto a = numbers(m * k, 0), b = numbers(k * n, 1), c = product(false, false, m, n, k, a, b);
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j) {
        float sum = 0;
#if defined(_WIN32)  // where std::fma rounds the product; this rounds the sum twice, to the same number for all that are here
        for (index_t l = 0; l < k; ++l)
          sum = static_cast<float>(static_cast<double>(nth(a, i * k + l)) * static_cast<double>(nth(b, l * n + j)) +
                                   static_cast<double>(sum));
#else
        for (index_t l = 0; l < k; ++l) sum = std::fma(nth(a, i * k + l), nth(b, l * n + j), sum);
#endif
        INFO(m << " x " << n << " x " << k << ", at " << i << ", " << j);
        CHECK(nth(c, i * n + j) == sum);
      }
  }
}
#endif

TEST_CASE("gemm: adds to c, scales, leaves what lies between c's rows alone; a sum of nothing is 0") {
  constexpr index_t m = 31, n = 45, k = 600, ldc = 50;
  const auto a = numbers(m * k, 2), b = numbers(k * n, 3), before = numbers(m * ldc, 4);
  const auto sum = product(false, false, m, n, k, a, b);
  auto c = before;
  gemm<float>(Cpu{}, {a.data(), m, k}, {b.data(), k, n}, {c.data(), m, n, ldc}, {.alpha = 0.5, .add = true});
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<std::size_t>(i * ldc + j);
      if (j >= n) CHECK(c[at] == before[at]);
      else CHECK(c[at] == Approx(before[at] + 0.5f * sum[static_cast<std::size_t>(i * n + j)]).margin(1e-4));
    }
  gemm<float>(Cpu{}, {a.data(), m, 0}, {b.data(), 0, n}, {c.data(), m, n, ldc});
  CHECK(c[0] == 0);
  CHECK(c[n] == before[n]);
}

TEMPLATE_TEST_CASE("gemm_batched: small products side by side have the bits that each has alone", "", float, double) {
  using T = TestType;
  const WithThreads afterwards;
  constexpr index_t count = 5;
  for (const auto& [m, n, k] : {Size{25, 25, 64}, Size{13, 13, 64}, Size{30, 70, 61}, Size{25, 64, 25}, Size{11, 128, 9},
                                Size{50, 128, 40}, Size{3, 32, 20}, Size{9, 9, 1100}, Size{1, 5, 3}})
    for (int way = 0; way < 4; ++way)
      for (const index_t gap : {0, 3}) {  // after each row
        const bool ta = way & 1, tb = way & 2;
        const index_t lda = (ta ? m : k) + gap, ldb = (tb ? k : n) + gap, a_step = (ta ? k : m) * lda,
                      b_step = (tb ? n : k) * ldb;
        const auto a = numbers_in<T>(count * a_step, 0), b = numbers_in<T>(count * b_step, 1);
        const kernels::Matrices<const T> as{{a.data(), m, k, lda, ta}, a_step}, bs{{b.data(), k, n, ldb, tb}, b_step};
        std::vector<T> alone(static_cast<std::size_t>(count * m * n));
        for (index_t i = 0; i < count; ++i) gemm<T>(Cpu{}, as[i], bs[i], {alone.data() + i * m * n, m, n});
        for (const int threads : {1, 3}) {
          set_threads(threads);
          std::vector<T> together(alone.size());
          gemm_batched<T>(Cpu{}, count, as, bs, {{together.data(), m, n}, m * n});
          INFO(m << " x " << n << " x " << k << ", way " << way << ", " << gap << " after a row, " << threads << " threads");
          CHECK(same_products(together, alone));
        }
      }
}

TEST_CASE("gemm_batched: the tiles of one product fetch the next one's operands, each once and evenly") {
  const std::vector<float> a(250), b(130);
  const cpu::NextOperands<float> next({a.data(), 25, 10}, {b.data(), 10, 13});
  constexpr index_t length = 100;  // two stretches of b and three of a
  for (const index_t tiles : {3, 5, 12}) {
    cpu::detail::Stretches<float> stretches(next, tiles, length);
    std::vector<const float*> taken;
    std::vector<index_t> at;
    for (index_t i = 0; i < 2 * tiles; ++i) {
      if (i == tiles) CHECK(taken.size() == static_cast<std::size_t>(std::min<index_t>(tiles, 5)));
      if (const float* const stretch = stretches.take()) taken.push_back(stretch), at.push_back(i);
    }
    const std::vector<const float*> all{b.data(), b.data() + 100, a.data(), a.data() + 100, a.data() + 200};
    INFO(tiles << " tiles");
    if (tiles == 12) CHECK(at == std::vector<index_t>{2, 4, 7, 9, 11});
    CHECK(taken == all);
  }
}

TEST_CASE("gemm_batched: what comes next is the next product's, if it is small, without gaps and the same thread's") {
  const std::vector<float> a(2000), b(3000);
  const auto after = [&](index_t i, index_t gap, index_t rows) {
    const kernels::Matrices<const float> as{{a.data(), rows, 10, 10 + gap}, 300}, bs{{b.data(), 10, 13}, 200};
    return cpu::operands_after<float>(i, 5, as, bs);
  };
  const auto next = after(3, 0, 25);
  CHECK(next.a == a.data() + 4 * 300);
  CHECK(next.b == b.data() + 4 * 200);
  CHECK(next.size_of_a == 25 * 10);
  CHECK(next.size_of_b == 10 * 13);
  CHECK(after(4, 0, 25).b == nullptr);
  CHECK(after(3, 1, 25).b == nullptr);
  CHECK(after(3, 0, 2500).b == nullptr);
  const kernels::Matrices<const float> turned{{a.data(), 25, 10, 25, true}, 300}, bs{{b.data(), 10, 13}, 200};
  CHECK(cpu::operands_after<float>(0, 5, turned, bs).a == a.data() + 300);
}

TEMPLATE_TEST_CASE("gram_batched: the bits of the whole product, and symmetric", "", float, double) {
  using T = TestType;
  const WithThreads afterwards;
  const index_t n = GENERATE(1, 7, 16, 31, 64, 129, 200, 300), k = GENERATE(1, 33, 530);
  const bool transposed = GENERATE(false, true);
  const index_t count = GENERATE(1, 3), lda = (transposed ? n : k) + 3, ldc = n + 5;
  const index_t a_step = lda * (transposed ? k : n), c_step = n * ldc + 2;
  const auto a = numbers_in<T>(count * a_step, 0);
  auto sums = numbers_in<T>(count * c_step, 1);
  for (index_t i = 0; i < count; ++i)
    for (index_t row = 0; row < n; ++row)
      for (index_t j = 0; j < row; ++j)
        sums[static_cast<std::size_t>(i * c_step + j * ldc + row)] = sums[static_cast<std::size_t>(i * c_step + row * ldc + j)];
  const kernels::Matrices<const T> as{{a.data(), n, k, lda, transposed}, a_step};
  for (const bool add : {false, true}) {
    auto expected = sums;
    gemm_batched<T>(Cpu{}, count, as, as.transpose(), {{expected.data(), n, n, ldc}, c_step}, {.alpha = 0.5, .add = add});
    for (const int threads : {1, 3}) {
      set_threads(threads);
      auto c = sums;
      gram_batched<T>(Cpu{}, count, as, {{c.data(), n, n, ldc}, c_step}, {.alpha = 0.5, .add = add});
      CHECK(same_products(c, expected));  // what lies between the rows too
    }
  }
}
