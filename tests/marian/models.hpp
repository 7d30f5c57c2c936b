#pragma once

#include "attend/load.hpp"

namespace marian {

/// The logits of a model, [target rows, vocabulary].
inline attend::Tensor<float> logits(const attend::nn::Transformer<float>& model, const attend::Tensor<attend::token_t>& source,
                                    const attend::Segments& sources, const attend::Tensor<attend::token_t>& target,
                                    const attend::Segments& targets) {
  const attend::NoGrad no_grad;
  return model.logits(model.decode(target, targets, model.encode(source, sources))).value();
}

}  // namespace marian
