#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"

/// Building blocks of the CPU's kernels: loops shaped so that GCC and Clang turn them into vector instructions of whatever
/// width the flags allow, with sums whose order does not depend on that width, on alignment or on the number of threads.
namespace attend::ATTEND_CPU {

/// Sums run in this many lanes side by side, joined pairwise at the end.
inline constexpr index_t lanes = 16;
/// n rounded up to whole lanes.
inline index_t whole_lanes(index_t n) { return (n + lanes - 1) / lanes * lanes; }

/// `condition ? a : b` that no compiler turns into a branch. A loop with `?:` around arithmetic stays scalar in GCC wherever
/// the arithmetic could trap and the machine has no masked instructions.
template <class T>
[[gnu::always_inline]] inline T select(bool condition, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  const Bits mask = Bits{0} - static_cast<Bits>(condition);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
}

namespace detail {

/// As many numbers as every processor can add at once.
template <class T>
struct Short {
  typedef T type __attribute__((vector_size(16)));
};
/// One value of the lanes: each of the first half is joined with its counterpart in the second, until one is left.
/// join(x, y) makes x what both are together, of vectors and of numbers. Spelt out in vectors, since of a loop over the lanes
/// compilers make one that writes them and reads them again at once, which takes two to six times as long.
template <class T, class Join>
[[gnu::always_inline]] inline T join_lanes(const T (&part)[lanes], Join&& join) {
  constexpr int width = 16 / sizeof(T), vectors = lanes / width;
  typename Short<T>::type v[vectors];
  std::memcpy(v, part, sizeof(v));
#pragma GCC unroll 4
  for (int half = vectors / 2; half > 0; half /= 2)
#pragma GCC unroll 4
    for (int l = 0; l < half; ++l) join(v[l], v[l + half]);
  T x[width];
  std::memcpy(x, v, sizeof(x));
#pragma GCC unroll 2
  for (int half = width / 2; half > 0; half /= 2)
#pragma GCC unroll 2
    for (int l = 0; l < half; ++l) join(x[l], x[l + half]);
  return x[0];
}

}  // namespace detail

/// The sum of all lanes.
template <class T>
[[gnu::always_inline]] inline T sum_of_lanes(const T (&part)[lanes]) {
  return detail::join_lanes(part, [](auto& x, const auto& y) { x += y; });
}
/// The largest of them.
template <class T>
[[gnu::always_inline]] inline T largest_of_lanes(const T (&part)[lanes]) {
  return detail::join_lanes(part, [](auto& x, const auto& y) { x = y > x ? y : x; });
}

/// f(0) + f(1) + ... + f(n - 1), in `lanes` partial sums.
template <class T, class F>
[[gnu::always_inline]] inline T sum_over(index_t n, F&& f) {
  T part[lanes] = {};
  index_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (index_t l = 0; l < lanes; ++l) part[l] += f(i + l);
  if (i < n) {
    T last[lanes] = {};  // apart, so that `part` can stay in registers
    for (index_t l = 0; l < lanes && i < n; ++i, ++l) last[l] = f(i);
    for (index_t l = 0; l < lanes; ++l) part[l] += last[l];
  }
  return sum_of_lanes(part);
}

/// The largest of f(0) ... f(n - 1); minus infinity for n = 0. NaN is passed over. Of whole numbers, which none may be negative,
/// 0.
template <class T, class F>
[[gnu::always_inline]] inline T max_over(index_t n, F&& f) {
  T part[lanes];
  for (index_t l = 0; l < lanes; ++l) part[l] = -std::numeric_limits<T>::infinity();
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    // Otherwise GCC unrolls this loop before it looks for vectors, and finds none: fifteen times as slow.
#pragma GCC unroll 1
    for (index_t l = 0; l < lanes; ++l) {
      const T v = f(i + l);
      part[l] = v > part[l] ? v : part[l];
    }
  }
  if (i < n) {
    T last[lanes];
    for (index_t l = 0; l < lanes; ++l) last[l] = -std::numeric_limits<T>::infinity();
    for (index_t l = 0; l < lanes && i < n; ++i, ++l) last[l] = f(i);
    for (index_t l = 0; l < lanes; ++l) part[l] = last[l] > part[l] ? last[l] : part[l];
  }
  return largest_of_lanes(part);
}

