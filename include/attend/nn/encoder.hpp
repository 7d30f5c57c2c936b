#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "attend/nn/embedding.hpp"
#include "attend/nn/feed_forward.hpp"
#include "attend/nn/sublayer.hpp"

namespace attend::nn {

/// One block of an encoder: self-attention and feed-forward, each with residual, dropout and norm.
template <class T, Device D = Cpu>
struct EncoderLayer {
  using value_type = T;
  using device_type = D;
  MultiHeadAttention<T, D> self_attn;
  Sublayer<T, D> around_self_attn;
  FeedForward<T, D> feed_forward;
  Sublayer<T, D> around_feed_forward;
  Dropout feed_forward_dropout, block_dropout;
  bool causal;

  /// Layer `layer` of the stack, from 0, which some initial values depend on.
  explicit EncoderLayer(const StackOptions& o, index_t layer = 0)
      : self_attn(detail::attention_options(o, false, {layer, o.layers, 0, 2})),
        around_self_attn(o),
        feed_forward(o.d_model, o.d_ff,
                     {.activation = o.activation,
                      .dropout = o.dropout.activation,
                      .initial = {o.initialisation, {layer, o.layers, 1, 2}}}),
        around_feed_forward(o),
        feed_forward_dropout(make_dropout("feed-forward dropout", o.dropout.feed_forward)),
        block_dropout(make_dropout("block dropout", o.dropout.block)),
        causal(resolved(o, StackKind::encoder).causal != 0) {}

  /// x [rows, d_model] -> [rows, d_model]. It is causal where the options say so, or the call.
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments, const AttentionCall<T, D>& call = {}) const {
    return run({x}, segments, call).value();
  }
  /// The same on what the block before has left.
  ResidualStream<T, D> run(ResidualStream<T, D> stream, const Segments& segments, const AttentionCall<T, D>& call = {}) const {
    AttentionCall<T, D> own = call;
    own.causal = call.causal || causal;
    stream = around_self_attn.run(std::move(stream), [&](const Var<T, D>& z) { return self_attn(z, segments, own); });
    stream = around_feed_forward.run(std::move(stream),
                                     [&](const Var<T, D>& z) { return apply(feed_forward_dropout, feed_forward(z)); });
    return apply(block_dropout, std::move(stream));
  }
  template <class F>
  void fields(F&& field) {
    field("self_attn", self_attn);
    field("self_attn_layer_norm", around_self_attn);
    field("", feed_forward);
    field("final_layer_norm", around_feed_forward);
    field("feed_forward_dropout", feed_forward_dropout);
    field("block_dropout", block_dropout);
  }
};

/// What a whole stack may be given and asked for besides its inputs and output.
template <class T, Device D = Cpu>
struct StackCall {
  /// Added to the scores of every layer's self-attention and cross-attention (decoders), as a mask of any shape; see
  /// attend::AttentionOptions.
  std::optional<Var<T, D>> self_bias = {}, cross_bias = {};
  /// Where given, receives the weights of each layer's self-attention.
  std::vector<AttentionWeights<T, D>>* self_weights = nullptr;
  /// Where given, receives the weights of each layer's first cross-attention (decoders).
  std::vector<AttentionWeights<T, D>>* cross_weights = nullptr;
};

namespace detail {

/// Makes room for one layer's weights in a list that may not be wanted.
template <class T, Device D>
AttentionWeights<T, D>* next_weights(std::vector<AttentionWeights<T, D>>* list) {
  return list ? &list->emplace_back() : nullptr;
}

}  // namespace detail

/// Embedding, positions, blocks, and a last norm where wanted. Source: Vaswani et al. 2017, section 3.1.
template <class T, Device D = Cpu>
struct Encoder {
  using value_type = T;
  using device_type = D;
  StackOptions options;
  std::optional<Embedding<T, D>> embed_tokens;
  Positions<T, D> positions;
  std::vector<EncoderLayer<T, D>> layers;
  std::optional<LayerNorm<T, D>> layer_norm;
  Dropout embedding_dropout;

  /// Throws ValueError where the options do not fit together.
  explicit Encoder(const StackOptions& o)
      : options((check(o, StackKind::encoder, "Encoder"), resolved(o, StackKind::encoder))),
        positions(o.positions, o.max_length, o.d_model, o.position_base),
        embedding_dropout(make_dropout("embedding dropout", o.dropout.embedding)) {
    if (o.vocabulary > 0) embed_tokens.emplace(o.vocabulary, o.d_model, EmbeddingOptions{.scaled = o.scale_embedding});
    layers.reserve(static_cast<std::size_t>(o.layers));
    for (index_t i = 0; i < o.layers; ++i) layers.emplace_back(o, i);
    if (o.final_norm) layer_norm.emplace(o.d_model, o.norm);
  }

  /// tokens [rows] -> [rows, d_model]. Throws Error where the stack has no embedding, IndexError for an unknown token,
  /// ShapeError for a sentence longer than the positions.
  Var<T, D> operator()(const Tensor<token_t, D>& tokens, const Segments& segments, const StackCall<T, D>& call = {}) const {
    if (!embed_tokens) throw Error("Encoder: built without a vocabulary, it takes vectors and no tokens");
    segments.check_rows("Encoder", "tokens", tokens.size());
    return (*this)((*embed_tokens)(tokens.reshape({tokens.size()})), segments, call);
  }
  /// The same from vectors in the place of embedded tokens, x [rows, d_model].
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments, const StackCall<T, D>& call = {}) const {
    ResidualStream<T, D> stream{apply(embedding_dropout, positions(x, segments))};
    for (const auto& layer : layers)
      stream =
          layer.run(std::move(stream), segments, {.bias = call.self_bias, .weights = detail::next_weights(call.self_weights)});
    return layer_norm ? stream.normed(*layer_norm) : stream.value();
  }
  template <class F>
  void fields(F&& field) {
    field("embed_tokens", embed_tokens);
    field("embed_positions", positions);
    field("layers", layers);
    field("layer_norm", layer_norm);
    field("embedding_dropout", embedding_dropout);
  }
};

}  // namespace attend::nn
