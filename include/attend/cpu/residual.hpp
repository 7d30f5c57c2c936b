#if !defined(ATTEND_CPU_RESIDUAL) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_RESIDUAL

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/layer_norm.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/residual.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// y = x + mask * branch for elements `first` to `first + n` of whole tensors. y may be x.
template <class T>
void add_masked(const DropoutMask& mask, index_t first, index_t n, const T* x, const T* branch, T* y) {
  if (mask.threshold == 0) {
    for (index_t i = first; i < first + n; ++i) y[i] = x[i] + branch[i];
    return;
  }
  if (x != y) std::copy(x + first, x + first + n, y + first);
  dropout_range<T>(mask, first, n, branch + first, {y + first, true});
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y[i] = x[i] + mask * branch[i].
template <class T>
void add_dropout_forward(Cpu, index_t n, const DropoutMask& mask, const T* x, const T* branch, T* y) {
  ATTEND_FASTEST(add_dropout_forward, n, mask, x, branch, y);
  cpu::for_mask_parts(n, [=](index_t first, index_t count) { cpu::add_masked(mask, first, count, x, branch, y); });
}

/// y = the norm of the rows of in.sum, which is set to in.x + mask * in.branch.
template <class T>
void add_dropout_norm_forward(Cpu, const NormOfRows<T>& norm, const ResidualSum<T>& in, T* y, NormStatistics<T> kept) {
  ATTEND_FASTEST(add_dropout_norm_forward, norm, in, y, kept);
  const index_t n = norm.layout.width, part = std::max<index_t>(1, 4096 / std::max<index_t>(1, n));
  parallel_rows(norm.rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; r += part) {
      const index_t count = std::min(part, end - r), at = r * n;
      cpu::add_masked(in.mask, at, count * n, in.x, in.branch, in.sum);
      cpu::layer_norm_rows(norm.part(count), in.sum + at, y + at, kept.from(r));
    }
  });
}

/// The gradients of that norm and sum.
template <class T>
void add_dropout_norm_backward(Cpu, const NormOfRows<T>& norm, const T* dy, const T* sum, NormStatistics<T> kept,
                               const ResidualGradients<T>& gradients) {
  ATTEND_FASTEST(add_dropout_norm_backward, norm, dy, sum, kept, gradients);
  const index_t n = norm.layout.width;
  cpu::layer_norm_backward_then(norm, dy, sum, kept, gradients.norm, [=](index_t first, index_t count) {
    if (gradients.branch)
      cpu::dropout_range<T>(gradients.mask, first * n, count * n, gradients.norm.x.data + first * n,
                            {gradients.branch + first * n});
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/residual.hpp"
#include "attend/cpu/each_target.hpp"
#endif