namespace detail {

/// 1.5 * 2^23: the last bits of a sum with it are the whole number nearest to the other.
inline constexpr float exp_round = 12582912.0f;

/// x / ln 2 + exp_round.
[[gnu::always_inline]] inline float exp_rounded(float x) { return x * 1.44269504f + exp_round; }
/// The n that the last bits of `rounded` are.
[[gnu::always_inline]] inline std::int32_t exp_exponent(float rounded) {
  return std::bit_cast<std::int32_t>(rounded) - std::bit_cast<std::int32_t>(exp_round);
}
/// e^x / 2^n, by Cody and Waite's reduction and a polynomial of degree 6 on [-ln2/2, ln2/2].
[[gnu::always_inline]] inline float exp_fraction(float x, float rounded) {
  constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  const float n = rounded - exp_round, r = (x - n * ln2_high) - n * ln2_low;
  float p = 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  return p * r + 1.0f;
}

}  // namespace detail

/// e^x. In float within 2 units in the last place; below -87.7 it is 0, above 88.72 infinity. In double the standard library's.
inline double exp(double x) { return std::exp(x); }
[[gnu::always_inline]] inline float exp(float x) {
  const float above = select(x < -88.0f, -88.0f, x), clamped = select(above > 88.8f, 88.8f, above);
  const float rounded = detail::exp_rounded(clamped);
  // 2^n goes in by two factors, since 2^128 alone has no exponent in float (their product is infinity); for n < -126 the first is
  // 0, by arithmetic on the sign, since GCC would turn a comparison into a branch.
  const std::int32_t n = detail::exp_exponent(rounded), half = n >> 1;
  const float a = std::bit_cast<float>(((half + 127) << 23) & ~((n + 126) >> 31)),
              b = std::bit_cast<float>((n - half + 127) << 23);
  return detail::exp_fraction(clamped, rounded) * a * b;
}
/// The same bits for x <= 88, all that softmax and losses ask for after they have subtracted a maximum, in fewer instructions:
/// 2^n is one factor, whose exponent is 0, and so the number too, for n = -127.
inline double exp_to_88(double x) { return std::exp(x); }
[[gnu::always_inline]] inline float exp_to_88(float x) {
  const float clamped = select(x < -88.0f, -88.0f, x), rounded = detail::exp_rounded(clamped);
  return detail::exp_fraction(clamped, rounded) * std::bit_cast<float>((detail::exp_exponent(rounded) + 127) << 23);
}

/// In float a quotient of two polynomials in x^2 that is within 3e-8 of tanh(x) / x, relatively, up to where tanh is 1; with
/// its rounding within 4e-7. Their coefficients are a minimax fit.
inline double tanh(double x) { return std::tanh(x); }
[[gnu::always_inline]] inline float tanh(float x) {
  const float a = std::abs(x), s = x * x;
  float p = 1.3319095e-8f;
  p = p * s + 2.0583547e-5f;
  p = p * s + 3.494041e-3f;
  p = p * s + 0.13379724f;
  p = p * s + 1.0f;
  float q = 7.762043e-7f;
  q = q * s + 3.2831015e-4f;
  q = q * s + 2.58711e-2f;
  q = q * s + 0.4671304f;
  q = q * s + 1.0f;
  const float y = a * p / q;
  return std::copysign(select((a > 9.02f) | (y > 1.0f), 1.0f, y), x);
}

/// The error function, in float of the same form and as good.
inline double erf(double x) { return std::erf(x); }
[[gnu::always_inline]] inline float erf(float x) {
  const float a = std::abs(x), s = x * x;
  float p = 2.0342072e-6f;
  p = p * s + 2.8473249e-4f;
  p = p * s + 3.792892e-3f;
  p = p * s + 5.2829809e-2f;
  p = p * s + 0.191143f;
  p = p * s + 1.1283791f;
  float q = 3.7919906e-5f;
  q = q * s + 1.1677411e-3f;
  q = q * s + 1.5024264e-2f;
  q = q * s + 0.11439874f;
  q = q * s + 0.50272876f;
  q = q * s + 1.0f;
  const float y = a * p / q;
  return std::copysign(select((a > 3.92f) | (y > 1.0f), 1.0f, y), x);
}

}  // namespace attend::ATTEND_CPU
