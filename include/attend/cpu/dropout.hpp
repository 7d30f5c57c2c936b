#if !defined(ATTEND_CPU_DROPOUT) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_DROPOUT

#include <algorithm>
#include <cstdint>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/philox.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/dropout.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// Elements in a part of a pass that goes over each part twice, once for the mask, while it is in the first-level cache.
inline constexpr index_t mask_part = 2048;

/// body(first, count) for the parts of [0, n), in parallel.
template <class F>
void for_mask_parts(index_t n, F&& body) {
  parallel_for((n + mask_part - 1) / mask_part, 4, [&](index_t begin, index_t end) {
    for (index_t p = begin; p < end; ++p) body(p * mask_part, std::min(mask_part, n - p * mask_part));
  });
}

#if defined(__GNUC__) && !defined(__clang__)
// With AVX-512, GCC 12 does not see that `random_words` fills the block.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

/// One thread's share of `dropout_apply`: y[i] = mask * x[i] where element i draws word `first + i`.
template <class T>
void dropout_range(const DropoutMask& mask, index_t first, index_t n, const T* x, kernels::Gradient<T> y) {
  const std::uint32_t threshold = mask.threshold;
  const T scale = static_cast<T>(mask.scale);
  alignas(64) std::uint32_t block[random_block];
  for (index_t i = 0; i < n;) {
    const index_t at = (first + i) % random_block, count = std::min(random_block - at, n - i);
    random_words(mask.stream, static_cast<std::uint64_t>((first + i) / random_block), block);
    const std::uint32_t* words = block + at;
    const T* in = x + i;
    T* out = y.data + i;
    // A factor of 0, where a choice between two results would be a branch to mispredict.
    const auto factor = [=](index_t j) { return words[j] >= threshold ? scale : T(0); };
    if (!y.add)
      for (index_t j = 0; j < count; ++j) out[j] = factor(j) * in[j];
    else
      for (index_t j = 0; j < count; ++j) out[j] += factor(j) * in[j];
    i += count;
  }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y[i] = mask * x[i], mask = `scale` where word i of the stream is at least `threshold`, otherwise 0. y may be x if nothing is
/// added. The backward is the same function, from dy to dx.
template <class T>
void dropout_apply(Cpu, index_t n, const DropoutMask& mask, const T* x, Gradient<T> y) {
  ATTEND_FASTEST(dropout_apply, n, mask, x, y);
  constexpr index_t size = cpu::random_block;
  parallel_for((n + size - 1) / size, 64, [=](index_t begin, index_t end) {
    const index_t first = begin * size;
    cpu::dropout_range(mask, first, std::min(end * size, n) - first, x + first, y.from(first));
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/dropout.hpp"
#include "attend/cpu/each_target.hpp"
#endif
