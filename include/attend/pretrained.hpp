#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/folder.hpp"
#include "attend/io/model_files.hpp"
#include "attend/io/weight_files.hpp"
#include "attend/nn/quantized.hpp"
#include "attend/pretrained/bart_family.hpp"
#include "attend/pretrained/export.hpp"
#include "attend/pretrained/search.hpp"
#include "attend/pretrained/t5_family.hpp"
#include "attend/pretrained/weights.hpp"
#include "attend/translation_model.hpp"

/// Encoder-decoders in the folders of the `transformers` library: BART, mBART and mBART-50, M2M-100 and NLLB-200, T5 (1.0, 1.1,
/// Flan-T5), mT5, umT5. Those of Marian are in marian.hpp.
namespace attend::io {

/// Reads the `config.json` of such a model; `name` is what messages call it. Keys that are missing have the defaults of
/// `transformers`. Throws FormatError for another family or architecture, and if something in the file makes no sense.
inline PretrainedConfig pretrained_config_from(const Json& json, const std::string& name) {
  const JsonObject object(json, name);
  const std::string type = model_type(json);
  if (const auto* family = detail::bart_family(type)) return detail::bart_config(object, *family);
  if (detail::is_t5_family(type)) return detail::t5_config(object, type);
  std::string known;
  for (const char* family : pretrained_families)
    if (std::string(family) != "marian") known += (known.empty() ? "" : ", ") + std::string(family);
  throw FormatError(name, ": model_type is \"", detail::printable(type), "\", expected one of ", known);
}

/// Builds the model of such a configuration with the weights of a file; it is in evaluation mode. `faults`, if any, is what else
/// is known to be wrong. Throws FormatError with all that is missing, unexpected or of another shape.
template <class T = float, Device D = Cpu, TensorSource File>
nn::Transformer<T, D> pretrained_model(PretrainedConfig config, const File& file, const std::string& faults = {}) {
  detail::check_memory("config.json", config.model, file);
  const bool t5 = detail::is_t5_family(config.family);
  if (t5) config.model.tie_head = !detail::has_own_head(file);
  auto model = nn::without_initial_values<nn::Transformer<T, D>>(config.model);
  if (t5) detail::load_t5(model, file, faults);
  else detail::load_bart(model, file, faults);
  nn::set_training(model, false);
  return model;
}

/// A model with its marks, and how its makers would have it searched. Its tokenizer is another matter: see attend::load.
template <class T = float, Device D = Cpu>
struct PretrainedModel {
  nn::Transformer<T, D> model;
  PretrainedConfig config;
  decode::TranslatorOptions search;
};

}  // namespace attend::io

namespace attend::detail {

/// The files of a folder that say what the model is and how it is searched.
class PretrainedFolder {
 public:
  explicit PretrainedFolder(const std::filesystem::path& folder) : reader_(folder) {
    const auto path = reader_.file("config.json");
    io::Json json = io::read_json(path);
    config_ = io::pretrained_config_from(json, path.string());
    search_name_ = path.string();
    if (reader_.contains("generation_config.json")) {
      search_name_ = reader_.file("generation_config.json").string();
      json = io::read_json(search_name_);
    }
    settle_begin(json);
    search_ = io::pretrained_search_from(json, search_name_, config_);
    search_.max_length = std::min<index_t>(search_.max_length, config_.model.decoder.max_length - 1);
  }

  [[nodiscard]] const io::PretrainedConfig& config() const { return config_; }
  [[nodiscard]] const decode::TranslatorOptions& search() const { return search_; }
  /// The model, see io::pretrained_model.
  template <class T, Device D>
  [[nodiscard]] io::PretrainedModel<T, D> load(const std::string& faults = {}) const {
    return {.model = io::pretrained_model<T, D>(config_, open_weights(faults), faults), .config = config_, .search = search_};
  }

 private:
  /// The weights; if some of them are missing, `faults` are said too.
  [[nodiscard]] io::WeightFiles open_weights(const std::string& faults) const {
    try {
      return io::WeightFiles::open(reader_);
    } catch (const FormatError& error) {
      if (faults.empty()) throw;
      throw FormatError(error.what(), "; and ", faults);
    }
  }
  /// Where `config.json` does not say what targets begin with, the other file does, or it is `bos_token_id`.
  void settle_begin(const io::Json& json) {
    if (config_.begin >= 0) return;
    config_.begin = config_mark(io::JsonObject(json, search_name_), "decoder_start_token_id", config_.bos);
    if (config_.begin < 0 || config_.begin >= config_.model.decoder.vocabulary)
      throw FormatError(search_name_, ": decoder_start_token_id is ", config_.begin, ", outside the vocabulary of ",
                        config_.model.decoder.vocabulary);
  }

