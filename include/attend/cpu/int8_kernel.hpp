#if !defined(ATTEND_CPU_INT8_KERNEL) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_INT8_KERNEL

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "attend/core/types.hpp"
#include "attend/cpu/amx.hpp"
#include "attend/cpu/gemm_kernel.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"

#endif  // ATTEND_READING

/// The inside of a product in 8-bit integers, whose sums are exact in 32 bits: a tile of them in registers, from rows of bytes
/// and panels of bytes.
namespace attend::ATTEND_CPU {

/// What becomes of an 8-bit product's sums, and where: y = sum * row scale * column scale + bias, if there is one.
struct Int8Outcome {
  const float *row_scales, *column_scales, *bias;
  float* y;
  index_t ldy;

  /// That of y's rows from i and columns from j on.
  [[nodiscard]] Int8Outcome at(index_t i, index_t j) const {
    return {row_scales + i, column_scales + j, bias ? bias + j : nullptr, y + i * ldy + j, ldy};
  }
};

namespace detail {

/// Sums of products of bytes.
using Words = Vector<std::int32_t>;

/// How four products of bytes are summed: by one instruction (AVX-VNNI, AVX-512 with VNNI, ARM's DotProd), by one that sums two
/// (AVX2), or as 16-bit numbers in pairs, for which activations are widened once and weights whenever they are read.
inline constexpr bool in_pairs = (ATTEND_LEVEL < 2 || ATTEND_LEVEL == 4) && ATTEND_ARM_LEVEL == 0;
/// Whether 128 is added to the bytes of activations, which the one instruction takes unsigned; 128 times the weights' sum is then
/// taken off where the sums start.
inline constexpr bool shifted_bytes = ATTEND_LEVEL == 3 || ATTEND_LEVEL >= 5;
/// Whether activations are read as sizes and signs: AVX2 multiplies unsigned bytes with signed ones, so that the sign of x goes
/// to w. Where x is negative, w gets its bits turned, which any unit of a processor does: |x| ~w = x w - |x|, since ~w = -w - 1.
/// Where the sums of a row start, |x| is added back. Two products, at most 127 * 128 each, fit into 16 bits.
inline constexpr bool signs_apart = ATTEND_LEVEL == 2;
/// Of four activations. In pairs they lie as 0, 2, 1, 3: the even bytes of weights are widened together, and the odd ones.
inline constexpr index_t group_bytes = in_pairs ? 8 : 4;
/// Of a row of so many groups. With signs apart, behind all sizes come as many bytes that are -1 where x is negative, otherwise
/// 0.
constexpr index_t int8_row_bytes(index_t groups) { return groups * group_bytes * (signs_apart ? 2 : 1); }
/// Groups that are multiplied at once, two by ARM's I8MM, a tile of them by AMX: a multiple of as many are kept, the last ones 0.
inline constexpr index_t groups_at_once = ATTEND_LEVEL >= 7 ? 16 : ATTEND_ARM_LEVEL >= 2 ? 2 : 1;
/// The most rows of a tile in vector registers. Of more, GCC 12 for ARM keeps some of the sums in memory. Where there is AMX, its
/// tiles are faster for more rows. With signs apart, each group of a row takes two loads: few rows of many columns.
inline constexpr int int8_rows = ATTEND_LEVEL >= 7 ? 6 : ATTEND_ARM_LEVEL > 0 ? 8 : signs_apart ? 3 : tile_rows;
/// Panels that a tile of so many rows takes at once.
constexpr int int8_panels_of(int rows) { return !signs_apart ? panels_of(rows) : rows <= 1 ? 4 : 2; }

/// sum[i] += the products of the 16-bit numbers 2i and 2i + 1 of a with those of b.
[[gnu::always_inline]] inline Words add_pairs_16(Words sum, Words a, Words b) {
#if ATTEND_LEVEL == 4 && (ATTEND_GRANTED < 4 || defined(__AVX512BW__))
  return sum + (Words)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif ATTEND_LEVEL == 0 && defined(__SSE2__)
  return sum + (Words)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
  const auto x = (int16x8_t)a, y = (int16x8_t)b;
  return sum + (Words)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#else
  return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

#if ATTEND_ARM_LEVEL >= 1
// As text, since older Clangs' <arm_neon.h> has no more functions than the flags grant.
/// sum[i] += the products of the four bytes of word i of a with those of b.
[[gnu::always_inline]] inline Words add_fours(Words sum, Words a, Words b) {
  asm("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}
#endif
#if ATTEND_ARM_LEVEL >= 2
/// sum, a matrix [2, 2], += a [2, 8] times the transpose of b [2, 8], which are of bytes.
[[gnu::always_inline]] inline Words add_square(Words sum, Words a, Words b) {
  asm("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}
#endif

/// Four activations, in every word; if they have two parts, the second lies `next` bytes behind the first.
struct FourActivations {
  FourActivations(const std::int8_t* from, index_t next) {
    for (index_t p = 0; p < parts; ++p) {
      std::int32_t word;
      std::memcpy(&word, from + p * next, sizeof(word));
      part[p] = word + Words{};
    }
  }
  static constexpr index_t parts = in_pairs || signs_apart ? 2 : 1;
  Words part[parts];
};

/// The four bytes of weights in each of a vector's words, as products take them.
struct FourBytes {
  FourBytes() = default;
  explicit FourBytes(const std::int8_t* from) {
    Words word;
    std::memcpy(&word, from, sizeof(word));
    if constexpr (in_pairs) {
      using Halves = Vector<std::int16_t>;
      part[0] = (Words)(((Halves)word << 8) >> 8);
      part[1] = (Words)((Halves)word >> 8);
    } else {
      part[0] = word;
    }
  }
  /// sum[i] += the products of the activations with the four of word i; with signs apart, less the sizes of the negative ones.
  [[gnu::always_inline]] Words add_products(Words sum, const FourActivations& x) const {
#if ATTEND_LEVEL >= 5
    return (Words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x.part[0], (__m512i)part[0]);
#elif ATTEND_LEVEL == 3
    return (Words)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x.part[0], (__m256i)part[0]);
#elif ATTEND_LEVEL == 2
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)x.part[0], _mm256_xor_si256((__m256i)part[0], (__m256i)x.part[1]));
    return sum + (Words)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif ATTEND_ARM_LEVEL >= 1
    return add_fours(sum, part[0], x.part[0]);
#else
    return add_pairs_16(add_pairs_16(sum, x.part[0], part[0]), x.part[1], part[1]);
#endif
  }
  Words part[in_pairs ? 2 : 1];
};

#if ATTEND_ARM_LEVEL >= 2
/// Adds the products of `int8_tile` to its sums. One instruction multiplies two rows with two columns, of eight bytes each: rows
/// 2i and 2i + 1 by columns 2h and 2h + 1 of vector v are square[i][v][h]. The last of an odd number of rows is both.
template <int R, int V>
[[gnu::always_inline]] inline void add_squares(Words (&sum)[R][V], index_t groups, const std::int8_t* a, index_t a_stride,
                                               const std::int8_t* b, index_t panel_step) {
  constexpr int S = (R + 1) / 2, W = width<std::int32_t>, row_bytes = tile_vectors * W * 4;
  Words square[S][V][2] = {};
  for (index_t g = 0; g < groups; g += 2, a += 2 * group_bytes, b += 2 * row_bytes) {
    Words weights[V][2];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const std::int8_t* const from = b + v / tile_vectors * panel_step + v % tile_vectors * W * 4;
      const auto first = vreinterpretq_s32_s8(vld1q_s8(from)), second = vreinterpretq_s32_s8(vld1q_s8(from + row_bytes));
      weights[v][0] = (Words)vzip1q_s32(first, second);
      weights[v][1] = (Words)vzip2q_s32(first, second);
    }
#pragma GCC unroll 16
    for (int i = 0; i < S; ++i) {
      const auto x = (Words)vcombine_s8(vld1_s8(a + 2 * i * a_stride), vld1_s8(a + std::min(2 * i + 1, R - 1) * a_stride));
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) square[i][v][h] = add_square(square[i][v][h], x, (Words)weights[v][h]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const auto lower = (int64x2_t)square[i / 2][v][0], upper = (int64x2_t)square[i / 2][v][1];
      sum[i][v] += (Words)(i % 2 ? vzip2q_s64(lower, upper) : vzip1q_s64(lower, upper));
    }
}
#endif

/// Writes the sums of a tile, of which `columns` exist.
template <int R, int V>
[[gnu::always_inline]] inline void finish_int8(const Words (&sum)[R][V], Int8Outcome outcome, index_t columns) {
  constexpr int W = width<std::int32_t>;
#pragma GCC unroll 16
  for (int v = 0; v < V; ++v) {
    const int here = static_cast<int>(std::min<index_t>(W, columns - v * W));
    if (here <= 0) break;
    const Vector<float> scale = load<float>(outcome.column_scales + v * W);
    Vector<float> add = {};
    if (const float* bias = outcome.bias) add = here == W ? load<float>(bias + v * W) : load_part<float>(bias + v * W, here);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      Vector<float> z = add;
      multiply_add<float>(z, __builtin_convertvector(sum[i][v], Vector<float>), outcome.row_scales[i] * scale);
      float* const to = outcome.y + i * outcome.ldy + v * W;
      if (here == W) store<float>(to, z);
      else store_part<float>(to, z, here);
    }
  }
}

/// One tile of an 8-bit product: sums [R, V vectors] over groups of four bytes. They start from `start`, a number for each
/// column; with signs apart, for each row.
template <int R, int P>
[[gnu::noinline]] void int8_tile(index_t groups, const std::int8_t* a, index_t a_stride, const std::int8_t* b, index_t panel_step,
                                 const std::int32_t* start, const Int8Outcome& outcome, index_t columns) {
  constexpr int V = P * tile_vectors, W = width<std::int32_t>, row_bytes = tile_vectors * W * 4;
  Words sum[R][V];
#pragma GCC unroll 16
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) sum[i][v] = signs_apart ? start[i] + Words{} : load<std::int32_t>(start + v * W);
#if ATTEND_ARM_LEVEL >= 2
  if constexpr (R > 1) add_squares<R, V>(sum, groups, a, a_stride, b, panel_step);
  else
#endif
    for (index_t g = 0; g < groups; ++g, a += group_bytes, b += row_bytes) {
      FourBytes weights[V];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) weights[v] = FourBytes(b + v / tile_vectors * panel_step + v % tile_vectors * W * 4);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const FourActivations x(a + i * a_stride, signs_apart ? a_stride / 2 : 4);
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[i][v] = weights[v].add_products(sum[i][v], x);
      }
    }
  finish_int8<R, V>(sum, outcome, columns);
}

