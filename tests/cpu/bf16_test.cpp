#include "attend/cpu/bf16.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "attend/core/bfloat16.hpp"
#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"
#include "catch.hpp"
#include "with_threads.hpp"

using namespace attend;
using kernels::stored;

namespace {

using Numbers = std::vector<float>;
constexpr float infinity = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();

Numbers numbers(index_t n, std::uint64_t stream) {
  Numbers x(static_cast<std::size_t>(n));
  const Generator::Stream random{11, stream};
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

struct Size {
  index_t m, n, k;
};

const std::vector<Size> sizes{{1, 1, 1},       {3, 5, 7},       {2, 2, 20001},  {1, 500, 101},   {97, 1, 400},
                              {129, 129, 129}, {5, 2048, 64},   {161, 97, 300}, {14, 32, 32},    {113, 40, 1023},
                              {200, 230, 90},  {300, 90, 1101}, {40, 16, 30},   {150, 530, 2051}};

template <class D>
Numbers product(D device, bool ta, bool tb, const Size& s, const Numbers& a, const Numbers& b) {
  Numbers c(static_cast<std::size_t>(s.m * s.n), 7.0f);
  gemm_bf16<float>(device, stored(ta, a.data(), s.m, s.k), stored(tb, b.data(), s.k, s.n), nullptr,
                   kernels::Matrix<float>{c.data(), s.m, s.n});
  return c;
}

}  // namespace

TEST_CASE("gemm_bf16: the sum of products of rounded numbers, each way of storing, any number of threads the same bits") {
  const WithThreads afterwards;
  for (const Size& size : sizes) {
    const auto [m, n, k] = size;
    const auto a = numbers(m * k, 0), b = numbers(k * n, 1);
    for (int way = 0; way < 4; ++way) {
      const bool ta = way & 1, tb = way & 2;
      INFO(m << " x " << n << " x " << k << ", way " << way);
      set_threads(1);
      const auto c = product(Cpu{}, ta, tb, size, a, b);
      double worst = 0;
      for (index_t i = 0; i < m; ++i)
        for (index_t j = 0; j < n; ++j) {
          double sum = 0;
          for (index_t l = 0; l < k; ++l)
            sum += static_cast<double>(bfloat16(a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)])) *
                   static_cast<double>(bfloat16(b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)]));
          const double off = std::abs(static_cast<double>(c[static_cast<std::size_t>(i * n + j)]) - sum);
          if (!std::isnan(worst) && !(off <= worst)) worst = off;  // what is no number is the worst, and stays it
        }
      CHECK(worst < 1e-5 * std::sqrt(static_cast<double>(k)));  // without rounding it would be 1e-3
      for (const int count : {2, 3, 5, 40}) {
        set_threads(count);
        INFO(count << " threads");
        CHECK(product(Cpu{}, ta, tb, size, a, b) == c);
      }
    }
  }
}

TEST_CASE("gemm_bf16: a row's product has the same bits whatever rows are beside it, and by a matrix that was packed") {
  for (const auto& [n, k] : {std::pair<index_t, index_t>{130, 70}, {32, 13}, {700, 1201}, {560, 1023}, {5, 64}, {16, 2100}}) {
    constexpr index_t rows = 150;
    const auto a = numbers(rows * k, 0), b = numbers(k * n, 1), bias = numbers(n, 2);
    for (const bool tb : {false, true}) {
      const auto right = stored(tb, b.data(), k, n);
      const auto packed = pack_bf16<float>(Cpu{}, right);
      const auto whole = product(Cpu{}, false, tb, {rows, n, k}, a, b);
      for (const index_t count : {index_t{1}, index_t{2}, index_t{3}, index_t{5}, index_t{14}, index_t{29}, index_t{113}, rows})
        for (const index_t first : {index_t{0}, std::min(index_t{7}, rows - count), rows - count}) {
          INFO("rows " << first << " to " << first + count << " of [" << rows << ", " << k << "] times [" << k << ", " << n
                       << "]");
          const Numbers part(a.begin() + first * k, a.begin() + (first + count) * k);
          const auto alone = product(Cpu{}, false, tb, {count, n, k}, part, b);
          CHECK(std::equal(alone.begin(), alone.end(), whole.begin() + first * n));
          Numbers y(alone.size(), 7.0f), z(alone.size(), 7.0f);
          packed->multiply({part.data(), count, k}, nullptr, {y.data(), count, n});
          CHECK(y == alone);
          packed->multiply({part.data(), count, k}, bias.data(), {y.data(), count, n});
          gemm_bf16<float>(Cpu{}, {part.data(), count, k}, right, bias.data(), {z.data(), count, n});
          CHECK(y == z);
          CHECK(y != alone);
        }
    }
  }
}

