#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/nn/embedding.hpp"
#include "attend/nn/feed_forward.hpp"
#include "attend/nn/sublayer.hpp"

namespace attend::nn {

/// What a pass through a stack, or a block of one, may be given and asked for besides its rows and their sentences.
template <class T, Device D = Cpu>
struct StackCall {
  /// What the cross-attentions look at: one memory for all, or one for each.
  std::span<const Memory<T, D>> memories = {};
  /// Added to the scores of every self-attention and of every cross-attention, as a mask of any shape; see
  /// attend::AttentionOptions.
  std::optional<Var<T, D>> self_bias = {}, cross_bias = {};
  /// If given, receive the weights of each self-attention and of each cross-attention, one after the other.
  std::vector<AttentionWeights<T, D>>* self_weights = nullptr;
  std::vector<AttentionWeights<T, D>>* cross_weights = nullptr;
};

/// How whole sentences are read: as in training, encoding and scoring. Decoding reads the same stacks one row at a time, with
/// readings of its own; all have these three, of which `places` alone says where rows stand.
template <class T, Device D = Cpu>
struct WholeSentences {
  const Segments& segments;
  const StackCall<T, D>& call;

  /// Where each row stands.
  [[nodiscard]] Places places() const { return {segments}; }
  /// What the self-attention of layer `layer` looks at.
  [[nodiscard]] OwnKeys<T, D> own(index_t /*layer*/, bool causal) const {
    return {segments, causal, call.self_bias, next(call.self_weights)};
  }
  /// What cross-attention `i` of layer `layer` looks at.
  [[nodiscard]] MemoryKeys<T, D> source(index_t /*layer*/, std::size_t i) const {
    return {segments, call.memories[call.memories.size() == 1 ? 0 : i], false, call.cross_bias, next(call.cross_weights)};
  }

 private:
  static AttentionWeights<T, D>* next(std::vector<AttentionWeights<T, D>>* list) {
    return list ? &list->emplace_back() : nullptr;
  }
};

/// One cross-attention of a block with what stands around it.
template <class T, Device D = Cpu>
struct CrossAttention {
  MultiHeadAttention<T, D> attention;
  Sublayer<T, D> around;
};

/// One block of a stack: self-attention, one cross-attention for each source (none in an encoder), feed-forward, each with
/// residual, dropout and norm.
template <class T, Device D = Cpu>
struct Block {
  using value_type = T;
  using device_type = D;
  MultiHeadAttention<T, D> self_attn;
  Sublayer<T, D> around_self_attn;
  std::vector<CrossAttention<T, D>> cross;
  FeedForward<T, D> feed_forward;
  Sublayer<T, D> around_feed_forward;
  Dropout feed_forward_dropout, block_dropout;
  bool causal;

  /// Layer `layer` of a stack of that kind, from 0, which some initial values depend on. `positions`: those that layers share;
  /// null where it has its own.
  Block(const StackOptions& given, StackKind kind, index_t layer = 0, const AttentionPositions<T, D>* positions = nullptr)
      : Block(resolved(given, kind), layer, positions) {}

  /// x [rows, d_model] -> [rows, d_model]. Throws ShapeError for another number of memories than cross-attentions, unless it is
  /// one.
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments, const StackCall<T, D>& call = {}) const {
    check_memories(call.memories.size());
    return read({x}, WholeSentences<T, D>{segments, call}).value();
  }
  /// The block on what the one before has left, layer `layer` of what reads it.
  template <class Reading>
  ResidualStream<T, D> read(ResidualStream<T, D> stream, const Reading& reading, index_t layer = 0) const {
    stream = around_self_attn(std::move(stream), [&](const Var<T, D>& z) { return self_attn(z, reading.own(layer, causal)); });
    for (std::size_t i = 0; i < cross.size(); ++i)
      stream =
          cross[i].around(std::move(stream), [&](const Var<T, D>& z) { return cross[i].attention(z, reading.source(layer, i)); });
    stream =
        around_feed_forward(std::move(stream), [&](const Var<T, D>& z) { return apply(feed_forward_dropout, feed_forward(z)); });
    return apply(block_dropout, std::move(stream));
  }
  /// Throws ShapeError unless there is a memory for each cross-attention, or one for all.
  void check_memories(std::size_t count) const {
    if (count != cross.size() && !(count == 1 && !cross.empty()))
      throw ShapeError("Block: ", count, " memories for ", cross.size(), " cross-attentions");
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
  Block(const StackOptions& o, index_t layer, const AttentionPositions<T, D>* positions)
      : self_attn(detail::attention_options(o, false, {layer, o.layers, 0, sublayers(o)})),
        around_self_attn(o),
        feed_forward(o.d_model, o.d_ff,
                     {.activation = o.activation,
                      .dropout = o.dropout.activation,
                      .initial = {o.initialisation, {layer, o.layers, sublayers(o) - 1, sublayers(o)}},
                      .gated = o.gated,
                      .bias = o.bias}),
        around_feed_forward(o),
        feed_forward_dropout(make_dropout("feed-forward dropout", o.dropout.feed_forward)),
        block_dropout(make_dropout("block dropout", o.dropout.block)),
        causal(o.causal != 0) {
    self_attn.positions = positions ? *positions : AttentionPositions<T, D>(detail::attention_positions(o));
    cross.reserve(o.cross_attentions);
    for (index_t i = 1; i <= o.cross_attentions; ++i)
      cross.push_back(
          {MultiHeadAttention<T, D>(detail::attention_options(o, true, {layer, o.layers, i, sublayers(o)})), Sublayer<T, D>(o)});
  }
  /// Self-attention, cross-attentions, feed-forward.
  static index_t sublayers(const StackOptions& o) { return 2 + o.cross_attentions; }
};

/// Embedding, positions, blocks, and a last norm if wanted. Source: Vaswani et al. 2017, section 3.1.
template <class T, Device D = Cpu>
struct Stack {
  using value_type = T;
  using device_type = D;
  StackOptions options;
  std::optional<Embedding<T, D>> embed_tokens;
  Positions<T, D> positions;
  std::vector<Block<T, D>> layers;
  std::optional<Norm<T, D>> layernorm_embedding, layer_norm;
  Dropout embedding_dropout, output_dropout;

