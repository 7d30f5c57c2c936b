#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "attend/core/types.hpp"
#include "attend/io/config.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/json.hpp"
#include "attend/nn/transformer_options.hpp"

/// `config.json` of a Marian model as the `transformers` library has it: what the model is built from.
namespace attend::io {

/// A Marian model's architecture and its marks. Sources end with `eos`; targets begin with `begin` and end with `eos`.
struct MarianConfig {
  nn::ModelOptions model;
  token_t eos = 0, pad = 0, begin = 0;
};

}  // namespace attend::io

namespace attend::detail {

/// The first name of an activation is the one that is written.
inline constexpr auto marian_activations = std::to_array<Named<Activation>>({{Activation::relu, "relu"},
                                                                             {Activation::gelu, "gelu"},
                                                                             {Activation::gelu, "gelu_python"},
                                                                             {Activation::gelu_tanh, "gelu_new"},
                                                                             {Activation::gelu_tanh, "gelu_pytorch_tanh"},
                                                                             {Activation::gelu_tanh, "gelu_python_tanh"},
                                                                             {Activation::gelu_tanh, "gelu_fast"},
                                                                             {Activation::gelu_tanh, "gelu_accurate"},
                                                                             {Activation::silu, "swish"},
                                                                             {Activation::silu, "silu"},
                                                                             {Activation::tanh, "tanh"},
                                                                             {Activation::identity, "linear"}});
/// The activation that a file names.
inline Activation marian_activation(const io::JsonObject& json) {
  const auto text = json.get<std::string>("activation_function");
  std::string expected;
  for (const auto& [value, name] : marian_activations) {
    if (text == name) return value;
    expected += (expected.empty() ? "" : ", ") + std::string(name);
  }
  throw FormatError(json.name(), ": activation_function is \"", printable(text), "\", expected one of ", expected);
}

/// A number of a `transformers` configuration; if it is missing, `otherwise`, that library's default.
inline index_t marian_size(const io::JsonObject& json, const char* key, index_t otherwise) {
  if (!json.contains(key)) return otherwise;
  const auto size = json.get<index_t>(key);
  constexpr Bounds bounds = between(0, nn::largest_size);
  if (!bounds.contain(static_cast<double>(size)))
    throw FormatError(json.name(), ": ", key, " is ", size, ", expected ", bounds.text());
  return size;
}

/// The number of a mark; `eos_token_id` may be a list of one.
inline token_t marian_mark(const io::JsonObject& json, const char* key, token_t otherwise) {
  if (!json.contains(key)) return otherwise;
  if (!json.json().at(key).is_array()) return json.get<token_t>(key);
  const auto list = json.get<std::vector<token_t>>(key);
  if (list.size() != 1) throw FormatError(json.name(), ": ", key, " has ", list.size(), " tokens, expected one");
  return list.front();
}

/// Throws FormatError if the file asks for what a Marian model is not: `transformers` would ignore it, and the result would not
/// be what its author meant.
inline void check_marian_architecture(const io::JsonObject& json) {
  if (const auto type = json.get<std::string>("model_type", "nothing"); type != "marian")
    throw FormatError(json.name(), ": model_type is \"", printable(type), "\", expected \"marian\"");
  const auto architectures = json.get<std::vector<std::string>>("architectures", {"MarianMTModel"});
  if (std::find(architectures.begin(), architectures.end(), "MarianMTModel") == architectures.end())
    throw FormatError(json.name(), ": architectures has no \"MarianMTModel\", the encoder-decoder that translates");
  for (const char* key : {"normalize_before", "normalize_embedding", "add_final_layer_norm"})
    if (json.get<bool>(key, false)) throw FormatError(json.name(), ": ", key, " is true, expected false");
  for (const char* key : {"static_position_embeddings", "is_encoder_decoder"})
    if (!json.get<bool>(key, true)) throw FormatError(json.name(), ": ", key, " is false, expected true");
}

}  // namespace attend::detail