TEST_CASE("gemm_bf16: adds to c, scales, adds a bias, leaves what lies between c's rows alone; a sum of nothing is 0") {
  constexpr index_t m = 31, n = 45, k = 2100, ldc = 50;
  const auto a = numbers(m * k, 2), b = numbers(k * n, 3), before = numbers(m * ldc, 4), bias = numbers(n, 5);
  const auto sum = product(Cpu{}, false, false, {m, n, k}, a, b);
  auto c = before;
  gemm_bf16<float>(Cpu{}, {a.data(), m, k}, {b.data(), k, n}, bias.data(), {c.data(), m, n, ldc}, {.alpha = 0.5, .add = true});
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<std::size_t>(i * ldc + j), column = static_cast<std::size_t>(j);
      if (j >= n) CHECK(c[at] == before[at]);
      else CHECK(c[at] == Approx(before[at] + bias[column] + 0.5f * sum[static_cast<std::size_t>(i * n + j)]).margin(1e-4));
    }
  gemm_bf16<float>(Cpu{}, {a.data(), m, 0}, {b.data(), 0, n}, nullptr, {c.data(), m, n, ldc});
  CHECK(c[0] == 0);
  CHECK(c[n] == before[n]);
  pack_bf16<float>(Cpu{}, {b.data(), 0, n})->multiply({a.data(), m, 0}, bias.data(), {c.data(), m, n, ldc});
  CHECK(c[ldc + 3] == bias[3]);
  gemm_bf16<float>(Cpu{}, {a.data(), 0, k}, {b.data(), k, n}, nullptr, {c.data(), 0, n});
  gemm_bf16<float>(Cpu{}, {a.data(), m, k}, {b.data(), k, 0}, nullptr, {c.data(), m, 0});
  CHECK(c[ldc + 3] == bias[3]);
}

TEST_CASE("gemm_bf16_batched: each product by itself, and one matrix for all") {
  constexpr index_t m = 5, n = 7, k = 9, count = 11;
  const auto a = numbers(count * m * k, 0), b = numbers(k * n, 1);
  Numbers all(count * m * n);
  gemm_bf16_batched<float>(Cpu{}, count, {{a.data(), m, k}, m * k}, {{b.data(), k, n}, 0}, {{all.data(), m, n}, m * n});
  CHECK(all == product(Cpu{}, false, false, {count * m, n, k}, a, b));
}

TEST_CASE("gemm_bf16: rounds to the nearest, halves to even; infinities and what is no number stay so; the smallest become 0") {
  const auto one = [](float x) {
    const float y = 1;
    float z = 7;
    gemm_bf16<float>(Cpu{}, {&x, 1, 1}, {&y, 1, 1}, nullptr, kernels::Matrix<float>{&z, 1, 1});
    return z;
  };
  CHECK(one(1 + 0x1p-8f) == 1);
  CHECK(one(1 + 0x1p-8f + 0x1p-20f) == 1 + 0x1p-7f);
  CHECK(one(1 + 0x1.8p-7f) == 1 + 0x1p-6f);
  CHECK(one(-3.14159f) == -3.140625f);
  CHECK(one(std::numeric_limits<float>::max()) == infinity);
  CHECK(one(-infinity) == -infinity);
  CHECK(std::isnan(one(not_a_number)));
  CHECK(std::isnan(one(std::bit_cast<float>(0x7f800001u))));  // whose upper half alone would be infinite
  CHECK(std::isnan(one(std::bit_cast<float>(0xffffffffu))));  // which rounding up would carry to 0
  CHECK(one(0x1p-126f) == 0x1p-126f);
  CHECK(one(0x1.fffffcp-127f) == 0);

  // One of them is in one row of a and one column of b, and what does not meet it is as it was.
  const Size size{30, 40, 50};
  auto a = numbers(size.m * size.k, 0), b = numbers(size.k * size.n, 1);
  const auto usual = product(Cpu{}, false, false, size, a, b);
  a[static_cast<std::size_t>(17 * size.k + 49)] = infinity;
  b[20] = not_a_number;
  const auto c = product(Cpu{}, false, false, size, a, b);
  for (index_t i = 0; i < size.m; ++i)
    for (index_t j = 0; j < size.n; ++j) {
      const auto at = static_cast<std::size_t>(i * size.n + j);
      if (j == 20) CHECK(std::isnan(c[at]));
      else if (i == 17) CHECK(c[at] == std::copysign(infinity, b[static_cast<std::size_t>(49 * size.n + j)]));
      else CHECK(c[at] == usual[at]);
    }
}

