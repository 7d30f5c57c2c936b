#include "attend/cpu/int8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/cpu/embedding.hpp"
#include "catch.hpp"
#include "cpu/emulated_vnni.hpp"
#include "with_threads.hpp"

using namespace attend;

namespace {

std::vector<float> normal(index_t n, std::uint64_t stream) {
  const Generator::Stream random{11, stream};
  std::vector<float> x;
  for (index_t i = 0; i < n; ++i) x.push_back(static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
  return x;
}

/// Products of nothing but 127 and -127, whose sums of two or four would leave 16 bits first: exact, whatever the signs.
template <class Device>
void check_largest(Device device) {
  constexpr index_t m = 7, k = 66, n = 130;
  const auto signs = [](index_t row, index_t l) {  // all alike, or changing with every number, every second, ...
    const bool negative = row < 2 ? row == 1 : ((l >> (row % 4)) + row / 4) % 2 != 0;
    return negative ? -127.0f : 127.0f;
  };
  std::vector<float> x, w, expected;
  for (index_t i = 0; i < m; ++i)
    for (index_t l = 0; l < k; ++l) x.push_back(signs(i, l));
  for (index_t j = 0; j < n; ++j)
    for (index_t l = 0; l < k; ++l) w.push_back(signs(j, l));
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      float sum = 0;
      for (index_t l = 0; l < k; ++l) sum += signs(i, l) * signs(j, l);
      expected.push_back(sum);
    }
  const auto packed = pack_int8<float>(device, kernels::Matrix<const float>{w.data(), n, k}.transpose());
  for (index_t rows = 1; rows <= m; ++rows) {
    std::vector<float> y(static_cast<std::size_t>(rows * n), 0.5f);
    packed->multiply({x.data(), rows, k}, nullptr, {y.data(), rows, n});
    CHECK(std::equal(y.begin(), y.end(), expected.begin()));
  }
}

/// A product [m, k] by [k, n] of an instruction set in 8 bits, packed from floats and from rows that were brought to 8 bits
/// before, against plain sums.
template <class Device>
void check_product(Device device, index_t m, index_t n, index_t k) {
  auto w = normal(n * k, 1);
  if (n > 1) std::fill_n(w.begin() + k, k, 0.0f);  // a row of nothing has the scale 0
  const auto x = normal(m * k, 2), bias = normal(n, 3);
  const kernels::Matrix<const float> left{x.data(), m, k}, weight{w.data(), n, k};
  const auto product = [&](const auto& packed) {
    std::vector<float> y(static_cast<std::size_t>(m * n), 0.5f);
    packed->multiply(left, bias.data(), {y.data(), m, n});
    return y;
  };
  std::vector<std::int8_t> rows(static_cast<std::size_t>(n * k));
  std::vector<float> scales(static_cast<std::size_t>(n));
  quantize_rows(device, weight, rows.data(), scales.data());
  INFO(m << " rows, " << n << " columns, " << k << " deep");
  const auto expected = product(pack_int8<float>(device, weight.transpose()));
  CHECK((product(pack_int8(device, kernels::Int8Rows<float>{rows.data(), scales.data(), n, k})) == expected));
  CHECK(*std::min_element(rows.begin(), rows.end()) >= -127);

  std::vector<std::int8_t> left_rows(x.size());
  std::vector<float> left_scales(static_cast<std::size_t>(m));
  quantize_rows(device, left, left_rows.data(), left_scales.data());
  double error = 0;
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      int sum = 0;
      for (index_t l = 0; l < k; ++l) sum += nth(left_rows, i * k + l) * nth(rows, j * k + l);
      const double gap =
          std::abs(static_cast<double>(sum) * nth(left_scales, i) * nth(scales, j) + nth(bias, j) - nth(expected, i * n + j));
      if (!std::isnan(error) && !(gap <= error)) error = gap;  // what is no number is the worst, and stays it
    }
  CHECK(error < 1e-4);
}

/// Products of few rows and columns, and of the largest numbers.
template <class Device>
void check_products(Device device) {
  for (const index_t n : {1, 63, 83, 130})
    for (const auto& size : {std::array<index_t, 2>{7, 1}, {1, 5}, {2, 12}, {14, 64}, {17, 301}})
      check_product(device, size[0], n, size[1]);
  check_largest(device);
}

/// f(device) for each instruction set that there are 8-bit products for, and that the processor has. Without AVX-VNNI, which few
/// have: it is tested by emulation, or apart.
template <class F>
void in_every_set(const F& f) {
  f(Cpu{});
#if ATTEND_DISPATCH && defined(__aarch64__) && ATTEND_ARM_GRANTED < 1
  if (detail::processor_has(1)) f(neon_dot::kernels::Cpu{});
#endif
#if ATTEND_DISPATCH && defined(__aarch64__) && ATTEND_ARM_GRANTED < 2
  if (detail::processor_has(2)) f(neon_i8mm::kernels::Cpu{});
#endif
#if ATTEND_DISPATCH && defined(__x86_64__) && ATTEND_GRANTED < 2
  if (detail::processor_has(2)) f(avx2::kernels::Cpu{});
  if (detail::processor_has(4)) f(avx512::kernels::Cpu{});
  if (detail::processor_has(5)) f(avx512::vnni::kernels::Cpu{});
#endif
}

