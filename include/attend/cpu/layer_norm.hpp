#pragma once

#include <cmath>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/vector.hpp"

namespace attend {

/// y = gamma * xhat + beta over rows of width n, xhat = (x - mean) * rstd. gamma and beta hold n values, or one where
/// `scalar_affine`. Keeps mean and rstd, [rows] each, for the backward.
template <class T>
void layer_norm_forward(Cpu, index_t rows, index_t n, double eps, bool sample_deviation, bool scalar_affine, const T* x,
                        const T* gamma, const T* beta, T* y, T* mean, T* rstd) {
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T* row = x + r * n;
      T* out = y + r * n;
      const T m = cpu::sum_over<T>(n, [=](index_t i) { return row[i]; }) / static_cast<T>(n);
      // Two passes: the sum of squares minus the squared mean loses all digits where the mean is large.
      const T squares = cpu::sum_over<T>(n, [=](index_t i) { return (row[i] - m) * (row[i] - m); });
      const T s = sample_deviation ? T(1) / (std::sqrt(squares / static_cast<T>(n - 1)) + static_cast<T>(eps))
                                   : T(1) / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(eps));
      mean[r] = m, rstd[r] = s;
      if (scalar_affine)
        for (index_t i = 0; i < n; ++i) out[i] = (row[i] - m) * s * gamma[0] + beta[0];
      else
        for (index_t i = 0; i < n; ++i) out[i] = (row[i] - m) * s * gamma[i] + beta[i];
    }
  });
}

/// dx = rstd * (g - mean(g) - xhat * c), g = dy * gamma. For the population variance c = mean(g * xhat). For the sample
/// deviation d, with eps added to it, c = sum(g * xhat) / ((n - 1) * d * rstd).
template <class T>
void layer_norm_backward(Cpu, index_t rows, index_t n, double eps, bool sample_deviation, bool scalar_affine, const T* dy,
                         const T* x, const T* gamma, const T* mean, const T* rstd, T dx_beta, T* dx) {
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T *row = x + r * n, *dout = dy + r * n;
      T* din = dx + r * n;
      const T m = mean[r], s = rstd[r];
      const auto g = [=](index_t i) { return dout[i] * (scalar_affine ? gamma[0] : gamma[i]); };
      const T g_mean = cpu::sum_over<T>(n, g) / static_cast<T>(n);
      const T g_xhat = cpu::sum_over<T>(n, [=](index_t i) { return g(i) * (row[i] - m) * s; });
      T c = g_xhat / static_cast<T>(n);
      if (sample_deviation) {
        const T d = T(1) / s - static_cast<T>(eps);
        c = d > T(0) ? g_xhat / (static_cast<T>(n - 1) * d * s) : T(0);
      }
      if (dx_beta == T(0))
        for (index_t i = 0; i < n; ++i) din[i] = s * (g(i) - g_mean - (row[i] - m) * s * c);
      else
        for (index_t i = 0; i < n; ++i) din[i] += s * (g(i) - g_mean - (row[i] - m) * s * c);
    }
  });
}

/// dgamma = beta * dgamma + sum over rows of dy * xhat, dbeta likewise of dy; single sums where `scalar_affine`.
/// Either may be null.
template <class T>
void layer_norm_backward_affine(Cpu, index_t rows, index_t n, bool scalar_affine, const T* dy, const T* x, const T* mean,
                                const T* rstd, T gamma_keep, T* dgamma, T beta_keep, T* dbeta) {
  if (scalar_affine) {
    T gamma_sum = 0, beta_sum = 0;
    for (index_t r = 0; r < rows; ++r) {
      const T *row = x + r * n, *dout = dy + r * n;
      const T m = mean[r], s = rstd[r];
      gamma_sum += cpu::sum_over<T>(n, [=](index_t i) { return dout[i] * (row[i] - m); }) * s;
      beta_sum += cpu::sum_over<T>(n, [=](index_t i) { return dout[i]; });
    }
    if (dgamma) dgamma[0] = (gamma_keep == T(0) ? T(0) : dgamma[0]) + gamma_sum;
    if (dbeta) dbeta[0] = (beta_keep == T(0) ? T(0) : dbeta[0]) + beta_sum;
    return;
  }
  parallel_for(n, std::max<index_t>(64, 8192 / std::max<index_t>(1, rows)), [=](index_t begin, index_t end) {
    if (dgamma && gamma_keep == T(0)) std::fill(dgamma + begin, dgamma + end, T(0));
    if (dbeta && beta_keep == T(0)) std::fill(dbeta + begin, dbeta + end, T(0));
    for (index_t r = 0; r < rows; ++r) {
      const T *row = x + r * n, *dout = dy + r * n;
      const T m = mean[r], s = rstd[r];
      if (dgamma)
        for (index_t i = begin; i < end; ++i) dgamma[i] += dout[i] * (row[i] - m) * s;
      if (dbeta)
        for (index_t i = begin; i < end; ++i) dbeta[i] += dout[i];
    }
  });
}

}  // namespace attend
