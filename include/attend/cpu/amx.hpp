#if !defined(ATTEND_CPU_AMX) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_AMX

#include <cstdint>
#include <cstring>

#include "attend/core/types.hpp"
#include "attend/cpu/gemm_packing.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"

#endif  // ATTEND_READING

#if ATTEND_LEVEL >= 7
namespace attend::ATTEND_CPU::detail {

/// Rows of a tile register, and words of 32 bits in each.
inline constexpr index_t tile_side = 16;

#ifdef ATTEND_TILES  // the tests' stand-in for processors without tiles
using TileRegisters = ATTEND_TILES;
#else
/// AMX's tile registers while a product uses them: 0 to 3 for sums, 4 and 5 for rows of a, 6 and 7 for columns of b. What others
/// had in them is lost, as it is with vector registers that a function may change.
///
/// The instructions stand here as text, because GCC is not told by its own functions for them that they read memory.
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 1, chapter 18, and vol. 2, TDPBUSD and TDPBF16PS.
class TileRegisters {
 public:
  TileRegisters() = default;
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
  ~TileRegisters() {
    if (rows_ > 0) asm volatile("tilerelease");
  }

  /// For so many rows of a, at most 2 * tile_side. Those beyond the first `tile_side` are register 5's, their sums 2's and 3's;
  /// if there are no more, all sums are of the same rows. What was in the registers is lost if that is another number than
  /// before.
  void hold_rows(index_t rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const auto first = static_cast<std::uint8_t>(rows < tile_side ? rows : tile_side),
               second = static_cast<std::uint8_t>(rows > tile_side ? rows - tile_side : rows);
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {};
    } shapes;
    const std::uint8_t each[] = {first, first, second, second, first, second, tile_side, tile_side};
    std::memcpy(shapes.rows, each, sizeof(each));
    asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
  }

  /// Reads register I's rows, which lie `stride` words apart.
  template <int I>
  [[gnu::always_inline]] static void load(const void* from, index_t stride) {
    asm volatile("tileloadd {(%0,%1,4), %%tmm%c2|tmm%c2, [%0+%1*4]}" : : "r"(from), "r"(stride), "i"(I) : "memory");
  }
  /// Writes them.
  template <int I>
  [[gnu::always_inline]] static void store(void* to, index_t stride) {
    asm volatile("tilestored {%%tmm%c2, (%0,%1,4)|[%0+%1*4], tmm%c2}" : : "r"(to), "r"(stride), "i"(I) : "memory");
  }
  /// Fills register I with zeros.
  template <int I>
  [[gnu::always_inline]] static void clear() {
    asm volatile("tilezero {%%tmm%c0|tmm%c0}" : : "i"(I));
  }
  /// Adds to the sums in register C the products of the pairs of bfloat16 in A and B. The first numbers of all pairs are
  /// multiplied and added up from 0, the second ones by themselves, both by fused multiply-adds; then the one sum is added to the
  /// other, and that to C. What is smaller than 2^-126 counts as 0.
  template <int C, int A, int B>
  [[gnu::always_inline]] static void multiply_bf16() {
    asm volatile("tdpbf16ps {%%tmm%c2, %%tmm%c1, %%tmm%c0|tmm%c0, tmm%c1, tmm%c2}" : : "i"(C), "i"(A), "i"(B));
  }
  /// Adds to the sums in register C the products of the bytes in A, from 0 to 255, and in B, from -128 to 127, four in each word.
  template <int C, int A, int B>
  [[gnu::always_inline]] static void multiply_bytes() {
    asm volatile("tdpbusd {%%tmm%c2, %%tmm%c1, %%tmm%c0|tmm%c0, tmm%c1, tmm%c2}" : : "i"(C), "i"(A), "i"(B));
  }

 private:
  index_t rows_ = 0;
};
#endif

/// f<R, P>(p) for the panels p to p + P - 1 and R tiles of rows, until panels [first, last) are done: for `rows` rows, at most
/// 2 * tile_side, two tiles of them with each panel, or one with two panels, so that four sums are under way.
template <class F>
void for_tiles(TileRegisters& registers, index_t rows, index_t first, index_t last, F&& f) {
  registers.hold_rows(rows);
  index_t p = first;
  if (rows > tile_side)
    for (; p < last; ++p) f.template operator()<2, 1>(p);
  for (; p + 2 <= last; p += 2) f.template operator()<1, 2>(p);
  if (p < last) f.template operator()<1, 1>(p);
}