  /// Throws ValueError, which begins with the kind's name, where the options do not fit together.
  Stack(const StackOptions& o, StackKind kind)
      : options((check(o, kind, name(kind)), resolved(o, kind))),
        positions(o.positions, o.max_length, o.d_model, o.position_base, o.position),
        embedding_dropout(make_dropout("embedding dropout", o.dropout.embedding)),
        output_dropout(make_dropout("output dropout", o.dropout.output)),
        name_(name(kind)) {
    if (o.vocabulary > 0) embed_tokens.emplace(o.vocabulary, o.d_model, EmbeddingOptions{.scaled = o.scale_embedding});
    layers.reserve(o.layers);
    for (index_t i = 0; i < o.layers; ++i)
      layers.emplace_back(o, kind, i, i > 0 ? layers.front().self_attn.positions.shared() : nullptr);
    if (o.norm_embedding) layernorm_embedding.emplace(o.d_model, o.norm);
    if (o.final_norm) layer_norm.emplace(o.d_model, o.norm);
  }

  /// tokens [rows] -> [rows, d_model]. Throws Error if the stack has no embedding, IndexError for an unknown token,
  /// ShapeError for a sentence longer than the positions, and for another number of memories than cross-attentions.
  Var<T, D> operator()(const Tensor<token_t, D>& tokens, const Segments& segments, const StackCall<T, D>& call = {}) const {
    if (!embed_tokens) throw Error(name_, ": built without a vocabulary, it takes vectors and no tokens");
    segments.check_rows(name_, "tokens", tokens.size());
    return (*this)((*embed_tokens)(tokens.reshape({tokens.size()})), segments, call);
  }
  /// The same from vectors in the place of embedded tokens, x [rows, d_model].
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments, const StackCall<T, D>& call = {}) const {
    for (const auto& layer : layers) layer.check_memories(call.memories.size());
    return read(x, WholeSentences<T, D>{segments, call});
  }
  /// The same, whoever reads: see WholeSentences.
  template <class Reading>
  Var<T, D> read(const Var<T, D>& x, const Reading& reading) const {
    const auto stream = read_layers(x, reading, count_of(layers));
    return apply(output_dropout, layer_norm ? stream.normed(*layer_norm) : stream.value());
  }
  /// What the first `count` layers leave.
  template <class Reading>
  ResidualStream<T, D> read_layers(const Var<T, D>& x, const Reading& reading, index_t count) const {
    const auto placed = positions(x, reading.places());
    ResidualStream<T, D> stream{apply(embedding_dropout, layernorm_embedding ? (*layernorm_embedding)(placed) : placed)};
    for (index_t i = 0; i < count; ++i) stream = nth(layers, i).read(std::move(stream), reading, i);
    return stream;
  }
  template <class F>
  void fields(F&& field) {
    field("embed_tokens", embed_tokens);
    field("embed_positions", positions);
    field("layernorm_embedding", layernorm_embedding);
    field("layers", layers);
    field("layer_norm", layer_norm);
    field("embedding_dropout", embedding_dropout);
    field("output_dropout", output_dropout);
  }

 private:
  static const char* name(StackKind kind) { return kind == StackKind::encoder ? "Encoder" : "Decoder"; }

  const char* name_;
};

/// A block of an encoder: it sees all of its sentence, unless the options say `causal`.
template <class T, Device D = Cpu>
struct EncoderLayer : Block<T, D> {
  /// Layer `layer` of a stack of such. Throws ValueError.
  explicit EncoderLayer(const StackOptions& o, index_t layer = 0) : Block<T, D>(o, StackKind::encoder, layer) {}
};

/// A block of a decoder: causal, with one cross-attention, unless the options say otherwise.
template <class T, Device D = Cpu>
struct DecoderLayer : Block<T, D> {
  /// Layer `layer` of a stack of such. Throws ValueError.
  explicit DecoderLayer(const StackOptions& o, index_t layer = 0) : Block<T, D>(o, StackKind::decoder, layer) {}
};

/// A stack of blocks that see all of their sentence.
template <class T, Device D = Cpu>
struct Encoder : Stack<T, D> {
  /// Throws ValueError for options that do not go together.
  explicit Encoder(const StackOptions& o) : Stack<T, D>(o, StackKind::encoder) {}
};

/// A stack of causal blocks that also look at a source, or at several, or at none.
template <class T, Device D = Cpu>
struct Decoder : Stack<T, D> {
  /// Throws ValueError for options that do not go together.
  explicit Decoder(const StackOptions& o) : Stack<T, D>(o, StackKind::decoder) {}
};

}  // namespace attend::nn
