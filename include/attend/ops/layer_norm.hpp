#pragma once

#include <algorithm>

#include "attend/autograd/var.hpp"
#include "attend/cpu/layer_norm.hpp"

namespace attend {

struct LayerNormOptions {
  double eps = 1e-5;
  /// false: xhat = (x - mean) / sqrt(population variance + eps). true: xhat = (x - mean) / (sample deviation + eps), which
  /// needs rows of at least two values.
  bool sample_deviation = false;
};

namespace detail {

/// Checks what a layer norm is given, and says over what it goes.
template <class T, Device D>
LayerNormLayout layer_norm_layout(const char* operation, const Shape& shape, const Var<T, D>& gamma, const Var<T, D>& beta,
                                  const LayerNormOptions& options) {
  const Shape& affine = gamma.shape();
  check_shape(operation, "beta", beta.shape(), affine);
  if (shape.rank() == 0) throw ShapeError(std::string(operation) + ": x is a scalar and has no dimension to normalise over");
  LayerNormLayout norm{shape[-1], options.eps, options.sample_deviation, affine == Shape{1}};
  if (!norm.scalar_affine) {
    const bool fits = affine.rank() >= 1 && affine.rank() <= shape.rank() &&
                      std::equal(affine.begin(), affine.end(), shape.end() - affine.rank());
    if (!fits)
      throw ShapeError(std::string(operation) + ": gamma has shape " + affine.text() + ", expected the last dimensions of x " +
                       shape.text() + " or [1]");
    norm.width = affine.size();
  }
  check_value(options.eps >= 0, operation, "eps is negative");
  check_value(!options.sample_deviation || norm.width > 1, operation, "the sample deviation of rows of one value does not exist");
  return norm;
}

/// Calls write(gamma_keep, dgamma, beta_keep, dbeta) once, with null for what requires no gradient.
template <class T, Device D, class F>
void accumulate_affine(const GradientSink<T, D>& gamma, const GradientSink<T, D>& beta, F&& write) {
  const auto with_beta = [&](T gamma_keep, T* dgamma) {
    if (!beta.requires_grad()) return write(gamma_keep, dgamma, T(0), static_cast<T*>(nullptr));
    beta.accumulate_with([&](T* dbeta, T beta_keep) { write(gamma_keep, dgamma, beta_keep, dbeta); });
  };
  if (!gamma.requires_grad()) return with_beta(T(0), nullptr);
  gamma.accumulate_with([&](T* dgamma, T gamma_keep) { with_beta(gamma_keep, dgamma); });
}

}  // namespace detail

/// y = gamma * xhat + beta,  xhat = (x - mean) / sqrt(var + eps), over the trailing dimensions that gamma has.
/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * gamma.
/// Shapes: x, y [..., n] and gamma, beta [n]; x [..., a, b] and gamma, beta [a, b]; or gamma, beta [1]: one scalar for all
/// values of the last dimension. Throws ShapeError, ValueError. Source: Ba et al. 2016, eq. 3.
template <class T, Device D>
Var<T, D> layer_norm(const Var<T, D>& x, const Var<T, D>& gamma, const Var<T, D>& beta, const LayerNormOptions& options = {}) {
  const LayerNormLayout norm = detail::layer_norm_layout("layer_norm", x.shape(), gamma, beta, options);
  const index_t rows = norm.width == 0 ? 0 : x.size() / norm.width;
  Tensor<T, D> y(x.shape());
  Tensor<Wide<T>, D> mean({rows}), rstd({rows});
  layer_norm_forward(D{}, norm, rows, x.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data());
  return record(std::move(y), {x, gamma, beta}, [=](const Tensor<T, D>& dy) {
    // Everything in one pass over dy.
    detail::accumulate_affine(gamma.sink(), beta.sink(), [&](T gamma_keep, T* dgamma, T beta_keep, T* dbeta) {
      const auto write = [&](T* dx, T keep) {
        layer_norm_backward(D{}, norm, rows, dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(), keep, dx, gamma_keep,
                            dgamma, beta_keep, dbeta);
      };
      if (x.requires_grad()) x.accumulate_with(write);
      else write(nullptr, T(0));
    });
  });
}

}  // namespace attend
