#pragma once
/// \file
/// Functions that CUDA has at global scope. Their fast forms are the exact ones here: compare with tolerances that hardware
/// meets.

#include <math.h>  // NOLINT(modernize-deprecated-headers): the names at global scope are what is wanted

#include <bit>
#include <cmath>
#include <cstdint>

// These carry C linkage, since C libraries declare some of them so.
extern "C" {
inline float rsqrtf(float x) noexcept { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) noexcept { return 1.0 / std::sqrt(x); }
inline float __expf(float x) noexcept { return std::exp(x); }
inline float __exp10f(float x) noexcept { return std::pow(10.0F, x); }
inline float __logf(float x) noexcept { return std::log(x); }
inline float __log2f(float x) noexcept { return std::log2(x); }
inline float __powf(float x, float y) noexcept { return std::pow(x, y); }
inline float __sinf(float x) noexcept { return std::sin(x); }
inline float __cosf(float x) noexcept { return std::cos(x); }
}
inline float rcbrtf(float x) { return 1.0F / std::cbrt(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float __fdiv_rn(float x, float y) { return x / y; }
// Never contracted to one operation with what stands beside them.
__attribute__((noinline)) inline float __fmul_rn(float x, float y) { return x * y; }
__attribute__((noinline)) inline float __fadd_rn(float x, float y) { return x + y; }
__attribute__((noinline)) inline float __fsub_rn(float x, float y) { return x - y; }
__attribute__((noinline)) inline double __dmul_rn(double x, double y) { return x * y; }
__attribute__((noinline)) inline double __dadd_rn(double x, double y) { return x + y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __saturatef(float x) { return x >= 0.0F ? (x <= 1.0F ? x : 1.0F) : 0.0F; }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
/// To the nearest, what is out of range to the ends, NaN to 0.
inline int __float2int_rn(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.0F) return 2147483647;
  return x <= -2147483648.0F ? -2147483647 - 1 : static_cast<int>(std::nearbyint(x));
}

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((std::uint64_t{a} * b) >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>((std::int64_t{a} * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
/// The place of the lowest bit, from 1; 0 if there is none.
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
/// The zeros before the highest bit: 32 for 0.
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (unsigned bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1U) << (31 - bit);
  return reversed;
}
/// Bytes of the eight in (y, x) that the four lowest nibbles of `selector` name.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t both = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (unsigned byte = 0; byte < 4; ++byte) {
    const unsigned nibble = selector >> (4 * byte) & 0xfU;
    unsigned value = static_cast<unsigned>(both >> (8 * (nibble & 7U))) & 0xffU;
    if ((nibble & 8U) != 0) value = (value & 0x80U) != 0 ? 0xffU : 0;
    result |= value << (8 * byte);
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (shift & 31U) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31U));
}

#define EMULATOR_MINIMUM(R, A, B)                                                                                     \
  constexpr R min(A a, B b) { return static_cast<R>(b) < static_cast<R>(a) ? static_cast<R>(b) : static_cast<R>(a); } \
  constexpr R max(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); }
EMULATOR_MINIMUM(int, int, int)
EMULATOR_MINIMUM(unsigned, unsigned, unsigned)
EMULATOR_MINIMUM(unsigned, int, unsigned)
EMULATOR_MINIMUM(unsigned, unsigned, int)
EMULATOR_MINIMUM(long, long, long)
EMULATOR_MINIMUM(unsigned long, unsigned long, unsigned long)
EMULATOR_MINIMUM(unsigned long, long, unsigned long)
EMULATOR_MINIMUM(unsigned long, unsigned long, long)
EMULATOR_MINIMUM(long long, long long, long long)
EMULATOR_MINIMUM(unsigned long long, unsigned long long, unsigned long long)
EMULATOR_MINIMUM(unsigned long long, long long, unsigned long long)
EMULATOR_MINIMUM(unsigned long long, unsigned long long, long long)
#undef EMULATOR_MINIMUM
// Of a number and a NaN, the number.
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
inline double min(float a, double b) { return std::fmin(a, b); }
inline double max(float a, double b) { return std::fmax(a, b); }
inline double min(double a, float b) { return std::fmin(a, b); }
inline double max(double a, float b) { return std::fmax(a, b); }