/// A lookup in a table of 8-bit rows against one in the floats that these stand for.
template <class Device>
void check_lookup(Device device) {
  const index_t vocabulary = 9, width = 37;
  const auto table = normal(vocabulary * width, 4);
  std::vector<std::int8_t> rows(table.size());
  std::vector<float> scales(static_cast<std::size_t>(vocabulary)), floats(table.size());
  quantize_rows(device, kernels::Matrix<const float>{table.data(), vocabulary, width}, rows.data(), scales.data());
  for (index_t i = 0; i < vocabulary * width; ++i) nth(floats, i) = nth(scales, i / width) * static_cast<float>(nth(rows, i));
  const std::vector<token_t> tokens{8, 0, 3, 3};
  const kernels::TokenList list{tokens.data(), 4, vocabulary};
  std::vector<float> expected(4 * 37), got(4 * 37);
  embedding_forward(device, list, width, 3.7f, floats.data(), expected.data());
  embedding_forward(device, list, 3.7f, kernels::Int8Rows<float>{rows.data(), scales.data(), vocabulary, width}, got.data());
  CHECK(got == expected);
}

}  // namespace

TEST_CASE("int8: rows in 8 bits are packed into the product that their floats are, in every instruction set") {
  in_every_set([](auto device) { check_products(device); });
#if ATTEND_DISPATCH && defined(__x86_64__) && ATTEND_GRANTED < 2 && defined(__linux__)
  if (detail::processor_has(2)) {
    const EmulatedVnni emulated;
    check_products(avx2::vnni::kernels::Cpu{});
    CHECK((detail::processor_has(3) || EmulatedVnni::count() > 1000));
    const auto w = normal(301 * 83, 1), x = normal(19 * 301, 2);
    const auto product = [&](auto device) {
      std::vector<float> y(19 * 83);
      pack_int8<float>(device, {w.data(), 301, 83})->multiply({x.data(), 19, 301}, nullptr, {y.data(), 19, 83});
      return y;
    };
    CHECK(product(avx2::vnni::kernels::Cpu{}) == product(avx2::kernels::Cpu{}));
  }
#endif
}

TEST_CASE("int8: large products go by blocks of panels, and threads share their rows, in every instruction set") {
  const WithThreads threads(3);
  in_every_set([](auto device) { check_product(device, 121, 807, 701); });
#if ATTEND_DISPATCH && defined(__x86_64__) && ATTEND_GRANTED < 2
  if (detail::processor_has(3)) check_product(avx2::vnni::kernels::Cpu{}, 121, 807, 701);  // not emulated, which is slow
#endif
}

TEST_CASE("int8: a sum of nothing is the bias") {
  const std::vector<float> bias{1, 2, 3};
  std::vector<float> y(6, 7.0f);
  const auto packed = pack_int8<float>(Cpu{}, kernels::Matrix<const float>{nullptr, 0, 3});
  packed->multiply({nullptr, 2, 0}, bias.data(), {y.data(), 2, 3});
  CHECK(y == std::vector<float>{1, 2, 3, 1, 2, 3});
  packed->multiply({nullptr, 2, 0}, nullptr, {y.data(), 2, 3});
  CHECK(y == std::vector<float>(6));
}

TEST_CASE("int8: a table in 8 bits is looked up in as the floats that it stands for, in every instruction set") {
  check_lookup(Cpu{});
#if ATTEND_DISPATCH && defined(__x86_64__) && ATTEND_GRANTED < 2
  if (detail::processor_has(2)) check_lookup(avx2::kernels::Cpu{});
  if (detail::processor_has(4)) check_lookup(avx512::kernels::Cpu{});
#endif
}

TEST_CASE("int8: what is brought to 8 bits is within half a step of what it was") {
  const index_t n = 5, k = 100;
  const auto x = normal(n * k, 5);
  std::vector<std::int8_t> rows(x.size());
  std::vector<float> scales(static_cast<std::size_t>(n));
  quantize_rows(Cpu{}, kernels::Matrix<const float>{x.data(), n, k}, rows.data(), scales.data());
  for (index_t i = 0; i < n * k; ++i) {
    const float scale = nth(scales, i / k);
    CHECK(std::abs(scale * static_cast<float>(nth(rows, i)) - nth(x, i)) <= 0.5001f * scale);
  }
}

TEST_CASE("int8: a number that is not finite makes its row NaN, and no other") {
  const index_t n = 3, k = 83;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
    for (const index_t at : {0, 63, 82}) {
      auto weights = normal(n * k, 6), x = normal(n * k, 7);
      nth(weights, k + at) = bad;  // column 1 of the product
      nth(x, 2 * k + at) = bad;
      std::vector<std::int8_t> row(static_cast<std::size_t>(k));
      CHECK(std::isnan(cpu::quantize_row(k, x.data() + 2 * k, row.data())));
      const auto packed = pack_int8<float>(Cpu{}, kernels::Matrix<const float>{weights.data(), n, k}.transpose());
      std::vector<float> y(static_cast<std::size_t>(n * n));
      packed->multiply({x.data(), n, k}, nullptr, {y.data(), n, n});
      for (index_t i = 0; i < n; ++i)
        for (index_t j = 0; j < n; ++j) CHECK(std::isnan(nth(y, i * n + j)) == (i == 2 || j == 1));
    }
}
