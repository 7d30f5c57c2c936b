#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/nn/encoder.hpp"

namespace attend::nn {

/// What a decoder attends to: an encoder's output and its sentences.
template <class T, Device D = Cpu>
struct Memory {
  Var<T, D> x;  // [rows, d_memory]
  Segments segments;
};

/// One cross-attention of a decoder block with what stands around it.
template <class T, Device D = Cpu>
struct CrossAttention {
  MultiHeadAttention<T, D> attention;
  Sublayer<T, D> around;
  CrossAttention(const StackOptions& o, const SublayerPlace& place)
      : attention(detail::attention_options(o, true, place)), around(o) {}
};

/// What one call of a decoder block may ask for besides its inputs. A bias is added to the scores, as a mask of any shape; see
/// attend::AttentionOptions. Weights, where given, receive those of the self-attention and of each cross-attention.
template <class T, Device D = Cpu>
struct DecoderLayerCall {
  std::optional<Var<T, D>> self_bias = {}, cross_bias = {};
  AttentionWeights<T, D>* self_weights = nullptr;
  std::vector<AttentionWeights<T, D>>* cross_weights = nullptr;
};

/// One block of a decoder: masked self-attention, one cross-attention for each source, feed-forward.
template <class T, Device D = Cpu>
struct DecoderLayer {
  using value_type = T;
  using device_type = D;
  MultiHeadAttention<T, D> self_attn;
  Sublayer<T, D> around_self_attn;
  std::vector<CrossAttention<T, D>> cross;
  FeedForward<T, D> feed_forward;
  Sublayer<T, D> around_feed_forward;
  Dropout feed_forward_dropout, block_dropout;
  bool causal;

  /// Layer `layer` of the stack, from 0, which some initial values depend on.
  explicit DecoderLayer(const StackOptions& o, index_t layer = 0)
      : self_attn(detail::attention_options(o, false, {layer, o.layers, 0, sublayers(o)})),
        around_self_attn(o),
        feed_forward(o.d_model, o.d_ff,
                     {.activation = o.activation,
                      .dropout = o.dropout.activation,
                      .initial = {o.initialisation, {layer, o.layers, sublayers(o) - 1, sublayers(o)}}}),
        around_feed_forward(o),
        feed_forward_dropout(make_dropout("feed-forward dropout", o.dropout.feed_forward)),
        block_dropout(make_dropout("block dropout", o.dropout.block)),
        causal(resolved(o, StackKind::decoder).causal != 0) {
    const index_t count = sublayers(o);
    cross.reserve(static_cast<std::size_t>(count - 2));
    for (index_t i = 1; i < count - 1; ++i) cross.emplace_back(o, SublayerPlace{layer, o.layers, i, count});
  }

  /// x [rows, d_model] -> [rows, d_model]. One memory serves all cross-attentions; else there is one for each.
  /// Throws ShapeError for another number of memories.
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments, std::span<const Memory<T, D>> memories,
                       const DecoderLayerCall<T, D>& call = {}) const {
    return run({x}, segments, memories, call).value();
  }
  /// The same on what the block before has left.
  ResidualStream<T, D> run(ResidualStream<T, D> stream, const Segments& segments, std::span<const Memory<T, D>> memories,
                           const DecoderLayerCall<T, D>& call = {}) const {
    check_memories(memories.size());
    stream = around_self_attn.run(std::move(stream), [&](const Var<T, D>& z) {
      return self_attn(z, segments, {.causal = causal, .bias = call.self_bias, .weights = call.self_weights});
    });
    for (std::size_t i = 0; i < cross.size(); ++i) {
      const auto& memory = memories[memories.size() == 1 ? 0 : i];
      stream = cross[i].around.run(std::move(stream), [&](const Var<T, D>& z) {
        return cross[i].attention(z, segments, memory.x, memory.segments,
                                  {.bias = call.cross_bias, .weights = detail::next_weights(call.cross_weights)});
      });
    }
    return finish(std::move(stream));
  }
  /// The last part of the block, from the last attention's output on.
  [[nodiscard]] Var<T, D> finish(const Var<T, D>& y) const { return finish(ResidualStream<T, D>{y}).value(); }
  [[nodiscard]] ResidualStream<T, D> finish(ResidualStream<T, D> stream) const {
    stream = around_feed_forward.run(std::move(stream),
                                     [&](const Var<T, D>& z) { return apply(feed_forward_dropout, feed_forward(z)); });
    return apply(block_dropout, std::move(stream));
  }
  void check_memories(std::size_t count) const {
    if (count != cross.size() && !(count == 1 && !cross.empty()))
      throw ShapeError("DecoderLayer: " + std::to_string(count) + " memories for " + std::to_string(cross.size()) +
                       " cross-attentions");
  }
  template <class F>
  void fields(F&& field) {
    field("self_attn", self_attn);
    field("self_attn_layer_norm", around_self_attn);
    for (std::size_t i = 0; i < cross.size(); ++i) {
      const std::string name = "encoder_attn" + (i == 0 ? std::string() : std::to_string(i + 1));
      field(name, cross[i].attention);
      field(name + "_layer_norm", cross[i].around);
    }
    field("", feed_forward);
    field("final_layer_norm", around_feed_forward);
    field("feed_forward_dropout", feed_forward_dropout);
    field("block_dropout", block_dropout);
  }

