#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

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

/// e^x. In float by Cody and Waite's reduction and a polynomial of degree 6 on [-ln2/2, ln2/2], within 2 units in the last
/// place; below -87.3 it is 0, above 88.7 infinity. In double the standard library's.
inline double exp(double x) { return std::exp(x); }
inline float exp(float x) {
  constexpr float log2e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f, round = 12582912.0f;  // 1.5 * 2^23
  const float clamped = std::min(std::max(x, -87.3f), 88.7f);
  const float n = (clamped * log2e + round) - round;
  const float r = (clamped - n * ln2_high) - n * ln2_low;
  float p = 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n in two factors, since 2^128 alone has no exponent in float.
  const std::int32_t k = static_cast<std::int32_t>(n), half = k >> 1;
  const float a = std::bit_cast<float>((half + 127) << 23), b = std::bit_cast<float>((k - half + 127) << 23);
  const float y = p * a * b;
  const float low = x < -87.3f ? 0.0f : y;
  return x > 88.7f ? std::numeric_limits<float>::infinity() : (x == x ? low : x);
}

/// tanh(x) = (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x; near zero, where that cancels, x - x^3/3 + 2x^5/15 - 17x^7/315.
inline double tanh(double x) { return std::tanh(x); }
inline float tanh(float x) {
  const float a = std::abs(x), e = cpu::exp(-2.0f * a), s = x * x;
  const float large = (1.0f - e) / (1.0f + e);
  const float small = a * (1.0f + s * (-0.333333333f + s * (0.133333333f + s * (-0.0539682540f + s * 0.0218694885f))));
  const float y = a < 0.3f ? small : large;
  return std::copysign(y, x);
}

/// The error function. In float by erf(x) = 1 - t * e^(-x^2 + polynomial(t)), t = 1 / (1 + |x|/2), near zero by its series.
/// Source: Abramowitz and Stegun 7.1.5 (series); Press et al., "Numerical Recipes" (erfc's Chebyshev fit, 1.2e-7 relative).
inline double erf(double x) { return std::erf(x); }
inline float erf(float x) {
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
  return std::copysign(a < 0.5f ? small : large, x);
}

}  // namespace attend::cpu
