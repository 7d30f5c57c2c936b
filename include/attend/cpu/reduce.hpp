#if !defined(ATTEND_CPU_REDUCE) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_REDUCE

#include <algorithm>

#include "attend/core/shape.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::kernels {

/// y [outer, inner] = the largest of x [outer, n, inner], as `size` has it, over the middle dimension, n > 0; at: the first place
/// where it stands. NaN counts as the largest.
template <class T>
void max_forward(Cpu, const AroundAxis& size, const T* x, T* y, index_t* at) {
  ATTEND_FASTEST(max_forward, size, x, y, at);
  const index_t outer = size.outer, n = size.n, inner = size.inner;
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

/// dx = dy at the places `at`, nothing elsewhere.
template <class T>
void max_backward(Cpu, const AroundAxis& size, const T* dy, const index_t* at, Gradient<T> into) {
  ATTEND_FASTEST(max_backward, size, dy, at, into);
  const index_t outer = size.outer, n = size.n, inner = size.inner;
  T* const dx = into.data;
  parallel_rows(outer, n * inner, [=](index_t begin, index_t end) {
    if (!into.add) std::fill(dx + begin * n * inner, dx + end * n * inner, T(0));
    for (index_t o = begin; o < end; ++o)
      for (index_t j = 0; j < inner; ++j) dx[(o * n + at[o * inner + j]) * inner + j] += dy[o * inner + j];
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/reduce.hpp"
#include "attend/cpu/each_target.hpp"
#endif