/// An `int8_tile` of so many rows.
using Int8Tile = void (*)(index_t, const std::int8_t*, index_t, const std::int8_t*, index_t, const std::int32_t*,
                          const Int8Outcome&, index_t);
/// Those of 1, 2, ... rows.
template <bool Wide, int... R>
constexpr auto int8_tiles(std::integer_sequence<int, R...>) {
  return std::array<Int8Tile, sizeof...(R)>{&int8_tile < R + 1, Wide ? int8_panels_of(R + 1) : 1 > ...};
}

#if ATTEND_LEVEL >= 7
/// The same with AMX: y [rows, 32 P], from R tiles of rows.
template <int R, int P>
[[gnu::noinline]] void int8_amx_tile(index_t rows, index_t groups, const std::int8_t* a, index_t a_stride, const std::int8_t* b,
                                     index_t panel_step, const std::int32_t* start, const Int8Outcome& outcome, index_t columns) {
  using Tiles = TileRegisters;
  constexpr index_t wide = P * tile_vectors * tile_side;
  alignas(64) std::int32_t sums[R * tile_side * wide];
  load_sums<R, P>(start, 0);
  multiply_tiles<R, P>(groups, a, a_stride / 4, b, panel_step / 4,
                       []<int C, int A, int B>() { Tiles::multiply_bytes<C, A, B>(); });
  store_sums<R, P>(sums, wide);
  for_sums_of_panels<P>(rows, columns, sums, [&](index_t i, index_t j, const auto& sum) {
    finish_int8<1, tile_vectors>(sum, outcome.at(i, j), columns - j);
  });
}
#endif

}  // namespace detail

