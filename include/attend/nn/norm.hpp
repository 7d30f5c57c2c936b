#pragma once

#include <optional>

#include "attend/nn/init.hpp"
#include "attend/ops/layer_norm.hpp"

namespace attend::nn {

/// Which of the norms in use: see `attend::NormKind` and `attend::LayerNormOptions`, and what gain and bias it has.
struct NormOptions {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  bool sample_deviation = false;
  bool scalar_affine = false;  ///< gain and bias are one number each
  bool bias = true;            ///< root mean square norms mostly have none

  template <class F>
  static void fields(F&& field) {
    field("kind", &NormOptions::kind, IfAbsent{NormKind::layer}, Since{3},
          Flag{"Layer norms, or root mean square norms (rms)", "--norm-kind"});
    field("eps", &NormOptions::eps, at_least(0),
          Flag{.text = "What norms add to the variance, or to the mean square (0.00001)",
               .name = "--norm-eps",
               .within = between(1e-12, 1)});
    field("sample_deviation", &NormOptions::sample_deviation);
    field("scalar_affine", &NormOptions::scalar_affine);
    field("bias", &NormOptions::bias, IfAbsent{true}, Since{3});
  }
};

/// A norm with its gain and, unless the options say otherwise, its bias. Gain 1, bias 0 at first.
template <class T, Device D = Cpu>
struct Norm {
  using value_type = T;
  using device_type = D;
  Var<T, D> weight;               // [width], the trailing dimensions it normalises over, or [1]
  std::optional<Var<T, D>> bias;  // the same
  LayerNormOptions options;
  NormKind kind;

  /// Throws ValueError if the width or eps makes no sense.
  explicit Norm(index_t width, const NormOptions& norm = {}) : Norm(Shape{width}, norm) {}
  /// Normalises over all the trailing dimensions of `shape` together.
  explicit Norm(const Shape& shape, const NormOptions& norm = {}) : options{norm.eps, norm.sample_deviation}, kind(norm.kind) {
    check_value(shape.size() > 0, "Norm", "shape ", shape.text(), " holds nothing");
    check_value(norm.eps >= 0, "Norm", "eps is ", norm.eps, ", expected 0 or more");
    check_value(!norm.sample_deviation || norm.kind == NormKind::layer, "Norm",
                "a root mean square norm has no sample deviation");
    check_value(!norm.sample_deviation || shape.size() > 1, "Norm", "one value alone has no sample deviation");
    const Shape affine = norm.scalar_affine ? Shape{1} : shape;
    weight = constant_parameter<T, D>(affine, 1);
    if (norm.bias) bias = constant_parameter<T, D>(affine, 0);
  }
  Var<T, D> operator()(const Var<T, D>& x) const { return normalize(x, parameters(), "Norm"); }
  /// For operations that take a norm along.
  [[nodiscard]] NormParameters<T, D> parameters() const { return {weight, bias, options, kind}; }
  template <class F>
  void fields(F&& field) {
    field("weight", weight);
    field("bias", bias);
  }
};

/// A norm that is a layer norm unless its options say otherwise.
template <class T, Device D = Cpu>
using LayerNorm = Norm<T, D>;

}  // namespace attend::nn
