#pragma once

#include <string>
#include <vector>

#include "attend/nn/additive_attention.hpp"
#include "attend/nn/stack.hpp"
#include "given.hpp"

/// Every module, forward and backward, in training: dropout is at work.
namespace bits {

inline const Segments& ragged_queries() {
  static const Segments segments = Segments::ragged({5, 1, 9, 17});
  return segments;
}
inline const Segments& ragged_keys() {
  static const Segments segments = Segments::ragged({7, 2, 33, 4});
  return segments;
}

template <class T>
void row_modules(Record& record) {
  constexpr index_t width = 48;
  const Var<T, D> x(numbers<T>({ragged_queries().rows(), width}, 1), true);
  const auto check = [&](const std::string& name, const auto& module, const auto& compute) {
    x.zero_grad();
    seed(11);
    differentiate(record, "modules/" + name, module, {x}, [&] { return compute(module, x); });
  };
  const auto plain = [](const auto& module, const auto& z) { return module(z); };
  seed(10);
  check("linear", nn::Linear<T, D>(width, 70), plain);
  check("linear_without_bias", nn::Linear<T, D>(width, 70, {.bias = false, .gain = 0.5}), plain);
  check("layer_norm", nn::LayerNorm<T, D>(width), plain);
  check("layer_norm_scalar", nn::LayerNorm<T, D>(width, {.eps = 1e-6, .sample_deviation = true, .scalar_affine = true}), plain);
  for (const auto activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh})
    for (const double p : {0.0, 0.2})
      check("feed_forward/" + name_of(activation) + (p > 0 ? "_dropout" : ""),
            nn::FeedForward<T, D>(width, 100, {.activation = activation, .dropout = p}), plain);
  check("dropout", NoWeights<T>{}, [](const auto&, const auto& z) { return dropout(z, 0.3); });
  for (const auto kind : {nn::PositionKind::sinusoidal, nn::PositionKind::sinusoidal_halves, nn::PositionKind::learned})
    check("positions/" + std::to_string(static_cast<int>(kind)), nn::Positions<T, D>(kind, 20, width),
          [](const auto& module, const auto& z) { return module(z, ragged_queries()); });
  const nn::Embedding<T, D> embedding(60, width, {.scaled = true});
  differentiate(record, "modules/embedding", embedding, {}, [&] { return embedding(tokens(40, 60, 2)); });
}

template <class T>
void attention_modules(Record& record) {
  constexpr index_t width = 48, memory_width = 20;
  const auto &queries = ragged_queries(), &keys = ragged_keys();
  const Var<T, D> x(numbers<T>({queries.rows(), width}, 3), true), own(numbers<T>({keys.rows(), width}, 4), true),
      other(numbers<T>({keys.rows(), memory_width}, 5), true), bias(numbers<T>({17, 17}, 6), true);
  const auto check = [&](const std::string& name, const auto& module, const auto& compute) {
    for (const auto& v : {x, own, other, bias}) v.zero_grad();
    seed(13);
    differentiate(record, "modules/" + name, module, {x, own, other, bias}, [&] { return compute(module); });
  };
  seed(12);
  using Attention = nn::MultiHeadAttention<T, D>;
  const auto self = [&](const Attention& a) { return a(x, {.segments = queries}); };
  const auto cross = [&](const Attention& a) { return a(x, {.queries = queries, .memory = {own, keys}}); };
  AttentionWeights<T, D> weights;
  const Attention heads({.d_model = width, .heads = 3});
  check("attention/self", heads, self);
  check("attention/self_weights", heads,
        [&](const auto& a) { return a(x, {.segments = queries, .causal = true, .weights = &weights}); });
  item(record, "modules/attention/weights", weights.dense());
  check("attention/causal_bias", heads, [&](const auto& a) { return a(x, {.segments = queries, .causal = true, .bias = bias}); });
  check("attention/cross", heads, cross);
  check("attention/dropout", Attention({.d_model = width, .heads = 3, .dropout = 0.2}), self);
  check("attention/head_widths", Attention({.d_model = width, .heads = 2, .d_k = 5, .d_v = 7, .bias = false}), cross);
  check("attention/wide_heads", Attention({.d_model = width, .heads = 2, .d_k = 64, .out_bias = false}), self);
  check("attention/memory_width", Attention({.d_model = width, .heads = 3, .d_memory = memory_width}), [&](const auto& a) {
    return a(x, {.queries = queries, .memory = {other, keys}});
  });
  check("attention/additive", nn::AdditiveAttention<T, D>(width, memory_width, 12),
        [&](const auto& a) { return a(x, queries, other, own, keys, &weights); });
  item(record, "modules/attention/additive_weights", weights.dense());
}

template <class T>
void layer_modules(Record& record) {
  constexpr index_t width = 48;
  const auto &queries = ragged_queries(), &keys = ragged_keys();
  const Var<T, D> x(numbers<T>({queries.rows(), width}, 7), true), y(numbers<T>({keys.rows(), width}, 8), true);
  const std::vector<nn::Memory<T, D>> memories{{y, keys}};
  for (const auto order : {nn::NormOrder::post, nn::NormOrder::pre})
    for (const double p : {0.0, 0.1}) {
      const nn::StackOptions options{
          .d_model = width,
          .heads = 4,
          .d_ff = 96,
          .layers = 2,
          .norm_order = order,
          .final_norm = order == nn::NormOrder::pre,
          .dropout = {.attention = p, .activation = p, .feed_forward = p, .residual = p, .norm = p, .block = p}};
      const std::string name = std::string(order == nn::NormOrder::pre ? "pre" : "post") + (p > 0 ? "_dropout" : "");
      const auto check = [&](const std::string& kind, const auto& module, const auto& compute) {
        for (const auto& v : {x, y}) v.zero_grad();
        seed(15);
        differentiate(record, "modules/" + kind + "/" + name, module, {x, y}, [&] { return compute(module); });
      };
      seed(14);
      check("encoder_layer", nn::EncoderLayer<T, D>(options), [&](const auto& m) { return m(x, queries); });
      check("decoder_layer", nn::DecoderLayer<T, D>(options),
            [&](const auto& m) { return m(x, queries, {.memories = memories}); });
      check("encoder", nn::Encoder<T, D>(options), [&](const auto& m) { return m(x, queries); });
      check("decoder", nn::Decoder<T, D>(options), [&](const auto& m) { return m(x, queries, {.memories = memories}); });
    }
}

template <class T>
void modules(Record& record) {
  row_modules<T>(record);
  attention_modules<T>(record);
  layer_modules<T>(record);
}

}  // namespace bits
