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
#include "attend/cpu/bf16_packing.hpp"
#include "attend/cpu/gemm_kernel.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/targets.hpp"

#endif  // ATTEND_READING

/// The inside of a product of floats that are rounded to bfloat16 on their way into it, and summed in float.
///
/// Each word of two numbers (bf16_packing.hpp) adds its upper product to a sum, then its lower one, both by a fused multiply-add:
/// sum = a0 * b0 + (a1 * b1 + sum). That is what the instruction VDPBF16PS does, and what is done here where a processor lacks
/// it, so that both give the same bits. They do but for sums below 2^-126: the instruction takes such for 0 and leaves 0 in their
/// place, other instructions do not. (Without a fused multiply-add, on SSE2, there are also products beyond what a float holds.)
///
/// AMX adds otherwise: of each sixteen words the lower products by themselves and the upper ones, then both to the sum, which
/// starts from what c was or from the bias, if there is no factor. So its bits are its own. What c or the bias has below 2^-126
/// counts as 0 then.
///
/// ARM's BFMMLA adds the two products of a word to each other, then that to the sum. Either rounds to odd: what a float cannot
/// hold is cut off, and the last bit set. So its bits are its own too. Products and sums below 2^-126 become 0, and a product
/// beyond what a float holds is infinite, whatever is added to it.
///
/// As in gemm_kernel.hpp, an element's sum depends on its own row of a and column of b alone.
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 2, VDPBF16PS; Arm Architecture Reference Manual for
/// A-profile, BFMMLA.
namespace attend::ATTEND_CPU {

namespace detail {

#if ATTEND_LEVEL < 7
#if ATTEND_ARM_LEVEL >= 3
/// The most rows of a tile, of which GCC 12 keeps all sums in registers, and of how many the words lie side by side.
inline constexpr int pair_rows = 12;
inline constexpr index_t pair_side = pair_rows;

/// sum, a matrix [2, 2], += a [2, 4] times the transpose of b [2, 4], which are of bfloat16.
[[gnu::always_inline]] inline Vector<float> add_square(Vector<float> sum, Pairs a, Pairs b) {
  asm("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}

/// Adds the products of a `pair_tile` to its sums. Rows 2i and 2i + 1 by columns 2h and 2h + 1 of vector v are square[i][v][h].
/// An odd number of rows has one more beside it in a, whose sums nobody wants.
template <int R, int V, bool>
[[gnu::always_inline]] inline void add_products(Vector<float> (&sum)[R][V], index_t words, const std::uint32_t* a,
                                                const std::uint32_t* b, index_t panel_step) {
  constexpr int S = (R + 1) / 2, W = width<float>;
  Vector<float> square[S][V][2] = {};
  for (index_t l = 0; l < words; l += 2, a += 2 * pair_side, b += 2 * tile_columns<float>) {
    Pairs rows[S];
#pragma GCC unroll 16
    for (int i = 0; i < S; ++i) rows[i] = load<std::uint32_t>(a + i * W);
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const Pairs columns = load<std::uint32_t>(b + v / tile_vectors * panel_step + (v % tile_vectors * 2 + h) * W);
#pragma GCC unroll 16
        for (int i = 0; i < S; ++i) square[i][v][h] = add_square(square[i][v][h], rows[i], columns);
      }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const Vector<float> left = square[i / 2][v][0], right = square[i / 2][v][1];
      sum[i][v] = i % 2 ? pick<float, 2, 3, 6, 7>(left, right) : pick<float, 0, 1, 4, 5>(left, right);
    }
}
#else
/// The most rows of a tile, and of how many the words lie side by side where they lie word by word.
inline constexpr int pair_rows = tile_rows;
inline constexpr index_t pair_side = padded_rows<float>;

/// sum[v] += both products of the word a with word v of b's.
template <int V>
[[gnu::always_inline]] inline void add_pairs(Vector<float> (&sum)[V], std::uint32_t a, const Pairs (&b)[V]) {
#if ATTEND_LEVEL >= 6
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

/// Adds the products of a `pair_tile` to its sums, which are 0.
template <int R, int V, bool ByRows>
[[gnu::always_inline]] inline void add_products(Vector<float> (&sum)[R][V], index_t words, const std::uint32_t* a,
                                                const std::uint32_t* b, index_t panel_step) {
  constexpr int W = width<float>;
  constexpr index_t N = tile_columns<float>, row_step = ByRows ? pair_row : 1, step = ByRows ? 1 : pair_side;
  for (index_t l = 0; l < words; ++l, a += step, b += N) {
    Pairs row[V];
    if constexpr (V == tile_vectors) {  // panels come from the second-level cache
#pragma GCC unroll 16
      for (index_t v = 0; v < V; ++v) fetch(b, (v * W + 16 * N) * static_cast<index_t>(sizeof(std::uint32_t)));
    }
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) row[v] = load<std::uint32_t>(b + v / tile_vectors * panel_step + v % tile_vectors * W);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) add_pairs<V>(sum[i], a[i * row_step], row);
  }
}
#endif

/// Panels that a tile of R rows takes at once: the instruction takes longer than a multiply-add until its sum is there, so that
/// up to four rows want sixteen sums between them.
constexpr int pair_panels_of(int rows) { return vector_registers == 32 && rows > 2 && rows <= 4 ? 2 : panels_of(rows); }

/// c [R, P panels], of which `columns` exist, from so many words of a's rows and b's panels. a's words lie row by row if
/// `ByRows`, else word by word, a tile's rows side by side, `words_together` of each.
template <int R, int P, bool ByRows>
[[gnu::noinline]] void pair_tile(index_t words, const std::uint32_t* a, const std::uint32_t* b, index_t panel_step,
                                 const Outcome<float>& outcome, index_t columns) {
  constexpr int V = P * tile_vectors, W = width<float>;
  Vector<float> sum[R][V] = {};
  if (P == 1 && R > 4 && words >= 64) {  // c is wanted at the end of the sums
    const float* row = outcome.c;
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i, next_row(row, outcome.ldc))
      for (int v = 0; v < V; ++v)
        if (v * W < columns) __builtin_prefetch(row + v * W, 1);
  }
  add_products<R, V, ByRows>(sum, words, a, b, panel_step);
  finish_tile<float, R, V, (P > 1)>(sum, outcome, columns);
}

/// A `pair_tile` of so many rows.
using PairTile = void (*)(index_t, const std::uint32_t*, const std::uint32_t*, index_t, const Outcome<float>&, index_t);
/// Those of 1, 2, ... rows.
template <bool Wide, bool ByRows, int... R>
constexpr auto pair_tiles(std::integer_sequence<int, R...>) {
  return std::array<PairTile, sizeof...(R)>{&pair_tile < R + 1, Wide ? pair_panels_of(R + 1) : 1, ByRows > ...};
}
/// Those of 1 to `pair_rows` rows.
template <bool Wide, bool ByRows>
inline constexpr auto all_pair_tiles = pair_tiles<Wide, ByRows>(std::make_integer_sequence<int, pair_rows>{});
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

#if ATTEND_LEVEL < 7
/// c [m, n] from rows of a and the panels of words of b, of k numbers, at most `pair_depth`.
inline void multiply_pair_panels(index_t m, index_t n, index_t k, MatrixView<float> a, const std::uint32_t* b, index_t panel_step,
                                 Outcome<float> outcome) {
  constexpr index_t N = tile_columns<float>, side = detail::pair_side;
  constexpr bool can_be_by_rows = words_together == 1;
  const bool by_rows = a.column_step == 1;
  // Several tiles at a time where their numbers lie side by side, the next k's far away.
  constexpr index_t most = 8, size = std::max(detail::pair_rows * pair_row, side * pair_block);
  ATTEND_THREAD_OWNED(Scratch, scratch);
  auto* const words = scratch.get<std::uint32_t>(by_rows ? size : most * size);
  const index_t tiles = (m + detail::pair_rows - 1) / detail::pair_rows, rows = (m + tiles - 1) / tiles, deep = pair_words(k);
  for (index_t i = 0; i < m;) {
    const MatrixView<float> columns{a.at(i, 0), a.column_step, a.row_step};
    if (!by_rows) cpu::pack_pair_rows<side>(columns, 0, deep, k, std::min(m - i, most * rows), rows, words, size);
    else if constexpr (can_be_by_rows) cpu::pack_pairs_by_rows(a.from(i, 0), std::min(rows, m - i), k, words);
    else cpu::pack_pair_columns<side>(columns, k, std::min(rows, m - i), words);
    for (index_t t = 0; t < (by_rows ? 1 : most) && i < m; ++t, i += rows) {
      const index_t count = std::min(rows, m - i), together = detail::pair_panels_of(static_cast<int>(count));
      const auto at = static_cast<std::size_t>(count - 1);
      const auto run = [&](detail::PairTile tile, index_t p) {
        tile(deep, words + t * size, b + p * panel_step, panel_step, outcome.at(i, p * N), n - p * N);
      };
      const detail::PairTile wide =
          by_rows ? detail::all_pair_tiles<true, can_be_by_rows>[at] : detail::all_pair_tiles<true, false>[at];
      const detail::PairTile one =
          by_rows ? detail::all_pair_tiles<false, can_be_by_rows>[at] : detail::all_pair_tiles<false, false>[at];
      index_t p = 0;
      for (; p + together <= n / N; p += together) run(wide, p);
      for (; p * N < n; ++p) run(one, p);
    }
  }
}
#else
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
