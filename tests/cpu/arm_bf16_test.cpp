// Products in bfloat16 by ARM's BFMMLA, called by name, so that they are tested whatever ATTEND_ISA says.
#include <bit>
#include <cmath>
#include <cstdint>

#include "attend/cpu/bf16.hpp"
#include "catch.hpp"
#include "cpu/products_in_bf16.hpp"
#include "with_threads.hpp"

#if defined(__aarch64__) && (ATTEND_DISPATCH || ATTEND_ARM_GRANTED >= 3)

using namespace attend;
using namespace bf16_products;

namespace {

#if ATTEND_ARM_GRANTED >= 3
namespace arm = attend;
#else
namespace arm = attend::neon_bf16;
#endif
using Arm = arm::kernels::Cpu;

bool have_squares() {
  const bool have = detail::processor_has(3);
  if (!have) WARN("skipped: this processor lacks BF16");
  return have;
}

/// x + y rounded to odd: cut off to a float, whose last bit is set if anything was. Exponents must leave room.
float odd_sum(float x, float y) {
  const double a = x, b = y, sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
  const auto bits = std::bit_cast<std::uint64_t>(sum), below = bits & ((std::uint64_t{1} << 29) - 1);
  auto z = static_cast<float>(std::bit_cast<double>(bits - below));
  if (below == 0 && error == 0) return z;
  if (below == 0 && std::signbit(error) != std::signbit(sum)) z = std::nextafter(z, 0.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(z) | 1u);
}

/// c of a product whose bits are the instruction's: of each two numbers the products are added to each other, then to the sum.
Numbers sums_of_squares(bool ta, bool tb, const Size& size, const Numbers& a, const Numbers& b) {
  return each_sum(ta, tb, size, a, b, [&](std::size_t, const auto& row, const auto& column) {
    float sum = 0;
    for (index_t l = 0; l < size.k; l += 2) sum = odd_sum(sum, odd_sum(row(l) * column(l), row(l + 1) * column(l + 1)));
    return sum;
  });
}

}  // namespace

TEST_CASE("arm_bf16: products have the bits of BFMMLA's sums, each way of storing, with any number of threads") {
  if (!have_squares()) return;
  const WithThreads afterwards;
  for (const Size& size : sizes) {
    const auto& [m, n, k] = size;
    const auto a = spread(m * k, 0), b = spread(k * n, 1), before = numbers(m * n, 10), bias = numbers(n, 11);
    for (int way = 0; way < 4; ++way) {
      const bool ta = way & 1, tb = way & 2;
      INFO(m << " x " << n << " x " << k << ", way " << way);
      set_threads(1);
      const auto c = product(Arm{}, ta, tb, size, a, b);
      for (const int threads : {3, 40}) {
        set_threads(threads);
        CHECK(differing(c, product(Arm{}, ta, tb, size, a, b)) == 0);
      }
      set_threads(1);
      if (k > 1024) continue;  // more are summed block by block
      auto sums = sums_of_squares(ta, tb, size, a, b);
      CHECK(differing(c, sums) == 0);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = (sums[i] + bias[i % bias.size()]) + before[i];
      CHECK(differing(product(Arm{}, ta, tb, size, a, b, {bias.data(), before.data()}), sums) == 0);
    }
  }
}

TEST_CASE("arm_bf16: a packed matrix gives each row the bits that it has alone, with a bias") {
  if (have_squares()) check_rows_of_packed(Arm{}, 37, 1101, {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 36});
}

TEST_CASE("arm_bf16: what is no number reaches its row and its column, and no other; the smallest become 0") {
  if (!have_squares()) return;
  check_not_a_number(Arm{}, {11, 20, 51}, 7, 13);           // which leaves zeros behind the numbers
  for (const float small : {0x1.fffffcp-127f, -0x1p-140f})  // the first would be rounded up to 2^-126
    CHECK(product(Arm{}, false, false, {1, 1, 1}, {small}, {0x1p+100f})[0] == 0);
}

#endif
