#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/standard.hpp"
#include "attend/io/file.hpp"
#include "attend/io/folder.hpp"
#include "attend/pretrained/added_tokens.hpp"
#include "attend/pretrained/language_codes.hpp"
#include "attend/pretrained/piece_table.hpp"
#include "attend/pretrained/pretrained_tokenizer.hpp"
#include "attend/pretrained/sentencepiece_pieces.hpp"
#include "attend/pretrained/tokenizer.hpp"
#include "attend/pretrained/tokenizer_json.hpp"
#include "attend/pretrained/tokenizer_settings.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/text/sentencepiece.hpp"

// How the tokenizer of a folder is put together: part of tokenizer.hpp, and of compiled.cpp where a program has that.

namespace attend::detail {

/// Puts a tokenizer together from a folder.
class PretrainedTokenizerLoader {
 public:
  using Family = text::TokenizerFamily;

  explicit PretrainedTokenizerLoader(const io::FolderReader& folder) : folder_(folder), settings_(folder) {
    family_ = settings_.family(folder.contains("vocab.json") && !folder.contains("merges.txt"));
    // A folder may still have another family's.
    const bool t5 = family_ == Family::t5;
    for (const char* name : t5 ? std::array{"spiece.model", "spm.model", "sentencepiece.bpe.model"}
                               : std::array{"sentencepiece.bpe.model", "spm.model", "spiece.model"})
      if (spm_.empty() && folder.contains(name)) spm_ = name;
  }

  text::PretrainedTokenizer load() {
    try {
      return put_together();
    } catch (const ValueError& error) {  // parts of the files that do not fit one another
      throw FormatError("load: ", folder_.path().string(), ": ", error.what());
    }
  }

 private:
  text::PretrainedTokenizer put_together() {
    parts_.name = settings_.class_name(family_);
    parts_.clean_up = settings_.get<bool>("clean_up_tokenization_spaces", false);
    const bool has_pieces = !spm_.empty() && family_ != Family::other && family_ != Family::bart;
    if (has_pieces) read_sentencepiece();
    else if (family_ == Family::bart && folder_.contains("vocab.json") && folder_.contains("merges.txt")) read_byte_level();
    else if (folder_.contains("tokenizer.json")) read_json();
    else
      throw IoError(
          "read: ", folder_.path().string(),
          " has no tokenizer that can be read, expected sentencepiece.bpe.model or spiece.model (for M2M-100 vocab.json too), "
          "vocab.json and merges.txt of BART, or tokenizer.json");
    add_languages();
    set_frame();
    keep_files();
    auto tokenizer = choose_languages(text::PretrainedTokenizer(std::move(parts_)));
    // What save_files has written besides.
    const auto saved = [&](const char* key) {
      const auto token = settings_.get<token_t>(key, -1);
      if (token >= tokenizer.size())
        throw FormatError("load: ", folder_.path().string(), ": ", key, " is ", token, ", outside the tokenizer's ",
                          tokenizer.size(), " tokens");
      return token;
    };
    if (const token_t begin = saved("decoder_start_token_id"); begin >= 0) tokenizer = tokenizer.with_begin(begin);
    if (const token_t first = saved("forced_bos_token_id"); first >= 0) tokenizer = tokenizer.with_first(first);
    return tokenizer;
  }

