#pragma once

#include "attend/nn/dropout.hpp"
#include "attend/nn/initialisation.hpp"
#include "attend/nn/linear.hpp"
#include "attend/ops/feed_forward.hpp"

namespace attend::nn {

/// What `FeedForward` is besides its widths.
struct FeedForwardOptions {
  Activation activation = Activation::relu;
  double dropout = 0;          ///< between the two layers
  InitialValues initial = {};  ///< how the weights begin, and in which place of which stack this is
};

/// fc2(dropout(activation(fc1(x)))), each row on its own. Source: Vaswani et al. 2017, eq. 2.
template <class T, Device D = Cpu>
struct FeedForward {
  using value_type = T;
  using device_type = D;
  Linear<T, D> fc1, fc2;  // [d_ff, d_model], [d_model, d_ff]
  Activation activation;
  Dropout dropout;  // between the two

  /// Throws ValueError if a width is not positive, or the dropout is outside [0, 1).
  FeedForward(index_t d_model, index_t d_ff, const FeedForwardOptions& o = {})
      : fc1(d_model, d_ff, {.gain = o.initial.gain(MatrixRole::inner, d_model, d_ff)}),
        fc2(d_ff, d_model, {.gain = o.initial.gain(MatrixRole::outer, d_ff, d_model)}),
        activation(o.activation),
        dropout(make_dropout("activation dropout", o.dropout)) {}
  Var<T, D> operator()(const Var<T, D>& x) const {
    if (rate(dropout) > 0) return fc2(activate_dropout(fc1(x), activation, rate(dropout)));
    if constexpr (attend::detail::ActivatingProducts<T, D>)
      return feed_forward(x, fc1.weight, *fc1.bias, fc2.weight, *fc2.bias, activation);
    else return fc2(activate(fc1(x), activation));
  }
  template <class F>
  void fields(F&& field) {
    field("fc1", fc1);
    field("fc2", fc2);
    field("activation_dropout", dropout);
  }
};

}  // namespace attend::nn
