#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "attend/pretrained/config.hpp"
#include "attend/pretrained/weights.hpp"

/// T5 (1.0, 1.1, Flan-T5), mT5 and umT5: what their `config.json` says, and what they call their tensors.
///
/// Root mean square norms before each sublayer and at the end, no biases, scores that are not scaled, relative positions in
/// buckets: a table of the first layer that all layers of a stack share, in umT5 one for each layer.
namespace attend::detail {

/// The longest sentence. These models have no limit of their own; far longer ones are of no use to them.
inline constexpr index_t t5_longest = 1 << 14;

/// Whether a `model_type` is T5 or one of its descendants.
inline bool is_t5_family(const std::string& name) { return name == "t5" || name == "mt5" || name == "umt5"; }
/// What the names of its classes begin with.
inline std::string t5_classes(const std::string& family) { return family == "t5" ? "T5" : family == "mt5" ? "MT5" : "UMT5"; }

/// Reads the activation of the feed-forward: `relu`, or with a gate `gated-gelu`. Throws FormatError where
/// other keys of the file disagree.
inline void read_t5_activation(const io::JsonObject& json, const char* otherwise, nn::StackOptions& stack) {
  auto text = json.get<std::string>("feed_forward_proj", otherwise);
  const std::string gate = "gated-";
  stack.gated = text.starts_with(gate);
  if (stack.gated) text.erase(0, gate.size());
  if (stack.gated && text == "gelu") text = "gelu_new";  // that of T5 1.1
  const io::Json one{{"feed_forward_proj", text}};
  stack.activation = config_activation(io::JsonObject(one, json.name()), "feed_forward_proj", "");
  if (config_activation(json, "dense_act_fn", text.c_str()) != stack.activation)
    throw FormatError(json.name(), ": dense_act_fn is not the activation of feed_forward_proj, ", text);
  if (json.get<bool>("is_gated_act", stack.gated) != stack.gated)
    throw FormatError(json.name(), ": is_gated_act is not what feed_forward_proj says");
}

/// Reads the `config.json` of such a model. Keys that are missing have the defaults of `transformers`. Ignored: what concerns the
/// beginning of its training alone (`initializer_factor`), and `n_positions`, which limits nothing. The head is tied to the
/// embedding unless the file of weights has another: see load_t5. Throws FormatError if something makes no sense.
inline io::PretrainedConfig t5_config(const io::JsonObject& json, const std::string& family) {
  const std::string classes = t5_classes(family);
  check_architecture(json, {classes + "ForConditionalGeneration", classes + "Model"});
  const auto size = [&](const char* key, index_t otherwise) { return config_size(json, key, otherwise); };
  const bool first = family == "t5";

  nn::StackOptions stack{.vocabulary = size("vocab_size", first ? 32128 : 250112),
                         .d_model = size("d_model", size("hidden_size", 512)),
                         .heads = size("num_heads", size("num_attention_heads", first ? 8 : 6)),
                         .d_k = size("d_kv", size("head_dim", 64)),
                         .d_ff = size("d_ff", first ? 2048 : 1024),
                         .layers = size("num_layers", size("num_hidden_layers", first ? 6 : 8))};
  read_t5_activation(json, first ? "relu" : "gated-gelu", stack);
  if (stack.d_k == 0) throw FormatError(json.name(), ": d_kv is 0, expected 1 or more");
  stack.norm_order = nn::NormOrder::pre;
  stack.norm = {.kind = NormKind::rms, .eps = json.get<double>("layer_norm_epsilon", 1e-6), .bias = false};
  stack.final_norm = true;
  stack.bias = stack.attention_bias = false;
  stack.attention_scale = 1;
  stack.scale_embedding = false;
  stack.positions = family == "umt5" ? nn::PositionKind::relative_each : nn::PositionKind::relative;
  stack.max_length = t5_longest;
  stack.position.buckets = size("relative_attention_num_buckets", 32);
  stack.position.max_distance = size("relative_attention_max_distance", 128);
  auto& dropout = stack.dropout;
  dropout.embedding = dropout.attention = dropout.activation = dropout.residual = dropout.output =
      json.get<double>("dropout_rate", 0.1);

  // T5 and umT5 scale what goes to the head unless the file says that head and embedding differ, whether or not they do.
  const bool scale = family != "mt5" && json.get<bool>("scale_decoder_outputs", json.get<bool>("tie_word_embeddings", true));
  io::PretrainedConfig config{.model = {.encoder = stack,
                                        .decoder = stack,
                                        .share_embeddings = true,
                                        .tie_head = true,
                                        .scale_head = scale,
                                        .head_bias = false},
                              .family = family,
                              .force_end = false};
  config.model.decoder.layers = size("num_decoder_layers", stack.layers);
  config.eos = config_mark(json, "eos_token_id", 1);
  config.pad = config_mark(json, "pad_token_id", 0);
  config.bos = config_mark(json, "bos_token_id", config.pad);
  config.begin = config_mark(json, "decoder_start_token_id", first ? -1 : 0);
  check_pretrained(config, json);
  return config;
}

/// What a file of these families calls a parameter of a Transformer, the likeliest name first: `encoder.layers.2.fc2.weight` is
/// `encoder.block.2.layer.1.DenseReluDense.wo.weight`.
inline std::vector<std::string> t5_names(const std::string& name, const nn::ModelOptions& o) {
  if (name == "lm_head.weight") return {name};
  if (name.ends_with("embed_tokens.weight")) {
    std::vector<std::string> list{"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
    if (o.tie_head) list.emplace_back("lm_head.weight");
    return list;
  }
  const std::string layers = ".layers.";
  const std::string stack = name.substr(0, name.find('.'));
  if (name == stack + ".layer_norm.weight") return {stack + ".final_layer_norm.weight"};
  const std::size_t number = name.find(layers);
  if (number == name.npos) return {name};
  const std::size_t begin = number + layers.size(), end = name.find('.', begin);
  const std::string block = stack + ".block." + name.substr(begin, end - begin) + ".layer.", part = name.substr(end + 1);
  const std::string feed_forward = block + (stack == "decoder" ? "2." : "1.");
  const bool gated = (stack == "decoder" ? o.decoder : o.encoder).gated;
  const std::array<std::pair<const char*, std::string>, 14> parts{
      {{"self_attn.q_proj.", block + "0.SelfAttention.q."},
       {"self_attn.k_proj.", block + "0.SelfAttention.k."},
       {"self_attn.v_proj.", block + "0.SelfAttention.v."},
       {"self_attn.out_proj.", block + "0.SelfAttention.o."},
       {"self_attn.relative_attention_bias.", block + "0.SelfAttention.relative_attention_bias."},
       {"self_attn_layer_norm.", block + "0.layer_norm."},
       {"encoder_attn.q_proj.", block + "1.EncDecAttention.q."},
       {"encoder_attn.k_proj.", block + "1.EncDecAttention.k."},
       {"encoder_attn.v_proj.", block + "1.EncDecAttention.v."},
       {"encoder_attn.out_proj.", block + "1.EncDecAttention.o."},
       {"encoder_attn_layer_norm.", block + "1.layer_norm."},
       {"gate_proj.", feed_forward + "DenseReluDense.wi_0."},
       {"fc1.", feed_forward + (gated ? "DenseReluDense.wi_1." : "DenseReluDense.wi.")},
       {"fc2.", feed_forward + "DenseReluDense.wo."}}};
  for (const auto& [ours, theirs] : parts)
    if (part.starts_with(ours)) return {theirs + part.substr(std::string(ours).size())};
  if (part == "final_layer_norm.weight") return {feed_forward + "layer_norm.weight"};
  return {name};
}

/// Whether a file of weights has a head that is not the embedding. `transformers` takes it then, whatever `config.json` says.
template <io::TensorSource File>
bool has_own_head(const File& file) {
  if (!file.contains("lm_head.weight")) return false;
  for (const char* embedding : {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    if (file.contains(embedding)) return !same_weights(file, embedding, "lm_head.weight");
  return false;
}

/// Gives a model of these families its weights, see WeightsReader::load.
template <class T, Device D, io::TensorSource File>
void load_t5(const nn::Transformer<T, D>& model, const File& file, const std::string& faults) {
  WeightsReader<T, File> weights(file);
  // Files of the first releases have it; nothing reads it.
  weights.use("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
  weights.load(model, faults, [&](const std::string& name, const Shape& shape) {
    return weights.find(t5_names(name, model.options), shape, true);
  });
}

}  // namespace attend::detail
