#pragma once

#include <string>
#include <vector>

#include "attend/nn/dense.hpp"
#include "attend/nn/transformer_options.hpp"

/// The parts of a stack that can be chosen, each alone and some together: what has to hold for one of them has to for all.
namespace test {

struct StackPart {
  std::string name;
  void (*choose)(attend::nn::TransformerOptions&);
};

inline std::vector<StackPart> stack_parts() {
  using attend::nn::PositionKind;
  using O = attend::nn::TransformerOptions;
  return {
      {"rotary positions", [](O& o) { o.positions = PositionKind::rotary; }},
      {"interleaved rotary positions of half a head, another base",
       [](O& o) {
         o.positions = PositionKind::rotary_interleaved;
         o.position.rotary_fraction = 0.5, o.position_base = 50;
       }},
      {"relative positions, one table for all layers", [](O& o) { o.positions = PositionKind::relative; }},
      {"relative positions of few buckets, a table for each layer",
       [](O& o) {
         o.positions = PositionKind::relative_each;
         o.position.buckets = 6, o.position.max_distance = 20;
       }},
      {"a feed-forward gated by SiLU", [](O& o) { o.gated = true, o.activation = attend::Activation::silu; }},
      {"a feed-forward gated by the approximate GELU, no biases anywhere",
       [](O& o) {
         o.gated = true, o.activation = attend::Activation::gelu_tanh, o.bias = false, o.head_bias = false;
         o.norm.bias = false;
       }},
      {"no biases of linear layers", [](O& o) { o.bias = false; }},
      {"learned positions with an offset", [](O& o) { o.positions = PositionKind::learned, o.position.offset = 2; }},
      {"sinusoids with an offset", [](O& o) { o.position.offset = 2; }},
      {"half as many heads of keys and values", [](O& o) { o.kv_heads = o.heads / 2; }},
      {"one head of keys and values, rotary positions, gate, root mean square norms, no biases",
       [](O& o) {
         o.kv_heads = 1, o.positions = PositionKind::rotary, o.gated = true, o.activation = attend::Activation::silu;
         o.norm = {.kind = attend::NormKind::rms, .bias = false}, o.norm_order = attend::nn::NormOrder::pre, o.final_norm = true;
         o.bias = false;
       }},
      {"one head of keys and values, relative positions, scores unscaled",
       [](O& o) { o.kv_heads = 1, o.positions = PositionKind::relative, o.attention_scale = 1; }},
      {"another scale of scores", [](O& o) { o.attention_scale = 1; }},
      {"a norm on embeddings", [](O& o) { o.norm_embedding = true; }},
      {"a tied head with a scale", [](O& o) { o.tie_head = true, o.scale_head = true, o.head_bias = false; }},
  };
}

/// Three pairs of different lengths, of tokens below 7.
inline attend::nn::DenseBatch sentences() {
  using attend::Tensor, attend::token_t;
  return {.source = Tensor<token_t>({3, 4}, {1, 2, 0, 0, 3, 4, 5, 6, 2, 0, 0, 0}),
          .source_mask = Tensor<std::uint8_t>({3, 4}, {1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0}),
          .target = Tensor<token_t>({3, 3}, {1, 2, 3, 1, 6, 0, 1, 0, 0}),
          .target_mask = Tensor<std::uint8_t>({3, 3}, {1, 1, 1, 1, 1, 0, 1, 0, 0}),
          .labels = Tensor<token_t>({3, 3}, {2, 3, 5, 6, 4, -100, 5, -100, -100})};
}

}  // namespace test
