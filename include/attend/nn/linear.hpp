#pragma once

#include <memory>
#include <optional>

#include "attend/nn/adapter.hpp"
#include "attend/nn/init.hpp"
#include "attend/ops/linear.hpp"

namespace attend::nn {

/// What `Linear` is besides its widths.
struct LinearOptions {
  bool bias = true;
  double gain = 1;  ///< what Xavier's bound on the initial weights is multiplied by
};

/// y = x W^T + b, and what an adapter adds if there is one. Weights by Xavier, times the gain; bias 0.
template <class T, Device D = Cpu>
struct Linear {
  using value_type = T;
  using device_type = D;
  static constexpr bool maps_vectors = true;
  Var<T, D> weight;                                   // [out, in]
  std::optional<Var<T, D>> bias;                      // [out]
  std::shared_ptr<const PackedWeights<T, D>> packed;  // what to multiply by if no gradients are recorded; see nn::use
  std::optional<Adapter<T, D>> adapter;               // see add_adapters

  /// Throws ValueError if a width is not positive.
  Linear(index_t in, index_t out, const LinearOptions& o = {}) {
    check_value(in > 0 && out > 0, "Linear", "widths ", in, " to ", out, " are not positive");
    weight = constant_parameter<T, D>({out, in}, 0);
    xavier_uniform(weight.value(), o.gain);
    if (o.bias) bias = constant_parameter<T, D>({out}, 0);
  }
  Var<T, D> operator()(const Var<T, D>& x) const {
    auto y = linear(x, weight, bias, packed.get());
    return adapter ? y + (*adapter)(x) : y;
  }
  template <class F>
  void fields(F&& field) {
    field("weight", weight);
    field("bias", bias);
    field("", adapter);
  }
  /// See adaptables.
  template <class F>
  void adaptable(F&& matrix) {
    matrix("", own_rows(), adapter);
  }
  /// All of the matrix.
  [[nodiscard]] Rows<T, D> own_rows() const { return {weight, 0, weight.dim(0)}; }
};

}  // namespace attend::nn
