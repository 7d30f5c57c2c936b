#pragma once

#include "attend/nn/adapter_options.hpp"
#include "attend/nn/options.hpp"

namespace attend::nn {

/// A whole encoder-decoder, stack by stack.
struct ModelOptions {
  StackOptions encoder, decoder;
  bool share_embeddings = false;  ///< encoder and decoder have one embedding
  bool tie_head = false;          ///< the head's matrix is the decoder's embedding
  bool scale_head = false;        ///< what goes to the head is divided by sqrt(d_model), as T5 does it with a tied head
  bool head_bias = true;
  Output output = Output::logits;
  AdapterOptions adapters = no_adapters();  ///< what learns in place of the weights; none with rank 0

  template <class F>
  static void fields(F&& field) {
    field("encoder", &ModelOptions::encoder);
    field("decoder", &ModelOptions::decoder);
    field("share_embeddings", &ModelOptions::share_embeddings);
    field("tie_head", &ModelOptions::tie_head);
    field("scale_head", &ModelOptions::scale_head, IfAbsent{false}, Since{4});
    field("head_bias", &ModelOptions::head_bias);
    field("output", &ModelOptions::output);
    field("adapters", &ModelOptions::adapters, IfAbsent<AdapterOptions>{no_adapters()}, Since{5});
  }
};

/// A whole encoder-decoder whose stacks are alike but for what is given apart. The defaults are the paper's base model.
struct TransformerOptions {
  index_t vocabulary = 0;         ///< of both sides
  index_t source_vocabulary = 0;  ///< 0 stands for `vocabulary`
  index_t target_vocabulary = 0;  ///< 0 stands for `vocabulary`
  index_t d_model = 512;
  index_t heads = 8;
  index_t kv_heads = 0;  ///< of keys and values; 0 stands for `heads`
  index_t d_k = 0;       ///< 0 stands for d_model / heads
  index_t d_v = 0;       ///< 0 stands for d_k
  index_t d_ff = 0;      ///< 0 stands for 4 * d_model
  index_t layers = 6;
  index_t encoder_layers = -1, decoder_layers = -1;  ///< -1 stands for `layers`
  index_t encoder_heads = 0, decoder_heads = 0;      ///< 0 stands for `heads`
  index_t encoder_d_ff = 0, decoder_d_ff = 0;        ///< 0 stands for `d_ff`
  double dropout = 0.1;  ///< on embedding + position and on each sublayer before it is added, as in the paper
  double attention_dropout = 0;
  double activation_dropout = 0;
  Activation activation = Activation::relu;
  NormOrder norm_order = NormOrder::post;
  NormOptions norm = {};
  bool final_norm = false;
  bool attention_bias = true;
  bool bias = true;             ///< of linear layers; see StackOptions
  bool gated = false;           ///< feed-forwards are gated
  double attention_scale = 0;   ///< 0 stands for 1 / sqrt(d_k)
  bool norm_embedding = false;  ///< a norm on embedding + position
  bool scale_embedding = true;
  PositionKind positions = PositionKind::sinusoidal;
  double position_base = 10000;
  index_t max_length = 1024;
  PositionOptions position = {};  ///< what they are besides their kind
  bool share_embeddings = false;
  bool tie_head = false;
  bool scale_head = false;  ///< what goes to the head is divided by sqrt(d_model)
  bool head_bias = true;
  Output output = Output::logits;
  Initialisation initialisation = InitialValues{}.kind;  ///< how the weights begin

