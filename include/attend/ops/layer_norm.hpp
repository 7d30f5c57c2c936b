#pragma once

#include <algorithm>
#include <optional>
#include <type_traits>

#include "attend/autograd/var.hpp"
#include "attend/cpu/layer_norm.hpp"

namespace attend {

/// How `layer_norm` divides by the deviation of a row.
struct LayerNormOptions {
  double eps = 1e-5;
  /// false: xhat = (x - mean) / sqrt(population variance + eps). true: xhat = (x - mean) / (sample deviation + eps), which
  /// needs rows of at least two values.
  bool sample_deviation = false;
};

/// A norm as operations are given it: what xhat is multiplied by, what is added, if anything, and what xhat is.
template <class T, Device D = Cpu>
struct NormParameters {
  Var<T, D> gamma;
  std::optional<Var<T, D>> beta = {};
  LayerNormOptions options = {};
  NormKind kind = NormKind::layer;

  /// As kernels take it.
  [[nodiscard]] kernels::NormOfRows<T> of_rows(const NormLayout& layout, index_t rows) const {
    return {layout, rows, gamma.data(), beta ? beta->data() : nullptr};
  }
  /// x and these: what a norm of x is made from.
  [[nodiscard]] std::vector<Var<T, D>> inputs(const Var<T, D>& x) const {
    std::vector<Var<T, D>> list{x, gamma};
    if (beta) list.push_back(*beta);
    return list;
  }
};

namespace detail {

/// Checks what a norm is given, and returns its layout.
template <class T, Device D>
NormLayout norm_layout(const char* operation, const Shape& shape, const NormParameters<T, D>& of) {
  const Shape& affine = of.gamma.shape();
  const LayerNormOptions& options = of.options;
  if (of.beta) check_shape(operation, "beta", of.beta->shape(), affine);
  if (shape.rank() == 0) throw ShapeError(operation, ": x is a scalar and has no dimension to normalise over");
  NormLayout norm{shape[-1], of.kind, options.eps, options.sample_deviation, affine == Shape{1}};
  if (!norm.scalar_affine) {
    const bool fits = affine.rank() >= 1 && affine.rank() <= shape.rank() &&
                      std::equal(affine.begin(), affine.end(), shape.end() - affine.rank());
    if (!fits)
      throw ShapeError(operation, ": gamma has shape ", affine.text(), ", expected the last dimensions of x ", shape.text(),
                       " or [1]");
    norm.width = affine.size();
  }
  check_value(options.eps >= 0, operation, "eps is negative");
  check_value(!options.sample_deviation || of.kind == NormKind::layer, operation,
              "a root mean square norm has no sample deviation");
  check_value(!options.sample_deviation || norm.width > 1, operation, "the sample deviation of rows of one value does not exist");
  return norm;
}

/// What a norm keeps of its rows for its backward.
template <class T, Device D>
struct KeptStatistics {
  Tensor<Wide<T>, D> mean, rstd;
  explicit KeptStatistics(index_t rows) : mean({rows}), rstd({rows}) {}
  [[nodiscard]] kernels::NormStatistics<T> data() const { return {mean.data(), rstd.data()}; }
};

/// Hands a norm's gradients on: write(dgamma, dbeta) is called once, without a place for what requires none.
template <class T, Device D>
class AffineGradients {
 public:
  explicit AffineGradients(const NormParameters<T, D>& of) : gamma_(of.gamma.sink()) {
    if (of.beta) beta_ = of.beta->sink();
  }
  template <class F>
  void accumulate_with(F&& write) const {
    using Gradient = kernels::Gradient<T>;
    const auto with_beta = [&](Gradient dgamma) {
      if (!beta_ || !beta_->requires_grad()) return write(dgamma, Gradient{});
      beta_->accumulate_with([&](Gradient dbeta) { write(dgamma, dbeta); });
    };
    if (!gamma_.requires_grad()) return with_beta(Gradient{});
    gamma_.accumulate_with(with_beta);
  }

 private:
  GradientSink<T, D> gamma_;
  std::optional<GradientSink<T, D>> beta_;
};

}  // namespace detail

/// y = gamma * xhat + beta over the trailing dimensions that gamma has: see `layer_norm` and `rms_norm`, which are its two kinds.
/// Without a beta nothing is added.
/// Throws ShapeError, ValueError.
template <class T, Device D>
Var<T, D> normalize(const Var<T, D>& x, const std::type_identity_t<NormParameters<T, D>>& of,
                    const char* operation = "normalize") {
  const NormLayout norm = detail::norm_layout(operation, x.shape(), of);
  const index_t rows = norm.width == 0 ? 0 : x.size() / norm.width;
  Tensor<T, D> y(x.shape());
  const detail::KeptStatistics<T, D> kept(rows);
  layer_norm_forward(D{}, of.of_rows(norm, rows), x.data(), y.data(), kept.data());
  const detail::AffineGradients<T, D> affine(of);
  return record(std::move(y), of.inputs(x), [=](const Tensor<T, D>& dy) {
    // Everything in one pass over dy.
    affine.accumulate_with([&](auto dgamma, auto dbeta) {
      const auto write = [&](kernels::Gradient<T> dx) {
        layer_norm_backward(D{}, of.of_rows(norm, rows), dy.data(), x.data(), kept.data(), {dx, dgamma, dbeta});
      };
      if (x.requires_grad()) x.accumulate_with(write);
      else write({});
    });
  });
}

/// y = gamma * xhat + beta,  xhat = (x - mean) / sqrt(var + eps), over the trailing dimensions that gamma has.
/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * gamma.
/// Shapes: x, y [..., n] and gamma, beta [n]; x [..., a, b] and gamma, beta [a, b]; or gamma, beta [1]: one scalar for all
/// values of the last dimension. Throws ShapeError, ValueError. Source: Ba et al. 2016, eq. 3.
template <class T, Device D>
Var<T, D> layer_norm(const Var<T, D>& x, const Var<T, D>& gamma, const Var<T, D>& beta, const LayerNormOptions& options = {}) {
  return normalize(x, {gamma, beta, options}, "layer_norm");
}

/// y = gamma * x / sqrt(mean(x^2) + eps), over the trailing dimensions that gamma has, of the same shapes as in `layer_norm`.
/// dx = rstd * (g - xhat * mean(g * xhat)),  g = dy * gamma. Throws ShapeError, ValueError.
/// Source: Zhang and Sennrich 2019, "Root mean square layer normalization", eq. 4.
template <class T, Device D>
Var<T, D> rms_norm(const Var<T, D>& x, const Var<T, D>& gamma, double eps = 1e-5) {
  return normalize(x, {gamma, {}, {.eps = eps}, NormKind::rms}, "rms_norm");
}

}  // namespace attend
