#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "attend/pretrained/config.hpp"

/// `config.json` of a Marian model as the `transformers` library has it: what the model is built from.
namespace attend::io {

/// A Marian model's architecture and its marks.
using MarianConfig = PretrainedConfig;

}  // namespace attend::io

namespace attend::detail {

/// Throws FormatError if the file asks for what a Marian model is not: `transformers` would ignore it, and the result would not
/// be what its author meant.
inline void check_marian_architecture(const io::JsonObject& json) {
  if (const auto type = json.get<std::string>("model_type", "nothing"); type != "marian")
    throw FormatError(json.name(), ": model_type is \"", printable(type), "\", expected \"marian\"");
  check_architecture(json, {"MarianMTModel"});
  for (const char* key : {"normalize_before", "normalize_embedding", "add_final_layer_norm"})
    if (json.get<bool>(key, false)) throw FormatError(json.name(), ": ", key, " is true, expected false");
  if (!json.get<bool>("static_position_embeddings", true))
    throw FormatError(json.name(), ": static_position_embeddings is false, expected true");
}

}  // namespace attend::detail

namespace attend::io {

/// Reads such a file; `name` is what messages call it. Keys that are missing have the defaults of `transformers`. What concerns
/// its training alone (`encoder_layerdrop`) is ignored.
/// Throws FormatError for another architecture, and if something in the file makes no sense.
inline MarianConfig marian_config_from(const Json& json, const std::string& name) {
  const JsonObject object(json, name);
  detail::check_marian_architecture(object);
  const auto size = [&](const char* key, index_t otherwise) { return detail::config_size(object, key, otherwise); };

  nn::StackOptions stack{.vocabulary = size("vocab_size", 58101), .d_model = size("d_model", 1024)};
  stack.activation = detail::config_activation(object, "activation_function", "gelu");
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
  config.eos = detail::config_mark(object, "eos_token_id", 0);
  config.pad = detail::config_mark(object, "pad_token_id", 58100);
  config.begin = detail::config_mark(object, "decoder_start_token_id", config.pad);
  detail::check_pretrained(config, object);
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
  json["activation_function"] = detail::activation_name(encoder.activation);
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
  json["torch_dtype"] = detail::torch_name_of(stored);
  return json;
}

}  // namespace attend::io
