#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/config.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/tensors.hpp"
#include "attend/pretrained/bart_family.hpp"
#include "attend/pretrained/t5_family.hpp"

/// The way back from `pretrained_model`: `config.json` and `model.safetensors` as `transformers` has them.
namespace attend::detail {

/// The `config.json` of a model, as near as its family comes to it: see pretrained_obstacles.
inline io::Json bart_config_json(const nn::ModelOptions& o, const BartFamily& family) {
  const nn::StackOptions &encoder = o.encoder, &decoder = o.decoder;
  io::Json json;
  json["architectures"] = {std::string(family.classes) + "ForConditionalGeneration"};
  json["vocab_size"] = encoder.vocabulary;
  json["d_model"] = encoder.d_model;
  json["encoder_layers"] = json["num_hidden_layers"] = encoder.layers, json["decoder_layers"] = decoder.layers;
  json["encoder_attention_heads"] = encoder.heads, json["decoder_attention_heads"] = decoder.heads;
  json["encoder_ffn_dim"] = encoder.d_ff, json["decoder_ffn_dim"] = decoder.d_ff;
  json["activation_function"] = activation_name(encoder.activation);
  json["scale_embedding"] = encoder.scale_embedding;
  json["max_position_embeddings"] = encoder.max_length;
  json["dropout"] = encoder.dropout.residual;
  json["attention_dropout"] = encoder.dropout.attention;
  json["activation_dropout"] = encoder.dropout.activation;
  json["encoder_layerdrop"] = json["decoder_layerdrop"] = 0.0;
  if (!family.sinusoids) {  // of earlier releases; CTranslate2 asks for them
    json["normalize_before"] = json["add_final_layer_norm"] = family.pre_norm;
    json["normalize_embedding"] = true, json["static_position_embeddings"] = false;
  }
  json["tie_word_embeddings"] = o.tie_head;
  return json;
}

/// The same of a T5, mT5 or umT5. Release 4 of `transformers` goes by `tie_word_embeddings` alone: it scales and ties.
inline io::Json t5_config_json(const nn::ModelOptions& o, const std::string& family) {
  const nn::StackOptions &encoder = o.encoder, &decoder = o.decoder;
  io::Json json;
  json["architectures"] = {t5_classes(family) + "ForConditionalGeneration"};
  json["vocab_size"] = encoder.vocabulary;
  json["d_model"] = encoder.d_model, json["d_ff"] = encoder.d_ff;
  json["num_heads"] = encoder.heads;
  json["d_kv"] = encoder.d_k ? encoder.d_k : encoder.d_model / encoder.heads;
  json["num_layers"] = encoder.layers, json["num_decoder_layers"] = decoder.layers;
  const std::string activation = activation_name(encoder.activation);
  json["feed_forward_proj"] = !encoder.gated ? activation : activation == "gelu_new" ? "gated-gelu" : "gated-" + activation;
  json["dense_act_fn"] = activation;
  json["is_gated_act"] = encoder.gated;
  json["layer_norm_epsilon"] = encoder.norm.eps;
  json["relative_attention_num_buckets"] = encoder.position.buckets;
  json["relative_attention_max_distance"] = encoder.position.max_distance;
  json["dropout_rate"] = encoder.dropout.residual;
  json["tie_word_embeddings"] = o.tie_head || o.scale_head;
  if (family != "mt5") json["scale_decoder_outputs"] = o.scale_head;
  return json;
}

/// The `config.json` of a model with these marks; `force_end`: of its search.
inline io::Json pretrained_config_json(const nn::ModelOptions& o, const io::PretrainedConfig& marks, bool force_end,
                                       io::DType stored) {
  const auto* bart = bart_family(marks.family);
  io::Json json = bart ? bart_config_json(o, *bart) : t5_config_json(o, marks.family);
  json["model_type"] = marks.family;
  json["is_encoder_decoder"] = true;
  json["eos_token_id"] = marks.eos, json["pad_token_id"] = marks.pad;
  if (marks.begin >= 0) json["decoder_start_token_id"] = marks.begin;
  if (marks.bos >= 0) json["bos_token_id"] = marks.bos;
  if (bart && bart->force_end) json["forced_eos_token_id"] = force_end ? io::Json(marks.eos) : io::Json();
  json["torch_dtype"] = torch_name_of(stored);
  return json;
}

/// The places where two values differ, `encoder.norm.eps is 0.001, expected 1e-05`. Objects leave out what is as usual.
inline void list_differences(const std::string& name, const io::Json& got, const io::Json& expected,
                             std::vector<std::string>& list) {
  const auto below = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
  if (got.is_object() && expected.is_object()) {
    for (const auto& [key, value] : got.items()) list_differences(below(key), value, expected.value(key, io::Json()), list);
    for (const auto& [key, value] : expected.items())
      if (!got.contains(key)) list_differences(below(key), io::Json(), value, list);
  } else if (got != expected) {
    const std::string is = name + " is " + (got.is_null() ? "as usual" : got.dump());
    list.push_back(is + ", expected " + (expected.is_null() ? "what is usual" : expected.dump()));
  }
}

/// Why a model cannot be one of its family; empty where it can. `read`: what comes back from the `config.json` written for it.
/// What only says how a model begins, or what is dropped in training, does not stand in the way.
inline std::vector<std::string> pretrained_obstacles(nn::ModelOptions o, nn::ModelOptions read) {
  const bool t5 =
      read.encoder.positions == nn::PositionKind::relative || read.encoder.positions == nn::PositionKind::relative_each;
  for (const auto& [ours, theirs] : {std::pair{&o.encoder, &read.encoder}, std::pair{&o.decoder, &read.decoder}}) {
    ours->initialisation = theirs->initialisation;
    ours->dropout = theirs->dropout;
    if (ours->d_k == 0) ours->d_k = ours->d_model / std::max<index_t>(ours->heads, 1);
    if (theirs->d_k == 0) theirs->d_k = theirs->d_model / std::max<index_t>(theirs->heads, 1);
    if (ours->d_v == 0) ours->d_v = ours->d_k;
    if (theirs->d_v == 0) theirs->d_v = theirs->d_k;
    if (ours->kv_heads == ours->heads) ours->kv_heads = 0;
    if (ours->d_memory == ours->d_model) ours->d_memory = 0;
    if (!ours->bias) ours->attention_bias = theirs->attention_bias = false;
    if (t5) ours->max_length = theirs->max_length;
  }
  if (t5) read.tie_head = o.tie_head;  // the file of weights says it
  std::vector<std::string> list;
  if (o.adapters.rank > 0) list.emplace_back(adapters_obstacle);
  o.adapters = read.adapters;
  list_differences("", io::to_json(o), io::to_json(read), list);
  std::erase_if(list, [](const std::string& text) { return text.starts_with("version is"); });
  return list;
}

/// Writes a model's tensors by the names of its family.
template <class T, Device D>
void write_pretrained_weights(const std::filesystem::path& path, const nn::Transformer<T, D>& model, bool t5, io::DType stored) {
  io::SafetensorsWriter writer;
  writer.metadata("format", "pt");
  const auto& o = model.options;
  for (const auto& t : nn::state(model)) {
    if (t.name == "lm_head.bias") {
      io::add_tensor(writer, "final_logits_bias", t.value.reshape({1, t.value.dim(0)}), stored);
      continue;
    }
    io::add_tensor(writer, t5 ? t5_names(t.name, o).front() : bart_names(t.name, o).front(), t.value, stored);
    // Nothing reads it where embeddings are apart, and it is missed if it is not there.
    if (!t5 && !o.share_embeddings && t.name == "encoder.embed_tokens.weight")
      io::add_tensor(writer, "model.shared.weight", t.value, stored);
  }
  writer.write(path);
}

}  // namespace attend::detail
