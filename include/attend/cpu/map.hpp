#if !defined(ATTEND_CPU_MAP) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_MAP

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#endif

namespace attend::ATTEND_IN(cpu) {

  // "flatten" puts the functor into the loop, which turns into vector instructions only then.

  template <class T, class F>
  [[gnu::flatten]] void map_range(index_t n, const F& f, const T* x, T* y) {
    for (index_t i = 0; i < n; ++i) y[i] = f.value(x[i]);
  }

  template <class T, class Slope>
  [[gnu::flatten]] void map_range_backward(index_t n, const Slope& slope, const T* dy, const T* at, T keep, T* dx) {
    if (keep == T(0))
      for (index_t i = 0; i < n; ++i) dx[i] = dy[i] * slope(at[i]);
    else
      for (index_t i = 0; i < n; ++i) dx[i] += dy[i] * slope(at[i]);
  }

}  // namespace attend::ATTEND_IN(cpu)

namespace attend::ATTEND_IN(kernels) {

  /// y[i] = f.value(x[i]).
  template <class T, class F>
  void map_forward(Cpu, index_t n, const F& f, const T* x, T* y) {
    ATTEND_FASTEST(map_forward, n, f, x, y);
    parallel_rows(n, 1, [=](index_t begin, index_t end) { cpu::map_range(end - begin, f, x + begin, y + begin); });
  }

  /// dx[i] = keep * dx[i] + dy[i] * slope(at[i]); keep is 0 (dx need not hold anything yet) or 1.
  template <class T, class Slope>
  void map_backward(Cpu, index_t n, const Slope& slope, const T* dy, const T* at, T keep, T* dx) {
    ATTEND_FASTEST(map_backward, n, slope, dy, at, keep, dx);
    parallel_rows(n, 1, [=](index_t begin, index_t end) {
      cpu::map_range_backward(end - begin, slope, dy + begin, at + begin, keep, dx + begin);
    });
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/map.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_MAP
