#pragma once

#include "attend/nn/transformer.hpp"
#include "train/toy.hpp"

namespace toy {

/// A new Transformer for the language of letters, with dropout, always with the same weights.
template <class T, class D>
attend::nn::Transformer<T, D> transformer() {
  attend::seed(3);
  return attend::nn::Transformer<T, D>({.vocabulary = 29,
                                        .d_model = 16,
                                        .heads = 2,
                                        .d_ff = 24,
                                        .layers = 1,
                                        .dropout = 0.1,
                                        .max_length = 24,
                                        .share_embeddings = true,
                                        .tie_head = true});
}

}  // namespace toy
