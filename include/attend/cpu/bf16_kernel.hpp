#if !defined(ATTEND_CPU_BF16_KERNEL) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_BF16_KERNEL

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "attend/core/thread_owned.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/amx.hpp"
#include "attend/cpu/gemm_kernel.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/targets.hpp"

#endif  // ATTEND_READING

/// The inside of a product of floats that are rounded to bfloat16 on their way into it, and summed in float.
///
/// Two numbers that follow each other in k make a word, the first in its lower half; after an odd k comes a 0. Each word adds its
/// upper product to a sum, then its lower one, both by a fused multiply-add: sum = a0 * b0 + (a1 * b1 + sum). That is what the
/// instruction VDPBF16PS does, and what is done here where a processor lacks it, so that both give the same bits. They do but for
/// sums below 2^-126: the instruction takes such for 0 and leaves 0 in their place, other instructions do not. (Without a fused
/// multiply-add, on SSE2, there are also products beyond what a float holds.)
///
/// AMX adds otherwise: of each sixteen words the lower products by themselves and the upper ones, then both to the sum, which
/// starts from what c was or from the bias, if there is no factor. So its bits are its own. What c or the bias has below 2^-126
/// counts as 0 then.
///
/// Numbers are rounded to the nearest, ties to even; those below 2^-126 become 0, with their sign; a NaN stays one. As in
/// gemm_kernel.hpp, an element's sum depends on its own row of a and column of b alone.
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 2, VDPBF16PS and VCVTNE2PS2BF16.
namespace attend::ATTEND_CPU {

/// Words that are summed in one go, at most, and from one row to the next where a tile's rows of words are stored one by one: a
/// tile stays in the first-level cache, and its rows do not compete for the same lines of it.
inline constexpr index_t pair_block = 512, pair_row = pair_block + 16;

/// Numbers that are summed in one go, of k: as many in each block, a multiple of 32 but for the last.
inline index_t pair_depth(index_t k) {
  const index_t most = 2 * pair_block, blocks = std::max<index_t>(1, (k + most - 1) / most);
  return std::max<index_t>(1, ((k + blocks - 1) / blocks + 31) / 32) * 32;
}

/// Words that so many numbers take, zeros behind them included: whole tiles with AMX.
constexpr index_t pair_words(index_t numbers) {
  constexpr index_t at_once = ATTEND_LEVEL >= 6 ? 16 : 1;
  return (numbers + 2 * at_once - 1) / (2 * at_once) * at_once;
}

namespace detail {

/// Two numbers of bfloat16 in each 32 bits.
using Pairs = Vector<std::uint32_t>;

#if ATTEND_LEVEL < 5
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

/// The words of `low` and `high`, number by number.
[[gnu::always_inline]] inline Pairs round_pairs(Vector<float> low, Vector<float> high) {
#if ATTEND_LEVEL >= 5
  constexpr Vector<std::uint16_t> turns = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                           8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  return (Pairs)_mm512_maskz_permutexvar_epi16(~__mmask32{0}, (__m512i)turns, halves);
#else
  return (rounded(low) >> 16) | rounded(high);
#endif
}

/// The words of numbers that follow each other: those of x, then those of y.
[[gnu::always_inline]] inline Pairs round_neighbours(Vector<float> x, Vector<float> y) {
#if ATTEND_LEVEL >= 5
  return (Pairs)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
#else
  return rounded_neighbours(x, y, std::make_integer_sequence<int, width<float>>{});
#endif
}

/// The same of `count` numbers, at most two vectors', and zeros behind them.
[[gnu::always_inline]] inline Pairs round_neighbours(const float* x, index_t count) {
  constexpr index_t W = width<float>;
  if (count >= 2 * W) return round_neighbours(load<float>(x), load<float>(x + W));
  const int first = static_cast<int>(std::min(W, count)), second = static_cast<int>(count) - first;
  return round_neighbours(load_part<float>(x, first), second > 0 ? load_part<float>(x + W, second) : Vector<float>{});
}

#if ATTEND_LEVEL < 6
/// sum[v] += both products of the word a with word v of b's.
template <int V>
[[gnu::always_inline]] inline void add_pairs(Vector<float> (&sum)[V], std::uint32_t a, const Pairs (&b)[V]) {
#if ATTEND_LEVEL >= 5
  const Pairs x = a + Pairs{};
#pragma GCC unroll 16
  for (int v = 0; v < V; ++v) sum[v] = (Vector<float>)_mm512_dpbf16_ps((__m512)sum[v], (__m512bh)x, (__m512bh)b[v]);
#else
  const float high = std::bit_cast<float>(a & 0xffff0000u), low = std::bit_cast<float>(a << 16);
#pragma GCC unroll 16
  for (int v = 0; v < V; ++v) multiply_add<float>(sum[v], high, (Vector<float>)(b[v] & 0xffff0000u));
#pragma GCC unroll 16
  for (int v = 0; v < V; ++v) multiply_add<float>(sum[v], low, (Vector<float>)(b[v] << 16));
#endif
}

/// c [R, P panels], of which `columns` exist, from so many words of a's rows and b's panels. a's words lie row by row if
/// `ByRows`, else word by word, a tile's rows side by side.
template <int R, int P, bool ByRows>
[[gnu::noinline]] void pair_tile(index_t words, const std::uint32_t* a, const std::uint32_t* b, index_t panel_step,
                                 Outcome<float> outcome, index_t columns) {
  constexpr int V = P * tile_vectors, W = width<float>;
  constexpr index_t N = tile_columns<float>, row_step = ByRows ? pair_row : 1, step = ByRows ? 1 : packed_rows<float>;
  Vector<float> sum[R][V] = {};
  if (P == 1 && R > 4 && words >= 64) {  // c is wanted at the end of the sums
    const float* row = outcome.c;
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i, next_row(row, outcome.ldc))
      for (int v = 0; v < V; ++v)
        if (v * W < columns) __builtin_prefetch(row + v * W, 1);
  }
  for (index_t l = 0; l < words; ++l, a += step, b += N) {
    Pairs row[V];
    if constexpr (P == 1) {  // panels come from the second-level cache
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) __builtin_prefetch(b + v * W + 16 * N);
    }
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) row[v] = load<std::uint32_t>(b + v / tile_vectors * panel_step + v % tile_vectors * W);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) add_pairs<V>(sum[i], a[i * row_step], row);
  }
  finish_tile<float, R, V, (P > 1)>(sum, outcome, columns);
}

