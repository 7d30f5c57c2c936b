#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/json.hpp"
#include "attend/pretrained/added_tokens.hpp"
#include "attend/pretrained/language_codes.hpp"

/// What the files beside a tokenizer's vocabulary say: `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`,
/// and of `config.json` the kind of model.

namespace attend::text {

/// The families of tokenizers that are read from SentencePiece models or from `vocab.json` and `merges.txt`.
enum class TokenizerFamily {
  nllb,     ///< NLLB-200: `eng_Latn`
  mbart,    ///< mBART of 25 languages: `en_XX` after the end mark
  mbart50,  ///< mBART-50: `en_XX` first
  m2m100,   ///< M2M-100 and WMT21: `__en__`
  t5,       ///< T5, mT5, umT5, MADLAD-400, which takes `<2en>` with the text
  bart,     ///< BART, RoBERTa: bytes
  other,    ///< what `tokenizer.json` says, and nothing else
};

}  // namespace attend::text

namespace attend::detail {

/// The classes of tokenizers that are read. Of a family the first is the one that is written where none is named.
inline constexpr auto tokenizer_classes =
    std::to_array<std::pair<text::TokenizerFamily, std::string_view>>({{text::TokenizerFamily::nllb, "NllbTokenizer"},
                                                                       {text::TokenizerFamily::mbart, "MBartTokenizer"},
                                                                       {text::TokenizerFamily::mbart50, "MBart50Tokenizer"},
                                                                       {text::TokenizerFamily::m2m100, "M2M100Tokenizer"},
                                                                       {text::TokenizerFamily::t5, "T5Tokenizer"},
                                                                       {text::TokenizerFamily::t5, "MT5Tokenizer"},
                                                                       {text::TokenizerFamily::bart, "BartTokenizer"},
                                                                       {text::TokenizerFamily::bart, "RobertaTokenizer"},
                                                                       {text::TokenizerFamily::bart, "LEDTokenizer"},
                                                                       {text::TokenizerFamily::other, "PreTrainedTokenizer"},
                                                                       {text::TokenizerFamily::other, "TokenizersBackend"}});

/// The settings of a folder.
class TokenizerSettings {
 public:
  /// Throws FormatError if a file is not what it should be, or asks for what no tokenizer here does.
  explicit TokenizerSettings(const io::FolderReader& folder) : folder_(folder.path().string()) {
    for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"})  // the second overrides the first
      if (folder.contains(name)) files_.emplace_back(folder.file(name).string(), io::read_json(folder.file(name)));
    for (const auto& [name, json] : files_) {
      const io::JsonObject object(json, name);
      if (object.contains("sp_model_kwargs") && object.object("sp_model_kwargs").get<bool>("enable_sampling", false))
        throw FormatError(name, ": sp_model_kwargs.enable_sampling is true, and pieces are never drawn at random here");
      if (object.get<bool>("split_special_tokens", false))
        throw FormatError(name, ": split_special_tokens is true, and marks in a text are always taken for marks here");
    }
    read_added(folder);
    read_class(folder);
  }

  /// `NllbTokenizer`; if nothing says it, one of the family.
  [[nodiscard]] std::string class_name(text::TokenizerFamily family) const {
    if (!class_name_.empty()) return class_name_;
    const auto is_of_it = [&](const auto& named) { return named.first == family; };
    return std::string(std::find_if(tokenizer_classes.begin(), tokenizer_classes.end(), is_of_it)->second);
  }
  [[nodiscard]] const std::string& model_type() const { return model_type_; }
  [[nodiscard]] text::TokenizerFamily family(bool has_vocabulary) const {
    using Family = text::TokenizerFamily;
    for (const auto& [family, name] : tokenizer_classes)
      if (class_name_ == name) return family;
    if (!class_name_.empty())
      throw FormatError("load: ", folder_, ": the tokenizer's class is ", printable(class_name_),
                        ", which is none of those that can be read");
    if (model_type_ == "m2m_100") return has_vocabulary ? Family::m2m100 : Family::nllb;
    constexpr std::array<std::pair<std::string_view, Family>, 8> models{{{"nllb-moe", Family::nllb},
                                                                         {"mbart", Family::mbart},
                                                                         {"t5", Family::t5},
                                                                         {"mt5", Family::t5},
                                                                         {"umt5", Family::t5},
                                                                         {"bart", Family::bart},
                                                                         {"led", Family::bart},
                                                                         {"longt5", Family::t5}}};
    for (const auto& [name, family] : models)
      if (model_type_ == name) return family;
    return Family::other;
  }

