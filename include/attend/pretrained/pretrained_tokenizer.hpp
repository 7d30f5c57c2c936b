#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/tokenizer.hpp"
#include "attend/core/types.hpp"
#include "attend/io/file.hpp"
#include "attend/io/json.hpp"
#include "attend/pretrained/added_tokens.hpp"
#include "attend/pretrained/languages.hpp"
#include "attend/pretrained/piece_model.hpp"
#include "attend/text/clean_up.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// What a PretrainedTokenizer is made of.
struct PretrainedParts {
  /// Stands in `prefix` and `suffix` for the token of the source's language.
  static constexpr token_t source_language = -2;

  std::string name = "PretrainedTokenizer";  ///< its class in the `transformers` library
  std::shared_ptr<const PieceModel> model = {};
  AddedTokens added = {};
  LanguageTokens languages = {};
  token_t bos = -1, eos = -1, pad = -1, unk = -1;
  std::vector<token_t> prefix = {}, suffix = {};  ///< what sources begin and end with
  /// Targets begin with the token of their language in place of the begin token, as in mBART of 25 languages. Elsewhere it comes
  /// after the begin token.
  bool language_begins = false;
  /// The target's language stands before a source's text, as in MADLAD-400: `<2de> `.
  bool language_in_source = false;
  bool clean_up = false;  ///< `decode` tidies up the spaces before marks: see `clean_up_spaces`
  std::vector<std::pair<std::string, std::string>> files = {};  ///< names and contents, to be saved again
};

/// A tokenizer of the `transformers` library, which `load_pretrained_tokenizer` reads from a folder: pieces of SentencePiece or
/// of byte-pair encoding, tokens that a text may hold by name, and the languages of models that translate between many.
///
///     const auto tokenizer = text::load_pretrained_tokenizer("nllb-200-distilled-600M").with_languages("eng_Latn", "fra_Latn");
///
/// As in that library a mark that is spelled out in a text (`</s>`) is that mark. A value: copies share all but the languages.
class PretrainedTokenizer {
 public:
  /// Throws ValueError if there is no end mark, or a part of it does not fit the others.
  explicit PretrainedTokenizer(PretrainedParts parts) {
    size_ = parts.model->size();
    for (const AddedToken& added : parts.added.tokens()) size_ = std::max<index_t>(size_, added.token + 1);
    for (const token_t mark : {parts.bos, parts.eos, parts.pad, parts.unk})
      check_value(mark >= -1 && mark < size_, "PretrainedTokenizer", "a mark is ", mark, ", outside the vocabulary of ", size_);
    for (const auto* marks : {&parts.prefix, &parts.suffix})
      for (const token_t mark : *marks)
        check_value(mark == PretrainedParts::source_language || (mark >= 0 && mark < size_), "PretrainedTokenizer",
                    "sources have the mark ", mark, ", outside the vocabulary of ", size_);
    check_value(parts.eos >= 0, "PretrainedTokenizer", "there is no end mark");
    bos_ = parts.bos;
    parts_ = std::make_shared<const PretrainedParts>(std::move(parts));
  }

  /// The tokens of a source sentence, what it begins with (its language, or a begin mark) included, but not what it ends with:
  /// see `source_end`. A text without pieces has no tokens at all. Throws ValueError for a text that is not UTF-8, and if sources
  /// say their language and none was chosen.
  [[nodiscard]] std::vector<token_t> encode(std::string_view text) const {
    std::vector<token_t> tokens = with_language(parts_->prefix);
    std::size_t before = tokens.size();
    if (parts_->language_in_source && !to_.empty()) {
      const std::string said = parts_->languages.said(to_);
      append(said + " " + std::string(text), tokens);
      std::vector<token_t> alone;
      append(said, alone);
      before += alone.size();
    } else {
      append(text, tokens);
    }
    if (tokens.size() == before) tokens.clear();
    return tokens;
  }
  /// The tokens of a target sentence alone: neither its language nor marks.
  [[nodiscard]] std::vector<token_t> encode_target(std::string_view text) const {
    std::vector<token_t> tokens;
    append(text, tokens);
    return tokens;
  }
  /// The tokens that a source ends with: mostly the end mark, for some models its language after it.
  [[nodiscard]] std::vector<token_t> source_end() const { return with_language(parts_->suffix); }

