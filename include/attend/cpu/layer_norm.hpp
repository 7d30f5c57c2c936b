#if !defined(ATTEND_CPU_LAYER_NORM) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_LAYER_NORM

#include <algorithm>
#include <cmath>

#include "attend/core/memory.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/layer_norm.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

using kernels::Gradient;
using kernels::NormGradients;
using kernels::NormOfRows;
using kernels::NormStatistics;

/// A row's mean; 0 for a root mean square norm, which takes none off.
template <class T>
T norm_mean(const NormLayout& norm, T sum) {
  return norm.kind == NormKind::rms ? T(0) : sum / static_cast<T>(norm.width);
}

/// One thread's rows of `layer_norm_forward`.
template <class T>
void layer_norm_rows(const NormOfRows<T>& of, const T* x, T* y, NormStatistics<T> kept) {
  const NormLayout& norm = of.layout;
  const T *gamma = of.gamma, *beta = of.beta;
  const index_t n = norm.width;
  for (index_t r = 0; r < of.rows; ++r) {
    const T* row = x + r * n;
    T* out = y + r * n;
    const T m = norm_mean(norm, sum_over<T>(n, [=](index_t i) { return row[i]; }));
    // Two passes: the sum of squares minus the squared mean loses all digits where the mean is large.
    const T squares = sum_over<T>(n, [=](index_t i) { return (row[i] - m) * (row[i] - m); });
    const T s = norm.sample_deviation ? T(1) / (std::sqrt(squares / static_cast<T>(n - 1)) + static_cast<T>(norm.eps))
                                      : T(1) / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(norm.eps));
    kept.mean[r] = m, kept.rstd[r] = s;
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
void layer_norm_rows_backward(const NormOfRows<T>& of, const T* dy, const T* x, NormStatistics<T> kept, Gradient<T> dx) {
  const NormLayout& norm = of.layout;
  const T* gamma = of.gamma;
  const index_t n = norm.width;
  for (index_t r = 0; r < of.rows; ++r) {
    const T *row = x + r * n, *dout = dy + r * n;
    T* din = dx.data + r * n;
    const T m = kept.mean[r], s = kept.rstd[r];
    const auto write = [&](const auto& g) {
      const T g_mean = norm_mean(norm, sum_over<T>(n, g));
      const T g_xhat = sum_over<T>(n, [=](index_t i) { return g(i) * (row[i] - m) * s; });
      T c = g_xhat / static_cast<T>(n);
      if (norm.sample_deviation) {
        const T d = T(1) / s - static_cast<T>(norm.eps);
        c = d > T(0) ? g_xhat / (static_cast<T>(n - 1) * d * s) : T(0);
      }
      if (dx.add)
        for (index_t i = 0; i < n; ++i) din[i] += s * (g(i) - g_mean - (row[i] - m) * s * c);
      else
        for (index_t i = 0; i < n; ++i) din[i] = s * (g(i) - g_mean - (row[i] - m) * s * c);
    };
    if (norm.scalar_affine) write([=, scale = gamma[0]](index_t i) { return dout[i] * scale; });
    else write([=](index_t i) { return dout[i] * gamma[i]; });
  }
}

/// The sums of dy * xhat and of dy over some rows: gamma_sums, beta_sums [width], or one number each if `scalar_affine`.
template <class T>
void layer_norm_rows_affine(const NormOfRows<T>& of, const T* dy, const T* x, NormStatistics<T> kept, T* gamma_sums,
                            T* beta_sums) {
  const NormLayout& norm = of.layout;
  const index_t n = norm.width, sums = norm.scalar_affine ? 1 : n;
  std::fill(gamma_sums, gamma_sums + sums, T(0));
  std::fill(beta_sums, beta_sums + sums, T(0));
  for (index_t r = 0; r < of.rows; ++r) {
    const T *row = x + r * n, *dout = dy + r * n;
    const T m = kept.mean[r], s = kept.rstd[r];
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
void layer_norm_backward_then(const NormOfRows<T>& norm, const T* dy, const T* x, NormStatistics<T> kept,
                              const NormGradients<T>& gradients, F&& after) {
  // Parts of fixed size, each with sums of its own, so that the number of threads does not show.
  constexpr index_t part = 32;
  const index_t rows = norm.rows, n = norm.layout.width, sums = norm.layout.scalar_affine ? 1 : n,
                parts = (rows + part - 1) / part;
  const Gradient<T> dgamma = gradients.gamma, dbeta = gradients.beta;
  Storage<T> partial(dgamma || dbeta ? parts * 2 * sums : 0);  // [parts, gamma's sums and beta's]
  T* partial_sums = partial.data();
  parallel_for(parts, std::max<index_t>(1, 8192 / std::max<index_t>(1, part * n)), [&](index_t begin, index_t end) {
    for (index_t p = begin; p < end; ++p) {
      const index_t first = p * part, count = std::min(part, rows - first), at = first * n;
      const NormOfRows<T> here = norm.part(count);
      if (partial_sums) {
        T* own = partial_sums + p * 2 * sums;
        layer_norm_rows_affine(here, dy + at, x + at, kept.from(first), own, own + sums);
      }
      if (!gradients.x) continue;
      layer_norm_rows_backward(here, dy + at, x + at, kept.from(first), {gradients.x.data + at, gradients.x.add});
      after(first, count);
    }
  });
  if (dgamma) sum_rows(Cpu{}, {partial_sums, parts, sums, 2 * sums}, dgamma);
  if (dbeta) sum_rows(Cpu{}, {partial_sums + sums, parts, sums, 2 * sums}, dbeta);
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y = gamma * xhat + beta over rows, xhat = (x - mean) * rstd. Keeps mean and rstd.
template <class T>
void layer_norm_forward(Cpu, const NormOfRows<T>& norm, const T* x, T* y, NormStatistics<T> kept) {
  ATTEND_FASTEST(layer_norm_forward, norm, x, y, kept);
  const index_t n = norm.layout.width;
  parallel_rows(norm.rows, n, [=](index_t begin, index_t end) {
    cpu::layer_norm_rows(norm.part(end - begin), x + begin * n, y + begin * n, kept.from(begin));
  });
}

/// dx = rstd * (g - mean(g) - xhat * c), g = dy * gamma, for the root mean square norm without mean(g). For the population
/// variance c = mean(g * xhat). For the sample deviation d, with eps added to it, c = sum(g * xhat) / ((n - 1) * d * rstd).
/// dgamma = the sum over rows of dy * xhat, dbeta that of dy; single sums if `scalar_affine`.
template <class T>
void layer_norm_backward(Cpu, const NormOfRows<T>& norm, const T* dy, const T* x, NormStatistics<T> kept,
                         const NormGradients<T>& gradients) {
  ATTEND_FASTEST(layer_norm_backward, norm, dy, x, kept, gradients);
  cpu::layer_norm_backward_then(norm, dy, x, kept, gradients, [](index_t, index_t) {});
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/layer_norm.hpp"
#include "attend/cpu/each_target.hpp"
#endif