  template <class T>
  [[nodiscard]] T get(const char* key, T fallback) const {
    for (auto file = files_.rbegin(); file != files_.rend(); ++file)
      if (const io::JsonObject object(file->second, file->first); object.contains(key)) return object.get<T>(key);
    return fallback;
  }
  /// A mark: a string, or an object with its content. Empty if the files have it as null or not at all, and `fallback` is so.
  [[nodiscard]] std::string mark(const char* key, const std::string& fallback) const {
    for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
      const io::JsonObject object(file->second, file->first);
      if (object.contains(key))
        return object.json().at(key).is_object() ? object.object(key).get<std::string>("content") : object.get<std::string>(key);
    }
    return fallback;
  }
  /// The tokens that the files list as marks beside the usual ones.
  [[nodiscard]] std::vector<std::string> more_marks() const {
    std::vector<std::string> list;
    for (const auto& [name, json] : files_)
      for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
        const auto found = json.find(key);
        if (found == json.end() || !found->is_array()) continue;
        for (const auto& item : *found) {
          if (item.is_string()) list.push_back(item.get<std::string>());
          else if (item.is_object()) list.push_back(io::JsonObject(item, name).get<std::string>("content"));
        }
      }
    return list;
  }
  /// The tokens that `tokenizer_config.json` (`added_tokens_decoder`) or else `added_tokens.json` lists.
  [[nodiscard]] const std::vector<text::AddedToken>& added() const { return added_; }
  /// Whether these are all that there are. `added_tokens.json` has those alone that were added to the family's own.
  [[nodiscard]] bool lists_all_added() const { return lists_all_added_; }

 private:
  void read_added(const io::FolderReader& folder) {
    for (const auto& [name, json] : files_) {
      const io::JsonObject object(json, name);
      if (!object.contains("added_tokens_decoder")) continue;
      const io::JsonObject list = object.object("added_tokens_decoder");
      for (const auto& item : list.json().items()) {
        text::AddedToken token = added_token(list.object(item.key()));
        token.token = number_of(name, item.key());
        added_.push_back(std::move(token));
      }
    }
    lists_all_added_ = !added_.empty();
    if (lists_all_added_ || !folder.contains("added_tokens.json")) return;
    const auto path = folder.file("added_tokens.json");
    const io::Json json = io::read_json(path);
    const io::JsonObject object(json, path.string());
    const std::vector<std::string> marks = more_marks();
    for (const auto& item : json.items())
      added_.push_back({.content = item.key(),
                        .token = object.get<token_t>(item.key()),
                        .special = std::find(marks.begin(), marks.end(), item.key()) != marks.end()});
  }

  static token_t number_of(const std::string& name, const std::string& key) {
    const bool digits =
        !key.empty() && key.size() < 9 && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits)
      throw FormatError(name, ": added_tokens_decoder has the key '", printable(key), "', expected the number of a token");
    return static_cast<token_t>(std::stol(key));
  }

  void read_class(const io::FolderReader& folder) {
    class_name_ = get<std::string>("tokenizer_class", "");
    if (folder.contains("config.json")) {
      const auto path = folder.file("config.json");
      const io::Json json = io::read_json(path);
      const io::JsonObject object(json, path.string());
      model_type_ = object.get<std::string>("model_type", "");
      if (class_name_.empty()) class_name_ = object.get<std::string>("tokenizer_class", "");
    }
    constexpr std::string_view fast = "Fast";
    if (class_name_.ends_with(fast)) class_name_.resize(class_name_.size() - fast.size());
  }

 public:
  /// One added token, but for its number. Throws FormatError for what is not supported.
  static text::AddedToken added_token(const io::JsonObject& json) {
    text::AddedToken token{.content = json.get<std::string>("content"),
                           .special = json.get<bool>("special", false),
                           .lstrip = json.get<bool>("lstrip", false),
                           .rstrip = json.get<bool>("rstrip", false),
                           .normalized = json.get<bool>("normalized", false)};
    if (token.content.empty()) throw FormatError(json.name(), ": has an added token without content");
    if (json.get<bool>("single_word", false))
      throw FormatError(json.name(), ": the added token '", printable(token.content),
                        "' is to be found between words alone (single_word), which is not supported");
    return token;
  }

 private:
  std::string folder_, class_name_, model_type_;
  std::vector<std::pair<std::string, io::Json>> files_;
  std::vector<text::AddedToken> added_;
  bool lists_all_added_ = false;
};

/// The name of the language whose token looks like that in a family; empty if it is no such token.
inline std::string language_of(text::TokenizerFamily family, std::string_view content) {
  using Family = text::TokenizerFamily;
  const auto is = [](std::string_view text, std::string_view pattern) {  // a: a small letter, A: a capital
    if (text.size() != pattern.size()) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool small = text[i] >= 'a' && text[i] <= 'z', capital = text[i] >= 'A' && text[i] <= 'Z';
      if (pattern[i] == 'a' ? !small : pattern[i] == 'A' ? !capital : text[i] != pattern[i]) return false;
    }
    return true;
  };
  if (family == Family::nllb && is(content, "aaa_Aaaa")) return std::string(content);
  if ((family == Family::mbart || family == Family::mbart50) && is(content, "aa_AA")) return std::string(content);
  if (family == Family::m2m100 && content.size() > 4 && content.starts_with("__") && content.ends_with("__"))
    return std::string(content.substr(2, content.size() - 4));
  return {};
}

}  // namespace attend::detail