  /// What the command line has of it; bounds that it does not narrow are those of the stacks, see StackOptions.
  template <class F>
  static void fields(F&& field) {
    using O = TransformerOptions;
    field("d_model", &O::d_model, Flag{.text = "Width of the model", .within = between(1, 65536)});
    field("heads", &O::heads, Flag{.text = "Attention heads, a divisor of the width", .within = between(1, 4096)});
    field("kv_heads", &O::kv_heads, Except{0},
          Flag{.text = "Heads of keys and values, a divisor of the heads", .within = between(1, 4096)});
    field("layers", &O::layers, Flag{.text = "Layers of encoder and decoder each", .within = between(1, 1000)});
    field("encoder_layers", &O::encoder_layers, Flag{.text = "Layers of the encoder", .within = between(1, 1000)});
    field("decoder_layers", &O::decoder_layers, Flag{.text = "Layers of the decoder", .within = between(1, 1000)});
    field("encoder_heads", &O::encoder_heads, Except{0},
          Flag{.text = "Attention heads of the encoder, where they are other than --heads", .within = between(1, 4096)});
    field("decoder_heads", &O::decoder_heads, Except{0}, Flag{.text = "The same of the decoder", .within = between(1, 4096)});
    field("d_k", &O::d_k, Except{0},
          Flag{.text = "Width of a head, where it is other than the model's over the heads", .within = between(1, 65536)});
    field("d_ff", &O::d_ff, Flag{.text = "Width within the feed-forward", .within = between(1, 1 << 18)});
    field("encoder_d_ff", &O::encoder_d_ff, Except{0},
          Flag{.text = "The same in the encoder, where it is other than --d-ff", .within = between(1, 1 << 18)});
    field("decoder_d_ff", &O::decoder_d_ff, Except{0}, Flag{.text = "The same in the decoder", .within = between(1, 1 << 18)});
    field("dropout", &O::dropout, less_than_1(), Flag{"Dropout on embeddings and sublayers"});
    field("attention_dropout", &O::attention_dropout, less_than_1(), Flag{"Dropout on attention weights"});
    field("activation_dropout", &O::activation_dropout, less_than_1(), Flag{"Dropout within the feed-forward"});
    field("activation", &O::activation, Flag{"Of the feed-forward"});
    field("gated", &O::gated, Flag{"Feed-forwards with a gate, to which the activation goes"});
    field("norm_order", &O::norm_order, Flag{"Norm after each sublayer (post) or before it (pre, with a final norm)", "--norm"});
    field("norm", &O::norm);
    field("norm_embedding", &O::norm_embedding, Flag{"A norm on embedding + position too"});
    field("bias", &O::bias, Flag{"Linear layers have no biases"});
    field("attention_bias", &O::attention_bias, Flag{"Queries, keys and values have none"});
    field("head_bias", &O::head_bias, Flag{"The layer that makes the logits has none"});
    field("attention_scale", &O::attention_scale, Except{0.0},
          Flag{.text = "What attention scores are multiplied by, in place of one over the root of a head's width",
               .within = between(1e-4, 1e4)});
    field("scale_embedding", &O::scale_embedding, Flag{"Embeddings are not multiplied by the root of the width"});
    field("scale_head", &O::scale_head, Flag{"What goes to the logits is divided by the root of the width, as in T5"});
    field("positions", &O::positions, Flag{"What tells the model where a token stands"});
    field("position_base", &O::position_base,
          Flag{.text = "Of sinusoids and rotary positions: the larger, the slower the slowest (10000)",
               .within = between(1, 1e12)});
    field("position", &O::position);
    field("max_length", &O::max_length, Flag{.text = "The longest sentence, in tokens", .within = between(2, 65536)});
    field("initialisation", &O::initialisation, Flag{"How the weights begin"});
  }

