#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include <filesystem>
#include <system_error>

#include "attend/io/model.hpp"
#include "attend/marian.hpp"
#include "attend/marian/tokenizer.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/train/run_folder.hpp"
#include "attend/translation_model.hpp"

namespace attend {

/// The tokenizer of a model folder, of whichever kind: `tokenizer.model`, otherwise the files of a Marian tokenizer. Throws
/// IoError if the folder has none, FormatError if it is damaged.
inline text::AnyTokenizer load_tokenizer(const std::filesystem::path& folder) {
  const io::FolderReader reader(folder);
  if (!reader.contains(text::tokenizer_file) && text::MarianTokenizer::is_in(reader)) return text::MarianTokenizer::load(folder);
  return io::load_tokenizer<text::SentencePiece>(folder);
}

/// Whether a folder holds a Marian model of the `transformers` library. Throws FormatError if it holds another model of that
/// library, or a damaged `config.json`.
inline bool is_marian_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return false;
  const io::FolderReader reader(folder);
  if (!reader.contains("config.json")) return false;
  const auto path = reader.file("config.json");
  const io::Json json = io::read_json(path);
  if (io::is_marian(json)) return true;
  if (const io::JsonObject object(json, path.string()); object.contains("model_type") && !object.contains("format"))
    throw FormatError(path.string(), ": model_type is ", detail::json_excerpt(json.at("model_type")),
                      ", expected \"marian\" or a model of this library");
  return false;
}

/// Model, tokenizer and search of a folder: one that `io::save` or training wrote, the folder of a training run (its `best/`,
/// else its `last/`), or that of a Marian model (see `io::load_marian`). The model is in evaluation mode. A folder of this
/// library says nothing about the search, which is then the default one.
/// Throws IoError if a file is missing, FormatError if one is not what it should be.
template <class T = float, Device D = Cpu>
TranslationModel<T, D> load(const std::filesystem::path& folder) {
  if (is_marian_folder(folder)) return io::load_marian<T, D>(folder);
  const auto found = train::model_folder(folder);
  const io::FolderReader reader(found);  // so that model and tokenizer belong together
  return {.model = io::load_model<T, D>(found), .tokenizer = load_tokenizer(found), .search = {}};
}

}  // namespace attend

#endif  // C++20
