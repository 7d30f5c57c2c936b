#if !defined(ATTEND_CPU_INT8) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_INT8

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/thread_owned.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/amx.hpp"
#include "attend/cpu/packed_matrix.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/int8_rows.hpp"

#endif  // ATTEND_READING

/// Products in 8-bit integers: weights once, activations at run time, sums exact in 32 bits. What a row gets depends on that row
/// alone.
namespace attend::ATTEND_CPU {

namespace detail {

/// Sums of products of bytes.
using Words = Vector<std::int32_t>;

/// How four products of bytes are summed: by one instruction (AVX-512 with VNNI, ARM's DotProd), by one that sums two (AVX2), or
/// as 16-bit numbers in pairs, for which activations are widened once and weights whenever they are read.
inline constexpr bool in_pairs = (ATTEND_LEVEL < 2 || ATTEND_LEVEL == 3) && ATTEND_BYTES_LEVEL == 0;
/// Whether 128 is added to the bytes of activations, which the one instruction takes unsigned; 128 times the weights' sum is then
/// taken off where the sums start.
inline constexpr bool shifted_bytes = ATTEND_LEVEL >= 4;
/// Of four activations. In pairs they lie as 0, 2, 1, 3: the even bytes of weights are widened together, and the odd ones.
inline constexpr index_t group_bytes = in_pairs ? 8 : 4;
/// Groups that are multiplied at once, two by ARM's I8MM, a tile of them by AMX: a multiple of as many are kept, the last ones 0.
inline constexpr index_t groups_at_once = ATTEND_LEVEL >= 6 ? 16 : ATTEND_BYTES_LEVEL == 2 ? 2 : 1;
/// The most rows of a tile. Of more, GCC 12 for ARM keeps some of the sums in memory.
inline constexpr int int8_rows = ATTEND_LEVEL >= 6 ? 32 : ATTEND_BYTES_LEVEL > 0 ? 8 : tile_rows;

/// sum[i] += the products of the 16-bit numbers 2i and 2i + 1 of a with those of b.
[[gnu::always_inline]] inline Words add_pairs_16(Words sum, Words a, Words b) {
#if ATTEND_LEVEL == 3 && (ATTEND_GRANTED < 3 || defined(__AVX512BW__))
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

#if ATTEND_BYTES_LEVEL >= 1
// As text, since older Clangs' <arm_neon.h> has no more functions than the flags grant.
/// sum[i] += the products of the four bytes of word i of a with those of b.
[[gnu::always_inline]] inline Words add_fours(Words sum, Words a, Words b) {
  asm("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}
#endif
#if ATTEND_BYTES_LEVEL == 2
/// sum, a matrix [2, 2], += a [2, 8] times the transpose of b [2, 8], which are of bytes.
[[gnu::always_inline]] inline Words add_square(Words sum, Words a, Words b) {
  asm("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}
#endif

/// Four activations, in every word.
struct FourActivations {
  explicit FourActivations(const std::int8_t* from) {
    for (index_t p = 0; p < group_bytes / 4; ++p) {
      std::int32_t word;
      std::memcpy(&word, from + 4 * p, sizeof(word));
      part[p] = word + Words{};
    }
  }
  Words part[group_bytes / 4];
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
  /// sum[i] += the products of the activations with the four of word i.
  [[gnu::always_inline]] Words add_products(Words sum, const FourActivations& x) const {
#if ATTEND_LEVEL >= 4
    return (Words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x.part[0], (__m512i)part[0]);
#elif ATTEND_LEVEL == 2
    // |x| * (weight with x's sign): two products of at most 127 * 127 fit into 16 bits.
    const auto bytes = (__m256i)x.part[0];
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(bytes), _mm256_sign_epi8((__m256i)part[0], bytes));
    return sum + (Words)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif ATTEND_BYTES_LEVEL >= 1
    return add_fours(sum, part[0], x.part[0]);
#else
    return add_pairs_16(add_pairs_16(sum, x.part[0], part[0]), x.part[1], part[1]);
#endif
  }
  Words part[group_bytes / 4];
};

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

#if ATTEND_BYTES_LEVEL == 2
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
[[gnu::always_inline]] inline void finish_int8(const Words (&sum)[R][V], const Int8Outcome& outcome, index_t columns) {
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

#if ATTEND_LEVEL < 6
/// One tile of an 8-bit product: sums [R, V vectors], from `start` on, over groups of four bytes.
template <int R, int P>
[[gnu::noinline]] void int8_tile(index_t groups, const std::int8_t* a, index_t a_stride, const std::int8_t* b, index_t panel_step,
                                 const std::int32_t* start, Int8Outcome outcome, index_t columns) {
  constexpr int V = P * tile_vectors, W = width<std::int32_t>, row_bytes = tile_vectors * W * 4;
  Words sum[R][V];
#pragma GCC unroll 16
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) sum[i][v] = load<std::int32_t>(start + v * W);
#if ATTEND_BYTES_LEVEL == 2
  if constexpr (R > 1) add_squares<R, V>(sum, groups, a, a_stride, b, panel_step);
  else
#endif
    for (index_t g = 0; g < groups; ++g, a += group_bytes, b += row_bytes) {
      FourBytes weights[V];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) weights[v] = FourBytes(b + v / tile_vectors * panel_step + v % tile_vectors * W * 4);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const FourActivations x(a + i * a_stride);
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[i][v] = weights[v].add_products(sum[i][v], x);
      }
    }
  finish_int8<R, V>(sum, outcome, columns);
}

/// An `int8_tile` of so many rows.
using Int8Tile = void (*)(index_t, const std::int8_t*, index_t, const std::int8_t*, index_t, const std::int32_t*, Int8Outcome,
                          index_t);
/// Those of 1, 2, ... rows.
template <bool Wide, int... R>
constexpr auto int8_tiles(std::integer_sequence<int, R...>) {
  return std::array<Int8Tile, sizeof...(R)>{&int8_tile < R + 1, Wide ? panels_of(R + 1) : 1 > ...};
}
#else
/// The same of R tiles of AMX's, `count` rows in all, and P panels.
template <int R, int P>
[[gnu::noinline]] void int8_tiles(index_t count, index_t groups, const std::int8_t* a, index_t a_stride, const std::int8_t* b,
                                  index_t panel_step, const std::int32_t* start, Int8Outcome outcome, index_t columns) {
  constexpr index_t N = tile_vectors * width<std::int32_t>;
  using Tiles = TileRegisters;
  alignas(64) std::int32_t sums[R * tile_side][P * N];
  sum_in_tiles<R, P>(
      groups, a, a_stride / 4, b, panel_step / 4, sums,
      [=] {  // all rows from the same
        Tiles::template load<0>(start, 0), Tiles::template load<1>(start + tile_side, 0);
        if constexpr (R * P == 2)
          Tiles::template load<2>(start + (P - 1) * N, 0), Tiles::template load<3>(start + (P - 1) * N + tile_side, 0);
      },
      []<int C, int A, int B>() { Tiles::template multiply_bytes<C, A, B>(); });
  for (index_t i = 0; i < count; ++i)
    for (index_t j = 0; j < P * N && j < columns; j += N) {
      const Words sum[1][tile_vectors] = {{load<std::int32_t>(sums[i] + j), load<std::int32_t>(sums[i] + j + tile_side)}};
      finish_int8<1, tile_vectors>(sum, outcome.at(i, j), columns - j);
    }
}
#endif

}  // namespace detail

/// x [n] as bytes q with x = scale * q, |q| <= 127; rounded to the nearest. Returns the scale: NaN if a number of x is not
/// finite, so that what is made of it tells of that as a product of floats does.
inline float quantize_row(index_t n, const float* x, std::int8_t* q) {
  // Bits without the sign order as the sizes do, NaN above infinity, which a maximum of floats would pass over.
  const float top = std::bit_cast<float>(max_over<std::int32_t>(
      n, [=](index_t i) { return std::bit_cast<std::int32_t>(x[i]) & std::numeric_limits<std::int32_t>::max(); }));
  const float factor = top > 0 ? 127.0f / top : 0.0f;
  for (index_t i = 0; i < n; ++i) {
    constexpr float round = 12582912.0f;  // 1.5 * 2^23: what is added to it loses its fraction
    q[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(x[i] * factor + round) - std::bit_cast<std::int32_t>(round));
  }
  return top / 127.0f + (top - top);  // of infinity, the difference is NaN
}

/// The matrix b [k, n] of a product in 8-bit integers with a scale for each column, in the order in which products read it.
class Int8Matrix final : public kernels::PackedProduct<float> {
 public:
  /// Throws ValueError for a k so large that a sum might not fit into 32 bits.
  explicit Int8Matrix(const Matrix<const float>& b, kernels::PackingObserver* observer = nullptr)
      : Int8Matrix(b.rows, b.columns) {
    const index_t k = k_;
    const MatrixView<float> from(b);
    for_panels(panels_, N, k_, n_, observer, [&](index_t begin, index_t end) {
      std::vector<float> column(k);
      std::vector<std::int8_t> q(k);
      for (index_t j = begin * N; j < std::min(n_, end * N); ++j) {
        for (index_t l = 0; l < k; ++l) nth(column, l) = *from.at(l, j);
        nth(scales_, j) = quantize_row(k, column.data(), q.data());
        place_column(j, q.data());
      }
    });
  }
  /// The same from the columns as rows that were brought to 8 bits before, [n, k].
  explicit Int8Matrix(const kernels::Int8Rows<float>& columns, kernels::PackingObserver* observer = nullptr)
      : Int8Matrix(columns.columns, columns.rows) {
    for_panels(panels_, N, k_, n_, observer, [&](index_t begin, index_t end) {
      for (index_t j = begin * N; j < std::min(n_, end * N); ++j) {
        nth(scales_, j) = columns.scales[j];
        place_column(j, columns.data + j * k_);
      }
    });
  }

  /// y [m, n] = x b + bias, x [m, k] brought to 8 bits as well, each row with a scale of its own. Neither x nor y is transposed.
  /// `bias` may be null.
  void multiply(const Matrix<const float>& x, const float* bias, const Matrix<float>& y) const override {
    const index_t m = y.rows;
    if (m <= 0) return;
    if (k_ == 0) return cpu::multiply(Product<float>(x, {nullptr, 0, n_}, bias, y), false);
    ATTEND_THREAD_OWNED(Scratch, scratch);
    const index_t stride = groups_ * detail::group_bytes;
    auto* const scales = scratch.get<float>(m + m * stride / 4 + groups_);
    auto* const bytes = reinterpret_cast<std::int8_t*>(scales + m);
    for (index_t i = 0; i < m; ++i) {
      std::int8_t* const row = bytes + i * stride;
      std::int8_t* const q = detail::in_pairs ? bytes + m * stride : row;
      scales[i] = quantize_row(k_, x.data + i * x.stride, q);
      std::fill(q + k_, q + groups_ * 4, std::int8_t{0});
      if constexpr (detail::in_pairs) {
        for (index_t g = 0; g < groups_; ++g) {
          const std::int16_t group[4] = {q[4 * g], q[4 * g + 2], q[4 * g + 1], q[4 * g + 3]};
          std::memcpy(row + g * detail::group_bytes, group, sizeof(group));
        }
      }
      if constexpr (detail::shifted_bytes)
        for (index_t l = 0; l < stride; ++l) row[l] = static_cast<std::int8_t>(row[l] ^ -128);
    }
    // Bytes are read four times as fast as floats.
    share_product(m, panels_, n_ * k_ / 4, [&, this](index_t begin, index_t end, index_t first, index_t last) {
      multiply_part(begin, end, first, last, bytes, scales, bias, y);
    });
  }

 private:
  static constexpr index_t N = tile_vectors * width<std::int32_t>;
  [[nodiscard]] index_t panel_bytes() const { return groups_ * N * 4; }

  Int8Matrix(index_t k, index_t n)
      : k_(k),
        n_(n),
        groups_((k_ + 4 * detail::groups_at_once - 1) / (4 * detail::groups_at_once) * detail::groups_at_once),
        panels_((n_ + N - 1) / N),
        bytes_({panels_ * panel_bytes()}, std::int8_t{0}),
        start_(static_cast<std::size_t>(panels_ * N)),
        scales_(static_cast<std::size_t>(panels_ * N)) {
    check_value(k <= kernels::most_int8_products, "Int8Matrix", "sums of ", k, " products, at most ", kernels::most_int8_products,
                " fit into 32 bits");
  }

  /// Puts the k bytes of column j where products read them.
  void place_column(index_t j, const std::int8_t* q) {
    std::int8_t* const to = bytes_.data() + j / N * panel_bytes() + j % N * 4;
    const index_t whole = k_ / 4 * 4;
    for (index_t l = 0; l < whole; l += 4) std::memcpy(to + l * N, q + l, 4);
    std::copy(q + whole, q + k_, to + whole * N);
    std::int32_t sum = 0;
    for (index_t l = 0; l < k_; ++l) sum += q[l];
    if (detail::shifted_bytes) nth(start_, j) = -128 * sum;
  }

  void multiply_part(index_t begin, index_t end, index_t first, index_t last, const std::int8_t* bytes, const float* scales,
                     const float* bias, const Matrix<float>& y) const {
    const index_t stride = groups_ * detail::group_bytes, rows = detail::int8_rows;
    const detail::Int8Outcome all{scales, scales_.data(), bias, y.data, y.stride};
    const auto panel = [this](index_t p) { return bytes_.data() + p * panel_bytes(); };
    const index_t together = std::max<index_t>(4, (index_t{1} << 19) / panel_bytes());  // what stays in a second-level cache
#if ATTEND_LEVEL >= 6
    detail::TileRegisters registers;
#else
    static constexpr auto wide = detail::int8_tiles<true>(std::make_integer_sequence<int, detail::int8_rows>{});
    static constexpr auto narrow = detail::int8_tiles<false>(std::make_integer_sequence<int, detail::int8_rows>{});
#endif
    for (index_t block = first; block < last; block += together) {
      const index_t stop = std::min(last, block + together);
      for (index_t tiles = (end - begin + rows - 1) / rows, i = begin; tiles > 0; --tiles) {
        const index_t count = (end - i) / tiles;
        index_t p = block;
#if ATTEND_LEVEL >= 6
        registers.hold_rows(count);
        const auto run = [&](auto* tile) {
          tile(count, groups_, bytes + i * stride, stride, panel(p), panel_bytes(), start_.data() + p * N, all.at(i, p * N),
               n_ - p * N);
        };
        if (count <= detail::tile_side) {
          for (; p + 2 <= stop; p += 2) run(&detail::int8_tiles<1, 2>);
          if (p < stop) run(&detail::int8_tiles<1, 1>);
        } else {
          for (; p < stop; ++p) run(&detail::int8_tiles<2, 1>);
        }
#else
        const index_t step = detail::panels_of(static_cast<int>(count));
        const auto at = static_cast<std::size_t>(count - 1);
        const auto run = [&](detail::Int8Tile tile) {
          tile(groups_, bytes + i * stride, stride, panel(p), panel_bytes(), start_.data() + p * N, all.at(i, p * N), n_ - p * N);
        };
        for (; p + step <= stop; p += step) run(wide[at]);
        for (; p < stop; ++p) run(narrow[at]);
#endif
        i += count;
      }
    }
  }

  index_t k_, n_, groups_, panels_;
  Tensor<std::int8_t> bytes_;
  std::vector<std::int32_t> start_;  // what each column's sum starts from
  std::vector<float> scales_;        // of each column
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// The rows of x brought to 8 bits, with the bits that `pack_int8` gives them: q [rows, columns], scales [rows].
template <class T>
void quantize_rows(Cpu, const Matrix<const T>& x, std::int8_t* q, T* scales) {
  ATTEND_FASTEST_BYTES(quantize_rows, x, q, scales);
  parallel_rows(x.rows, x.columns, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) scales[i] = cpu::quantize_row(x.columns, x.data + i * x.stride, q + i * x.columns);
  });
}

/// The matrix b [k, n] in 8-bit integers. Throws ValueError for a k so large that a sum might not fit into 32 bits.
template <class T>
std::unique_ptr<PackedProduct<T>> pack_int8(Cpu, const Matrix<const T>& b, PackingObserver* observer = nullptr) {
  ATTEND_FASTEST_BYTES(pack_int8, b, observer);
  return std::make_unique<cpu::Int8Matrix>(b, observer);
}
/// The same from the columns of b as rows in 8 bits, [n, k]: equal bits for those of `quantize_rows`.
template <class T>
std::unique_ptr<PackedProduct<T>> pack_int8(Cpu, const Int8Rows<T>& columns, PackingObserver* observer = nullptr) {
  ATTEND_FASTEST_BYTES(pack_int8, columns, observer);
  return std::make_unique<cpu::Int8Matrix>(columns, observer);
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/int8.hpp"
#define ATTEND_READ_FOR_BYTES
#include "attend/cpu/each_target.hpp"
#endif
