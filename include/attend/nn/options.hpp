#pragma once

#include <array>
#include <string>

#include "attend/core/options.hpp"
#include "attend/nn/initialisation.hpp"
#include "attend/nn/multi_head_attention.hpp"
#include "attend/nn/norm.hpp"
#include "attend/nn/positions.hpp"
#include "attend/ops/activations.hpp"

namespace attend::nn {

/// post: norm(x + f(x)), as in the paper. pre: x + f(norm(x)).
enum class NormOrder { post, pre };
/// The names of its values.
constexpr auto names_of(NormOrder) {
  return std::to_array<Named<NormOrder>>({{NormOrder::post, "post"}, {NormOrder::pre, "pre"}});
}

/// The largest size that a stack may be given: beyond any model, and small enough that no product of two overflows. It keeps a
/// damaged file from asking for more memory than there is.
inline constexpr index_t largest_size = index_t{1} << 28;

/// Where values are dropped in training, each with its rate.
struct DropoutRates {
  double embedding = 0;     ///< on embedding + position
  double attention = 0;     ///< on the attention weights
  double activation = 0;    ///< between the two layers of the feed-forward
  double feed_forward = 0;  ///< at the end of the feed-forward
  double residual = 0;      ///< on each sublayer before it is added
  double norm = 0;          ///< on each norm's output
  double block = 0;         ///< on each block's output
  double output = 0;        ///< on what a stack gives, after its last norm, as T5 has it

  template <class F>
  static void fields(F&& field) {
    field("embedding", &DropoutRates::embedding, less_than_1());
    field("attention", &DropoutRates::attention, less_than_1());
    field("activation", &DropoutRates::activation, less_than_1());
    field("feed_forward", &DropoutRates::feed_forward, less_than_1());
    field("residual", &DropoutRates::residual, less_than_1());
    field("norm", &DropoutRates::norm, less_than_1());
    field("block", &DropoutRates::block, less_than_1());
    field("output", &DropoutRates::output, less_than_1(), IfAbsent{0.0}, Since{4});
  }
};

/// An encoder or a decoder stack.
struct StackOptions {
  index_t vocabulary = 0;  ///< 0: the stack takes vectors and has no embedding
  index_t d_model = 512;
  index_t heads = 8;
  index_t kv_heads = 0;  ///< heads of keys and values, a divisor of `heads`, as many of which share each; 0 stands for `heads`
  index_t d_k = 0;       ///< width of a head; 0 stands for d_model / heads
  index_t d_v = 0;       ///< width of a head's values; 0 stands for d_k
  index_t d_ff = 2048;
  index_t layers = 6;
  Activation activation = Activation::relu;
  NormOrder norm_order = NormOrder::post;
  NormOptions norm = {};
  bool final_norm = false;      ///< a layer norm after the last layer
  bool attention_bias = true;   ///< biases of q, k and v
  bool bias = true;             ///< without it no linear layer has one, those of q, k and v neither
  bool gated = false;           ///< feed-forwards are gated: activation(gate_proj(x)) * fc1(x) goes to fc2
  double attention_scale = 0;   ///< what scores are multiplied by, as 1 in T5; 0 stands for 1 / sqrt(d_k)
  bool norm_embedding = false;  ///< a norm on embedding + position, as BART has it
  bool scale_embedding = true;  ///< embeddings times sqrt(d_model)
  PositionKind positions = PositionKind::sinusoidal;
  double position_base = 10000;   ///< of the sinusoids and of rotary positions
  index_t max_length = 1024;      ///< the longest sentence, in tokens
  PositionOptions position = {};  ///< what they are besides their kind
  DropoutRates dropout = {};
  index_t cross_attentions = -1;  ///< of a decoder layer, one for each source; -1 stands for 1. An
                                  ///< encoder has none
  index_t d_memory = 0;           ///< width of what a decoder attends to; 0 stands for d_model
  int causal = -1;  ///< 1: a token sees itself and those before it; 0: all of its sentence; -1: as a decoder, or as an encoder
  Initialisation initialisation = InitialValues{}.kind;  ///< how the weights begin

