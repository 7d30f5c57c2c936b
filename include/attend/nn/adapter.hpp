#pragma once

#include <cmath>
#include <memory>

#include "attend/nn/adapter_options.hpp"
#include "attend/nn/dropout.hpp"
#include "attend/nn/init.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/linear.hpp"

/// Low-rank adapters: what a matrix learns beside itself, in two far smaller ones. See adapters.hpp for those of a whole model.
namespace attend::nn {

/// What a matrix W [out, in] learns beside itself: y = x W^T + s (x A^T) B^T, with dropout on the x that goes to A. W is as if it
/// were W + s B A. A begins with U(-1 / sqrt(in), 1 / sqrt(in)), B with 0, so that nothing changes at first.
/// Source: Hu et al. 2021, section 4.1; the initial values are those of PEFT.
template <class T, Device D = Cpu>
struct Adapter {
  using value_type = T;
  using device_type = D;
  Var<T, D> a;                                        // [rank, in]
  Var<T, D> b;                                        // [out, rank]
  double scale;                                       // s
  Dropout dropout;                                    // of the x that goes to A
  std::shared_ptr<const PackedWeights<T, D>> packed;  // as a Linear has it

  /// Throws ValueError if the rank is not positive, or the dropout outside [0, 1).
  Adapter(index_t in, index_t out, const AdapterOptions& o)
      : scale(o.scale()), dropout(make_dropout("adapter dropout", o.dropout)) {
    check_value(o.rank > 0, "Adapter", "rank is ", o.rank, ", expected 1 or more");
    a = constant_parameter<T, D>({o.rank, in}, 0);
    b = constant_parameter<T, D>({out, o.rank}, 0);
    // Xavier's bound is that of in + rank channels.
    xavier_uniform(a.value(), std::sqrt(static_cast<double>(in + o.rank) / (6 * static_cast<double>(in))));
  }
  /// s (x A^T) B^T: x [..., in] -> [..., out].
  Var<T, D> operator()(const Var<T, D>& x) const {
    // Scaled where it is narrow.
    return linear(linear(apply(dropout, x), a, {}, packed.get()) * scale, b, {}, packed.get());
  }
  template <class F>
  void fields(F&& field) {
    field("lora_A.weight", a);
    field("lora_B.weight", b);
    field("lora_dropout", dropout);
  }
};

}  // namespace attend::nn
