#pragma once

#include "attend/nn/init.hpp"
#include "attend/ops/layer_norm.hpp"

namespace attend::nn {

/// Which of the layer norms in use: see `attend::LayerNormOptions`, and whether gain and bias are one number each.
struct NormOptions {
  double eps = 1e-5;
  bool sample_deviation = false;
  bool scalar_affine = false;
};

/// Layer norm with its gain and bias. Gain 1, bias 0 at first.
template <class T, Device D = Cpu>
struct LayerNorm {
  using value_type = T;
  using device_type = D;
  Var<T, D> weight, bias;  // [width], the trailing dimensions it normalises over, or [1]
  LayerNormOptions options;

  /// Throws ValueError where the width or eps makes no sense.
  explicit LayerNorm(index_t width, const NormOptions& norm = {}) : LayerNorm(Shape{width}, norm) {}
  /// Normalises over all the trailing dimensions of `shape` together.
  explicit LayerNorm(const Shape& shape, const NormOptions& norm = {}) : options{norm.eps, norm.sample_deviation} {
    check_value(shape.size() > 0, "LayerNorm", "shape " + shape.text() + " holds nothing");
    check_value(norm.eps >= 0, "LayerNorm", "eps is " + std::to_string(norm.eps) + ", expected 0 or more");
    check_value(!norm.sample_deviation || shape.size() > 1, "LayerNorm", "one value alone has no sample deviation");
    const Shape affine = norm.scalar_affine ? Shape{1} : shape;
    weight = constant_parameter<T, D>(affine, 1);
    bias = constant_parameter<T, D>(affine, 0);
  }
  Var<T, D> operator()(const Var<T, D>& x) const { return layer_norm(x, weight, bias, options); }
  template <class F>
  void fields(F&& field) {
    field("weight", weight);
    field("bias", bias);
  }
};

}  // namespace attend::nn