  template <class F>
  static void fields(F&& field) {
    using O = StackOptions;
    field("vocabulary", &O::vocabulary, between(0, largest_size));
    field("d_model", &O::d_model, between(1, largest_size));
    field("heads", &O::heads, between(1, largest_size));
    field("kv_heads", &O::kv_heads, between(0, largest_size), IfAbsent{index_t{0}}, Since{4});
    field("d_k", &O::d_k, between(0, largest_size));
    field("d_v", &O::d_v, between(0, largest_size));
    field("d_ff", &O::d_ff, between(1, largest_size));
    field("layers", &O::layers, between(0, largest_size));
    field("activation", &O::activation);
    field("norm_order", &O::norm_order);
    field("norm", &O::norm);
    field("final_norm", &O::final_norm);
    field("attention_bias", &O::attention_bias);
    field("bias", &O::bias, IfAbsent{true}, Since{4});
    field("gated", &O::gated, IfAbsent{false}, Since{4});
    field("attention_scale", &O::attention_scale, at_least(0), IfAbsent{0.0}, Since{4});
    field("norm_embedding", &O::norm_embedding, IfAbsent{false}, Since{4});
    field("scale_embedding", &O::scale_embedding);
    field("positions", &O::positions);
    field("position_base", &O::position_base, more_than(0));
    field("max_length", &O::max_length, between(1, largest_size));
    field("position", &O::position, IfAbsent{PositionOptions()});
    field("dropout", &O::dropout);
    field("cross_attentions", &O::cross_attentions, between(0, largest_size));
    field("d_memory", &O::d_memory, between(0, largest_size));
    field("causal", &O::causal, between(0, 1), AsTruth{});
    // Files older than this option hold models that began with Xavier's values.
    field("initialisation", &O::initialisation, IfAbsent{Initialisation::xavier, true});
  }
};

/// What the head of a model gives.
enum class Output { logits, log_probabilities, probabilities };
/// The names of its values.
constexpr auto names_of(Output) {
  using enum Output;
  return std::to_array<Named<Output>>(
      {{logits, "logits"}, {log_probabilities, "log_probabilities"}, {probabilities, "probabilities"}});
}

/// What a stack is: what its options leave open depends on it.
enum class StackKind { encoder, decoder };

/// The options with what they leave open, `cross_attentions` and `causal`, as such a stack has it.
inline StackOptions resolved(StackOptions o, StackKind kind) {
  const bool decoder = kind == StackKind::decoder;
  if (o.cross_attentions == -1) o.cross_attentions = decoder ? 1 : 0;
  if (o.causal == -1) o.causal = decoder ? 1 : 0;
  return o;
}

namespace detail {

/// How attention in this stack knows of positions.
inline AttentionPositionOptions attention_positions(const StackOptions& o) {
  return {.kind = o.positions,
          .max_length = o.max_length,
          .base = o.position_base,
          .more = o.position,
          .heads = o.heads,
          .d_k = o.d_k ? o.d_k : o.d_model / o.heads,
          .kv_heads = o.kv_heads ? o.kv_heads : o.heads,
          .causal = o.causal != 0};
}

}  // namespace detail

/// Throws ValueError, which begins with `stack`, where a stack of that kind cannot be built from these.
inline void check(const StackOptions& given, StackKind kind, const char* stack) {
  const StackOptions o = resolved(given, kind);
  check_fields(stack, o);
  if (kind == StackKind::encoder) {
    check_value(o.cross_attentions == 0, stack, "cross_attentions is ", o.cross_attentions, ", and an encoder has none");
    check_value(o.d_memory == 0, stack, "d_memory is ", o.d_memory, ", and an encoder attends to nothing but its sentences");
  }
  check_value(!o.norm.sample_deviation || o.norm.kind == NormKind::layer, stack,
              "the norm's sample_deviation is true, and a root mean square norm has none");
  check_value(o.d_k > 0 || o.d_model % o.heads == 0, stack, "d_model ", o.d_model, " is no multiple of ", o.heads,
              " heads; give d_k");
  check_value(o.kv_heads == 0 || o.heads % o.kv_heads == 0, stack, "kv_heads is ", o.kv_heads, ", no divisor of ", o.heads,
              " heads");
  check(detail::attention_positions(o), stack);
}

namespace detail {

/// The attention of a layer of this stack: over itself, or with `cross` over a source.
inline MultiHeadAttentionOptions attention_options(const StackOptions& o, bool cross, const SublayerPlace& place) {
  return {.d_model = o.d_model,
          .heads = o.heads,
          .d_k = o.d_k,
          .d_v = o.d_v,
          .d_memory = cross ? o.d_memory : 0,
          .bias = o.bias && o.attention_bias,
          .out_bias = o.bias,
          .dropout = o.dropout.attention,
          .kv_heads = o.kv_heads,
          .scale = o.attention_scale,
          .initial = {o.initialisation, place}};
}

}  // namespace detail

}  // namespace attend::nn
