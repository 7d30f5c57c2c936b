#pragma once

#include "attend/autograd/var.hpp"
#include "attend/cpu/layer_norm.hpp"

namespace attend {

struct LayerNormOptions {
  double eps = 1e-5;
  /// false: xhat = (x - mean) / sqrt(population variance + eps). true: xhat = (x - mean) / (sample deviation + eps), which
  /// needs rows of at least two values.
  bool sample_deviation = false;
};

/// y = gamma * xhat + beta,  xhat = (x - mean) / sqrt(var + eps), over the trailing dimensions that gamma has.
/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * gamma.
/// Shapes: x, y [..., n] and gamma, beta [n]; x [..., a, b] and gamma, beta [a, b]; or gamma, beta [1]: one scalar for all
/// values of the last dimension. Throws ShapeError, ValueError. Source: Ba et al. 2016, eq. 3.
template <class T, Device D>
Var<T, D> layer_norm(const Var<T, D>& x, const Var<T, D>& gamma, const Var<T, D>& beta, const LayerNormOptions& options = {}) {
  const Shape &shape = x.shape(), &affine = gamma.shape();
  check_shape("layer_norm", "beta", beta.shape(), affine);
  if (shape.rank() == 0) throw ShapeError("layer_norm: x is a scalar and has no dimension to normalise over");
  const bool scalar = affine == Shape{1};
  index_t n = shape[-1];
  if (!scalar) {
    const bool fits = affine.rank() >= 1 && affine.rank() <= shape.rank() &&
                      std::equal(affine.begin(), affine.end(), shape.end() - affine.rank());
    if (!fits)
      throw ShapeError("layer_norm: gamma has shape " + affine.text() + ", expected the last dimensions of x " + shape.text() +
                       " or [1]");
    n = affine.size();
  }
  check_value(options.eps >= 0, "layer_norm", "eps is negative");
  check_value(!options.sample_deviation || n > 1, "layer_norm", "the sample deviation of rows of one value does not exist");
  const index_t rows = n == 0 ? 0 : shape.size() / n;

  Tensor<T, D> y(shape), mean({rows}), rstd({rows});
  layer_norm_forward(D{}, rows, n, options.eps, options.sample_deviation, scalar, x.data(), gamma.data(), beta.data(), y.data(),
                     mean.data(), rstd.data());
  return record(std::move(y), {x, gamma, beta}, [=](const Tensor<T, D>& dy) {
    x.accumulate_with([&](T* dx, T keep) {
      layer_norm_backward(D{}, rows, n, options.eps, options.sample_deviation, scalar, dy.data(), x.data(), gamma.data(),
                          mean.data(), rstd.data(), keep, dx);
    });
    const auto affine_gradient = [&](T gamma_keep, T* dgamma, T beta_keep, T* dbeta) {
      layer_norm_backward_affine(D{}, rows, n, scalar, dy.data(), x.data(), mean.data(), rstd.data(), gamma_keep, dgamma,
                                 beta_keep, dbeta);
    };
    if (gamma.requires_grad() && beta.requires_grad())  // both in one pass over dy
      gamma.accumulate_with([&](T* dgamma, T gamma_keep) {
        beta.accumulate_with([&](T* dbeta, T beta_keep) { affine_gradient(gamma_keep, dgamma, beta_keep, dbeta); });
      });
    else {
      gamma.accumulate_with([&](T* dgamma, T keep) { affine_gradient(keep, dgamma, T(0), nullptr); });
      beta.accumulate_with([&](T* dbeta, T keep) { affine_gradient(T(0), nullptr, keep, dbeta); });
    }
  });
}

}  // namespace attend
