#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "attend/pretrained/config.hpp"
#include "attend/pretrained/weights.hpp"

/// BART, mBART and mBART-50, M2M-100 and NLLB-200: what their `config.json` says, and what they call their tensors.
///
/// BART norms after each sublayer; mBART and M2M-100 before, with a norm at the end. BART and mBART have learned positions from
/// row 2 on, a norm on what embedding and position give, and a bias of the logits. M2M-100 has sinusoids, all sines first, of the
/// angles pos / 10000^(i / (width / 2 - 1)), for pos from pad_token_id + 1 on.
namespace attend::detail {

/// How the families differ, and the defaults of `transformers`.
struct BartFamily {
  const char* name;     ///< `model_type`
  const char* classes;  ///< what the names of its classes begin with
  bool pre_norm, sinusoids;
  bool scale_embedding, force_end;
  const char* activation;
  double attention_dropout;
};
/// All of them.
inline constexpr std::array<BartFamily, 3> bart_families{{{"bart", "Bart", false, false, false, true, "gelu", 0},
                                                          {"mbart", "MBart", true, false, false, true, "gelu", 0},
                                                          {"m2m_100", "M2M100", true, true, true, false, "relu", 0.1}}};

/// The family of that name; null if it is none of these.
inline const BartFamily* bart_family(const std::string& name) {
  for (const auto& family : bart_families)
    if (name == family.name) return &family;
  return nullptr;
}

/// Throws FormatError for what files of earlier releases of `transformers` may say, and what this family is not.
inline void check_bart_layout(const io::JsonObject& json, const BartFamily& family) {
  const auto expect = [&](const char* key, bool value) {
    if (json.get<bool>(key, value) != value)
      throw FormatError(json.name(), ": ", key, " is ", (value ? "false" : "true"), ", expected ", (value ? "true" : "false"),
                        " in a model of the family ", family.name);
  };
  expect("normalize_before", family.pre_norm);
  expect("add_final_layer_norm", family.pre_norm);
  if (family.sinusoids) return;
  expect("normalize_embedding", true);
  expect("static_position_embeddings", false);
}

/// Reads the `config.json` of such a model. Keys that are missing have the defaults of `transformers`. What concerns its training
/// alone (`encoder_layerdrop`, `init_std`) is ignored. Throws FormatError if something in the file makes no sense.
inline io::PretrainedConfig bart_config(const io::JsonObject& json, const BartFamily& family) {
  const std::string classes = family.classes;
  check_architecture(json, {classes + "ForConditionalGeneration", classes + "Model"});
  check_bart_layout(json, family);
  const auto size = [&](const char* key, index_t otherwise) { return config_size(json, key, otherwise); };

  nn::StackOptions stack{.vocabulary = size("vocab_size", family.sinusoids ? 128112 : 50265),
                         .d_model = size("d_model", size("hidden_size", 1024))};
  stack.activation = config_activation(json, "activation_function", family.activation);
  stack.norm_order = family.pre_norm ? nn::NormOrder::pre : nn::NormOrder::post;
  stack.final_norm = family.pre_norm;
  stack.norm_embedding = !family.sinusoids;
  stack.scale_embedding = json.get<bool>("scale_embedding", family.scale_embedding);
  stack.max_length = size("max_position_embeddings", 1024);
  stack.dropout.embedding = stack.dropout.residual = json.get<double>("dropout", 0.1);
  stack.dropout.attention = json.get<double>("attention_dropout", family.attention_dropout);
  stack.dropout.activation = json.get<double>("activation_dropout", 0);

  io::PretrainedConfig config{.model = {}, .family = family.name, .force_end = family.force_end};
  config.eos = config_mark(json, "eos_token_id", 2);
  config.pad = config_mark(json, "pad_token_id", 1);
  config.bos = config_mark(json, "bos_token_id", 0);
  config.begin = config_mark(json, "decoder_start_token_id", std::string(family.name) == "mbart" ? -1 : 2);

  stack.positions = family.sinusoids ? nn::PositionKind::sinusoidal_halves : nn::PositionKind::learned;
  stack.position.offset = 2;
  if (family.sinusoids) {
    if (stack.d_model % 2 != 0 || stack.d_model < 4)
      throw FormatError(json.name(), ": d_model is ", stack.d_model, ", expected an even number from 4 on");
    const double half = static_cast<double>(stack.d_model) / 2;
    stack.position_base = std::pow(10000.0, half / (half - 1));  // whose power 2 i / d_model is 10000^(i / (half - 1))
    stack.position.offset = config.pad + 1;
  }

  // Without `tie_word_embeddings` nothing is shared: files then hold every embedding, or one for both sides and the head's.
  const bool tie = json.get<bool>("tie_word_embeddings", true);
  config.model = {.encoder = stack, .decoder = stack, .share_embeddings = tie, .tie_head = tie, .head_bias = !family.sinusoids};
  nn::StackOptions &encoder = config.model.encoder, &decoder = config.model.decoder;
  encoder.layers = size("encoder_layers", size("num_hidden_layers", 12)), decoder.layers = size("decoder_layers", 12);
  encoder.heads = size("encoder_attention_heads", size("num_attention_heads", 16));
  decoder.heads = size("decoder_attention_heads", 16);
  encoder.d_ff = size("encoder_ffn_dim", 4096), decoder.d_ff = size("decoder_ffn_dim", 4096);
  check_pretrained(config, json);
  return config;
}

/// What a file of these families, or of Marian, calls a parameter of a Transformer, the likeliest name first. `prefix`: what a
/// model's names begin with; that of a model without a head, none.
inline std::vector<std::string> bart_names(const std::string& name, const nn::ModelOptions& o,
                                           const std::string& prefix = "model.") {
  if (name == "lm_head.weight") return {name};
  std::vector<std::string> list{prefix + name};
  const bool encoder = name == "encoder.embed_tokens.weight", decoder = name == "decoder.embed_tokens.weight";
  if (!encoder && !decoder) return list;
  if (o.share_embeddings)
    list = {prefix + "shared.weight", prefix + "encoder.embed_tokens.weight", prefix + "decoder.embed_tokens.weight"};
  else list.push_back(prefix + "shared.weight");
  if (o.tie_head && (decoder || o.share_embeddings)) list.emplace_back("lm_head.weight");
  return list;
}

/// The tensor of a file that has the values of a parameter, by these names; nothing if there is none that fits.
template <class T, io::TensorSource File>
std::optional<std::string> find_bart(WeightsReader<T, File>& weights, const nn::ModelOptions& o, const std::string& name,
                                     const Shape& shape, const std::string& prefix = "model.") {
  if (name == "lm_head.bias") return weights.find_bias(shape);
  return weights.find(bart_names(name, o, prefix), shape, o.tie_head);
}

/// Gives a model of these families its weights, see WeightsReader::load.
template <class T, Device D, io::TensorSource File>
void load_bart(const nn::Transformer<T, D>& model, const File& file, const std::string& faults) {
  WeightsReader<T, File> weights(file);
  const bool bare = file.contains("shared.weight");  // saved without a head
  const std::string prefix = bare ? "" : "model.";
  for (const std::string stack : {"encoder", "decoder"}) {
    if (!model.options.head_bias)
      weights.use(prefix + stack + ".embed_positions.weights");  // M2M-100's sinusoids, which are computed
    weights.use(prefix + stack + ".version");                    // of fairseq's files; nothing reads it
  }
  weights.load(model, faults, [&](const std::string& name, const Shape& shape) {
    return find_bart(weights, model.options, name, shape, prefix);
  });
}

}  // namespace attend::detail
