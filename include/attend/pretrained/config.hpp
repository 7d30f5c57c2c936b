#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/types.hpp"
#include "attend/io/config.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/json.hpp"
#include "attend/nn/transformer_options.hpp"

/// `config.json` of an encoder-decoder of the `transformers` library: what its families have in common.
namespace attend::io {

/// What such a file says: architecture and marks. Sources end with `eos`; targets begin with `begin` and end with `eos`.
struct PretrainedConfig {
  nn::ModelOptions model;
  token_t eos = 0, pad = 0;
  token_t begin = 0;              ///< `decoder_start_token_id`; -1: the file leaves it to `generation_config.json`
  token_t bos = -1;               ///< what targets begin with if neither says; -1: none
  std::string family = "marian";  ///< `model_type`
  /// Whether the end is forced where the model has no `generation_config.json`, and `config.json` says nothing of it.
  bool force_end = true;
};

/// The families that a folder of that library may hold, by their `model_type`.
inline constexpr std::array<const char*, 7> pretrained_families{"bart", "m2m_100", "marian", "mbart", "mt5", "t5", "umt5"};

/// The `model_type` of a `config.json`; empty if it has none.
inline std::string model_type(const Json& json) {
  const auto type = json.is_object() ? json.find("model_type") : json.end();
  return type != json.end() && type->is_string() ? type->get<std::string>() : std::string();
}

}  // namespace attend::io

namespace attend::detail {

/// The first name of an activation is the one that is written.
inline constexpr auto activation_names = std::to_array<Named<Activation>>({{Activation::relu, "relu"},
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
/// The activation that a key names; if it is missing, `otherwise`.
inline Activation config_activation(const io::JsonObject& json, const char* key, const char* otherwise) {
  const auto text = json.get<std::string>(key, otherwise);
  std::string expected;
  for (const auto& [value, name] : activation_names) {
    if (text == name) return value;
    expected += (expected.empty() ? "" : ", ") + std::string(name);
  }
  throw FormatError(json.name(), ": ", key, " is \"", printable(text), "\", expected one of ", expected);
}

/// What an activation is called.
inline std::string activation_name(Activation activation) {
  for (const auto& [value, name] : activation_names)
    if (value == activation) return std::string(name);
  throw ValueError("config.json: the activation ", name_of(activation), " has no name there");
}

/// What PyTorch calls a type of numbers.
inline std::string torch_name_of(io::DType stored) {
  return stored == io::DType::f16    ? "float16"
         : stored == io::DType::bf16 ? "bfloat16"
         : stored == io::DType::f64  ? "float64"
                                     : "float32";
}

/// A number of a `transformers` configuration; if it is missing, `otherwise`, that library's default.
inline index_t config_size(const io::JsonObject& json, const char* key, index_t otherwise) {
  if (!json.contains(key)) return otherwise;
  const auto size = json.get<index_t>(key);
  constexpr Bounds bounds = between(0, nn::largest_size);
  if (!bounds.contain(static_cast<double>(size)))
    throw FormatError(json.name(), ": ", key, " is ", size, ", expected ", bounds.text());
  return size;
}

/// The number of a mark; `eos_token_id` may be a list of one.
inline token_t config_mark(const io::JsonObject& json, const char* key, token_t otherwise) {
  if (!json.contains(key)) return otherwise;
  if (!json.json().at(key).is_array()) return json.get<token_t>(key);
  const auto list = json.get<std::vector<token_t>>(key);
  if (list.size() != 1) throw FormatError(json.name(), ": ", key, " has ", list.size(), " tokens, expected one");
  return list.front();
}

/// Throws FormatError if the file is not that of an encoder-decoder with a head, by one of these names of its class.
inline void check_architecture(const io::JsonObject& json, const std::vector<std::string>& classes) {
  const auto architectures = json.get<std::vector<std::string>>("architectures", {classes.front()});
  const auto known = [&](const std::string& name) { return std::find(classes.begin(), classes.end(), name) != classes.end(); };
  if (std::none_of(architectures.begin(), architectures.end(), known))
    throw FormatError(json.name(), ": architectures has no \"", classes.front(), "\", the encoder-decoder that generates text");
  if (!json.get<bool>("is_encoder_decoder", true)) throw FormatError(json.name(), ": is_encoder_decoder is false, expected true");
  if (json.get<bool>("is_decoder", false)) throw FormatError(json.name(), ": is_decoder is true, expected false");
  if (json.contains("quantization_config") && !json.json().at("quantization_config").empty())
    throw FormatError(json.name(), ": quantization_config is ", json_excerpt(json.json().at("quantization_config")),
                      ", and weights that another library has quantized are not read");
  if (json.get<bool>("tie_encoder_decoder", false))
    throw FormatError(json.name(), ": tie_encoder_decoder is true, and encoder and decoder never share their layers here");
}

/// Throws FormatError if the model cannot be built, or a mark is no token of it.
inline void check_pretrained(const io::PretrainedConfig& config, const io::JsonObject& json) {
  const nn::StackOptions &encoder = config.model.encoder, &decoder = config.model.decoder;
  const auto check = [&](const char* key, token_t token, token_t least) {
    if (token < least || token >= decoder.vocabulary)
      throw FormatError(json.name(), ": ", key, " is ", token, ", outside the vocabulary of ", decoder.vocabulary);
  };
  check("eos_token_id", config.eos, 0);
  check("pad_token_id", config.pad, 0);
  check("decoder_start_token_id", config.begin, json.contains("decoder_start_token_id") ? 0 : -1);
  check("bos_token_id", config.bos, config.family == "marian" ? -1 : 0);  // which has none
  try {
    nn::check(config.model);
  } catch (const ValueError& e) {
    throw FormatError(json.name(), ": ", e.what());
  }
  for (const auto* stack : {&encoder, &decoder})
    if (stack->d_k == 0 && stack->d_model % stack->heads != 0)
      throw FormatError(json.name(), ": d_model is ", stack->d_model, ", no multiple of ", stack->heads, " heads");
}

}  // namespace attend::detail
