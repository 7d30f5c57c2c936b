#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "attend/core/types.hpp"

/// Vectors of the processor's own width, in the compilers' portable form: arithmetic is written with + and *, and a * b + c
/// becomes one fused operation where the processor has it.
namespace attend::cpu {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, vector_registers = 32;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32, vector_registers = 16;
#elif defined(__aarch64__)
inline constexpr int vector_bytes = 16, vector_registers = 32;
#else
inline constexpr int vector_bytes = 16, vector_registers = 16;
#endif

namespace detail {
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));  // `using` would not take the attribute of a dependent type
};
}  // namespace detail

template <class T>
using Vector = typename detail::VectorOf<T>::type;
template <class T>
inline constexpr int width = vector_bytes / static_cast<int>(sizeof(T));

/// From any address.
template <class T>
[[gnu::always_inline]] inline Vector<T> load(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <class T>
[[gnu::always_inline]] inline void store(T* p, Vector<T> v) {
  std::memcpy(p, &v, sizeof(v));
}

/// The first `count` numbers, fewer than a vector's; the others are 0. Nothing behind them is read.
template <class T>
[[gnu::always_inline]] inline Vector<T> load_part(const T* p, int count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
  else return (Vector<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p);
#else
  Vector<T> v = {};
  for (int l = 0; l < count; ++l) v[l] = p[l];
  return v;
#endif
}
template <class T>
[[gnu::always_inline]] inline void store_part(T* p, Vector<T> v, int count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
  else _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), (__m512d)v);
#else
  T all[width<T>];
  store<T>(all, v);
  for (int l = 0; l < count; ++l) p[l] = all[l];
#endif
}

namespace detail {

/// a0 b0 a1 b1 ...: the lower (First = 0) or upper (First = width / 2) halves of a and b, in turn.
template <class T, int First, int... L>
[[gnu::always_inline]] inline Vector<T> interleave(Vector<T> a, Vector<T> b, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(a, b, (First + L / 2 + (L % 2) * width<T>)...);
}

}  // namespace detail

/// Transposes the square matrix of `width` vectors in place: log2(width) times, vectors i and i + width / 2 are interleaved
/// into 2i and 2i + 1.
template <class T>
[[gnu::always_inline]] inline void transpose(Vector<T> (&v)[width<T>]) {
  constexpr int n = width<T>;
  constexpr auto places = std::make_integer_sequence<int, n>{};
#pragma GCC unroll 8
  for (int stage = 1; stage < n; stage *= 2) {
    Vector<T> u[n];
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) {
      u[2 * i] = detail::interleave<T, 0>(v[i], v[i + n / 2], places);
      u[2 * i + 1] = detail::interleave<T, n / 2>(v[i], v[i + n / 2], places);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) v[i] = u[i];
  }
}

}  // namespace attend::cpu
