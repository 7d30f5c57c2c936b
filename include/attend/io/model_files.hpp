#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/tokenizer.hpp"
#include "attend/io/folder.hpp"

namespace attend::io {

/// The weights of a model folder.
inline constexpr const char* weights_file = "model.safetensors";

/// How the model of a folder of this library is to be searched, where that is not the default: see decode::save_search.
inline constexpr const char* search_file = "search.json";

/// All that a model folder may have besides the weights, and that its weights depend on: how the model is built, its tokenizer,
/// and how it is to be searched.
inline constexpr auto settings_files = [] {
  std::array<std::string_view, text::tokenizer_files.size() + 3> all = {"config.json", "generation_config.json", search_file};
  std::copy(text::tokenizer_files.begin(), text::tokenizer_files.end(), all.begin() + 3);
  return all;
}();

/// How to write a folder with a tokenizer: the files of another, if it had one, go.
inline FolderOptions replacing_tokenizer() { return {.remove = {text::tokenizer_files.begin(), text::tokenizer_files.end()}}; }

}  // namespace attend::io
