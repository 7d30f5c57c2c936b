#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "attend/core/functor.hpp"
#include "attend/core/standard.hpp"

namespace attend {

/// A float cut down to its upper 16 bits: 8 exponent bits, 7 fraction bits. A type to store and to multiply in: arithmetic is
/// float's, to which it converts implicitly; the way back, rounded to nearest, ties to even, is explicit.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  /// Rounded to the nearest, halves to even.
  template <class T>
  requires std::is_arithmetic_v<T> ATTEND_FUNCTOR explicit bfloat16(T x) : bits(rounded(static_cast<float>(x))) {}
  ATTEND_FUNCTOR operator float() const {  // NOLINT(google-explicit-constructor): nothing is lost
#if defined(__CUDA_ARCH__)
    return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
#else
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
#endif
  }
  /// The number with these bits.
  ATTEND_FUNCTOR static bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 x;
    x.bits = bits;
    return x;
  }

 private:
  ATTEND_FUNCTOR static std::uint16_t rounded(float x) {
#if defined(__CUDA_ARCH__)
    std::uint16_t r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
#else
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;  // NaN stays NaN, with the bits that the device gives it
    return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
#endif
  }
};
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);

namespace detail {
/// What `Wide` is made of.
template <class T>
struct WideOf {
  using type = T;
};
/// Of bfloat16.
template <>
struct WideOf<bfloat16> {
  using type = float;
};
}  // namespace detail

/// What sums, norms, statistics and losses over numbers of type T are kept in: float for bfloat16, otherwise T itself.
template <class T>
using Wide = typename detail::WideOf<T>::type;

}  // namespace attend

template <>
class std::numeric_limits<attend::bfloat16> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true;
  static constexpr int digits = 8;
  static attend::bfloat16 infinity() { return attend::bfloat16::from_bits(0x7f80); }
  static attend::bfloat16 quiet_NaN() { return attend::bfloat16::from_bits(0x7fff); }
  static attend::bfloat16 epsilon() { return attend::bfloat16::from_bits(0x3c00); }
  static attend::bfloat16 max() { return attend::bfloat16::from_bits(0x7f7f); }
  static attend::bfloat16 lowest() { return attend::bfloat16::from_bits(0xff7f); }
};