  io::FolderReader reader_;
  io::PretrainedConfig config_;
  decode::TranslatorOptions search_;
  std::string search_name_;
};

/// Writes what `save_pretrained` says; `more(staging)` writes other files.
template <class T, Device D, class More>
void save_pretrained_with(const std::filesystem::path& folder, const io::PretrainedModel<T, D>& m, const io::SaveOptions& options,
                          const io::FolderOptions& writing, More&& more) {
  const bool t5 = is_t5_family(m.config.family);
  check_value(t5 || bart_family(m.config.family), "save_pretrained", "the family is '", printable(m.config.family),
              "', which it does not write");
  nn::check_floats("save_pretrained", m.model);
  check_value(!options.quantized, "save_pretrained", "8-bit integers are for folders of this library; see io::save");
  const io::Json config =
      pretrained_config_json(m.model.options, m.config, m.search.force_end, options.stored.value_or(io::dtype_of<T>()));
  std::vector<std::string> obstacles;
  io::PretrainedConfig read;
  try {
    read = io::pretrained_config_from(config, "config.json");
    obstacles = pretrained_obstacles(m.model.options, read.model);
  } catch (const FormatError& error) {
    obstacles.emplace_back(error.what());
  }
  for (auto& more_of_it : io::pretrained_search_obstacles(m.search)) obstacles.push_back(std::move(more_of_it));
  std::string all;
  for (const auto& obstacle : obstacles) all += (all.empty() ? "" : "; ") + obstacle;
  check_value(obstacles.empty(), "save_pretrained", "this cannot be a model of the family ", m.config.family, ": ", all);
  const auto write = [&](const std::filesystem::path& staging) {
    io::write_json(staging / "config.json", config);
    io::write_json(staging / "generation_config.json", io::to_json(m.search, read, {}));
    write_pretrained_weights(staging / "model.safetensors", m.model, t5, options.stored.value_or(io::dtype_of<T>()));
    if (options.more) options.more(staging);
    more(staging);
  };
  io::write_folder_atomically(folder, write, writing);
}

}  // namespace attend::detail

namespace attend::io {

/// Reads `config.json`, the weights (see `WeightFiles`; converted to `T`) and, from `generation_config.json` or
/// else from `config.json`, how the model is to be searched. The model is in evaluation mode.
///
/// Throws IoError if a file is missing, FormatError if one is not what it should be; all that is missing, unexpected or of the
/// wrong size stands in one message.
template <class T = float, Device D = Cpu>
PretrainedModel<T, D> load_pretrained(const std::filesystem::path& folder) {
  return detail::PretrainedFolder(folder).load<T, D>();
}

/// The configuration in such a folder: architecture, family and marks. Throws IoError, FormatError.
inline PretrainedConfig pretrained_config(const std::filesystem::path& folder) {
  return detail::PretrainedFolder(folder).config();
}

/// Writes, all files or none, a folder that the `transformers` library and `load_pretrained` can open: `config.json`,
/// `generation_config.json`, `model.safetensors`, with numbers stored as `options.stored`. `m.config` says the family and the
/// marks, `m.model.options` all else.
///
/// Throws ValueError with all that the family or a `generation_config.json` cannot express, IoError; the folder is then as it
/// was.
template <class T, Device D>
void save_pretrained(const std::filesystem::path& folder, const PretrainedModel<T, D>& m, const SaveOptions& options = {}) {
  detail::save_pretrained_with(folder, m, options, {}, [](const std::filesystem::path&) {});
}

/// The same with the files of the tokenizer, by `text::save_files`.
template <class T, Device D, class Tokenizer>
requires text::has_files<Tokenizer>
void save_pretrained(const std::filesystem::path& folder, const PretrainedModel<T, D>& m, const Tokenizer& tokenizer,
                     const SaveOptions& options = {}) {
  detail::save_pretrained_with(folder, m, options, replacing_tokenizer(),
                               [&](const std::filesystem::path& staging) { text::save_files(tokenizer, staging); });
}

/// The same for a model that was trained on: `base` is the configuration of the folder with which its training began. What
/// targets begin with, be it a language that was chosen, is the tokenizer's. In `transformers` a source of MADLAD-400 has to say
/// its target's language itself, `<2de> the house`, whatever was chosen here. Throws ValueError also if the tokenizer has other
/// marks than `base`.
///
///     io::save_pretrained("for-transformers", load("tuned"), io::pretrained_config("nllb-200-distilled-600M"));
template <class T, Device D>
void save_pretrained(const std::filesystem::path& folder, const TranslationModel<T, D>& m, PretrainedConfig base,
                     const SaveOptions& options = {}) {
  const auto check = [](const char* mark, token_t tokenizers, token_t bases) {
    check_value(tokenizers < 0 || tokenizers == bases, "save_pretrained", "the tokenizer's ", mark, " token is ", tokenizers,
                ", that of the configuration with which training is to have begun ", bases);
  };
  check("end", m.tokenizer.eos(), base.eos);
  check("padding", m.tokenizer.pad(), base.pad);
  if (m.tokenizer.bos() >= 0) base.begin = m.tokenizer.bos();
  auto search = m.search;
  if (const token_t first = m.tokenizer.forced_begin(); first >= 0) search.first = first;
  save_pretrained(folder, PretrainedModel<T, D>{m.model, std::move(base), std::move(search)}, m.tokenizer, options);
}

}  // namespace attend::io

#endif  // C++20