TEST_CASE("gemm_bf16: products are added one after another, the second of each two numbers first") {
  if (bf16_sums() != "pairs") return;  // see amx_test.cpp and arm_bf16_test.cpp
  for (const Size& size : sizes) {
    const auto [m, n, k] = size;
    if (k > 1024) continue;                                         // more are summed block by block
    const auto spread = [&](index_t count, std::uint64_t stream) {  // exponents far apart, so that the order shows
      auto x = numbers(count, stream);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i * 7 % 41) - 20);
      return x;
    };
    const auto a = spread(m * k, 6), b = spread(k * n, 7), c = product(Cpu{}, false, false, size, a, b);
    const auto of = [&](const Numbers& x, index_t row, index_t width, index_t l, bool exists) {
      return exists ? static_cast<float>(bfloat16(x[static_cast<std::size_t>(row * width + l)])) : 0.0f;
    };
    index_t others = 0;
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j) {
        float sum = 0;
        for (index_t l = 0; l < k; l += 2) {
          sum = std::fma(of(a, i, size.k, l + 1, l + 1 < size.k), of(b, l + 1, size.n, j, l + 1 < size.k), sum);
          sum = std::fma(of(a, i, size.k, l, true), of(b, l, size.n, j, true), sum);
        }
        others += std::bit_cast<std::uint32_t>(sum) != std::bit_cast<std::uint32_t>(c[static_cast<std::size_t>(i * n + j)]);
      }
    INFO(m << " x " << n << " x " << k);
    CHECK(others == 0);
  }
}

#if ATTEND_DISPATCH && defined(__x86_64__) && ATTEND_GRANTED < 2
namespace {

/// Whether all bits are the same; what is not a number is so in either.
void check_same_bits(const Numbers& a, const Numbers& b) {
  REQUIRE(a.size() == b.size());
  std::size_t others = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    others += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]));
  CHECK(others == 0);
}

}  // namespace

TEST_CASE("gemm_bf16: without the instruction, the same bits as with it") {
  if (!detail::processor_has(6)) return;
  const auto compare = [](const Size& size, const Numbers& a, const Numbers& b) {
    for (int way = 0; way < 4; ++way) {
      const bool ta = way & 1, tb = way & 2;
      const auto c = product(avx512::bf16::kernels::Cpu{}, ta, tb, size, a, b);
      check_same_bits(c, product(avx2::kernels::Cpu{}, ta, tb, size, a, b));
      check_same_bits(c, product(avx512::kernels::Cpu{}, ta, tb, size, a, b));
    }
  };
  for (const Size& size : sizes) {
    INFO(size.m << " x " << size.n << " x " << size.k);
    compare(size, numbers(size.m * size.k, 0), numbers(size.k * size.n, 1));
    // Exponents far apart, so that every rounding shows.
    const auto spread = [](index_t n, std::uint64_t stream) {
      auto x = numbers(n, stream);
      const Generator::Stream random{12, stream};
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(random.below(i, 60)) - 30);
      return x;
    };
    compare(size, spread(size.m * size.k, 2), spread(size.k * size.n, 3));
  }
  // Numbers of any bits, but for those whose products a float cannot hold.
  const auto any = [](index_t n, std::uint64_t stream) {
    Numbers x(static_cast<std::size_t>(n));
    const Generator::Stream random{13, stream};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto bits = static_cast<std::uint32_t>(random.below(i, std::uint64_t{1} << 32));
      const std::uint32_t exponent = bits >> 23 & 0xff;
      x[i] = std::bit_cast<float>(exponent == 0 || exponent == 255 ? bits : (bits & 0x807fffffu) | (80 + exponent % 90) << 23);
    }
    return x;
  };
  const Size size{150, 600, 2};
  compare(size, any(size.m * size.k, 4), any(size.k * size.n, 5));
}
#endif
