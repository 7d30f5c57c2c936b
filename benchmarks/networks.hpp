#pragma once

#include "attend/nn/transformer.hpp"

/// The networks of the five notebooks, the tiny one and the paper's base model, at their own sizes.

/// GELU, heads of a width of their own, a final norm on both stacks.
inline attend::nn::ModelOptions notebook0() {
  auto options = attend::nn::model_options({.source_vocabulary = 20000,
                                            .target_vocabulary = 10000,
                                            .d_model = 64,
                                            .heads = 4,
                                            .d_k = 16,
                                            .d_ff = 256,
                                            .layers = 2,
                                            .activation = attend::Activation::gelu,
                                            .final_norm = true,
                                            .scale_embedding = false,
                                            .max_length = 1024});
  options.encoder.dropout = options.decoder.dropout = {.embedding = 0.1, .feed_forward = 0.1, .block = 0.1};
  return options;
}

/// Layer norm with one scalar gain and bias over the sample deviation, no biases on q, k and v, dropout on attention weights.
inline attend::nn::ModelOptions notebook1() {
  const attend::nn::StackOptions stack{.vocabulary = 10000,
                                       .norm = {.eps = 1e-6, .sample_deviation = true, .scalar_affine = true},
                                       .attention_bias = false,
                                       .position_base = 1000,
                                       .dropout = {.embedding = 0.1, .attention = 0.1, .activation = 0.1, .norm = 0.1}};
  return {.encoder = stack, .decoder = stack};
}

/// A decoder block with two cross-attentions.
inline attend::nn::StackOptions notebook2() {
  return {.d_model = 16, .heads = 4, .d_ff = 64, .cross_attentions = 2, .causal = false};
}

/// Encoder and decoder on vectors. The decoder's mask is added to its scores.
inline attend::nn::StackOptions notebook3() {
  return {
      .layers = 5, .positions = attend::nn::PositionKind::none, .dropout = {.activation = 0.1, .residual = 0.1}, .causal = false};
}

inline attend::nn::ModelOptions notebook4() {
  attend::nn::ModelOptions options;
  options.encoder.dropout.residual = options.decoder.dropout.residual = 0.2;
  options.encoder.vocabulary = 100, options.decoder.vocabulary = 52;
  return options;
}

inline attend::nn::ModelOptions tiny() { return attend::nn::model_options(attend::nn::TransformerOptions::tiny(10000)); }

inline attend::nn::ModelOptions base() { return attend::nn::model_options(attend::nn::TransformerOptions::base(10000)); }
