#if !defined(ATTEND_CPU_BF16_PACKING) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_BF16_PACKING

#include <algorithm>
#include <cstdint>
#include <utility>

#include "attend/core/types.hpp"
#include "attend/cpu/gemm_packing.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"

#endif  // ATTEND_READING

/// Floats rounded to bfloat16 and copied to where a product reads them one after the other.
///
/// Two numbers that follow each other in k make a word, the first in its lower half; after an odd k comes a 0. Numbers are
/// rounded to the nearest, ties to even; those below 2^-126 become 0, with their sign; a NaN stays one.
///
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 2, VCVTNE2PS2BF16; Arm Architecture Reference
/// Manual for A-profile, BFCVTN.
namespace attend::ATTEND_CPU {

/// Words that are summed in one go, at most, and from one row to the next where a tile's rows of words are stored one by one: a
/// tile stays in the first-level cache, and its rows do not compete for the same lines of it.
inline constexpr index_t pair_block = 512, pair_row = pair_block + 16;

/// Numbers that are summed in one go, of k: as many in each block, a multiple of 32 but for the last.
inline index_t pair_depth(index_t k) {
  const index_t most = 2 * pair_block, blocks = std::max<index_t>(1, (k + most - 1) / most);
  return std::max<index_t>(1, ((k + blocks - 1) / blocks + 31) / 32) * 32;
}

/// Words of a row of a, or a column of b, that lie side by side where words lie one by one: ARM's instruction takes two. Behind
/// them come those of the next row or column.
inline constexpr index_t words_together = ATTEND_ARM_LEVEL >= 3 ? 2 : 1;

/// Words that so many numbers take, zeros behind them included: whole tiles with AMX.
constexpr index_t pair_words(index_t numbers) {
  constexpr index_t at_once = ATTEND_LEVEL >= 7 ? 16 : words_together;
  return (numbers + 2 * at_once - 1) / (2 * at_once) * at_once;
}

namespace detail {

/// Two numbers of bfloat16 in each 32 bits.
using Pairs = Vector<std::uint32_t>;

#if ATTEND_ARM_LEVEL >= 3
/// Numbers below 2^-126 as 0: the instruction that rounds would take some of them up to that.
[[gnu::always_inline]] inline Vector<float> without_small(Vector<float> x) {
  const auto u = (Pairs)x;
  const Pairs small = (Pairs)((u & 0x7f800000u) == 0u);
  return (Vector<float>)(u & ~(small >> 1));
}
#elif ATTEND_LEVEL < 6
/// The upper halves of floats rounded to bfloat16, with 0 below.
[[gnu::always_inline]] inline Pairs rounded(Vector<float> x) {
  const auto u = (Pairs)x;
  const Pairs up = u + 0x7fffu + ((u >> 16) & 1u);
  const Pairs small = (Pairs)((u & 0x7f800000u) == 0u), nan = (Pairs)((u & 0x7fffffffu) > 0x7f800000u);
  return ((up & ~(small | nan)) | (u & small & 0x80000000u) | ((u | 0x400000u) & nan)) & 0xffff0000u;
}
/// Neighbours of x and y, which lie one after the other, as pairs of bfloat16.
template <int... L>
[[gnu::always_inline]] inline Pairs rounded_neighbours(Vector<float> x, Vector<float> y, std::integer_sequence<int, L...>) {
  return (rounded(pick<float, 2 * L...>(x, y)) >> 16) | rounded(pick<float, (2 * L + 1)...>(x, y));
}
#endif

/// The words of numbers that follow each other: those of x, then those of y.
[[gnu::always_inline]] inline Pairs round_neighbours(Vector<float> x, Vector<float> y) {
#if ATTEND_LEVEL >= 6
  return (Pairs)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
#elif ATTEND_ARM_LEVEL >= 3
  Pairs words;
  asm("bfcvtn %0.4h, %1.4s\n\tbfcvtn2 %0.8h, %2.4s" : "=&w"(words) : "w"(without_small(x)), "w"(without_small(y)));
  return words;
#else
  return rounded_neighbours(x, y, std::make_integer_sequence<int, width<float>>{});
#endif
}

/// The words of `low` and `high`, number by number.
[[gnu::always_inline]] inline Pairs round_pairs(Vector<float> low, Vector<float> high) {
#if ATTEND_LEVEL >= 6
  constexpr Vector<std::uint16_t> turns = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                           8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  return (Pairs)_mm512_maskz_permutexvar_epi16(~__mmask32{0}, (__m512i)turns, halves);
#elif ATTEND_ARM_LEVEL >= 3
  using Halves = Vector<std::uint16_t>;
  return (Pairs)pick<std::uint16_t, 0, 4, 1, 5, 2, 6, 3, 7>((Halves)round_neighbours(low, high), Halves{});
#else
  return (rounded(low) >> 16) | rounded(high);
#endif
}

/// The words of `count` numbers that follow each other, at most two vectors', and zeros behind them.
[[gnu::always_inline]] inline Pairs round_neighbours(const float* x, index_t count) {
  constexpr index_t W = width<float>;
  if (count >= 2 * W) return round_neighbours(load<float>(x), load<float>(x + W));
  const int first = static_cast<int>(std::min(W, count)), second = static_cast<int>(count) - first;
  return round_neighbours(load_part<float>(x, first), second > 0 ? load_part<float>(x + W, second) : Vector<float>{});
}

/// Words of each of W columns, those of two rows if `words_together` is 2, to where they belong in a panel.
[[gnu::always_inline]] inline void store_words(std::uint32_t* to, Pairs first, [[maybe_unused]] Pairs second) {
  if constexpr (words_together == 1) {
    store<std::uint32_t>(to, first);
  } else {
    constexpr int W = width<std::uint32_t>;
    constexpr auto places = std::make_integer_sequence<int, W>{};
    store<std::uint32_t>(to, interleave<std::uint32_t, W, false>(first, second, places));
    store<std::uint32_t>(to + W, interleave<std::uint32_t, W, true>(first, second, places));
  }
}

}  // namespace detail

/// Copies words [begin, end) of b's columns, `begin` a multiple of `words_together`, where each row of b is contiguous, into
/// panels of N words a k: panel p, `panel_step` words after the one before, gets the columns from p * columns_step on. `to` is
/// where word 0 would go. Columns that are missing become 0.
template <index_t N>
void pack_pair_rows(MatrixView<float> b, index_t begin, index_t end, index_t k, index_t columns, index_t columns_step,
                    std::uint32_t* to, index_t panel_step) {
  constexpr index_t W = width<float>;
  const auto all = [&](index_t l, index_t j) { return load<float>(b.at(l, j)); };
  const auto some = [&](index_t l, index_t j) {
    if (l >= k || j >= columns) return Vector<float>{};
    return j + W <= columns ? load<float>(b.at(l, j)) : load_part<float>(b.at(l, j), static_cast<int>(columns - j));
  };
  for (index_t l = begin; l < end; l += words_together)
    for (index_t p = 0; p * columns_step < columns; ++p)
      for (index_t v = 0; v < N; v += W) {
        const index_t j = p * columns_step + v;
        const auto copy = [&](const auto& numbers) {
          const detail::Pairs first = detail::round_pairs(numbers(2 * l, j), numbers(2 * l + 1, j));
          detail::Pairs second = {};
          if constexpr (words_together == 2) second = detail::round_pairs(numbers(2 * l + 2, j), numbers(2 * l + 3, j));
          detail::store_words(to + p * panel_step + l * N + v * words_together, first, second);
        };
        if (2 * (l + words_together) <= k && j + W <= columns) copy(all);
        else copy(some);
      }
}

/// The same for one panel of columns that are contiguous, rows [0, k) of b.
template <index_t N>
void pack_pair_columns(MatrixView<float> b, index_t k, index_t columns, std::uint32_t* to) {
  constexpr index_t W = width<float>;
  for (index_t j = 0; j < N; j += W)
    for (index_t l = 0; l < k; l += 2 * W) {
      const index_t deep = std::min(2 * W, k - l), here = std::min(W, columns - j);
      Vector<float> v[W];
      if (deep == 2 * W && here == W) {
#pragma GCC unroll 16
        for (index_t r = 0; r < W; ++r) v[r] = (Vector<float>)detail::round_neighbours(b.at(l, j + r), 2 * W);
      } else {
        for (index_t r = 0; r < W; ++r)
          v[r] = r < here ? (Vector<float>)detail::round_neighbours(b.at(l, j + r), deep) : Vector<float>{};
      }
      transpose<float>(v);
      const auto store_row = [&](index_t r) {
        detail::store_words(to + (l / 2 + r) * N + j * words_together, (detail::Pairs)v[r],
                            (detail::Pairs)v[r + words_together - 1]);
      };
      if (deep == 2 * W) {
#pragma GCC unroll 16
        for (index_t r = 0; r < W; r += words_together) store_row(r);
      } else {
        for (index_t r = 0; r < pair_words(deep); r += words_together) store_row(r);
      }
    }
}

/// Copies the words of `count` rows of a, whose numbers lie side by side, row by row.
inline void pack_pairs_by_rows(MatrixView<float> a, index_t count, index_t k, std::uint32_t* to) {
  constexpr index_t W = width<float>;
  for (index_t r = 0; r < count; ++r)
    for (index_t l = 0; l < k; l += 2 * W)
      store<std::uint32_t>(to + r * pair_row + l / 2, detail::round_neighbours(a.at(r, l), std::min(2 * W, k - l)));
}

#if ATTEND_LEVEL >= 7
/// The same of rows whose columns lie side by side. Up to a multiple of 16, rows that are missing become 0.
inline void pack_pairs_turned(MatrixView<float> a, index_t count, index_t k, std::uint32_t* to) {
  constexpr index_t W = width<float>;
  const auto from = [&](index_t r, index_t l) {
    if (l >= k) return Vector<float>{};
    return count - r >= W ? load<float>(a.at(r, l)) : load_part<float>(a.at(r, l), static_cast<int>(count - r));
  };
  for (index_t l = 0; l < k; l += 2 * W)
    for (index_t r = 0; r < count; r += W) {
      Vector<float> v[W];
#pragma GCC unroll 16
      for (index_t i = 0; i < W; ++i) v[i] = (Vector<float>)detail::round_pairs(from(r, l + 2 * i), from(r, l + 2 * i + 1));
      transpose<float>(v);
#pragma GCC unroll 16
      for (index_t i = 0; i < W; ++i) store<std::uint32_t>(to + (r + i) * pair_row + l / 2, (Vector<std::uint32_t>)v[i]);
    }
}
#endif

}  // namespace attend::ATTEND_CPU

#define ATTEND_READ_AGAIN "attend/cpu/bf16_packing.hpp"
#define ATTEND_READ_FOR_BF16
#include "attend/cpu/each_target.hpp"
#endif
