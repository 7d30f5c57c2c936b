#pragma once

#include <algorithm>
#include <cmath>

#include "attend/core/memory.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/layer_norm.hpp"

namespace attend::cpu {

/// A row's mean, of which a root mean square norm knows nothing.
template <class T>
T norm_mean(const NormLayout& norm, T sum) {
  return norm.kind == NormKind::rms ? T(0) : sum / static_cast<T>(norm.width);
}

/// One thread's rows of `layer_norm_forward`.
template <class T>
void layer_norm_rows(const NormLayout& norm, index_t rows, const T* x, const T* gamma, const T* beta, T* y, T* mean, T* rstd) {
  const index_t n = norm.width;
  for (index_t r = 0; r < rows; ++r) {
    const T* row = x + r * n;
    T* out = y + r * n;
    const T m = norm_mean(norm, sum_over<T>(n, [=](index_t i) { return row[i]; }));
    // Two passes: the sum of squares minus the squared mean loses all digits where the mean is large.
    const T squares = sum_over<T>(n, [=](index_t i) { return (row[i] - m) * (row[i] - m); });
    const T s = norm.sample_deviation ? T(1) / (std::sqrt(squares / static_cast<T>(n - 1)) + static_cast<T>(norm.eps))
                                      : T(1) / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(norm.eps));
    mean[r] = m, rstd[r] = s;
    if (!beta)
      for (index_t i = 0; i < n; ++i) out[i] = (row[i] - m) * s * gamma[norm.scalar_affine ? 0 : i];
    else if (norm.scalar_affine)
      for (index_t i = 0; i < n; ++i) out[i] = (row[i] - m) * s * gamma[0] + beta[0];
    else
      for (index_t i = 0; i < n; ++i) out[i] = (row[i] - m) * s * gamma[i] + beta[i];
  }
}

/// One thread's rows of dx in `layer_norm_backward`.
template <class T>
void layer_norm_rows_backward(const NormLayout& norm, index_t rows, const T* dy, const T* x, const T* gamma, const T* mean,
                              const T* rstd, T keep, T* dx) {
  const index_t n = norm.width;
  for (index_t r = 0; r < rows; ++r) {
    const T *row = x + r * n, *dout = dy + r * n;
    T* din = dx + r * n;
    const T m = mean[r], s = rstd[r];
    const auto write = [&](const auto& g) {
      const T g_mean = norm_mean(norm, sum_over<T>(n, g));
      const T g_xhat = sum_over<T>(n, [=](index_t i) { return g(i) * (row[i] - m) * s; });
      T c = g_xhat / static_cast<T>(n);
      if (norm.sample_deviation) {
        const T d = T(1) / s - static_cast<T>(norm.eps);
        c = d > T(0) ? g_xhat / (static_cast<T>(n - 1) * d * s) : T(0);
      }
      if (keep == T(0))
        for (index_t i = 0; i < n; ++i) din[i] = s * (g(i) - g_mean - (row[i] - m) * s * c);
      else
        for (index_t i = 0; i < n; ++i) din[i] += s * (g(i) - g_mean - (row[i] - m) * s * c);
    };
    if (norm.scalar_affine) write([=, scale = gamma[0]](index_t i) { return dout[i] * scale; });
    else write([=](index_t i) { return dout[i] * gamma[i]; });
  }
}

/// The sums of dy * xhat and of dy over some rows: gamma_sums, beta_sums [width], or one number each where scalar.
template <class T>
void layer_norm_rows_affine(const NormLayout& norm, index_t rows, const T* dy, const T* x, const T* mean, const T* rstd,
                            T* gamma_sums, T* beta_sums) {
  const index_t n = norm.width, sums = norm.scalar_affine ? 1 : n;
  std::fill(gamma_sums, gamma_sums + sums, T(0));
  std::fill(beta_sums, beta_sums + sums, T(0));
  for (index_t r = 0; r < rows; ++r) {
    const T *row = x + r * n, *dout = dy + r * n;
    const T m = mean[r], s = rstd[r];
    if (norm.scalar_affine) {
      gamma_sums[0] += sum_over<T>(n, [=](index_t i) { return dout[i] * (row[i] - m); }) * s;
      beta_sums[0] += sum_over<T>(n, [=](index_t i) { return dout[i]; });
    } else {
      for (index_t i = 0; i < n; ++i) gamma_sums[i] += dout[i] * (row[i] - m) * s;
      for (index_t i = 0; i < n; ++i) beta_sums[i] += dout[i];
    }
  }
}

