#if !defined(ATTEND_CPU_SIMD) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_SIMD

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"

#if defined(__AVX__) || (ATTEND_DISPATCH && defined(__x86_64__))
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#endif  // ATTEND_READING

/// Vectors of the processor's own width, in the compilers' portable form: arithmetic is written with + and *, and a * b + c
/// becomes one fused operation where the processor has it. Sums that go round a loop are written with `multiply_add`.
namespace attend::ATTEND_CPU {

#if ATTEND_LEVEL >= 4
inline constexpr int vector_bytes = 64, vector_registers = 32;
#elif ATTEND_LEVEL >= 1
inline constexpr int vector_bytes = 32, vector_registers = 16;
#elif defined(__aarch64__)
inline constexpr int vector_bytes = 16, vector_registers = 32;
#else
inline constexpr int vector_bytes = 16, vector_registers = 16;
#endif

namespace detail {
/// What `Vector` is made of.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));  // `using` would not take the attribute of a dependent type
};
}  // namespace detail

/// As many numbers as a vector register holds.
template <class T>
using Vector = typename detail::VectorOf<T>::type;
/// How many these are.
template <class T>
inline constexpr int width = vector_bytes / static_cast<int>(sizeof(T));

/// From any address.
template <class T>
[[gnu::always_inline]] inline Vector<T> load(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
/// To any address.
template <class T>
[[gnu::always_inline]] inline void store(T* p, Vector<T> v) {
  std::memcpy(p, &v, sizeof(v));
}

/// sum += a * b, rounded once where the processor can. Of the plain form GCC makes two operations in loops that it takes to be
/// waiting for their sum, before version 13 for a few processors, since then for most: the bits of a product would depend on the
/// loop that computes it.
template <class T>
[[gnu::always_inline]] inline void multiply_add(Vector<T>& sum, Vector<T> a, Vector<T> b) {
#if ATTEND_LEVEL >= 4
  if constexpr (sizeof(T) == 4) sum = (Vector<T>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
  else sum = (Vector<T>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)sum);
#elif ATTEND_LEVEL >= 2 || (ATTEND_LEVEL == 1 && defined(__FMA__))
  if constexpr (sizeof(T) == 4) sum = (Vector<T>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
  else sum = (Vector<T>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)sum);
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) sum = (Vector<T>)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
  else sum = (Vector<T>)vfmaq_f64((float64x2_t)sum, (float64x2_t)a, (float64x2_t)b);
#else
  sum += a * b;
#endif
}
/// The same with one number for all.
template <class T>
[[gnu::always_inline]] inline void multiply_add(Vector<T>& sum, T a, Vector<T> b) {
  multiply_add<T>(sum, a - Vector<T>{}, b);  // minus 0, which leaves even -0 as it is
}

/// Has v stand in a register from here on. What is used two to four times GCC reads from memory each time, as part of the
/// instructions that use it, and a loop that could multiply twice in a cycle then waits for its loads.
template <class V>
[[gnu::always_inline]] inline void hold([[maybe_unused]] V& v) {
#if defined(__SSE2__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
}

namespace detail {

/// From number 8 - c on, the mask of a vector's first c times four bytes.
inline constexpr std::int32_t first_of_eight[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

}  // namespace detail

/// The first `count` numbers, at most a vector's; the others are 0. Nothing behind them is read.
template <class T>
[[gnu::always_inline]] inline Vector<T> load_part(const T* p, int count) {
#if ATTEND_LEVEL >= 4
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
  else return (Vector<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p);
#elif ATTEND_LEVEL >= 1
  __m256i mask;
  std::memcpy(&mask, detail::first_of_eight + 8 - count * static_cast<int>(sizeof(T) / 4), sizeof(mask));
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm256_maskload_ps(p, mask);
  else return (Vector<T>)_mm256_maskload_pd(p, mask);
#else
  Vector<T> v = {};
  for (int l = 0; l < count; ++l) v[l] = p[l];
  return v;
#endif
}
/// The first `count` alone.
template <class T>
[[gnu::always_inline]] inline void store_part(T* p, Vector<T> v, int count) {
#if ATTEND_LEVEL >= 4
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
  else _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), (__m512d)v);
#else
  T all[width<T>];
  store<T>(all, v);
  for (int l = 0; l < count; ++l) p[l] = all[l];