  /// 4 + 4 layers, 128 / 256, 4 heads: for some ten thousand sentence pairs. Source: Wu et al. 2021, "Good for Misconceived
  /// Reasons", table 1.
  static TransformerOptions tiny(index_t vocabulary) {
    return {.vocabulary = vocabulary, .d_model = 128, .heads = 4, .d_ff = 256, .layers = 4, .dropout = 0.3};
  }
  /// 6 + 6 layers, 512 / 1024, 4 heads: for some hundred thousand pairs. Source: the same, and fairseq's
  /// `transformer_iwslt_de_en`.
  static TransformerOptions small(index_t vocabulary) {
    return {.vocabulary = vocabulary, .d_model = 512, .heads = 4, .d_ff = 1024, .layers = 6, .dropout = 0.3};
  }
  /// 6 + 6 layers, 512 / 2048, 8 heads. Source: Vaswani et al. 2017, table 3.
  static TransformerOptions base(index_t vocabulary) {
    return {.vocabulary = vocabulary,
            .d_model = 512,
            .heads = 8,
            .d_ff = 2048,
            .layers = 6,
            .dropout = 0.1,
            .share_embeddings = true,
            .tie_head = true};
  }
  /// 6 + 6 layers, 1024 / 4096, 16 heads. Source: Vaswani et al. 2017, table 3.
  static TransformerOptions big(index_t vocabulary) {
    return {.vocabulary = vocabulary,
            .d_model = 1024,
            .heads = 16,
            .d_ff = 4096,
            .layers = 6,
            .dropout = 0.3,
            .share_embeddings = true,
            .tie_head = true};
  }
};

/// The options with what its stacks leave open as an encoder and a decoder have it.
inline ModelOptions resolved(ModelOptions o) {
  o.encoder = resolved(o.encoder, StackKind::encoder);
  o.decoder = resolved(o.decoder, StackKind::decoder);
  return o;
}

/// The stacks that these options stand for.
inline ModelOptions model_options(const TransformerOptions& o) {
  StackOptions stack{.d_model = o.d_model,
                     .heads = o.heads,
                     .kv_heads = o.kv_heads,
                     .d_k = o.d_k,
                     .d_v = o.d_v,
                     .d_ff = o.d_ff ? o.d_ff : 4 * o.d_model,
                     .layers = o.layers,
                     .activation = o.activation,
                     .norm_order = o.norm_order,
                     .norm = o.norm,
                     .final_norm = o.final_norm,
                     .attention_bias = o.attention_bias,
                     .bias = o.bias,
                     .gated = o.gated,
                     .attention_scale = o.attention_scale,
                     .norm_embedding = o.norm_embedding,
                     .scale_embedding = o.scale_embedding,
                     .positions = o.positions,
                     .position_base = o.position_base,
                     .max_length = o.max_length,
                     .position = o.position,
                     .initialisation = o.initialisation};
  stack.dropout.embedding = stack.dropout.residual = o.dropout;
  stack.dropout.attention = o.attention_dropout;
  stack.dropout.activation = o.activation_dropout;
  const auto side = [&](index_t vocabulary, index_t layers, index_t heads, index_t d_ff) {
    StackOptions s = stack;
    s.vocabulary = vocabulary ? vocabulary : o.vocabulary;
    if (layers >= 0) s.layers = layers;
    if (heads) s.heads = heads;
    if (d_ff) s.d_ff = d_ff;
    return s;
  };
  return resolved(ModelOptions{.encoder = side(o.source_vocabulary, o.encoder_layers, o.encoder_heads, o.encoder_d_ff),
                               .decoder = side(o.target_vocabulary, o.decoder_layers, o.decoder_heads, o.decoder_d_ff),
                               .share_embeddings = o.share_embeddings,
                               .tie_head = o.tie_head,
                               .scale_head = o.scale_head,
                               .head_bias = o.head_bias,
                               .output = o.output});
}

/// Throws ValueError if encoder, decoder and head do not fit together.
inline void check(const ModelOptions& o) {
  check(o.encoder, StackKind::encoder, "Transformer encoder");
  check(o.decoder, StackKind::decoder, "Transformer decoder");
  check_value(o.encoder.vocabulary > 0 && o.decoder.vocabulary > 0, "Transformer", "vocabularies are ", o.encoder.vocabulary,
              " and ", o.decoder.vocabulary, ", expected positive numbers");
  check_value(resolved(o.decoder, StackKind::decoder).cross_attentions == 1, "Transformer",
              "the decoder must have one cross-attention, for the one encoder");
  const index_t memory = o.decoder.d_memory ? o.decoder.d_memory : o.decoder.d_model;
  check_value(memory == o.encoder.d_model, "Transformer", "the encoder's d_model is ", o.encoder.d_model,
              ", the decoder attends to ", memory);
  check_fields("Transformer", o.adapters, "adapters.");
  if (o.share_embeddings)
    check_value(o.encoder.vocabulary == o.decoder.vocabulary && o.encoder.d_model == o.decoder.d_model, "Transformer",
                "a shared embedding needs equal vocabularies and widths");
}

}  // namespace attend::nn
