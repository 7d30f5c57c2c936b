#if !defined(ATTEND_CPU_REDUCE) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_REDUCE

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#endif

namespace attend::ATTEND_IN(kernels) {

  /// y [outer, inner] = the largest of x [outer, n, inner] over the middle dimension, n > 0; at: the first place where it stands.
  /// What is not a number counts as the largest.
  template <class T>
  void max_forward(Cpu, index_t outer, index_t n, index_t inner, const T* x, T* y, index_t* at) {
    ATTEND_FASTEST(max_forward, outer, n, inner, x, y, at);
    parallel_rows(outer, n * inner, [=](index_t begin, index_t end) {
      for (index_t o = begin; o < end; ++o) {
        const T* in = x + o * n * inner;
        T* best = y + o * inner;
        index_t* where = at + o * inner;
        std::copy(in, in + inner, best);
        std::fill(where, where + inner, index_t{0});
        for (index_t k = 1; k < n; ++k)
          for (index_t j = 0; j < inner; ++j) {
            const T v = in[k * inner + j];
            if (v > best[j] || (v != v && best[j] == best[j])) best[j] = v, where[j] = k;
          }
      }
    });
  }

  /// dx = keep * dx + dy at the places `at`, nothing elsewhere; keep is 0 (dx need not hold anything yet) or 1.
  template <class T>
  void max_backward(Cpu, index_t outer, index_t n, index_t inner, const T* dy, const index_t* at, T keep, T* dx) {
    ATTEND_FASTEST(max_backward, outer, n, inner, dy, at, keep, dx);
    parallel_rows(outer, n * inner, [=](index_t begin, index_t end) {
      if (keep == T(0)) std::fill(dx + begin * n * inner, dx + end * n * inner, T(0));
      for (index_t o = begin; o < end; ++o)
        for (index_t j = 0; j < inner; ++j) dx[(o * n + at[o * inner + j]) * inner + j] += dy[o * inner + j];
    });
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/reduce.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_REDUCE
