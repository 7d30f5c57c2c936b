#pragma once

#include "attend/nn/dropout.hpp"
#include "attend/nn/initialisation.hpp"
#include "attend/nn/linear.hpp"
#include "attend/ops/feed_forward.hpp"
#include "attend/ops/gated.hpp"

namespace attend::nn {

/// What `FeedForward` is besides its widths.
struct FeedForwardOptions {
  Activation activation = Activation::relu;
  double dropout = 0;          ///< between the two layers
  InitialValues initial = {};  ///< how the weights begin, and in which place of which stack this is
  bool gated = false;          ///< what the first product gives is multiplied by a second one's, to which the activation goes
  bool bias = true;            ///< of the products
};

/// fc2(dropout(activation(fc1(x)))), or fc2(dropout(activation(gate_proj(x)) * fc1(x))), each row on its own. T5 calls gate_proj,
/// fc1 and fc2 wi_0, wi_1 and wo, Llama gate_proj, up_proj and down_proj. Sources: Vaswani et al. 2017, eq. 2; Shazeer 2020,
/// eq. 6.
template <class T, Device D = Cpu>
struct FeedForward {
  using value_type = T;
  using device_type = D;
  Linear<T, D> fc1, fc2;                  // [d_ff, d_model], [d_model, d_ff]
  std::optional<Linear<T, D>> gate_proj;  // [d_ff, d_model]
  Activation activation;
  Dropout dropout;  // between the two

  /// Throws ValueError if a width is not positive, or the dropout is outside [0, 1).
  FeedForward(index_t d_model, index_t d_ff, const FeedForwardOptions& o = {})
      : fc1(d_model, d_ff, {.bias = o.bias, .gain = o.initial.gain(MatrixRole::inner, d_model, d_ff)}),
        fc2(d_ff, d_model, {.bias = o.bias, .gain = o.initial.gain(MatrixRole::outer, d_ff, d_model)}),
        activation(o.activation),
        dropout(make_dropout("activation dropout", o.dropout)) {
    if (o.gated) gate_proj.emplace(d_model, d_ff, LinearOptions{o.bias, o.initial.gain(MatrixRole::inner, d_model, d_ff)});
  }
  Var<T, D> operator()(const Var<T, D>& x) const {
    if (gate_proj) return fc2(apply(dropout, gated((*gate_proj)(x), fc1(x), activation)));
    if (rate(dropout) > 0) return fc2(activate_dropout(fc1(x), activation, rate(dropout)));
    if constexpr (attend::detail::ActivatingProducts<T, D>)
      if (fc1.bias && !fc1.adapter && !fc2.adapter)
        return feed_forward(x, fc1.weight, *fc1.bias, fc2.weight, *fc2.bias, activation);
    return fc2(activate(fc1(x), activation));
  }
  template <class F>
  void fields(F&& field) {
    field("gate_proj", gate_proj);
    field("fc1", fc1);
    field("fc2", fc2);
    field("activation_dropout", dropout);
  }
};

}  // namespace attend::nn