/// What the sums of R tiles of rows with P panels start from: rows of P panels, `stride` words apart, or one row for all if that
/// is 0.
template <int R, int P>
[[gnu::always_inline]] inline void load_sums(const void* from, index_t stride) {
  const auto* const first = static_cast<const std::uint32_t*>(from);
  TileRegisters::load<0>(first, stride);
  TileRegisters::load<1>(first + tile_side, stride);
  if constexpr (R * P == 2) {
    const auto* const second = first + (R == 2 ? tile_side * stride : 2 * tile_side);
    TileRegisters::load<2>(second, stride);
    TileRegisters::load<3>(second + tile_side, stride);
  }
}

/// Writes the sums in the same order.
template <int R, int P>
[[gnu::always_inline]] inline void store_sums(void* to, index_t stride) {
  auto* const first = static_cast<std::uint32_t*>(to);
  TileRegisters::store<0>(first, stride);
  TileRegisters::store<1>(first + tile_side, stride);
  if constexpr (R * P == 2) {
    auto* const second = first + (R == 2 ? tile_side * stride : 2 * tile_side);
    TileRegisters::store<2>(second, stride);
    TileRegisters::store<3>(second + tile_side, stride);
  }
}

/// Adds to the sums the products of R tiles of a's rows with P panels of b, by `multiply`, one of TileRegisters'. `words`, a
/// multiple of 16: how many each row of a has, `a_stride` from the next, and each panel rows, `panel_step` from the next panel.
template <int R, int P, class Multiply>
[[gnu::always_inline]] inline void multiply_tiles(index_t words, const void* a, index_t a_stride, const void* b,
                                                  index_t panel_step, Multiply&& multiply) {
  static_assert(R * P <= 2 && tile_vectors == 2 && width<float> == tile_side);
  using Tiles = TileRegisters;
  constexpr index_t panel = tile_vectors * tile_side;
  const auto* left = static_cast<const std::uint32_t*>(a);
  const auto* right = static_cast<const std::uint32_t*>(b);
  for (index_t l = 0; l < words; l += tile_side, left += tile_side, right += tile_side * panel) {
    Tiles::load<4>(left, a_stride);
    if constexpr (R == 2) Tiles::load<5>(left + tile_side * a_stride, a_stride);
    Tiles::load<6>(right, panel);
    multiply.template operator()<0, 4, 6>();
    if constexpr (R == 2) multiply.template operator()<2, 5, 6>();
    Tiles::load<7>(right + tile_side, panel);
    multiply.template operator()<1, 4, 7>();
    if constexpr (R == 2) multiply.template operator()<3, 5, 7>();
    if constexpr (P == 2) {
      Tiles::load<6>(right + panel_step, panel);
      multiply.template operator()<2, 4, 6>();
      Tiles::load<7>(right + panel_step + tile_side, panel);
      multiply.template operator()<3, 4, 7>();
    }
  }
}

/// finish(i, j, sum) for each row i of P panels of sums in memory, and each of the panels, which begins at column j, if there is
/// one.
template <int P, class T, class Finish>
[[gnu::always_inline]] inline void for_sums_of_panels(index_t rows, index_t columns, const T* sums, Finish&& finish) {
  constexpr index_t panel = tile_vectors * tile_side;
  for (index_t i = 0; i < rows; ++i, sums += P * panel)
    for (index_t j = 0; j < P * panel && j < columns; j += panel) {
      const Vector<T> sum[1][tile_vectors] = {{load<T>(sums + j), load<T>(sums + j + tile_side)}};
      finish(i, j, sum);
    }
}

}  // namespace attend::ATTEND_CPU::detail
#endif

#define ATTEND_READ_AGAIN "attend/cpu/amx.hpp"
#define ATTEND_READ_FOR_AMX
#include "attend/cpu/each_target.hpp"
#endif