 private:
  /// Self-attention, cross-attentions, feed-forward.
  static index_t sublayers(const StackOptions& o) { return 2 + resolved(o, StackKind::decoder).cross_attentions; }
};

/// Embedding, positions, blocks, and a last norm where wanted.
template <class T, Device D = Cpu>
struct Decoder {
  using value_type = T;
  using device_type = D;
  StackOptions options;
  std::optional<Embedding<T, D>> embed_tokens;
  Positions<T, D> positions;
  std::vector<DecoderLayer<T, D>> layers;
  std::optional<LayerNorm<T, D>> layer_norm;
  Dropout embedding_dropout;

  /// Throws ValueError where the options do not fit together.
  explicit Decoder(const StackOptions& o)
      : options((check(o, StackKind::decoder, "Decoder"), resolved(o, StackKind::decoder))),
        positions(o.positions, o.max_length, o.d_model, o.position_base),
        embedding_dropout(make_dropout("embedding dropout", o.dropout.embedding)) {
    if (o.vocabulary > 0) embed_tokens.emplace(o.vocabulary, o.d_model, EmbeddingOptions{.scaled = o.scale_embedding});
    layers.reserve(static_cast<std::size_t>(o.layers));
    for (index_t i = 0; i < o.layers; ++i) layers.emplace_back(o, i);
    if (o.final_norm) layer_norm.emplace(o.d_model, o.norm);
  }

  /// tokens [rows] -> [rows, d_model]. Throws Error where the stack has no embedding, IndexError for an unknown token,
  /// ShapeError for a sentence longer than the positions.
  Var<T, D> operator()(const Tensor<token_t, D>& tokens, const Segments& segments, std::span<const Memory<T, D>> memories,
                       const StackCall<T, D>& call = {}) const {
    if (!embed_tokens) throw Error("Decoder: built without a vocabulary, it takes vectors and no tokens");
    segments.check_rows("Decoder", "tokens", tokens.size());
    return (*this)((*embed_tokens)(tokens.reshape({tokens.size()})), segments, memories, call);
  }
  /// The same from vectors in the place of embedded tokens, x [rows, d_model].
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments, std::span<const Memory<T, D>> memories,
                       const StackCall<T, D>& call = {}) const {
    ResidualStream<T, D> stream{apply(embedding_dropout, positions(x, segments))};
    for (const auto& layer : layers) {
      std::vector<AttentionWeights<T, D>> cross;
      stream = layer.run(std::move(stream), segments, memories,
                         {.self_bias = call.self_bias,
                          .cross_bias = call.cross_bias,
                          .self_weights = detail::next_weights(call.self_weights),
                          .cross_weights = call.cross_weights ? &cross : nullptr});
      if (call.cross_weights && !cross.empty()) call.cross_weights->push_back(cross.front());
    }
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
