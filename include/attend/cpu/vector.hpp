#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "attend/core/types.hpp"

/// Building blocks of the CPU's kernels: loops shaped so that GCC and Clang turn them into vector instructions of whatever
/// width the flags allow, with sums whose order does not depend on that width, on alignment or on the number of threads.
namespace attend::cpu {

/// Sums run in this many lanes side by side, joined pairwise at the end.
inline constexpr index_t lanes = 16;

/// f(0) + f(1) + ... + f(n - 1), in `lanes` partial sums.
template <class T, class F>
inline T sum_over(index_t n, F&& f) {
  T part[lanes] = {};
  index_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (index_t l = 0; l < lanes; ++l) part[l] += f(i + l);
  for (index_t l = 0; i < n; ++i, ++l) part[l] += f(i);
  for (index_t half = lanes / 2; half > 0; half /= 2)
    for (index_t l = 0; l < half; ++l) part[l] += part[l + half];
  return part[0];
}

/// The largest of f(0) ... f(n - 1); minus infinity for n = 0.
template <class T, class F>
inline T max_over(index_t n, F&& f) {
  T part[lanes];
  for (index_t l = 0; l < lanes; ++l) part[l] = -std::numeric_limits<T>::infinity();
  index_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (index_t l = 0; l < lanes; ++l) {
      const T v = f(i + l);
      part[l] = v > part[l] ? v : part[l];
    }
  for (index_t l = 0; i < n; ++i, ++l) {
    const T v = f(i);
    part[l] = v > part[l] ? v : part[l];
  }
  for (index_t half = lanes / 2; half > 0; half /= 2)
    for (index_t l = 0; l < half; ++l) part[l] = part[l + half] > part[l] ? part[l + half] : part[l];
  return part[0];
}

/// `condition ? a : b` that no compiler turns into a branch. A loop with `?:` around arithmetic stays scalar in GCC wherever
/// the arithmetic could trap and the machine has no masked instructions.
template <class T>
[[gnu::always_inline]] inline T select(bool condition, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  const Bits mask = Bits{0} - static_cast<Bits>(condition);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
}

/// e^x. In float by Cody and Waite's reduction and a polynomial of degree 6 on [-ln2/2, ln2/2], within 2 units in the last
/// place; below -87.7 it is 0, above 88.72 infinity. In double the standard library's.
inline double exp(double x) { return std::exp(x); }
[[gnu::always_inline]] inline float exp(float x) {
  constexpr float log2e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f, round = 12582912.0f;  // 1.5 * 2^23
  const float above = select(x < -88.0f, -88.0f, x), clamped = select(above > 88.8f, 88.8f, above);
  const float rounded = clamped * log2e + round, n = rounded - round;
  const float r = (clamped - n * ln2_high) - n * ln2_low;
  float p = 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The last bits of `rounded` are n. 2^n goes in by two factors, since 2^128 alone has no exponent in float (their product is
  // infinity); for n < -126 the first is 0, by arithmetic on the sign, since GCC would turn a comparison into a branch.
  const std::int32_t k = std::bit_cast<std::int32_t>(rounded) - std::bit_cast<std::int32_t>(round), half = k >> 1;
  const float a = std::bit_cast<float>(((half + 127) << 23) & ~((k + 126) >> 31)),
              b = std::bit_cast<float>((k - half + 127) << 23);
  return p * a * b;
}

/// tanh(x) = (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x; near zero, where that cancels, x - x^3/3 + 2x^5/15 - 17x^7/315.
inline double tanh(double x) { return std::tanh(x); }
[[gnu::always_inline]] inline float tanh(float x) {
  const float a = std::abs(x), e = cpu::exp(-2.0f * a), s = x * x;
  const float large = (1.0f - e) / (1.0f + e);
  const float small = a * (1.0f + s * (-0.333333333f + s * (0.133333333f + s * (-0.0539682540f + s * 0.0218694885f))));
  return std::copysign(select(a < 0.3f, small, large), x);
}

/// The error function. In float by erf(x) = 1 - t * e^(-x^2 + polynomial(t)), t = 1 / (1 + |x|/2), near zero by its series.
/// Source: Abramowitz and Stegun 7.1.5 (series); Press et al., "Numerical Recipes" (erfc's Chebyshev fit, 1.2e-7 relative).
inline double erf(double x) { return std::erf(x); }
[[gnu::always_inline]] inline float erf(float x) {
  const float a = std::abs(x), s = x * x, t = 1.0f / (1.0f + 0.5f * a);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  const float large = 1.0f - t * cpu::exp(p - s);
  float q = -1.0f / 1320.0f;
  q = q * s + 1.0f / 216.0f;
  q = q * s - 1.0f / 42.0f;
  q = q * s + 0.1f;
  q = q * s - 1.0f / 3.0f;
  q = q * s + 1.0f;
  const float small = 1.12837917f * a * q;
  return std::copysign(select(a < 0.5f, small, large), x);
}

}  // namespace attend::cpu