/// `layer_norm_backward` with after(first, rows) called on rows whose dx is done, while they are in the cache.
template <class T, class F>
void layer_norm_backward_then(const NormLayout& norm, index_t rows, const T* dy, const T* x, const T* gamma, const T* mean,
                              const T* rstd, T keep, T* dx, T gamma_keep, T* dgamma, T beta_keep, T* dbeta, F&& after) {
  // Parts of fixed size, each with sums of its own, so that the number of threads does not show.
  constexpr index_t part = 32;
  const index_t n = norm.width, sums = norm.scalar_affine ? 1 : n, parts = (rows + part - 1) / part;
  Storage<T, Cpu> partial(dgamma || dbeta ? parts * 2 * sums : 0);  // [parts, gamma's sums and beta's]
  T* partial_sums = partial.data();
  parallel_for(parts, std::max<index_t>(1, 8192 / std::max<index_t>(1, part * n)), [&](index_t begin, index_t end) {
    for (index_t p = begin; p < end; ++p) {
      const index_t first = p * part, count = std::min(part, rows - first), at = first * n;
      if (partial_sums) {
        T* own = partial_sums + p * 2 * sums;
        layer_norm_rows_affine(norm, count, dy + at, x + at, mean + first, rstd + first, own, own + sums);
      }
      if (!dx) continue;
      layer_norm_rows_backward(norm, count, dy + at, x + at, gamma, mean + first, rstd + first, keep, dx + at);
      after(first, count);
    }
  });
  if (dgamma) sum_rows(Cpu{}, {partial_sums, parts, sums, 2 * sums}, Gradient{dgamma, gamma_keep != T(0)});
  if (dbeta) sum_rows(Cpu{}, {partial_sums + sums, parts, sums, 2 * sums}, Gradient{dbeta, beta_keep != T(0)});
}

}  // namespace attend::cpu

namespace attend::kernels {

/// y = gamma * xhat + beta over rows, xhat = (x - mean) * rstd, for the root mean square norm with mean = 0. Keeps mean and rstd,
/// [rows] each, for the backward.
template <class T>
void layer_norm_forward(Cpu, const NormLayout& norm, index_t rows, const T* x, const T* gamma, const T* beta, T* y, T* mean,
                        T* rstd) {
  const index_t n = norm.width;
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    cpu::layer_norm_rows(norm, end - begin, x + begin * n, gamma, beta, y + begin * n, mean + begin, rstd + begin);
  });
}

/// dx = keep * dx + rstd * (g - mean(g) - xhat * c), g = dy * gamma, for the root mean square norm without mean(g). For the
/// population variance c = mean(g * xhat). For the sample deviation d, with eps added to it, c = sum(g * xhat) / ((n - 1) * d *
/// rstd). dgamma = gamma_keep * dgamma + the sum over rows of dy * xhat, dbeta likewise of dy; single sums where scalar. Each of
/// dx, dgamma and dbeta may be null; keep is 0 (what is written then need not hold anything yet) or 1.
template <class T>
void layer_norm_backward(Cpu, const NormLayout& norm, index_t rows, const T* dy, const T* x, const T* gamma, const T* mean,
                         const T* rstd, T keep, T* dx, T gamma_keep, T* dgamma, T beta_keep, T* dbeta) {
  cpu::layer_norm_backward_then(norm, rows, dy, x, gamma, mean, rstd, keep, dx, gamma_keep, dgamma, beta_keep, dbeta,
                                [](index_t, index_t) {});
}

}  // namespace attend::kernels