/// The left side of an 8-bit product: rows of as many groups of four as the right one has and, with signs apart, what each row's
/// sums start from.
struct Int8Activations {
  const std::int8_t* bytes;
  const std::int32_t* start;
};

/// The right side of an 8-bit product: n columns in panels of N, `groups` groups of four bytes deep, and what each column's sum
/// starts from, unless rows say that.
struct Int8Panels {
  static constexpr index_t N = tile_vectors * width<std::int32_t>;

  index_t n, groups;
  const std::int8_t* bytes;
  const std::int32_t* start;

  /// From one panel to the next.
  [[nodiscard]] index_t panel_bytes() const { return groups * N * 4; }
};

/// y [m, n] in the columns of panels [first, last).
inline void multiply_int8_panels(index_t m, const Int8Activations& a, const Int8Panels& b, index_t first, index_t last,
                                 const Int8Outcome& outcome) {
  constexpr index_t N = Int8Panels::N, rows = detail::int8_rows;
  const index_t stride = detail::int8_row_bytes(b.groups), step = b.panel_bytes();
  // What stays in a second-level cache; with signs apart a quarter of it, which tiles of few rows read again the sooner.
  const index_t together = std::max<index_t>(4, (index_t{1} << (detail::signs_apart ? 17 : 19)) / step);
  static constexpr auto wide = detail::int8_tiles<true>(std::make_integer_sequence<int, rows>{});
  static constexpr auto narrow = detail::int8_tiles<false>(std::make_integer_sequence<int, rows>{});
  const auto run = [&](auto tile, index_t i, index_t p, auto... size) {
    const std::int32_t* const start = detail::signs_apart ? a.start + i : b.start + p * N;
    tile(size..., b.groups, a.bytes + i * stride, stride, b.bytes + p * step, step, start, outcome.at(i, p * N), b.n - p * N);
  };
#if ATTEND_LEVEL >= 7
  detail::TileRegisters registers;
#endif
  for (index_t block = first; block < last; block += together) {
    const index_t stop = std::min(last, block + together);
#if ATTEND_LEVEL >= 7
    if (m > rows) {
      constexpr index_t at_once = 2 * detail::tile_side;
      for (index_t i = 0; i < m; i += at_once) {
        const index_t count = std::min(at_once, m - i);
        detail::for_tiles(registers, count, block, stop,
                          [&]<int R, int P>(index_t p) { run(&detail::int8_amx_tile<R, P>, i, p, count); });
      }
      continue;
    }
#endif
    for (index_t tiles = (m + rows - 1) / rows, i = 0; tiles > 0; --tiles) {
      const index_t count = (m - i) / tiles, panels = detail::int8_panels_of(static_cast<int>(count));
      const auto at = static_cast<std::size_t>(count - 1);
      index_t p = block;
      for (; p + panels <= stop; p += panels) run(wide[at], i, p);
      for (; p < stop; ++p) run(narrow[at], i, p);
      i += count;
    }
  }
}

}  // namespace attend::ATTEND_CPU

#define ATTEND_READ_AGAIN "attend/cpu/int8_kernel.hpp"
#define ATTEND_READ_FOR_BYTES
#include "attend/cpu/each_target.hpp"
#endif
