#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/io/model.hpp"
#include "attend/marian.hpp"
#include "attend/marian/tokenizer.hpp"
#include "attend/pretrained.hpp"
#include "attend/pretrained/tokenizer.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/train/run_folder.hpp"
#include "attend/translate/search_file.hpp"
#include "attend/translation_model.hpp"

namespace attend {

/// The `model_type` of a folder of the `transformers` library; empty if it is none. Throws FormatError if it is that of a family
/// which this library does not read, or `config.json` is damaged.
inline std::string pretrained_family(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return {};
  const io::FolderReader reader(folder);
  if (!reader.contains("config.json")) return {};
  const auto path = reader.file("config.json");
  const io::Json json = io::read_json(path);
  const io::JsonObject object(json, path.string());
  if (!object.contains("model_type") || object.contains("format")) return {};
  const std::string family = io::model_type(json);
  std::string known;
  for (const char* name : io::pretrained_families) {
    if (family == name) return family;
    known += std::string(name) + ", ";
  }
  throw FormatError(path.string(), ": model_type is ", detail::json_excerpt(json.at("model_type")), ", expected one of ", known,
                    "or a model of this library");
}

/// Whether a folder holds a model of the `transformers` library. Throws as `pretrained_family`.
inline bool is_pretrained_folder(const std::filesystem::path& folder) { return !pretrained_family(folder).empty(); }

namespace detail {

/// The tokenizer of a folder whose targets begin as the configuration says.
inline text::PretrainedTokenizer pretrained_tokenizer(const std::filesystem::path& folder, const io::PretrainedConfig& config) {
  const auto tokenizer = text::load_pretrained_tokenizer(folder);
  if (config.begin >= tokenizer.size())
    throw FormatError("load: ", folder.string(), ": decoder_start_token_id is ", config.begin, ", outside the tokenizer's ",
                      tokenizer.size(), " tokens");
  return tokenizer.with_begin(config.begin);
}

/// Why a tokenizer does not go with a model; empty where it does.
inline std::string tokenizer_faults(const text::PretrainedTokenizer& tokenizer, const io::PretrainedConfig& config) {
  std::vector<std::string> list;
  const index_t rows = config.model.decoder.vocabulary;
  if (const index_t tokens = tokenizer.size(); tokens > rows)
    list.push_back("the tokenizer has " + std::to_string(tokens) + " tokens, config.json says " + std::to_string(rows));
  if (tokenizer.eos() != config.eos)
    list.push_back("the end token is " + std::to_string(tokenizer.eos()) + " in the tokenizer and " + std::to_string(config.eos) +
                   " as eos_token_id of config.json");
  std::string all;
  for (const auto& fault : list) all += (all.empty() ? "" : "; ") + fault;
  return all;
}

}  // namespace detail

/// The tokenizer of a model folder, of whichever kind: `tokenizer.model`, the files of a Marian tokenizer, or those of another
/// one of the `transformers` library (see `text::load_pretrained_tokenizer`). Throws IoError if the folder has none, FormatError
/// if it is damaged.
inline text::AnyTokenizer load_tokenizer(const std::filesystem::path& folder) {
  if (const auto family = pretrained_family(folder); !family.empty() && family != "marian")
    return detail::pretrained_tokenizer(folder, detail::PretrainedFolder(folder).config());
  const io::FolderReader reader(folder);
  if (!reader.contains(text::tokenizer_file) && text::MarianTokenizer::is_in(reader)) return text::MarianTokenizer::load(folder);
  if (!reader.contains(text::tokenizer_file) && reader.contains("tokenizer_config.json"))  // of a model that was trained on
    return text::load_pretrained_tokenizer(reader);
  return io::load_tokenizer<text::SentencePiece>(folder);
}

/// How the model of a folder, of whichever kind, is to be searched: as `load` says, without the weights. Throws IoError,
/// FormatError.
inline decode::TranslatorOptions load_search(const std::filesystem::path& folder) {
  const auto family = pretrained_family(folder);
  if (!family.empty() && family != "marian") return detail::PretrainedFolder(folder).search();
  const io::FolderReader reader(family.empty() ? train::model_folder(folder) : folder);
  const auto path = reader.file("config.json");
  const auto json = io::read_json(path);
  if (family == "marian") return detail::marian_search(reader, io::marian_config_from(json, path.string()));
  return decode::load_search(reader, io::model_options_from(json, path.string()).decoder.vocabulary);
}

/// The tokenizer with which a model is trained on that is searched so: targets begin with the token that every translation is
/// made to begin with, such as BART's `<s>`, unless that is a language, which `with_languages` chooses.
inline text::AnyTokenizer tokenizer_for_training(const text::AnyTokenizer& tokenizer, const decode::TranslatorOptions& search) {
  const auto* pretrained = tokenizer.as<text::PretrainedTokenizer>();
  if (!pretrained || search.first < 0 || tokenizer.forced_begin() >= 0) return tokenizer;
  return pretrained->with_first(search.first);
}

/// Model, tokenizer and search of a folder: one that `io::save` or training wrote, the folder of a training run (its `best/`,
/// else its `last/`), or that of a model of the `transformers` library: Marian (see `io::load_marian`) or another of
/// `io::pretrained_families` (see `io::load_pretrained`). The model is in evaluation mode. Of a folder of this library the search
/// is that of its `search.json`, which a training on from such a model writes, and else the default one.
/// Throws IoError if a file is missing, FormatError if one is not what it should be, or does not go with the others.
template <class T = float, Device D = Cpu>
TranslationModel<T, D> load(const std::filesystem::path& folder) {
  if (const auto family = pretrained_family(folder); family == "marian") {
    return io::load_marian<T, D>(folder);
  } else if (!family.empty()) {
    const detail::PretrainedFolder found(folder);
    auto tokenizer = detail::pretrained_tokenizer(folder, found.config());
    auto loaded = found.load<T, D>(detail::tokenizer_faults(tokenizer, found.config()));
    return {.model = std::move(loaded.model), .tokenizer = std::move(tokenizer), .search = std::move(loaded.search)};
  }
  const auto found = train::model_folder(folder);
  const io::FolderReader reader(found);  // so that model and tokenizer belong together
  auto model = io::load_model<T, D>(found);
  auto search = decode::load_search(reader, model.options.decoder.vocabulary);
  return {.model = std::move(model), .tokenizer = load_tokenizer(found), .search = std::move(search)};
}

}  // namespace attend

#endif  // C++20