namespace attend::io {

/// Whether a `config.json` is that of a Marian model.
inline bool is_marian(const Json& json) {
  const auto type = json.is_object() ? json.find("model_type") : json.end();
  return type != json.end() && *type == "marian";
}

/// Reads such a file; `name` is what messages call it. Keys that are missing have the defaults of `transformers`. What concerns
/// its training alone (`encoder_layerdrop`) is ignored.
/// Throws FormatError for another architecture, and if something in the file makes no sense.
inline MarianConfig marian_config_from(const Json& json, const std::string& name) {
  const JsonObject object(json, name);
  detail::check_marian_architecture(object);
  const auto size = [&](const char* key, index_t otherwise) { return detail::marian_size(object, key, otherwise); };

  nn::StackOptions stack{.vocabulary = size("vocab_size", 58101), .d_model = size("d_model", 1024)};
  stack.activation = object.contains("activation_function") ? detail::marian_activation(object) : Activation::gelu;
  stack.scale_embedding = object.get<bool>("scale_embedding", false);
  stack.positions = nn::PositionKind::sinusoidal_halves;
  stack.max_length = size("max_position_embeddings", 1024);
  stack.dropout.embedding = stack.dropout.residual = object.get<double>("dropout", 0.1);
  stack.dropout.attention = object.get<double>("attention_dropout", 0);
  stack.dropout.activation = object.get<double>("activation_dropout", 0);

  // Without `tie_word_embeddings` nothing is shared: files then hold every embedding, or one for both sides and the head's.
  const bool share = object.get<bool>("share_encoder_decoder_embeddings", true),
             tie = object.get<bool>("tie_word_embeddings", true);
  MarianConfig config{.model = {.encoder = stack, .decoder = stack, .share_embeddings = share && tie, .tie_head = tie}};
  nn::StackOptions &encoder = config.model.encoder, &decoder = config.model.decoder;
  encoder.layers = size("encoder_layers", 12), decoder.layers = size("decoder_layers", 12);
  encoder.heads = size("encoder_attention_heads", 16), decoder.heads = size("decoder_attention_heads", 16);
  encoder.d_ff = size("encoder_ffn_dim", 4096), decoder.d_ff = size("decoder_ffn_dim", 4096);
  decoder.vocabulary = size("decoder_vocab_size", encoder.vocabulary);
  if (decoder.vocabulary == 0) decoder.vocabulary = encoder.vocabulary;
  if (share && decoder.vocabulary != encoder.vocabulary)
    throw FormatError(name, ": decoder_vocab_size is ", decoder.vocabulary, ", vocab_size ", encoder.vocabulary,
                      ", expected the same where embeddings are shared");
  try {
    nn::check(config.model);
    check_value(encoder.d_model % encoder.heads == 0 && encoder.d_model % decoder.heads == 0, "Transformer",
                "d_model is no multiple of the number of heads");
  } catch (const ValueError& e) {
    throw FormatError(name, ": ", e.what());
  }

  config.eos = detail::marian_mark(object, "eos_token_id", 0);
  config.pad = detail::marian_mark(object, "pad_token_id", 58100);
  config.begin = detail::marian_mark(object, "decoder_start_token_id", config.pad);
  for (const auto& [token, key] : {std::pair{config.eos, "eos_token_id"}, std::pair{config.pad, "pad_token_id"},
                                   std::pair{config.begin, "decoder_start_token_id"}})
    if (token < 0 || token >= decoder.vocabulary)
      throw FormatError(name, ": ", key, " is ", token, ", outside the vocabulary of ", decoder.vocabulary);
  return config;
}

/// The same the other way round. The model must be one that `marian_obstacles` finds nothing against.
inline Json to_json(const MarianConfig& config, DType stored) {
  const nn::StackOptions &encoder = config.model.encoder, &decoder = config.model.decoder;
  Json json;
  json["architectures"] = std::vector<std::string>{"MarianMTModel"};
  json["model_type"] = "marian";
  json["is_encoder_decoder"] = true;
  json["vocab_size"] = encoder.vocabulary;
  json["decoder_vocab_size"] = decoder.vocabulary;
  json["d_model"] = encoder.d_model;
  json["encoder_layers"] = encoder.layers, json["decoder_layers"] = decoder.layers;
  json["num_hidden_layers"] = encoder.layers;
  json["encoder_attention_heads"] = encoder.heads, json["decoder_attention_heads"] = decoder.heads;
  json["encoder_ffn_dim"] = encoder.d_ff, json["decoder_ffn_dim"] = decoder.d_ff;
  for (const auto& [value, name] : detail::marian_activations)
    if (value == encoder.activation && !json.contains("activation_function")) json["activation_function"] = name;
  json["scale_embedding"] = encoder.scale_embedding;
  json["max_position_embeddings"] = std::max(encoder.max_length, decoder.max_length);
  json["dropout"] = encoder.dropout.residual;
  json["attention_dropout"] = encoder.dropout.attention;
  json["activation_dropout"] = encoder.dropout.activation;
  // What releases before 5 ask for.
  json["static_position_embeddings"] = true;
  json["normalize_before"] = json["normalize_embedding"] = json["add_final_layer_norm"] = false;
  json["share_encoder_decoder_embeddings"] = config.model.share_embeddings;
  json["tie_word_embeddings"] = config.model.tie_head;
  json["eos_token_id"] = config.eos;
  json["pad_token_id"] = config.pad;
  json["decoder_start_token_id"] = config.begin;
  json["forced_eos_token_id"] = config.eos;
  json["torch_dtype"] = stored == DType::f16    ? "float16"
                        : stored == DType::bf16 ? "bfloat16"
                        : stored == DType::f64  ? "float64"
                                                : "float32";
  return json;
}

}  // namespace attend::io