  /// The text of tokens; marks, languages and numbers without a piece give no text. Throws IndexError for a token outside the
  /// vocabulary.
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    std::vector<std::string> pieces;
    bool first = true;
    const auto put = [&](const std::string& part) {
      if (!std::exchange(first, false)) text += ' ';
      text += part;
    };
    for (const token_t token : tokens) {
      check_token("decode", token);
      const AddedToken* added = parts_->added.find(token);
      if (is_mark(token)) continue;
      if (added != nullptr && !parts_->model->joins_added()) {
        if (!pieces.empty()) put(parts_->model->join(std::exchange(pieces, {})));
        put(added->content);
      } else if (std::string piece = stored_piece(token); !piece.empty()) {
        pieces.push_back(std::move(piece));
      }
    }
    if (!pieces.empty()) put(parts_->model->join(pieces));
    return parts_->clean_up ? clean_up_spaces(std::move(text)) : text;
  }

  /// Tokens are 0 to size() - 1. A model may have more rows.
  [[nodiscard]] index_t size() const { return size_; }
  /// What targets begin with, -1 if the files do not say: a model's configuration does, see `with_begin`. In mBART of 25
  /// languages it is the target's language, once there is one.
  [[nodiscard]] token_t bos() const {
    return parts_->language_begins && !to_.empty() ? parts_->languages.token("bos", to_) : bos_;
  }
  [[nodiscard]] token_t eos() const { return parts_->eos; }
  [[nodiscard]] token_t pad() const { return parts_->pad; }
  [[nodiscard]] token_t unk() const { return parts_->unk; }

  /// What a token looks like: its piece with `▁` for a space; empty for a number without one. Throws IndexError outside the
  /// vocabulary.
  [[nodiscard]] std::string piece(token_t token) const {
    check_token("piece", token);
    return parts_->added.find(token) != nullptr ? stored_piece(token) : parts_->model->shown(stored_piece(token));
  }
  /// Whether a token is a mark, which decoding gives no text for.
  [[nodiscard]] bool is_mark(token_t token) const {
    const AddedToken* added = parts_->added.find(token);
    return (added != nullptr && added->special) || token == bos() || token == parts_->eos || token == parts_->pad;
  }
  /// The token of a piece, as the files have it; -1 if there is none.
  [[nodiscard]] token_t token(const std::string& piece) const {
    const AddedToken* added = parts_->added.find(piece);
    return added != nullptr ? added->token : parts_->model->token(piece);
  }
  /// The tokens that a text may hold by name.
  [[nodiscard]] const AddedTokens& added() const { return parts_->added; }
  /// The class of the `transformers` library that it stands for.
  [[nodiscard]] const std::string& name() const { return parts_->name; }

  /// The names of all languages that there are tokens for.
  [[nodiscard]] const std::vector<std::string>& languages() const { return parts_->languages.names(); }
  /// The languages of sources and targets; empty if none were chosen.
  [[nodiscard]] const std::string& source_language() const { return from_; }
  [[nodiscard]] const std::string& target_language() const { return to_; }
  /// The same tokenizer for sources in `from` and targets in `to`. `from` may be empty where sources do not say their language,
  /// as in MADLAD-400. Throws ValueError for a language that there is no token for, with those that look most like it.
  [[nodiscard]] PretrainedTokenizer with_languages(const std::string& from, const std::string& to) const {
    PretrainedTokenizer other = *this;
    for (const std::string& name : {from, to})
      if (!parts_->language_in_source || !name.empty()) (void)parts_->languages.token("with_languages", name);
    other.from_ = from, other.to_ = to;
    return other;
  }
  /// The same with a language for sources alone, as files may have it.
  [[nodiscard]] PretrainedTokenizer with_source_language(const std::string& from) const {
    PretrainedTokenizer other = *this;
    (void)parts_->languages.token("with_source_language", from);
    other.from_ = from;
    return other;
  }
  /// The token of the target's language, which translations begin with. If no target's language was chosen, or if it stands
  /// elsewhere, as `bos()` before translations or in the source: the token of `with_first`, -1 without one.
  [[nodiscard]] token_t forced_begin() const {
    const bool elsewhere = parts_->language_begins || parts_->language_in_source;
    return to_.empty() || elsewhere ? first_ : parts_->languages.token("forced_begin", to_);
  }
  /// The same tokenizer for targets that begin with a token which is no language, as BART's do with `<s>`
  /// (`forced_bos_token_id` of a configuration). Throws IndexError for a token outside the vocabulary.
  [[nodiscard]] PretrainedTokenizer with_first(token_t first) const {
    check_token("with_first", first);
    PretrainedTokenizer other = *this;
    other.first_ = first;
    return other;
  }

  /// The same tokenizer with another begin token. Where targets begin with their language, that is the language that was chosen,
  /// and if none was, this token's. Throws IndexError for a token outside the vocabulary.
  [[nodiscard]] PretrainedTokenizer with_begin(token_t begin) const {
    check_token("with_begin", begin);
    PretrainedTokenizer other = *this;
    other.bos_ = begin;
    if (parts_->language_begins && to_.empty()) other.to_ = parts_->languages.name(begin);
    return other;
  }

  /// Writes the files that it was read from, with the languages, begin and first token that were chosen since, and its class
  /// where only the model's `config.json` said it. Throws IoError.
  void save_files(const std::filesystem::path& folder) const {
    io::Json settings = io::Json::object();
    for (const auto& [name, contents] : parts_->files) {
      if (name == "tokenizer_config.json") settings = io::parse_json(contents, name);
      else io::write_file_atomically(folder / name, std::string_view(contents));
    }
    if (!from_.empty()) settings["src_lang"] = from_;
    if (!to_.empty()) settings["tgt_lang"] = to_;
    settings.erase("decoder_start_token_id");
    if (bos() != parts_->bos) settings["decoder_start_token_id"] = bos();
    if (first_ >= 0) settings["forced_bos_token_id"] = first_;
    if (!settings.contains("tokenizer_class")) settings["tokenizer_class"] = parts_->name;
    io::write_json(folder / "tokenizer_config.json", settings);
  }

 private:
  /// The piece of a token as the files have it; empty for a number without one.
  [[nodiscard]] std::string stored_piece(token_t token) const {
    if (const AddedToken* added = parts_->added.find(token)) return added->content;
    return token < parts_->model->size() ? parts_->model->piece(token) : std::string();
  }

  void append(std::string_view text, std::vector<token_t>& tokens) const {
    constexpr std::size_t most = std::size_t{1} << 26;
    check_value(text.size() <= most, "PretrainedTokenizer::encode", "the text has ", text.size(), " bytes, expected at most ",
                most);
    check_utf8("PretrainedTokenizer::encode", text);
    parts_->added.split(
        text, false, [&](std::string_view part) { parts_->model->encode(part, part.data() == text.data(), tokens); },
        [&](token_t token) { tokens.push_back(token); });
  }

  [[nodiscard]] std::vector<token_t> with_language(const std::vector<token_t>& marks) const {
    std::vector<token_t> tokens = marks;
    for (token_t& token : tokens)
      if (token == PretrainedParts::source_language) {
        check_value(!from_.empty(), "PretrainedTokenizer", "no language was chosen for sources: see with_languages");
        token = parts_->languages.token("PretrainedTokenizer", from_);
      }
    return tokens;
  }

  void check_token(const char* operation, token_t token) const {
    if (token < 0 || token >= size_)
      throw IndexError("PretrainedTokenizer::", operation, ": token ", token, ", expected 0 to ", size_ - 1);
  }

  std::shared_ptr<const PretrainedParts> parts_;
  index_t size_ = 0;
  token_t bos_ = -1, first_ = -1;
  std::string from_, to_;
};

static_assert(Tokenizer<PretrainedTokenizer>);

}  // namespace attend::text
