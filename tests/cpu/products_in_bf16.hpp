#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "attend/core/bfloat16.hpp"
#include "attend/core/random.hpp"
#include "attend/cpu/bf16.hpp"
#include "catch.hpp"

/// Products in bfloat16 by one set of instructions, called by name, and the same number by number in whatever order.
namespace bf16_products {

using attend::index_t;
using Numbers = std::vector<float>;

inline Numbers numbers(index_t n, std::uint64_t stream) {
  const attend::Generator::Stream random{17, stream};
  Numbers x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}
/// Exponents far apart, so that the order of a sum shows.
inline Numbers spread(index_t n, std::uint64_t stream) {
  auto x = numbers(n, stream);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i * 7 % 41) - 20);
  return x;
}

struct Size {
  index_t m, n, k;
};
/// Whole tiles and parts of them, one block of k and more.
inline constexpr Size sizes[] = {{1, 1, 1},    {3, 5, 7},       {16, 32, 32},  {17, 33, 31},    {2, 70, 2049},
                                 {33, 65, 64}, {15, 100, 1023}, {48, 20, 300}, {129, 97, 1030}, {5, 200, 66}};

/// What a product is added to.
struct Start {
  const float* bias = nullptr;
  const float* c = nullptr;
};

/// c [m, n] by the kernel of `device`. a and b are stored transposed with `ta` and `tb`.
template <class D>
Numbers product(D device, bool ta, bool tb, const Size& size, const Numbers& a, const Numbers& b, Start start = {},
                double factor = 1) {
  const auto [m, n, k] = size;
  Numbers c(static_cast<std::size_t>(m * n), 7.0f);
  if (start.c) c.assign(start.c, start.c + m * n);
  gemm_bf16<float>(device, attend::kernels::stored(ta, a.data(), m, k), attend::kernels::stored(tb, b.data(), k, n), start.bias,
                   attend::kernels::Matrix<float>{c.data(), m, n}, {.alpha = factor, .add = start.c != nullptr});
  return c;
}

/// c [m, n] of sum(at, row, column): at is the place in c; row(l) and column(l) are the rounded numbers, 0 from k on.
template <class Sum>
Numbers each_sum(bool ta, bool tb, const Size& size, const Numbers& a, const Numbers& b, const Sum& sum) {
  const auto of = [](const Numbers& x, index_t at) {
    return static_cast<float>(attend::bfloat16(x[static_cast<std::size_t>(at)]));
  };
  Numbers c;
  for (index_t i = 0; i < size.m; ++i)
    for (index_t j = 0; j < size.n; ++j)
      c.push_back(sum(
          c.size(), [&, i = i](index_t l) { return l < size.k ? of(a, ta ? l * size.m + i : i * size.k + l) : 0.0f; },
          [&, j = j](index_t l) { return l < size.k ? of(b, tb ? j * size.k + l : l * size.n + j) : 0.0f; }));
  return c;
}

/// Of how many numbers the bits differ.
inline std::size_t differing(const Numbers& a, const Numbers& b) {
  std::size_t others = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    others += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  return others;
}

/// The last rows of a packed product have the bits that they have in all of it, packed or not, however many they are. There are
/// 83 columns.
template <class D>
void check_rows_of_packed(D device, index_t rows, index_t k, std::initializer_list<index_t> counts) {
  constexpr index_t n = 83;
  const auto a = numbers(rows * k, 2), b = numbers(k * n, 3), bias = numbers(n, 4);
  Numbers turned(b.size());
  for (index_t l = 0; l < k; ++l)
    for (index_t j = 0; j < n; ++j) turned[static_cast<std::size_t>(j * k + l)] = b[static_cast<std::size_t>(l * n + j)];
  for (const bool tb : {false, true}) {
    const auto packed = pack_bf16<float>(device, attend::kernels::stored(tb, (tb ? turned : b).data(), k, n));
    Numbers whole(static_cast<std::size_t>(rows * n)), plain = product(device, false, false, {rows, n, k}, a, b);
    packed->multiply({a.data(), rows, k}, bias.data(), {whole.data(), rows, n});
    for (const index_t count : counts) {
      const index_t first = rows - count;
      Numbers part(static_cast<std::size_t>(count * n));
      packed->multiply({a.data() + first * k, count, k}, bias.data(), {part.data(), count, n});
      INFO(count << " rows, " << (tb ? "transposed" : "not transposed"));
      CHECK(std::equal(part.begin(), part.end(), whole.begin() + first * n));
      packed->multiply({a.data() + first * k, count, k}, nullptr, {part.data(), count, n});
      CHECK(std::equal(part.begin(), part.end(), plain.begin() + first * n));
    }
  }
}

/// An infinity in the last column of a, in `row`, and a NaN in the last row of b, in `column`, reach what they meet and no more.
template <class D>
void check_not_a_number(D device, const Size& size, index_t row, index_t column) {
  const auto [m, n, k] = size;
  auto a = numbers(m * k, 5), b = numbers(k * n, 6);
  const auto usual = product(device, false, false, size, a, b);
  a[static_cast<std::size_t>(row * k + k - 1)] = std::numeric_limits<float>::infinity();
  b[static_cast<std::size_t>((k - 1) * n + column)] = std::numeric_limits<float>::quiet_NaN();
  const auto c = product(device, false, false, size, a, b);
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      if (j == column) CHECK(std::isnan(c[at]));
      else if (i == row) CHECK(std::isinf(c[at]));
      else CHECK(c[at] == usual[at]);
    }
}

}  // namespace bf16_products