#endif
}

/// The square roots, rounded as the standard library's. A loop over std::sqrt stays scalar where that has to set errno.
template <class T>
[[gnu::always_inline]] inline Vector<T> sqrt(Vector<T> v) {
#if ATTEND_LEVEL >= 4  // "maskz" with a full mask costs nothing, and spares the reader GCC 12's warnings about the plain form
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm512_maskz_sqrt_ps(0xFFFF, (__m512)v);
  else return (Vector<T>)_mm512_maskz_sqrt_pd(0xFF, (__m512d)v);
#elif ATTEND_LEVEL >= 1
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm256_sqrt_ps((__m256)v);
  else return (Vector<T>)_mm256_sqrt_pd((__m256d)v);
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm_sqrt_ps((__m128)v);
  else return (Vector<T>)_mm_sqrt_pd((__m128d)v);
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) return (Vector<T>)vsqrtq_f32((float32x4_t)v);
  else return (Vector<T>)vsqrtq_f64((float64x2_t)v);
#else
  for (int l = 0; l < width<T>; ++l) v[l] = std::sqrt(v[l]);
  return v;
#endif
}

namespace detail {

/// Numbers L... of a and b side by side.
template <class T, int... L>
[[gnu::always_inline]] inline Vector<T> pick(Vector<T> a, [[maybe_unused]] Vector<T> b) {
#if defined(__CUDACC__)  // whose front end loses the pack on its way through the builtin
  return Vector<T>{(L < width<T> ? a[L % width<T>] : b[L % width<T>])...};
#else
  return __builtin_shufflevector(a, b, L...);
#endif
}

/// a0 b0 a1 b1 ... of the lower halves of each block of `Block` numbers of a and b, or of the upper ones.
template <class T, int Block, bool Upper, int... L>
[[gnu::always_inline]] inline Vector<T> interleave(Vector<T> a, Vector<T> b, std::integer_sequence<int, L...>) {
  return pick<T, (L / Block * Block + Upper * Block / 2 + L % Block / 2 + L % 2 * width<T>)...>(a, b);
}

/// The blocks of `Block` numbers of a, then those of b, each folded to the sum of its halves.
template <class T, int Block, int... L>
[[gnu::always_inline]] inline Vector<T> fold(Vector<T> a, Vector<T> b, std::integer_sequence<int, L...>) {
  constexpr int half = Block / 2;
  return pick<T, (L / half * Block + L % half)...>(a, b) + pick<T, (L / half * Block + L % half + half)...>(a, b);
}

/// Each block of `Block` numbers becomes its sum, over and over.
template <class T, int Block, int... L>
[[gnu::always_inline]] inline Vector<T> sum_blocks(Vector<T> v, std::integer_sequence<int, L...> places) {
  if constexpr (Block == 1) return v;
  else return sum_blocks<T, Block / 2>(v + pick<T, (L ^ (Block / 2))...>(v, v), places);
}

}  // namespace detail

/// to[i] = the sum of v[i]'s numbers, i < 4: pairwise by halves, four sums for little more than one.
template <class T>
[[gnu::always_inline]] inline void four_sums(const Vector<T> (&v)[4], T* to) {
  constexpr int n = width<T>;
  constexpr auto places = std::make_integer_sequence<int, n>{};
  const Vector<T> a = detail::fold<T, n>(v[0], v[1], places), b = detail::fold<T, n>(v[2], v[3], places);
  if constexpr (n == 2) {
    store<T>(to, a), store<T>(to + 2, b);
  } else {
    constexpr int part = n / 4;
    const Vector<T> all = detail::sum_blocks<T, part>(detail::fold<T, n / 2>(a, b, places), places);
#if defined(__CUDACC__)  // whose front end before CUDA 13 does not know the builtin
    for (int i = 0; i < 4; ++i) to[i] = all[i * part];
#else
    const auto first = __builtin_shufflevector(all, all, 0, part, 2 * part, 3 * part);
    std::memcpy(to, &first, 4 * sizeof(T));
#endif
  }
}

/// Numbers in 16 bytes, a lane of a vector: what shuffles move most cheaply, within one and as a whole.
template <class T>
inline constexpr int lane = 16 / static_cast<int>(sizeof(T));

