#if !defined(ATTEND_CPU_MAP_DROPOUT) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_MAP_DROPOUT

#include "attend/core/types.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/map.hpp"
#include "attend/cpu/targets.hpp"
#endif

namespace attend::ATTEND_IN(kernels) {

  /// y[i] = mask * f.value(x[i]).
  template <class T, class F>
  void map_dropout_forward(Cpu, index_t n, const F& f, const DropoutMask& mask, const T* x, T* y) {
    ATTEND_FASTEST(map_dropout_forward, n, f, mask, x, y);
    cpu::for_mask_parts(n, [=](index_t first, index_t count) {
      cpu::map_range(count, f, x + first, y + first);
      cpu::dropout_range(mask.stream, mask.threshold, static_cast<T>(mask.scale), first, count, y + first, T(0), y + first);
    });
  }

  /// dx[i] = keep * dx[i] + mask * dy[i] * slope(x[i]); keep is 0 (dx need not hold anything yet) or 1.
  template <class T, class Slope>
  void map_dropout_backward(Cpu, index_t n, const Slope& slope, const DropoutMask& mask, const T* dy, const T* x, T keep, T* dx) {
    ATTEND_FASTEST(map_dropout_backward, n, slope, mask, dy, x, keep, dx);
    cpu::for_mask_parts(n, [=](index_t first, index_t count) {
      alignas(64) T masked[cpu::mask_part];
      cpu::dropout_range(mask.stream, mask.threshold, static_cast<T>(mask.scale), first, count, dy + first, T(0), masked);
      cpu::map_range_backward(count, slope, masked, x + first, keep, dx + first);
    });
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/map_dropout.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_MAP_DROPOUT
