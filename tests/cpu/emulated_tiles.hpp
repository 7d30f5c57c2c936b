#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "attend/core/types.hpp"

/// One tile register.
struct EmulatedTile {
  std::uint32_t word[16][16] = {};
  int rows = 0;
};

/// What AMX's tile registers do, number by number, for tests on processors that lack them: the interface of
/// `detail::TileRegisters` in attend/cpu/amx.hpp.
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 2, TILELOADD, TDPBUSD, TDPBF16PS.
class EmulatedTiles {
 public:
  ~EmulatedTiles() {
    for (EmulatedTile& tile : tiles) tile = {};
  }

  void hold_rows(attend::index_t rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const auto first = static_cast<int>(rows < 16 ? rows : 16), second = static_cast<int>(rows > 16 ? rows - 16 : rows);
    const int each[] = {first, first, second, second, first, second, 16, 16};
    for (int i = 0; i < 8; ++i) tiles[i] = {}, tiles[i].rows = each[i];
  }
  template <int I>
  static void load(const void* from, attend::index_t stride) {
    for (int r = 0; r < tiles[I].rows; ++r) std::memcpy(tiles[I].word[r], static_cast<const char*>(from) + r * stride * 4, 64);
  }
  template <int I>
  static void store(void* to, attend::index_t stride) {
    for (int r = 0; r < tiles[I].rows; ++r) std::memcpy(static_cast<char*>(to) + r * stride * 4, tiles[I].word[r], 64);
  }
  template <int I>
  static void clear() {
    std::memset(tiles[I].word, 0, sizeof(tiles[I].word));
  }
  template <int C, int A, int B>
  static void multiply_bf16() {
    check(tiles[C], tiles[A], tiles[B]);
    for (int m = 0; m < tiles[C].rows; ++m)
      for (int n = 0; n < 16; ++n) {
        float part[2] = {};
        for (int k = 0; k < 16; ++k)
          for (int i = 0; i < 2; ++i)
            part[i] = flushed(std::fma(half(tiles[A].word[m][k], i), half(tiles[B].word[k][n], i), part[i]));
        float sum;
        std::memcpy(&sum, &tiles[C].word[m][n], sizeof(sum));
        sum = flushed(flushed(sum) + flushed(part[0] + part[1]));
        std::memcpy(&tiles[C].word[m][n], &sum, sizeof(sum));
      }
  }
  template <int C, int A, int B>
  static void multiply_bytes() {
    check(tiles[C], tiles[A], tiles[B]);
    for (int m = 0; m < tiles[C].rows; ++m)
      for (int n = 0; n < 16; ++n)
        for (int k = 0; k < 16; ++k)
          for (int i = 0; i < 32; i += 8)
            tiles[C].word[m][n] += static_cast<std::uint32_t>(static_cast<int>(tiles[A].word[m][k] >> i & 0xff) *
                                                              static_cast<std::int8_t>(tiles[B].word[k][n] >> i & 0xff));
  }

 private:
  static inline thread_local EmulatedTile tiles[8];
  attend::index_t rows_ = 0;

  /// What processors end a program for.
  static void check(const EmulatedTile& c, const EmulatedTile& a, const EmulatedTile& b) {
    if (c.rows == 0 || c.rows != a.rows || b.rows != 16) throw std::logic_error("tiles of these shapes cannot be multiplied");
  }
  static float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
  static float half(std::uint32_t word, int which) {
    const std::uint32_t bits = which == 0 ? word << 16 : word & 0xffff0000u;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return flushed(x);
  }
};
