#pragma once

#include <array>
#include <string_view>

namespace attend::io {

/// The weights of a model folder.
inline constexpr const char* weights_file = "model.safetensors";

/// All that a model folder may have besides the weights, and that its weights depend on: how the model is built, and its
/// tokenizer. The last three are Hugging Face's.
inline constexpr std::array<std::string_view, 9> settings_files = {"config.json",
                                                                   "tokenizer.model",
                                                                   "source.spm",
                                                                   "target.spm",
                                                                   "vocab.json",
                                                                   "target_vocab.json",
                                                                   "generation_config.json",
                                                                   "tokenizer_config.json",
                                                                   "special_tokens_map.json"};

}  // namespace attend::io