namespace detail {

/// Of the lanes of a, then those of b, every second one: the first of each two, or, if Odd, the second.
template <class T, bool Odd, int... L>
[[gnu::always_inline]] inline Vector<T> every_second_lane(Vector<T> a, Vector<T> b, std::integer_sequence<int, L...>) {
  constexpr int n = lane<T>;
  return pick<T, ((2 * (L / n) + Odd) * n + L % n)...>(a, b);
}

/// Of each `lane` vectors that follow each other, transposes the square that lies in each of their lanes.
template <class T>
[[gnu::always_inline]] inline void transpose_in_lanes(Vector<T> (&v)[width<T>]) {
  constexpr int n = lane<T>;
  constexpr auto places = std::make_integer_sequence<int, width<T>>{};
#pragma GCC unroll 8
  for (int first = 0; first < width<T>; first += n)
#pragma GCC unroll 2
    for (int stage = 1; stage < n; stage *= 2) {
      Vector<T> u[n];
#pragma GCC unroll 2
      for (int i = 0; i < n / 2; ++i) {
        const Vector<T> a = v[first + i], b = v[first + i + n / 2];
        u[2 * i] = interleave<T, n, false>(a, b, places), u[2 * i + 1] = interleave<T, n, true>(a, b, places);
      }
#pragma GCC unroll 4
      for (int i = 0; i < n; ++i) v[first + i] = u[i];
    }
}

/// Side by side, lane by lane: numbers [at, at + lane) of every `lane`-th row from the first on.
template <class T>
[[gnu::always_inline]] inline Vector<T> load_lanes(const T* const* rows, index_t at) {
#if ATTEND_LEVEL >= 1
  const auto part = [&](int i) { return _mm_loadu_ps(reinterpret_cast<const float*>(rows[i * lane<T>] + at)); };
#endif
#if ATTEND_LEVEL >= 4
  __m512 v = _mm512_castps128_ps512(part(0));
  v = _mm512_insertf32x4(v, part(1), 1);
  v = _mm512_insertf32x4(v, part(2), 2);
  return (Vector<T>)_mm512_insertf32x4(v, part(3), 3);
#elif ATTEND_LEVEL >= 1
  return (Vector<T>)_mm256_insertf128_ps(_mm256_castps128_ps256(part(0)), part(1), 1);
#else
  return load<T>(rows[0] + at);
#endif
}

}  // namespace detail

/// Transposes the square matrix of `width` vectors in place: whole lanes change places, log2(width / lane) times, then numbers
/// within lanes.
template <class T>
[[gnu::always_inline]] inline void transpose(Vector<T> (&v)[width<T>]) {
  constexpr int n = lane<T>, count = width<T> / n;
  constexpr auto places = std::make_integer_sequence<int, width<T>>{};
#pragma GCC unroll 2
  for (int stage = 1; stage < count; stage *= 2) {
    Vector<T> u[width<T>];
#pragma GCC unroll 2
    for (int i = 0; i < count / 2; ++i)
#pragma GCC unroll 4
      for (int r = 0; r < n; ++r) {
        const Vector<T> a = v[2 * i * n + r], b = v[(2 * i + 1) * n + r];
        u[i * n + r] = detail::every_second_lane<T, false>(a, b, places);
        u[(i + count / 2) * n + r] = detail::every_second_lane<T, true>(a, b, places);
      }
#pragma GCC unroll 16
    for (int i = 0; i < width<T>; ++i) v[i] = u[i];
  }
  detail::transpose_in_lanes<T>(v);
}

/// v[i] = number at + i of each row. Whole lanes are put in their places as they are loaded, which leaves a third (of
/// doubles, AVX-512) to two thirds (of floats, AVX2) of the shuffles that `transpose` needs.
template <class T>
[[gnu::always_inline]] inline void load_turned(const T* const (&rows)[width<T>], index_t at, Vector<T> (&v)[width<T>]) {
#pragma GCC unroll 8
  for (int first = 0; first < width<T>; first += lane<T>)
#pragma GCC unroll 4
    for (int r = 0; r < lane<T>; ++r) v[first + r] = detail::load_lanes<T>(rows + r, at + first);
  detail::transpose_in_lanes<T>(v);
}

}  // namespace attend::ATTEND_CPU

#define ATTEND_READ_AGAIN "attend/cpu/simd.hpp"
#include "attend/cpu/each_target.hpp"
#endif
