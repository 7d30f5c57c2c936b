#pragma once

#include <algorithm>
#include <string>

#include "attend/io/options_json.hpp"
#include "attend/nn/transformer_options.hpp"

/// `config.json`: what a model is built from.
namespace attend::io {

/// The highest version of `config.json` that this library reads.
inline constexpr index_t config_version = 6;

/// The options of a Transformer as `config.json` holds them. The version is the least that reads them rightly: that of the newest
/// option which is not as it would be without a key (`Since`), and 2 for a causal encoder, since in files of version 1 what an
/// encoder says of `causal`, `cross_attentions` and `d_memory` means nothing, because encoders once ignored it. `quantized`: the
/// matrices of the weights are 8-bit integers, which the file says as `"quantized": "int8"` since version 6.
inline Json to_json(const nn::ModelOptions& given, bool quantized = false) {
  const nn::ModelOptions o = nn::resolved(given);
  Json json = options_to_json(o);
  json["format"] = "attend";
  json["version"] = std::max<index_t>({version_of(o), o.encoder.causal == 1 ? 2 : 1, quantized ? 6 : 1});
  if (quantized) json["quantized"] = "int8";
  return json;
}

/// The options that a `config.json` holds; `name` is what messages call it. Throws FormatError if a key is missing, of
/// another type, or the options do not fit together.
inline nn::ModelOptions model_options_from(const Json& json, const std::string& name) {
  const JsonObject object(json, name);
  const auto format = object.get<std::string>("format");
  if (format != "attend") throw FormatError(name, ": format is \"", detail::printable(format), "\", expected \"attend\"");
  const auto version = object.get<index_t>("version");
  if (version < 1 || version > config_version)
    throw FormatError(name, ": version is ", version, ", this library reads versions 1 to ", config_version);
  auto options = options_from_json<nn::ModelOptions>(object);
  if (version == 1) options.encoder.causal = 0, options.encoder.cross_attentions = 0, options.encoder.d_memory = 0;
  try {
    nn::check(options);
  } catch (const ValueError& e) {
    throw FormatError(name, ": ", e.what());
  }
  return options;
}

/// Whether a `config.json` says that the matrices of the weights are 8-bit integers. Throws FormatError if it says something else
/// of that.
inline bool says_quantized(const Json& json, const std::string& name) {
  const JsonObject object(json, name);
  if (!object.contains("quantized")) return false;
  const auto kind = object.get<std::string>("quantized");
  if (kind != "int8") throw FormatError(name, ": quantized is \"", detail::printable(kind), "\", expected \"int8\"");
  return true;
}

}  // namespace attend::io
