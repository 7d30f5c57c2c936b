#if !defined(ATTEND_CPU_MAP_DROPOUT) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_MAP_DROPOUT

#include "attend/core/types.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/map.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::kernels {

/// y[i] = mask * f.value(x[i]).
template <class T, class F>
void map_dropout_forward(Cpu, index_t n, const F& f, const DropoutMask& mask, const T* x, T* y) {
  ATTEND_FASTEST(map_dropout_forward, n, f, mask, x, y);
  cpu::for_mask_parts(n, [=](index_t first, index_t count) {
    cpu::map_range(count, f, x + first, y + first);
    cpu::dropout_range<T>(mask, first, count, y + first, {y + first});
  });
}

/// dx[i] = mask * dy[i] * slope(x[i]).
template <class T, class Slope>
void map_dropout_backward(Cpu, index_t n, const Slope& slope, const DropoutMask& mask, const T* dy, const T* x, Gradient<T> dx) {
  ATTEND_FASTEST(map_dropout_backward, n, slope, mask, dy, x, dx);
  cpu::for_mask_parts(n, [=](index_t first, index_t count) {
    alignas(64) T masked[cpu::mask_part];
    cpu::dropout_range<T>(mask, first, count, dy + first, {masked});
    cpu::map_range_backward(count, slope, masked, x + first, dx.from(first));
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/map_dropout.hpp"
#include "attend/cpu/each_target.hpp"
#endif
