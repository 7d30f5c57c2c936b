#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "attend/io/json.hpp"
#include "attend/nn/transformer_options.hpp"

/// `config.json`: what a model is built from.
///
/// Objects are filled key by key: the JSON library's lists in braces take longer to compile.
namespace attend::detail {

/// The values of an enumeration and what they are called in the file.
template <class E, std::size_t N>
using Names = std::array<std::pair<E, const char*>, N>;

// As they stand in config.json.
inline constexpr Names<nn::NormOrder, 2> norm_orders{{{nn::NormOrder::post, "post"}, {nn::NormOrder::pre, "pre"}}};
inline constexpr Names<nn::PositionKind, 4> position_kinds{{{nn::PositionKind::sinusoidal, "sinusoidal"},
                                                            {nn::PositionKind::sinusoidal_halves, "sinusoidal_halves"},
                                                            {nn::PositionKind::learned, "learned"},
                                                            {nn::PositionKind::none, "none"}}};
inline constexpr Names<nn::Output, 3> outputs{{{nn::Output::logits, "logits"},
                                               {nn::Output::log_probabilities, "log_probabilities"},
                                               {nn::Output::probabilities, "probabilities"}}};
inline constexpr Names<Activation, 6> activations{{{Activation::relu, "relu"},
                                                   {Activation::gelu, "gelu"},
                                                   {Activation::gelu_tanh, "gelu_tanh"},
                                                   {Activation::silu, "silu"},
                                                   {Activation::tanh, "tanh"},
                                                   {Activation::identity, "identity"}}};

/// What a value is called; empty for one that has no name.
template <class E, std::size_t N>
std::string to_name(E value, const Names<E, N>& names) {
  for (const auto& [v, name] : names)
    if (v == value) return name;
  return "";
}

/// The value called `text`, which stands at `key`. Throws FormatError, with the names there are.
template <class E, std::size_t N>
E from_name(const io::JsonObject& json, const char* key, const Names<E, N>& names, const std::string& text) {
  std::string expected;
  for (const auto& [v, name] : names) {
    if (text == name) return v;
    expected += (expected.empty() ? "" : ", ") + std::string(name);
  }
  throw FormatError(json.name() + ": " + key + " is \"" + printable(text) + "\", expected one of " + expected);
}

/// The value that stands at `key`.
template <class E, std::size_t N>
E from_name(const io::JsonObject& json, const char* key, const Names<E, N>& names) {
  return from_name(json, key, names, json.get<std::string>(key));
}

/// A size from a file: a bound keeps a damaged file from asking for more memory than any model has.
inline index_t size_from(const io::JsonObject& json, const char* key) {
  const auto n = json.get<index_t>(key);
  constexpr index_t bound = index_t{1} << 28;
  if (n < 0 || n > bound)
    throw FormatError(json.name() + ": " + key + " is " + std::to_string(n) + ", expected a number from 0 to " +
                      std::to_string(bound));
  return n;
}

inline io::Json to_json(const nn::DropoutRates& d) {
  io::Json json;
  json["embedding"] = d.embedding;
  json["attention"] = d.attention;
  json["activation"] = d.activation;
  json["feed_forward"] = d.feed_forward;
  json["residual"] = d.residual;
  json["norm"] = d.norm;
  json["block"] = d.block;
  return json;
}

inline nn::DropoutRates dropout_from(const io::JsonObject& json) {
  return {.embedding = json.get<double>("embedding"),
          .attention = json.get<double>("attention"),
          .activation = json.get<double>("activation"),
          .feed_forward = json.get<double>("feed_forward"),
          .residual = json.get<double>("residual"),
          .norm = json.get<double>("norm"),
          .block = json.get<double>("block")};
}

inline io::Json to_json(const nn::StackOptions& o) {
  io::Json json;
  json["vocabulary"] = o.vocabulary;
  json["d_model"] = o.d_model;
  json["heads"] = o.heads;
  json["d_k"] = o.d_k;
  json["d_v"] = o.d_v;
  json["d_ff"] = o.d_ff;
  json["layers"] = o.layers;
  json["activation"] = to_name(o.activation, activations);
  json["norm_order"] = to_name(o.norm_order, norm_orders);
  json["norm"]["eps"] = o.norm.eps;
  json["norm"]["sample_deviation"] = o.norm.sample_deviation;
  json["norm"]["scalar_affine"] = o.norm.scalar_affine;
  json["final_norm"] = o.final_norm;
  json["attention_bias"] = o.attention_bias;
  json["scale_embedding"] = o.scale_embedding;
  json["positions"] = to_name(o.positions, position_kinds);
  json["position_base"] = o.position_base;
  json["max_length"] = o.max_length;
  json["dropout"] = to_json(o.dropout);
  json["cross_attentions"] = o.cross_attentions;
  json["d_memory"] = o.d_memory;
  json["causal"] = o.causal != 0;
  json["initialisation"] = to_name(o.initialisation, nn::initialisations);
  return json;
}

inline nn::StackOptions stack_from(const io::JsonObject& json) {
  const auto norm = json.object("norm");
  return {.vocabulary = size_from(json, "vocabulary"),
          .d_model = size_from(json, "d_model"),
          .heads = size_from(json, "heads"),
          .d_k = size_from(json, "d_k"),
          .d_v = size_from(json, "d_v"),
          .d_ff = size_from(json, "d_ff"),
          .layers = size_from(json, "layers"),
          .activation = from_name(json, "activation", activations),
          .norm_order = from_name(json, "norm_order", norm_orders),
          .norm = {.eps = norm.get<double>("eps"),
                   .sample_deviation = norm.get<bool>("sample_deviation"),
                   .scalar_affine = norm.get<bool>("scalar_affine")},
          .final_norm = json.get<bool>("final_norm"),
          .attention_bias = json.get<bool>("attention_bias"),
          .scale_embedding = json.get<bool>("scale_embedding"),
          .positions = from_name(json, "positions", position_kinds),
          .position_base = json.get<double>("position_base"),
          .max_length = size_from(json, "max_length"),
          .dropout = dropout_from(json.object("dropout")),
          .cross_attentions = size_from(json, "cross_attentions"),
          .d_memory = size_from(json, "d_memory"),
          .causal = json.get<bool>("causal"),
          // Files older than this option hold models that began with Xavier's values.
          .initialisation =
              from_name(json, "initialisation", nn::initialisations, json.get<std::string>("initialisation", "xavier"))};
}

}  // namespace attend::detail

