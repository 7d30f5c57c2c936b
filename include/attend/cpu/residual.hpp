#if !defined(ATTEND_CPU_RESIDUAL) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_RESIDUAL

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/layer_norm.hpp"
#include "attend/cpu/targets.hpp"
#endif

namespace attend::ATTEND_IN(cpu) {

  /// y = x + mask * branch for elements `first` to `first + n` of whole tensors. y may be x.
  template <class T>
  void add_masked(const DropoutMask& mask, index_t first, index_t n, const T* x, const T* branch, T* y) {
    if (mask.threshold == 0) {
      for (index_t i = first; i < first + n; ++i) y[i] = x[i] + branch[i];
      return;
    }
    if (x != y) std::copy(x + first, x + first + n, y + first);
    dropout_range(mask.stream, mask.threshold, static_cast<T>(mask.scale), first, n, branch + first, T(1), y + first);
  }

}  // namespace attend::ATTEND_IN(cpu)

namespace attend::ATTEND_IN(kernels) {

  /// y[i] = x[i] + mask * branch[i].
  template <class T>
  void add_dropout_forward(Cpu, index_t n, const DropoutMask& mask, const T* x, const T* branch, T* y) {
    ATTEND_FASTEST(add_dropout_forward, n, mask, x, branch, y);
    cpu::for_mask_parts(n, [=](index_t first, index_t count) { cpu::add_masked(mask, first, count, x, branch, y); });
  }

  /// sum = x + mask * branch,  y = the norm of its rows.
  template <class T>
  void add_dropout_norm_forward(Cpu, const NormOfRows<T>& norm, const DropoutMask& mask, const T* x, const T* branch, T* sum,
                                T* y, NormStatistics<T> kept) {
    ATTEND_FASTEST(add_dropout_norm_forward, norm, mask, x, branch, sum, y, kept);
    const index_t n = norm.layout.width, part = std::max<index_t>(1, 4096 / std::max<index_t>(1, n));
    parallel_rows(norm.rows, n, [=](index_t begin, index_t end) {
      for (index_t r = begin; r < end; r += part) {
        const index_t count = std::min(part, end - r), at = r * n;
        cpu::add_masked(mask, at, count * n, x, branch, sum);
        cpu::layer_norm_rows(norm.part(count), sum + at, y + at, kept.from(r));
      }
    });
  }

  /// The gradients of that norm, gradients.x being that of the sum (see `layer_norm_backward`), and dbranch = mask * the sum's
  /// gradient. dbranch may be null, and must be if gradients.x is.
  template <class T>
  void add_dropout_norm_backward(Cpu, const NormOfRows<T>& norm, const DropoutMask& mask, const T* dy, const T* sum,
                                 NormStatistics<T> kept, const NormGradients<T>& gradients, T* dbranch) {
    ATTEND_FASTEST(add_dropout_norm_backward, norm, mask, dy, sum, kept, gradients, dbranch);
    const index_t n = norm.layout.width;
    cpu::layer_norm_backward_then(norm, dy, sum, kept, gradients, [=](index_t first, index_t count) {
      if (dbranch)
        cpu::dropout_range(mask.stream, mask.threshold, static_cast<T>(mask.scale), first * n, count * n,
                           gradients.x.data + first * n, T(0), dbranch + first * n);
    });
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/residual.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_RESIDUAL
