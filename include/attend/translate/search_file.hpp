#pragma once

#include <filesystem>
#include <string>

#include "attend/core/error.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/json.hpp"
#include "attend/io/model_files.hpp"
#include "attend/io/options_json.hpp"
#include "attend/translate/translator_options.hpp"

/// `search.json` in a model folder of this library: how its makers would have it searched.
namespace attend::decode {

/// The highest version of `search.json` that this library reads.
inline constexpr index_t search_version = 1;

/// The fields of TranslatorOptions as the file has them: not its functions, and not what is no matter of the model, such as
/// `trace` and `precision`.
inline io::Json search_to_json(const TranslatorOptions& search) {
  io::Json json = io::options_to_json(search);
  json["format"] = "attend search";
  json["version"] = io::version_of(search);
  return json;
}

/// The search that a `search.json` holds, of a model with so many tokens for targets; `name` is what messages call it. Throws
/// FormatError if a key is missing, of another type or out of range, or options do not go together.
inline TranslatorOptions search_from(const io::Json& json, const std::string& name, index_t vocabulary) {
  const io::JsonObject object(json, name);
  const auto format = object.get<std::string>("format");
  if (format != "attend search")
    throw FormatError(name, ": format is \"", attend::detail::printable(format), "\", expected \"attend search\"");
  const auto version = object.get<index_t>("version");
  if (version < 1 || version > search_version)
    throw FormatError(name, ": version is ", version, ", this library reads versions 1 to ", search_version);
  auto search = io::options_from_json<TranslatorOptions>(object);
  // Beyond any use: a damaged number must not ask for gigabytes.
  constexpr index_t most_beams = 4096, most = index_t{1} << 28;
  const auto limit = [&](const char* key, index_t value, index_t largest) {
    if (value > largest) throw FormatError(name, ": ", key, " is ", value, ", expected at most ", largest);
  };
  limit("beam", search.beam, most_beams), limit("n_best", search.n_best, most_beams);
  limit("min_length", search.min_length, most), limit("max_length", search.max_length, most);
  limit("no_repeat_ngram", search.no_repeat_ngram, most), limit("batch_sentences", search.batch_sentences, most);
  const auto check_token = [&](const char* key, token_t token) {
    if (token < 0 || token >= vocabulary)
      throw FormatError(name, ": ", key, " has the token ", token, ", outside the vocabulary of ", vocabulary);
  };
  if (search.first != -1) check_token("first", search.first);
  for (const token_t token : search.end_tokens) check_token("end_tokens", token);
  for (const token_t token : search.suppressed) check_token("suppressed", token);
  for (const auto& sequence : search.banned) {
    if (sequence.empty()) throw FormatError(name, ": banned has an empty list");
    for (const token_t token : sequence) check_token("banned", token);
  }
  try {
    detail::check_translator(search);
  } catch (const ValueError& e) {
    throw FormatError(name, ": ", e.what());
  }
  return search;
}

/// Writes `search.json` into a folder, or none for the default search, which a folder without one has. Throws IoError, ValueError
/// for options that no search takes.
inline void save_search(const std::filesystem::path& folder, const TranslatorOptions& search) {
  detail::check_translator(search);
  const io::Json json = search_to_json(search);
  if (json != search_to_json({})) io::write_json(folder / io::search_file, json);
}

/// How the model of a folder, with so many tokens for targets, is to be searched: the default if the folder does not say it.
/// Throws as `search_from`, IoError.
inline TranslatorOptions load_search(const io::FolderReader& folder, index_t vocabulary) {
  if (!folder.contains(io::search_file)) return {};
  const auto path = folder.file(io::search_file);
  return search_from(io::read_json(path), path.string(), vocabulary);
}

}  // namespace attend::decode
