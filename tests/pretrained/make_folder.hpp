#pragma once

#include <filesystem>
#include <string>

#include "attend/core/random.hpp"
#include "attend/pretrained.hpp"
#include "attend/pretrained/tokenizer.hpp"

namespace pretrained {

/// What make_tokenizers.py wrote.
inline std::filesystem::path tokenizers() {
  return std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "pretrained" / "tokenizers";
}

/// Writes a folder with a random model of a family and one of the tokenizers of tokenizers/. `more`: of its config.json;
/// `generation`: its generation_config.json.
inline void make(const std::filesystem::path& folder, const char* family, const char* tokenizer, attend::io::Json more = {},
                 const char* generation = R"({"num_beams": 2, "max_length": 9})") {
  using namespace attend;
  const auto text = text::load_pretrained_tokenizer(tokenizers() / tokenizer);
  io::Json json{{"model_type", family}, {"vocab_size", text.size()}, {"d_model", 8}, {"max_position_embeddings", 40}};
  for (const char* key : {"encoder_layers", "decoder_layers", "num_layers"}) json[key] = 1;
  for (const char* key : {"encoder_attention_heads", "decoder_attention_heads", "num_heads", "d_kv"}) json[key] = 2;
  for (const char* key : {"encoder_ffn_dim", "decoder_ffn_dim", "d_ff"}) json[key] = 6;
  json["eos_token_id"] = text.eos(), json["pad_token_id"] = text.pad(), json["decoder_start_token_id"] = text.eos();
  if (!more.is_null()) json.update(more);
  const auto config = io::pretrained_config_from(json, "config.json");
  attend::seed(3);
  const auto search = io::pretrained_search_from(io::parse_json(generation, "g"), "g", config);
  io::save_pretrained(folder, io::PretrainedModel<float>{nn::Transformer<float>(config.model), config, search}, text);
}

/// A generation_config.json that asks for what the default search does not, with a first token.
inline std::string unusual_generation(attend::token_t first) {
  return R"({"num_beams": 3, "length_penalty": 2.0, "early_stopping": true, "max_length": 12, "min_length": 4,
             "no_repeat_ngram_size": 2, "repetition_penalty": 1.1, "bad_words_ids": [[5], [6, 7]], "renormalize_logits": true,
             "forced_eos_token_id": 2, "forced_bos_token_id": )" +
         std::to_string(first) + "}";
}

}  // namespace pretrained
