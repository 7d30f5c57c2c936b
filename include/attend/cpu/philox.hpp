#if !defined(ATTEND_CPU_PHILOX) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_PHILOX

#include <array>
#include <cstdint>

#include "attend/core/random.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#endif  // ATTEND_READING

/// Philox for many counters side by side: bit for bit `Generator::Stream::words`, some ten times as fast.
namespace attend::ATTEND_CPU {

/// Several 64-bit numbers side by side, with what Philox needs of them. Compilers do not find the multiplication of two 32-bit
/// halves into a 64-bit whole by themselves, hence one version for each instruction set, and a portable one.
/// `counters` puts counter i of a register's `width` at such a place that `store` writes the words in order.
#if ATTEND_LEVEL >= 4
struct PhiloxLanes {  // "maskz" with a full mask costs nothing, and spares the reader GCC 12's warnings about the plain forms
  static constexpr int width = 8;
  __m512i v;
  static PhiloxLanes all(std::uint64_t x) { return {_mm512_set1_epi64(static_cast<long long>(x))}; }
  static PhiloxLanes counters(std::uint64_t first) {
    return {_mm512_add_epi64(all(first).v, _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7))};
  }
  /// The product of the low halves.
  PhiloxLanes times(PhiloxLanes m) const { return {_mm512_maskz_mul_epu32(0xFF, v, m.v)}; }
  /// The high half in the low half; what is then in the high half does not matter.
  PhiloxLanes high() const { return {_mm512_castps_si512(_mm512_maskz_movehdup_ps(0xFFFF, _mm512_castsi512_ps(v)))}; }
  static PhiloxLanes exclusive_or(PhiloxLanes a, PhiloxLanes b, PhiloxLanes c) {
    return {_mm512_ternarylogic_epi64(a.v, b.v, c.v, 0x96)};
  }
  /// Writes 4 * width words: the low halves of c0 to c3, counter by counter.
  static void store(PhiloxLanes c0, PhiloxLanes c1, PhiloxLanes c2, PhiloxLanes c3, std::uint32_t* words) {
    const __m512i low = _mm512_mask_shuffle_epi32(c0.v, 0xAAAA, c1.v, _MM_PERM_CCAA);
    const __m512i high = _mm512_mask_shuffle_epi32(c2.v, 0xAAAA, c3.v, _MM_PERM_CCAA);
    _mm512_storeu_si512(words, _mm512_maskz_unpacklo_epi64(0xFF, low, high));
    _mm512_storeu_si512(words + 16, _mm512_maskz_unpackhi_epi64(0xFF, low, high));
  }
};
#elif ATTEND_LEVEL >= 2
struct PhiloxLanes {
  static constexpr int width = 4;
  __m256i v;
  static PhiloxLanes all(std::uint64_t x) { return {_mm256_set1_epi64x(static_cast<long long>(x))}; }
  static PhiloxLanes counters(std::uint64_t first) { return {_mm256_add_epi64(all(first).v, _mm256_setr_epi64x(0, 2, 1, 3))}; }
  PhiloxLanes times(PhiloxLanes m) const { return {_mm256_mul_epu32(v, m.v)}; }
  PhiloxLanes high() const { return {_mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(v)))}; }
  static PhiloxLanes exclusive_or(PhiloxLanes a, PhiloxLanes b, PhiloxLanes c) {
    return {_mm256_xor_si256(_mm256_xor_si256(a.v, b.v), c.v)};
  }
  static void store(PhiloxLanes c0, PhiloxLanes c1, PhiloxLanes c2, PhiloxLanes c3, std::uint32_t* words) {
    const __m256i low = _mm256_blend_epi32(c0.v, _mm256_slli_epi64(c1.v, 32), 0xAA);
    const __m256i high = _mm256_blend_epi32(c2.v, _mm256_slli_epi64(c3.v, 32), 0xAA);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm256_unpacklo_epi64(low, high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8), _mm256_unpackhi_epi64(low, high));
  }
};
#elif defined(__x86_64__)
struct PhiloxLanes {
  static constexpr int width = 2;
  __m128i v;
  static PhiloxLanes all(std::uint64_t x) { return {_mm_set1_epi64x(static_cast<long long>(x))}; }
  static PhiloxLanes counters(std::uint64_t first) { return {_mm_add_epi64(all(first).v, _mm_set_epi64x(1, 0))}; }
  PhiloxLanes times(PhiloxLanes m) const { return {_mm_mul_epu32(v, m.v)}; }
  PhiloxLanes high() const { return {_mm_srli_epi64(v, 32)}; }
  static PhiloxLanes exclusive_or(PhiloxLanes a, PhiloxLanes b, PhiloxLanes c) {
    return {_mm_xor_si128(_mm_xor_si128(a.v, b.v), c.v)};
  }
  static void store(PhiloxLanes c0, PhiloxLanes c1, PhiloxLanes c2, PhiloxLanes c3, std::uint32_t* words) {
    const __m128i mask = _mm_set1_epi64x(0xFFFFFFFF);
    const __m128i low = _mm_or_si128(_mm_and_si128(c0.v, mask), _mm_slli_epi64(c1.v, 32));
    const __m128i high = _mm_or_si128(_mm_and_si128(c2.v, mask), _mm_slli_epi64(c3.v, 32));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words), _mm_unpacklo_epi64(low, high));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 4), _mm_unpackhi_epi64(low, high));
  }
};
#else
struct PhiloxLanes {
  static constexpr int width = 1;
  std::uint64_t v;
  static PhiloxLanes all(std::uint64_t x) { return {x}; }
  static PhiloxLanes counters(std::uint64_t first) { return {first}; }
  PhiloxLanes times(PhiloxLanes m) const { return {(v & 0xFFFFFFFF) * (m.v & 0xFFFFFFFF)}; }
  PhiloxLanes high() const { return {v >> 32}; }
  static PhiloxLanes exclusive_or(PhiloxLanes a, PhiloxLanes b, PhiloxLanes c) { return {a.v ^ b.v ^ c.v}; }
  static void store(PhiloxLanes c0, PhiloxLanes c1, PhiloxLanes c2, PhiloxLanes c3, std::uint32_t* words) {
    words[0] = static_cast<std::uint32_t>(c0.v), words[1] = static_cast<std::uint32_t>(c1.v);
    words[2] = static_cast<std::uint32_t>(c2.v), words[3] = static_cast<std::uint32_t>(c3.v);
  }
};
#endif

