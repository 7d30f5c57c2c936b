#pragma once

#include "attend/nn/stack.hpp"

namespace test {

/// Two layers of few features, without dropout.
inline attend::nn::StackOptions small_stack(attend::nn::NormOrder order = attend::nn::NormOrder::post) {
  return {.vocabulary = 6,
          .d_model = 6,
          .heads = 2,
          .d_ff = 5,
          .layers = 2,
          .activation = attend::Activation::gelu,
          .norm_order = order,
          .max_length = 5};
}

/// The decoder's or encoder's sublayer written out, operation by operation: f between the norms and dropouts of `s`.
template <class F>
attend::Var<double> sublayer_by_hand(const attend::nn::Sublayer<double>& s, const attend::nn::DropoutRates& p,
                                     const attend::Var<double>& x, F&& f) {
  using attend::operator+;
  if (s.order == attend::nn::NormOrder::pre) return x + attend::dropout(f(attend::dropout(s.norm(x), p.norm)), p.residual);
  return attend::dropout(s.norm(x + attend::dropout(f(x), p.residual)), p.norm);
}

}  // namespace test
