#pragma once

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/layer_norm.hpp"

namespace attend::cpu {

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

}  // namespace attend::cpu

namespace attend::kernels {

/// y[i] = x[i] + mask * branch[i].
template <class T>
void add_dropout_forward(Cpu, index_t n, const DropoutMask& mask, const T* x, const T* branch, T* y) {
  cpu::for_mask_parts(n, [=](index_t first, index_t count) { cpu::add_masked(mask, first, count, x, branch, y); });
}

/// sum = x + mask * branch,  y = layer norm of its rows; mean, rstd [rows] are kept for the backward.
template <class T>
void add_dropout_norm_forward(Cpu, const NormLayout& norm, index_t rows, const DropoutMask& mask, const T* x, const T* branch,
                              const T* gamma, const T* beta, T* sum, T* y, T* mean, T* rstd) {
  const index_t n = norm.width, part = std::max<index_t>(1, 4096 / std::max<index_t>(1, n));
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; r += part) {
      const index_t count = std::min(part, end - r), at = r * n;
      cpu::add_masked(mask, at, count * n, x, branch, sum);
      cpu::layer_norm_rows(norm, count, sum + at, gamma, beta, y + at, mean + r, rstd + r);
    }
  });
}

/// dsum: the gradient of the sum, see `layer_norm_backward`; dbranch = mask * dsum. dbranch, dgamma and dbeta may be null.
template <class T>
void add_dropout_norm_backward(Cpu, const NormLayout& norm, index_t rows, const DropoutMask& mask, const T* dy, const T* sum,
                               const T* gamma, const T* mean, const T* rstd, T* dsum, T* dbranch, T gamma_keep, T* dgamma,
                               T beta_keep, T* dbeta) {
  const index_t n = norm.width;
  cpu::layer_norm_backward_then(norm, rows, dy, sum, gamma, mean, rstd, T(0), dsum, gamma_keep, dgamma, beta_keep, dbeta,
                                [=](index_t first, index_t count) {
                                  if (dbranch)
                                    cpu::dropout_range(mask.stream, mask.threshold, static_cast<T>(mask.scale), first * n,
                                                       count * n, dsum + first * n, T(0), dbranch + first * n);
                                });
}

}  // namespace attend::kernels