/// The number of words that `random_words` makes at a time.
inline constexpr index_t random_block = 128;

/// The words of elements `random_block * block` to `random_block * (block + 1) - 1` of a stream: words[j] is
/// `stream.word(random_block * block + j)`.
inline void random_words(const Generator::Stream& stream, std::uint64_t block, std::uint32_t* words) {
  constexpr int width = PhiloxLanes::width, side = 4;  // registers side by side, since a multiplication takes its time
  const PhiloxLanes m0 = PhiloxLanes::all(0xD2511F53), m1 = PhiloxLanes::all(0xCD9E8D57);
  for (std::uint64_t first = 0; first < random_block / 4; first += side * width) {
    PhiloxLanes c0[side], c1[side], c2[side], c3[side];
    for (int i = 0; i < side; ++i) {
      c0[i] = PhiloxLanes::counters(block * (random_block / 4) + first + static_cast<std::uint64_t>(i * width));
      c1[i] = c0[i].high();
      c2[i] = PhiloxLanes::all(stream.stream);
      c3[i] = PhiloxLanes::all(stream.stream >> 32);
    }
    auto k0 = static_cast<std::uint32_t>(stream.key), k1 = static_cast<std::uint32_t>(stream.key >> 32);
    for (int round = 0; round < 10; ++round) {
      const PhiloxLanes key0 = PhiloxLanes::all(k0), key1 = PhiloxLanes::all(k1);
      for (int i = 0; i < side; ++i) {
        const PhiloxLanes a = c0[i].times(m0), b = c2[i].times(m1);
        c0[i] = PhiloxLanes::exclusive_or(b.high(), c1[i], key0);
        c1[i] = b;
        c2[i] = PhiloxLanes::exclusive_or(a.high(), c3[i], key1);
        c3[i] = a;
      }
      k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
    for (int i = 0; i < side; ++i)
      PhiloxLanes::store(c0[i], c1[i], c2[i], c3[i], words + (first + static_cast<std::uint64_t>(i * width)) * 4);
  }
}

}  // namespace attend::ATTEND_CPU

#define ATTEND_READ_AGAIN "attend/cpu/philox.hpp"
#include "attend/cpu/each_target.hpp"
#endif
