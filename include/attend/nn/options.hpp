#pragma once

#include <optional>
#include <string>
#include <utility>

#include "attend/nn/initialisation.hpp"
#include "attend/nn/layer_norm.hpp"
#include "attend/nn/multi_head_attention.hpp"
#include "attend/nn/positions.hpp"
#include "attend/ops/activations.hpp"

namespace attend::nn {

/// post: norm(x + f(x)), as in the paper. pre: x + f(norm(x)).
enum class NormOrder { post, pre };

/// Where values are dropped in training, each with its rate.
struct DropoutRates {
  double embedding = 0;     ///< on embedding + position
  double attention = 0;     ///< on the attention weights
  double activation = 0;    ///< between the two layers of the feed-forward
  double feed_forward = 0;  ///< at the end of the feed-forward
  double residual = 0;      ///< on each sublayer before it is added
  double norm = 0;          ///< on each norm's output
  double block = 0;         ///< on each block's output
};

/// An encoder or a decoder stack.
struct StackOptions {
  index_t vocabulary = 0;  ///< 0: the stack takes vectors and has no embedding
  index_t d_model = 512;
  index_t heads = 8;
  index_t d_k = 0;  ///< width of a head; 0 stands for d_model / heads
  index_t d_v = 0;  ///< width of a head's values; 0 stands for d_k
  index_t d_ff = 2048;
  index_t layers = 6;
  Activation activation = Activation::relu;
  NormOrder norm_order = NormOrder::post;
  NormOptions norm = {};
  bool final_norm = false;      ///< a layer norm after the last layer
  bool attention_bias = true;   ///< biases of q, k and v
  bool scale_embedding = true;  ///< embeddings times sqrt(d_model)
  PositionKind positions = PositionKind::sinusoidal;
  double position_base = 10000;  ///< of the sinusoids
  index_t max_length = 1024;     ///< the longest sentence, in tokens
  DropoutRates dropout = {};
  index_t cross_attentions = -1;                         ///< of a decoder layer, one for each source; -1 stands for 1. An
                                                         ///< encoder has none
  index_t d_memory = 0;                                  ///< width of what a decoder attends to; 0 stands for d_model
  int causal = -1;                                       ///< 1: a token sees itself and those before it; 0: all of its
                                                         ///< sentence; -1 stands for 1 in a decoder, 0 in an encoder
  Initialisation initialisation = InitialValues{}.kind;  ///< how the weights begin
};

/// What the head of a model gives.
enum class Output { logits, log_probabilities, probabilities };

/// What a stack is: what its options leave open depends on it.
enum class StackKind { encoder, decoder };

/// The options with what they leave open, `cross_attentions` and `causal`, as such a stack has it.
inline StackOptions resolved(StackOptions o, StackKind kind) {
  const bool decoder = kind == StackKind::decoder;
  if (o.cross_attentions == -1) o.cross_attentions = decoder ? 1 : 0;
  if (o.causal == -1) o.causal = decoder ? 1 : 0;
  return o;
}

/// Throws ValueError, which begins with `stack`, where a stack of that kind cannot be built from these.
inline void check(const StackOptions& given, StackKind kind, const char* stack) {
  const StackOptions o = resolved(given, kind);
  // Beyond any model, and small enough that no product of two sizes overflows.
  constexpr index_t bound = index_t{1} << 28;
  const auto between = [&](index_t least, index_t value, const char* name) {
    check_value(value >= least && value <= bound, stack,
                std::string(name) + " is " + std::to_string(value) + ", expected " +
                    (least > 0 ? "a positive number" : "0 or more") + ", at most " + std::to_string(bound));
  };
  between(1, o.d_model, "d_model"), between(1, o.heads, "heads"), between(1, o.d_ff, "d_ff");
  between(1, o.max_length, "max_length"), between(0, o.layers, "layers"), between(0, o.vocabulary, "vocabulary");
  between(0, o.d_k, "d_k"), between(0, o.d_v, "d_v"), between(0, o.d_memory, "d_memory");
  between(0, o.cross_attentions, "cross_attentions");
  check_value(o.causal == 0 || o.causal == 1, stack, "causal is " + std::to_string(o.causal) + ", expected true or false");
  if (kind == StackKind::encoder) {
    check_value(o.cross_attentions == 0, stack,
                "cross_attentions is " + std::to_string(o.cross_attentions) + ", and an encoder has none");
    check_value(o.d_memory == 0, stack,
                "d_memory is " + std::to_string(o.d_memory) + ", and an encoder attends to nothing but its sentences");
  }
  for (const auto& [rate, name] :
       {std::pair{o.dropout.embedding, "embedding"}, std::pair{o.dropout.attention, "attention"},
        std::pair{o.dropout.activation, "activation"}, std::pair{o.dropout.feed_forward, "feed-forward"},
        std::pair{o.dropout.residual, "residual"}, std::pair{o.dropout.norm, "norm"}, std::pair{o.dropout.block, "block"}})
    check_value(rate >= 0 && rate < 1, stack, std::string(name) + " dropout is " + std::to_string(rate) + ", outside [0, 1)");
  check_value(o.norm.eps >= 0, stack, "the norm's eps is " + std::to_string(o.norm.eps) + ", expected 0 or more");
  check_value(o.position_base > 0, stack, "position_base is " + std::to_string(o.position_base) + ", expected a positive number");
  check_value(o.d_k > 0 || o.d_model % o.heads == 0, stack,
              "d_model " + std::to_string(o.d_model) + " is no multiple of " + std::to_string(o.heads) + " heads; give d_k");
}

namespace detail {

inline MultiHeadAttentionOptions attention_options(const StackOptions& o, bool cross, const SublayerPlace& place) {
  return {.d_model = o.d_model,
          .heads = o.heads,
          .d_k = o.d_k,
          .d_v = o.d_v,
          .d_memory = cross ? o.d_memory : 0,
          .bias = o.attention_bias,
          .dropout = o.dropout.attention,
          .initial = {o.initialisation, place}};
}

}  // namespace detail

}  // namespace attend::nn
