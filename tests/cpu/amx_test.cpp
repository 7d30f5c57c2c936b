// Products by AMX's tiles, called by name, so that they are tested whatever ATTEND_ISA says. Compiled twice: as part of the
// kernels' test, for processors that have tiles, and with ATTEND_TILES in place of the instructions for those that do not.
#include "attend/cpu/amx.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "attend/cpu/bf16.hpp"
#include "attend/cpu/int8.hpp"
#include "catch.hpp"
#include "cpu/products_in_bf16.hpp"
#include "with_threads.hpp"

#if ATTEND_AMX

using namespace attend;
using kernels::stored;
using Amx = avx512::amx::kernels::Cpu;

namespace {

using namespace bf16_products;

/// Whether this process may use tiles, or what stands for them.
bool have_tiles() {
#ifdef ATTEND_TILES
  const bool have = detail::processor_has(5) && detail::processor_has(6);
#else
  const bool have = detail::processor_has(7) && detail::system_allows(7);
#endif
  if (!have) WARN("skipped: this processor, or this system, lacks what AMX needs");
  return have;
}

/// c of a product whose bits are those of the tiles: sixteen pairs at a time, the first numbers' products and the second ones'
/// summed by themselves, then both added to what c or the bias was.
Numbers sums_of_tiles(bool ta, bool tb, const Size& size, const Numbers& a, const Numbers& b, const Numbers& start) {
  return each_sum(ta, tb, size, a, b, [&](std::size_t at, const auto& row, const auto& column) {
    float sum = start.empty() ? 0 : start[at % start.size()];
    for (index_t first = 0; first < size.k; first += 32) {
      float halves[2] = {};
      for (index_t l = first; l < std::min(size.k, first + 32); ++l) halves[l % 2] = std::fma(row(l), column(l), halves[l % 2]);
      sum += halves[0] + halves[1];
    }
    return sum;
  });
}

}  // namespace

TEST_CASE("amx: products in bfloat16 have the bits of the tiles' sums, each way of storing, with any number of threads") {
  if (!have_tiles()) return;
  const WithThreads afterwards;
  for (const Size& size : sizes) {
    const auto& [m, n, k] = size;
    const auto a = spread(m * k, 0), b = spread(k * n, 1), before = numbers(m * n, 10), bias = numbers(n, 11);
    for (int way = 0; way < 4; ++way) {
      const bool ta = way & 1, tb = way & 2;
      INFO(m << " x " << n << " x " << k << ", way " << way);
      set_threads(1);
      const auto c = product(Amx{}, ta, tb, size, a, b);
      CHECK(differing(c, sums_of_tiles(ta, tb, size, a, b, {})) == 0);
      for (const int threads : {3, 40}) {
        set_threads(threads);
        CHECK(differing(c, product(Amx{}, ta, tb, size, a, b)) == 0);
      }
      set_threads(1);
      CHECK(differing(product(Amx{}, ta, tb, size, a, b, {.c = before.data()}), sums_of_tiles(ta, tb, size, a, b, before)) == 0);
      CHECK(differing(product(Amx{}, ta, tb, size, a, b, {.bias = bias.data()}), sums_of_tiles(ta, tb, size, a, b, bias)) == 0);
      if (k > 1024) continue;  // what is summed in one go is multiplied by a factor, and the first gets a bias besides c
      auto both = sums_of_tiles(ta, tb, size, a, b, before), half = sums_of_tiles(ta, tb, size, a, b, {});
      for (std::size_t i = 0; i < both.size(); ++i) both[i] += bias[i % bias.size()];
      CHECK(differing(product(Amx{}, ta, tb, size, a, b, {bias.data(), before.data()}), both) == 0);
      for (float& x : half) x *= 0.5f;
      CHECK(differing(product(Amx{}, ta, tb, size, a, b, {}, 0.5), half) == 0);
    }
  }
}

TEST_CASE("amx: results are stored where c lies within a larger matrix, and nowhere else") {
  if (!have_tiles()) return;
  constexpr index_t gap = 5, k = 70;
  for (const index_t m : {1, 16, 20, 32, 33})
    for (const index_t n : {1, 31, 32, 33, 64, 70}) {
      INFO(m << " x " << n);
      const index_t stride = n + gap;
      const auto a = numbers(m * k, 12), b = numbers(k * n, 13), before = numbers((m + 1) * stride, 14);
      for (const bool add : {false, true}) {
        Numbers whole = before, inside(static_cast<std::size_t>(m * n));
        gemm_bf16<float>(Amx{}, stored(false, a.data(), m, k), stored(false, b.data(), k, n), nullptr,
                         kernels::Matrix<float>{whole.data(), m, n, stride}, {.add = add});
        for (index_t i = 0; i < m; ++i) std::copy_n(before.data() + i * stride, n, inside.data() + i * n);
        const auto expected = sums_of_tiles(false, false, {m, n, k}, a, b, add ? inside : Numbers{});
        for (index_t i = 0; i < m; ++i) std::copy_n(whole.data() + i * stride, n, inside.data() + i * n);
        CHECK(differing(inside, expected) == 0);
        for (index_t i = 0; i < m; ++i) std::copy_n(before.data() + i * stride, n, whole.data() + i * stride);
        CHECK(differing(whole, before) == 0);
      }
    }
}

TEST_CASE("amx: a packed matrix in bfloat16 gives each row the bits that it has alone, with a bias") {
  if (have_tiles()) check_rows_of_packed(Amx{}, 70, 1100, {1, 2, 16, 17, 31, 32, 33, 69});
}

TEST_CASE("amx: what is no number reaches its row and its column, and no other") {
  if (have_tiles()) check_not_a_number(Amx{}, {35, 40, 50}, 17, 20);  // which leaves zeros behind the numbers
}

TEST_CASE("amx: 8-bit products have the bits that VNNI gives") {
  if (!have_tiles()) return;
  const WithThreads afterwards;
  for (const index_t n : {1, 32, 83, 130})
    for (const index_t m : {1, 5, 6, 7, 16, 17, 32, 33, 100})
      for (const index_t k : {1, 63, 64, 301}) {
        const auto w = numbers(n * k, 7), x = numbers(m * k, 8), bias = numbers(n, 9);
        const kernels::Matrix<const float> left{x.data(), m, k}, right{w.data(), k, n};
        const auto of = [&](const auto& packed, const float* plus) {
          Numbers y(static_cast<std::size_t>(m * n), 0.5f);
          packed->multiply(left, plus, {y.data(), m, n});
          return y;
        };
        INFO(m << " x " << n << " x " << k);
        const auto tiles = avx512::amx::kernels::pack_int8<float>(Amx{}, right);
#if ATTEND_GRANTED < 5
        const auto vnni = std::make_unique<avx512::vnni::cpu::Int8Matrix>(right);
#else
        const auto vnni = std::make_unique<cpu::Int8Matrix>(right);
#endif
        for (const int threads : {1, 3}) {
          set_threads(threads);
          CHECK(differing(of(tiles, bias.data()), of(vnni, bias.data())) == 0);
          CHECK(differing(of(tiles, nullptr), of(vnni, nullptr)) == 0);
        }
      }
}

#endif