  void read_sentencepiece() {
    auto model = text::SentencePiece::load(folder_.file(spm_));
    files_ = {spm_};
    if (family_ == Family::t5) {
      const token_t unk = model.unk();
      const index_t size = model.size();
      mark(parts_.pad, "pad_token", "<pad>", model.token("<pad>") == unk ? -1 : model.token("<pad>"));
      mark(parts_.eos, "eos_token", "</s>", model.token("</s>") == unk ? -1 : model.token("</s>"));
      mark(parts_.unk, "unk_token", "<unk>", unk);
      parts_.model =
          std::make_shared<text::SentencePiecePieces>(std::move(model), text::SentencePiecePieces::Numbers{.unknown = unk});
      if (!settings_.lists_all_added()) {
        const auto extra = settings_.get<index_t>("extra_ids", 100);
        if (extra < 0 || extra > 100'000)
          throw FormatError("load: ", folder_.path().string(), ": extra_ids is ", extra, ", expected 0 to 100000");
        for (index_t i = 0; i < extra; ++i)
          added_.push_back({.content = "<extra_id_" + std::to_string(i) + ">",
                            .token = static_cast<token_t>(size + extra - 1 - i),
                            .special = true,
                            .lstrip = true,
                            .rstrip = true});
      }
    } else if (family_ == Family::m2m100) {
      files_.emplace_back("vocab.json");
      const auto path = folder_.file("vocab.json");
      const io::Json json = io::read_json(path);
      text::PieceTable vocabulary = piece_table(io::JsonObject(json, path.string()));
      mark(parts_.bos, "bos_token", "<s>", vocabulary.token("<s>"));
      mark(parts_.pad, "pad_token", "<pad>", vocabulary.token("<pad>"));
      mark(parts_.eos, "eos_token", "</s>", vocabulary.token("</s>"));
      mark(parts_.unk, "unk_token", "<unk>", vocabulary.token("<unk>"));
      const bool wmt = settings_.get<std::string>("language_codes", "m2m100") == "wmt21";
      auto next = static_cast<token_t>(vocabulary.size());
      for (const auto& name : language_names(wmt ? wmt21_languages : m2m100_languages))
        added_.push_back({.content = "__" + name + "__", .token = next++, .special = true});
      parts_.model = std::make_shared<text::SentencePiecePieces>(std::move(model), std::move(vocabulary), parts_.unk);
    } else {
      mark(parts_.bos, "bos_token", "<s>", 0);
      mark(parts_.pad, "pad_token", "<pad>", 1);
      mark(parts_.eos, "eos_token", "</s>", 2);
      mark(parts_.unk, "unk_token", "<unk>", 3);
      auto next = static_cast<token_t>(model.size() + 1);
      const auto list = family_ == Family::nllb ? nllb_languages : family_ == Family::mbart ? mbart_languages : mbart50_languages;
      if (!settings_.lists_all_added()) {
        for (const auto& name : language_names(list)) added_.push_back({.content = name, .token = next++, .special = true});
        added_.push_back({.content = "<mask>", .token = next, .special = true, .lstrip = true});
      }
      parts_.model = std::make_shared<text::SentencePiecePieces>(
          std::move(model),
          text::SentencePiecePieces::Numbers{.offset = 1, .unknown = parts_.unk, .plain = family_ != Family::mbart50});
    }
    // `normalized` says something of the tokenizers library's own normalization, which a SentencePiece model does not have.
    const std::vector<text::AddedToken> own = std::exchange(added_, settings_.added());
    for (auto& token : added_) token.normalized = false;
    for (const auto& token : own) {
      if (!settings_.lists_all_added()) settle_own(token);
      add_missing(token);
    }
  }

  void read_byte_level() {
    files_ = {"vocab.json", "merges.txt"};
    const auto path = folder_.file("vocab.json");
    const io::Json json = io::read_json(path);
    const auto merges = folder_.file("merges.txt");
    parts_.model = byte_level_pieces(io::JsonObject(json, path.string()), io::read_file(merges), merges.string(),
                                     settings_.get<bool>("add_prefix_space", false));
    added_ = settings_.added();
    mark(parts_.bos, "bos_token", "<s>", parts_.model->token(settings_.mark("bos_token", "<s>")));
    mark(parts_.pad, "pad_token", "<pad>", parts_.model->token(settings_.mark("pad_token", "<pad>")));
    mark(parts_.eos, "eos_token", "</s>", parts_.model->token(settings_.mark("eos_token", "</s>")));
    mark(parts_.unk, "unk_token", "<unk>", parts_.model->token(settings_.mark("unk_token", "<unk>")));
    if (parts_.bos < 0) throw FormatError("load: ", folder_.path().string(), ": the vocabulary has no <s>");
    const std::string mask = settings_.mark("mask_token", "<mask>");
    if (const token_t token = parts_.model->token(mask); token >= 0)
      add_missing({.content = mask, .token = token, .special = true, .lstrip = true});
    parts_.prefix = {parts_.bos}, parts_.suffix = {parts_.eos};
  }

  void read_json() {
    files_ = {"tokenizer.json"};
    const auto path = folder_.file("tokenizer.json");
    TokenizerJson json = read_tokenizer_json(io::read_json(path), path.string());
    parts_.model = std::move(json.model);
    parts_.prefix = std::move(json.prefix), parts_.suffix = std::move(json.suffix);
    added_ = std::move(json.added);
    for (auto token : settings_.added()) {
      token.normalized = false;  // else it would have had to be there when the model was made
      add_missing(std::move(token));
    }
    const auto number_of = [&](const char* key) {
      const std::string content = settings_.mark(key, "");
      for (const auto& token : added_)
        if (token.content == content) return token.token;
      return content.empty() ? -1 : parts_.model->token(content);
    };
    parts_.bos = number_of("bos_token"), parts_.pad = number_of("pad_token"), parts_.unk = number_of("unk_token");
    parts_.eos = number_of("eos_token");
    if (parts_.eos < 0 && !parts_.suffix.empty()) parts_.eos = parts_.suffix.front();
    if (parts_.eos < 0)
      throw FormatError("load: ", folder_.path().string(), " does not say which token is the end mark (eos_token)");
    if (parts_.suffix.empty()) parts_.suffix = {parts_.eos};
  }

  /// `added_tokens.json` says of one of the family's own tokens its number alone.
  void settle_own(const text::AddedToken& own) {
    for (auto& listed : added_) {
      const bool is_it = listed.content == own.content;
      if (!is_it && listed.token == own.token)
        throw FormatError("load: ", folder_.path().string(), ": '", printable(listed.content), "' and '", printable(own.content),
                          "' are both token ", own.token);
      if (!is_it) continue;
      const token_t number = listed.token;
      listed = own;
      listed.token = number;
    }
  }
  void add_missing(text::AddedToken token) {
    const auto is_same = [&](const auto& a) { return a.content == token.content || a.token == token.token; };
    if (std::none_of(added_.begin(), added_.end(), is_same)) added_.push_back(std::move(token));
  }

  /// A mark of the family, which has that number unless the files list it under another.
  void mark(token_t& place, const char* key, const char* fallback, token_t number) {
    const std::string content = settings_.mark(key, fallback);
    place = number;
    for (const auto& token : settings_.added())
      if (token.content == content) place = token.token;
    if (place < 0) {
      if (std::string_view(key) == "pad_token" || std::string_view(key) == "bos_token") return;
      throw FormatError("load: ", folder_.path().string(), ": the vocabulary has no ", printable(content));
    }
    add_missing({.content = content, .token = place, .special = true});
  }

  void add_languages() {
    for (const auto& token : added_)
      if (const std::string name = language_of(family_, token.content); !name.empty() && token.special)
        parts_.languages.add(name, token.token);
    if (family_ == Family::t5) {
      for (token_t token = 0; token < static_cast<token_t>(parts_.model->size()); ++token)
        if (const auto name = text::LanguageTokens::said_by(parts_.model->piece(token)); !name.empty())
          parts_.languages.add(name, token);
      parts_.language_in_source = !parts_.languages.names().empty();
    }
    parts_.added = text::AddedTokens(added_);
  }

  /// What sources begin and end with.
  void set_frame() {
    constexpr token_t language = text::PretrainedParts::source_language;
    parts_.language_begins = family_ == Family::mbart;
    const bool after = family_ == Family::mbart || (family_ == Family::nllb && settings_.get<bool>("legacy_behaviour", false));
    if (family_ == Family::nllb || family_ == Family::mbart50 || family_ == Family::m2m100 || family_ == Family::mbart) {
      if (parts_.languages.names().empty())
        throw FormatError("load: ", folder_.path().string(), ": the tokenizer is a ", printable(parts_.name),
                          " and has no tokens of languages");
      if (after) parts_.suffix = {parts_.eos, language};
      else parts_.prefix = {language}, parts_.suffix = {parts_.eos};
    } else if (family_ == Family::t5 && parts_.suffix.empty()) {
      parts_.suffix = {parts_.eos};
    }
  }

  void keep_files() {
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"})
      if (folder_.contains(name)) files_.emplace_back(name);
    for (const auto& name : files_) parts_.files.emplace_back(name, io::read_file(folder_.file(name)));
  }

  /// The languages that the files choose, or else the one that the library takes for sources.
  [[nodiscard]] text::PretrainedTokenizer choose_languages(text::PretrainedTokenizer tokenizer) const {
    if (tokenizer.languages().empty()) return tokenizer;
    const auto to = settings_.get<std::string>("tgt_lang", "");
    if (family_ == Family::t5)  // whose sources do not say theirs
      return to.empty() ? tokenizer : tokenizer.with_languages(settings_.get<std::string>("src_lang", ""), to);
    const std::string usual = family_ == Family::nllb ? "eng_Latn" : family_ == Family::m2m100 ? "en" : "en_XX";
    const auto& names = tokenizer.languages();
    const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    const auto from = settings_.get<std::string>("src_lang", has(usual) ? usual : names.front());
    return to.empty() ? tokenizer.with_source_language(from) : tokenizer.with_languages(from, to);
  }

  const io::FolderReader& folder_;
  TokenizerSettings settings_;
  Family family_ = Family::other;
  std::string spm_;
  std::vector<std::string> files_;
  std::vector<text::AddedToken> added_;
  text::PretrainedParts parts_;
};

}  // namespace attend::detail

namespace attend::text {

ATTEND_INLINE PretrainedTokenizer load_pretrained_tokenizer(const io::FolderReader& folder) {
  return detail::PretrainedTokenizerLoader(folder).load();
}

}  // namespace attend::text