/// Panels that a tile of R rows takes at once: the instruction takes longer than a multiply-add until its sum is there, so that
/// up to four rows want sixteen sums between them.
constexpr int pair_panels_of(int rows) { return vector_registers == 32 && rows > 2 && rows <= 4 ? 2 : panels_of(rows); }

/// A `pair_tile` of so many rows.
using PairTile = void (*)(index_t, const std::uint32_t*, const std::uint32_t*, index_t, Outcome<float>, index_t);
/// Those of 1, 2, ... rows.
template <bool Wide, bool ByRows, int... R>
constexpr auto pair_tiles(std::integer_sequence<int, R...>) {
  return std::array<PairTile, sizeof...(R)>{&pair_tile < R + 1, Wide ? pair_panels_of(R + 1) : 1, ByRows > ...};
}
/// Those of 1 to tile_rows rows.
template <bool Wide, bool ByRows>
inline constexpr auto all_pair_tiles = pair_tiles<Wide, ByRows>(std::make_integer_sequence<int, tile_rows>{});
#else
/// The same with AMX: c [rows, 32 P], from R tiles of a's rows. Without a factor the sums start from c, or from the bias, and are
/// stored where they belong if nothing is left to be added.
template <int R, int P>
[[gnu::noinline]] void pair_tile(index_t rows, index_t words, const std::uint32_t* a, const std::uint32_t* b, index_t panel_step,
                                 Outcome<float> outcome, index_t columns) {
  using Tiles = TileRegisters;
  constexpr index_t wide = P * tile_vectors * tile_side;
  alignas(64) float part[R * tile_side * wide];
  const bool whole = columns >= wide;
  const std::size_t bytes = static_cast<std::size_t>(std::min(columns, wide)) * sizeof(float);
  const float* start = nullptr;
  index_t stride = 0;
  if (outcome.alpha == 1 && outcome.add) {
    start = outcome.c;
    stride = outcome.ldc;
    outcome.add = false;
  } else if (outcome.alpha == 1) {
    start = outcome.bias;
    outcome.bias = nullptr;
  }
  if (start && !whole) {  // no further than there are columns
    for (index_t i = 0; i < (stride > 0 ? rows : 1); ++i) {
      std::memset(part + i * wide, 0, wide * sizeof(float));
      std::memcpy(part + i * wide, start + i * stride, bytes);
    }
    start = part;
    stride = stride > 0 ? wide : 0;
  }
  if (start) load_sums<R, P>(start, stride);
  else Tiles::clear<0>(), Tiles::clear<1>(), Tiles::clear<2>(), Tiles::clear<3>();
  multiply_tiles<R, P>(words, a, pair_row, b, panel_step, []<int C, int A, int B>() { Tiles::multiply_bf16<C, A, B>(); });
  const bool finished = outcome.alpha == 1 && !outcome.bias;
  if (finished && whole) return store_sums<R, P>(outcome.c, outcome.ldc);
  store_sums<R, P>(part, wide);
  if (finished)
    for (index_t i = 0; i < rows; ++i) std::memcpy(outcome.c + i * outcome.ldc, part + i * wide, bytes);
  else
    for_sums_of_panels<P>(rows, columns, part, [&](index_t i, index_t j, const auto& sum) {
      finish_tile<float, 1, tile_vectors, false>(sum, outcome.at(i, j), columns - j);
    });
}
#endif

}  // namespace detail