namespace attend::io {

/// The options of a Transformer as `config.json` holds them. The version is 2 where the encoder is causal: in files of version 1
/// what an encoder says of `causal`, `cross_attentions` and `d_memory` means nothing, because encoders once ignored it.
inline Json to_json(const nn::ModelOptions& given) {
  const nn::ModelOptions o = nn::resolved(given);
  Json json;
  json["format"] = "attend";
  json["version"] = o.encoder.causal != 0 ? 2 : 1;
  json["encoder"] = detail::to_json(o.encoder);
  json["decoder"] = detail::to_json(o.decoder);
  json["share_embeddings"] = o.share_embeddings;
  json["tie_head"] = o.tie_head;
  json["head_bias"] = o.head_bias;
  json["output"] = detail::to_name(o.output, detail::outputs);
  return json;
}

/// The options that a `config.json` holds; `name` is what messages call it. Throws FormatError where a key is missing, of
/// another type, or the options do not fit together.
inline nn::ModelOptions model_options_from(const Json& json, const std::string& name) {
  const JsonObject object(json, name);
  const auto format = object.get<std::string>("format");
  if (format != "attend") throw FormatError(name + ": format is \"" + detail::printable(format) + "\", expected \"attend\"");
  const auto version = object.get<index_t>("version");
  if (version != 1 && version != 2)
    throw FormatError(name + ": version is " + std::to_string(version) + ", this library reads versions 1 and 2");
  nn::ModelOptions options{.encoder = detail::stack_from(object.object("encoder")),
                           .decoder = detail::stack_from(object.object("decoder")),
                           .share_embeddings = object.get<bool>("share_embeddings"),
                           .tie_head = object.get<bool>("tie_head"),
                           .head_bias = object.get<bool>("head_bias"),
                           .output = detail::from_name(object, "output", detail::outputs)};
  if (version == 1) options.encoder.causal = 0, options.encoder.cross_attentions = 0, options.encoder.d_memory = 0;
  try {
    nn::check(options);
  } catch (const ValueError& e) {
    throw FormatError(name + ": " + e.what());
  }
  return options;
}

}  // namespace attend::io
