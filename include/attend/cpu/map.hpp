#if !defined(ATTEND_CPU_MAP) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_MAP

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

// "flatten" puts the functor into the loop, which only then turns into vector instructions.

/// y = f(x).
template <class T, class F>
[[gnu::flatten]] void map_range(index_t n, const F& f, const T* x, T* y) {
  for (index_t i = 0; i < n; ++i) y[i] = f.value(x[i]);
}

/// dx = dy * slope, where a slope follows from the input or the output `at` that place.
template <class T, class Slope>
[[gnu::flatten]] void map_range_backward(index_t n, const Slope& slope, const T* dy, const T* at, kernels::Gradient<T> into) {
  T* const dx = into.data;
  if (!into.add)
    for (index_t i = 0; i < n; ++i) dx[i] = dy[i] * slope(at[i]);
  else
    for (index_t i = 0; i < n; ++i) dx[i] += dy[i] * slope(at[i]);
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y[i] = f.value(x[i]).
template <class T, class F>
void map_forward(Cpu, index_t n, const F& f, const T* x, T* y) {
  ATTEND_FASTEST(map_forward, n, f, x, y);
  parallel_rows(n, 1, [=](index_t begin, index_t end) { cpu::map_range(end - begin, f, x + begin, y + begin); });
}

/// dx[i] = dy[i] * slope(at[i]).
template <class T, class Slope>
void map_backward(Cpu, index_t n, const Slope& slope, const T* dy, const T* at, Gradient<T> dx) {
  ATTEND_FASTEST(map_backward, n, slope, dy, at, dx);
  parallel_rows(n, 1, [=](index_t begin, index_t end) {
    cpu::map_range_backward(end - begin, slope, dy + begin, at + begin, dx.from(begin));
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/map.hpp"
#include "attend/cpu/each_target.hpp"
#endif