/// Copies words [begin, end) of b's columns, where each row of b is contiguous, into panels of N words a k: panel p, `panel_step`
/// words after the one before, gets the columns from p * columns_step on. `to` is where word 0 would go. Columns that are missing
/// become 0.
template <index_t N>
void pack_pair_rows(MatrixView<float> b, index_t begin, index_t end, index_t k, index_t columns, index_t columns_step,
                    std::uint32_t* to, index_t panel_step) {
  constexpr index_t W = width<float>;
  const auto from = [&](index_t l, index_t j) {
    if (l >= k || j >= columns) return Vector<float>{};
    return j + W <= columns ? load<float>(b.at(l, j)) : load_part<float>(b.at(l, j), static_cast<int>(columns - j));
  };
  for (index_t l = begin; l < end; ++l)
    for (index_t p = 0; p * columns_step < columns; ++p)
      for (index_t v = 0; v < N; v += W) {
        const index_t j = p * columns_step + v;
        const bool whole = 2 * l + 1 < k && j + W <= columns;
        store<std::uint32_t>(to + p * panel_step + l * N + v,
                             whole ? detail::round_pairs(load<float>(b.at(2 * l, j)), load<float>(b.at(2 * l + 1, j)))
                                   : detail::round_pairs(from(2 * l, j), from(2 * l + 1, j)));
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
      if (deep == 2 * W) {
#pragma GCC unroll 16
        for (index_t r = 0; r < W; ++r) store<float>(reinterpret_cast<float*>(to + (l / 2 + r) * N + j), v[r]);
      } else {
        for (index_t r = 0; r < pair_words(deep); ++r) store<float>(reinterpret_cast<float*>(to + (l / 2 + r) * N + j), v[r]);
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

#if ATTEND_LEVEL < 6
/// c [m, n] from rows of a and the panels of words of b, of k numbers, at most `pair_depth`.
inline void multiply_pair_panels(index_t m, index_t n, index_t k, MatrixView<float> a, const std::uint32_t* b, index_t panel_step,
                                 Outcome<float> outcome) {
  constexpr index_t N = tile_columns<float>, side = packed_rows<float>;
  const bool by_rows = a.column_step == 1;
  // Several tiles at a time where their numbers lie side by side, the next k's far away.
  constexpr index_t most = 8, size = std::max(tile_rows * pair_row, side * pair_block);
  ATTEND_THREAD_OWNED(Scratch, scratch);
  auto* const words = scratch.get<std::uint32_t>(by_rows ? size : most * size);
  const index_t tiles = (m + tile_rows - 1) / tile_rows, rows = (m + tiles - 1) / tiles, deep = pair_words(k);
  for (index_t i = 0; i < m;) {
    if (by_rows) {
      cpu::pack_pairs_by_rows(a.from(i, 0), std::min(rows, m - i), k, words);
    } else {
      const index_t group = std::min(m - i, most * rows);
      cpu::pack_pair_rows<side>({a.at(i, 0), a.column_step, a.row_step}, 0, deep, k, group, rows, words, size);
    }
    for (index_t t = 0; t < (by_rows ? 1 : most) && i < m; ++t, i += rows) {
      const index_t count = std::min(rows, m - i), together = detail::pair_panels_of(static_cast<int>(count));
      const auto at = static_cast<std::size_t>(count - 1);
      const auto run = [&](detail::PairTile tile, index_t p) {
        tile(deep, words + t * size, b + p * panel_step, panel_step, outcome.at(i, p * N), n - p * N);
      };
      const detail::PairTile wide = by_rows ? detail::all_pair_tiles<true, true>[at] : detail::all_pair_tiles<true, false>[at];
      const detail::PairTile one = by_rows ? detail::all_pair_tiles<false, true>[at] : detail::all_pair_tiles<false, false>[at];
      index_t p = 0;
      for (; p + together <= n / N; p += together) run(wide, p);
      for (; p * N < n; ++p) run(one, p);
    }
  }
}
#else
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

/// The same with AMX.
inline void multiply_pair_panels(index_t m, index_t n, index_t k, MatrixView<float> a, const std::uint32_t* b, index_t panel_step,
                                 Outcome<float> outcome) {
  constexpr index_t N = tile_columns<float>, at_once = 2 * detail::tile_side;
  const bool by_rows = a.column_step == 1;
  // Many rows at a time where their numbers lie side by side, the next k's far away.
  const index_t together = by_rows ? at_once : 4 * at_once;
  ATTEND_THREAD_OWNED(Scratch, scratch);
  auto* const words = scratch.get<std::uint32_t>(together * pair_row);
  detail::TileRegisters registers;
  for (index_t first = 0; first < m; first += together) {
    const index_t last = std::min(first + together, m);
    if (by_rows) cpu::pack_pairs_by_rows(a.from(first, 0), last - first, k, words);
    else cpu::pack_pairs_turned(a.from(first, 0), last - first, k, words);
    for (index_t i = first; i < last; i += at_once) {
      const index_t count = std::min(at_once, last - i);
      detail::for_tiles(registers, count, 0, (n + N - 1) / N, [&]<int R, int P>(index_t p) {
        detail::pair_tile<R, P>(count, pair_words(k), words + (i - first) * pair_row, b + p * panel_step, panel_step,
                                outcome.at(i, p * N), n - p * N);
      });
    }
  }
}
#endif

}  // namespace attend::ATTEND_CPU

#define ATTEND_READ_AGAIN "attend/cpu/bf16_kernel.hpp"
#define ATTEND_READ_FOR_BF16
#include "attend/cpu/each_target.hpp"
#endif
