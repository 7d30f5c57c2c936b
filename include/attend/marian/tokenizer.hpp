#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/printable.hpp"
#include "attend/core/tokenizer.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/json.hpp"
#include "attend/marian/vocabulary.hpp"
#include "attend/text/clean_up.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// The marks of a Marian vocabulary, as pieces, and how text is made of pieces.
struct MarianMarks {
  std::string eos = "</s>", unk = "<unk>", pad = "<pad>";
  std::string begin = {};  ///< what targets begin with; empty: as `pad`
  bool clean_up = false;   ///< `decode` takes the space before a mark of punctuation or an English contraction away
};

/// The tokenizer of Marian models as `transformers` has it: a SentencePiece model for each side splits text into pieces, and one
/// vocabulary for both sides, or one for each, gives the pieces their numbers. A piece without a number is `<unk>`. A source may
/// begin with the code of the language that it is to be translated into, as in `>>fra<< Good morning`: one token.
///
/// Two things differ from `transformers`: a mark that is spelled out in a text (`</s>`) is text, and `decode` joins pieces by
/// the SentencePiece model of the targets, as releases before 5 do; later ones take that of the sources, which makes a
/// difference for its control symbols and bytes alone.
///
/// A value: copies share models and vocabularies, which never change.
class MarianTokenizer {
 public:
  /// Throws ValueError if a vocabulary lacks a mark.
  MarianTokenizer(SentencePiece source, SentencePiece target, MarianVocabulary vocabulary, MarianMarks marks = {})
      : MarianTokenizer(std::move(source), std::move(target), std::move(vocabulary), std::nullopt, std::move(marks)) {}
  /// With a vocabulary for each side.
  MarianTokenizer(SentencePiece source, SentencePiece target, MarianVocabulary source_vocabulary,
                  std::optional<MarianVocabulary> target_vocabulary, MarianMarks marks = {})
      : source_(std::move(source)),
        target_(std::move(target)),
        source_vocabulary_(std::make_shared<const MarianVocabulary>(std::move(source_vocabulary))),
        target_vocabulary_(target_vocabulary ? std::make_shared<const MarianVocabulary>(std::move(*target_vocabulary))
                                             : source_vocabulary_),
        marks_(std::move(marks)) {
    if (marks_.begin.empty()) marks_.begin = marks_.pad;
    eos_ = mark(*target_vocabulary_, marks_.eos), source_eos_ = mark(*source_vocabulary_, marks_.eos);
    unk_ = mark(*target_vocabulary_, marks_.unk), source_unk_ = mark(*source_vocabulary_, marks_.unk);
    pad_ = mark(*target_vocabulary_, marks_.pad), bos_ = mark(*target_vocabulary_, marks_.begin);
    if (eos_ != source_eos_)
      throw ValueError("MarianTokenizer: ", detail::printable(marks_.eos), " is ", source_eos_, " in sources and ", eos_,
                       " in targets, expected the same");
  }

  /// Reads `source.spm`, `target.spm`, `vocab.json`, `target_vocab.json` if there are two vocabularies, and
  /// `tokenizer_config.json` and `special_tokens_map.json` if they are there.
  /// Throws IoError if a file is missing, FormatError if one is not what it should be.
  static MarianTokenizer load(const std::filesystem::path& folder);
  /// Whether a folder holds the files of such a tokenizer.
  static bool is_in(const io::FolderReader& folder) { return folder.contains("source.spm") && folder.contains("vocab.json"); }
  /// Writes these files, for `load` and for `transformers`. Throws IoError.
  void save_files(const std::filesystem::path& folder) const;

  /// The tokens of a source sentence, without the end mark. Throws ValueError for a text that is not UTF-8.
  [[nodiscard]] std::vector<token_t> encode(std::string_view text) const {
    return tokens(source_, *source_vocabulary_, source_unk_, text);
  }
  /// The tokens of a target sentence, without begin and end marks. Throws as `encode`.
  [[nodiscard]] std::vector<token_t> encode_target(std::string_view text) const {
    return tokens(target_, *target_vocabulary_, unk_, text);
  }
  /// The text of a target's tokens; marks, `<unk>` too, and numbers without a piece give no text. Throws IndexError for a token
  /// outside the vocabulary.
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::vector<std::string> pieces;
    for (const token_t token : tokens)
      if (token != eos_ && token != unk_ && token != pad_ && token != bos_ && !is_gap(*target_vocabulary_, token))
        pieces.push_back(target_vocabulary_->piece(token));
    std::string text = target_.join(pieces);
    replace_all(text, "\u2581", " ");  // of pieces that the model does not know
    text = trim(text);
    return marks_.clean_up ? clean_up_spaces(std::move(text)) : text;
  }

  /// Tokens of sources are 0 to size() - 1, those of targets 0 to target_size() - 1.
  [[nodiscard]] index_t size() const { return source_vocabulary_->size(); }
  [[nodiscard]] index_t target_size() const { return target_vocabulary_->size(); }
  [[nodiscard]] bool has_two_vocabularies() const { return source_vocabulary_ != target_vocabulary_; }
  /// What targets begin with: mostly the same token as `pad()`.
  [[nodiscard]] token_t bos() const { return bos_; }
  [[nodiscard]] token_t eos() const { return eos_; }
  [[nodiscard]] token_t pad() const { return pad_; }
  [[nodiscard]] token_t unk() const { return unk_; }

  /// The piece of a token; `<unk>` for a number without one. Throws IndexError outside the vocabulary.
  [[nodiscard]] const std::string& piece(token_t token) const {
    return is_gap(*source_vocabulary_, token) ? marks_.unk : source_vocabulary_->piece(token);
  }
  [[nodiscard]] const std::string& target_piece(token_t token) const {
    return is_gap(*target_vocabulary_, token) ? marks_.unk : target_vocabulary_->piece(token);
  }

  /// Whether a token of targets has a piece.
  [[nodiscard]] bool has_target_piece(token_t token) const { return target_vocabulary_->has_piece(token); }

  /// The same tokenizer for a model whose targets begin with another token. Throws IndexError if that has no piece.
  [[nodiscard]] MarianTokenizer with_begin(token_t begin) const {
    MarianTokenizer other = *this;
    other.marks_.begin = target_vocabulary_->piece(begin);
    other.bos_ = begin;
    return other;
  }

 private:
  static token_t mark(const MarianVocabulary& vocabulary, const std::string& piece) {
    const token_t token = vocabulary.token(piece);
    if (token < 0) throw ValueError("MarianTokenizer: the vocabulary has no ", detail::printable(piece));
    return token;
  }

  static bool is_gap(const MarianVocabulary& vocabulary, token_t token) {
    return token >= 0 && token < vocabulary.size() && !vocabulary.has_piece(token);
  }

  /// `>>xxx<<` at the beginning of a text, or nothing.
  static std::string_view language_code(std::string_view text) {
    const std::size_t end = text.find("<<");
    return text.starts_with(">>") && end != text.npos ? text.substr(0, end + 2) : std::string_view();
  }

  static std::vector<token_t> tokens(const SentencePiece& model, const MarianVocabulary& vocabulary, token_t unk,
                                     std::string_view text) {
    std::vector<token_t> list;
    const auto add = [&](const std::string& piece) {
      const token_t token = vocabulary.token(piece);
      list.push_back(token < 0 ? unk : token);
    };
    check_utf8("MarianTokenizer::encode", text);  // here, since messages count bytes from the beginning of the text
    const std::string_view code = language_code(text);
    if (!code.empty()) add(std::string(code));
    for (const std::string& piece : model.pieces(text.substr(code.size()))) add(piece);
    return list;
  }

  SentencePiece source_, target_;
  std::shared_ptr<const MarianVocabulary> source_vocabulary_, target_vocabulary_;
  MarianMarks marks_;
  token_t eos_, source_eos_, unk_, source_unk_, pad_, bos_;
};

static_assert(Tokenizer<MarianTokenizer>);

}  // namespace attend::text

namespace attend::detail {

/// A mark of a tokenizer's configuration: a string, or an object with its `content`.
inline std::string marian_mark_text(const io::JsonObject& json, const char* key, const std::string& otherwise) {
  if (!json.contains(key)) return otherwise;
  return json.json().at(key).is_object() ? json.object(key).get<std::string>("content") : json.get<std::string>(key);
}

/// Throws FormatError for what this tokenizer does not do and `transformers` would.
inline void check_marian_tokenizer(const io::JsonObject& json) {
  if (const auto name = json.get<std::string>("tokenizer_class", "MarianTokenizer"); name != "MarianTokenizer")
    throw FormatError(json.name(), ": tokenizer_class is \"", printable(name), "\", expected \"MarianTokenizer\"");
  if (json.contains("sp_model_kwargs") && json.object("sp_model_kwargs").get<bool>("enable_sampling", false))
    throw FormatError(json.name(), ": sp_model_kwargs.enable_sampling is true, and pieces are never drawn at random here");
}

}  // namespace attend::detail

namespace attend::text {

inline MarianTokenizer MarianTokenizer::load(const std::filesystem::path& folder) {
  const io::FolderReader reader(folder);
  MarianMarks marks;
  bool two = false;
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {  // the second overrides the first
    if (!reader.contains(file)) continue;
    const io::Json json = io::read_json(reader.file(file));
    const io::JsonObject object(json, reader.file(file).string());
    detail::check_marian_tokenizer(object);
    marks.eos = detail::marian_mark_text(object, "eos_token", marks.eos);
    marks.unk = detail::marian_mark_text(object, "unk_token", marks.unk);
    marks.pad = detail::marian_mark_text(object, "pad_token", marks.pad);
    marks.begin = detail::marian_mark_text(object, "decoder_start_token", marks.begin);
    marks.clean_up = object.get<bool>("clean_up_tokenization_spaces", marks.clean_up);
    two = object.get<bool>("separate_vocabs", two);
  }
  const auto vocabulary = MarianVocabulary::load(reader.file("vocab.json"));
  std::optional<MarianVocabulary> target;
  if (two) target = MarianVocabulary::load(reader.file("target_vocab.json"));
  for (const auto* v : {&vocabulary, target ? &*target : &vocabulary})
    for (const auto* mark : {&marks.eos, &marks.unk, &marks.pad})
      if (v->token(*mark) < 0)
        throw FormatError("load: ", reader.file(v == &vocabulary ? "vocab.json" : "target_vocab.json").string(), " has no ",
                          detail::printable(*mark));
  try {
    return MarianTokenizer(SentencePiece::load(reader.file("source.spm")), SentencePiece::load(reader.file("target.spm")),
                           vocabulary, std::move(target), std::move(marks));
  } catch (const ValueError& error) {
    throw FormatError("load: ", folder.string(), ": ", error.what());
  }
}

inline void MarianTokenizer::save_files(const std::filesystem::path& folder) const {
  source_.save(folder / "source.spm");
  target_.save(folder / "target.spm");
  source_vocabulary_->save(folder / "vocab.json");
  if (has_two_vocabularies()) target_vocabulary_->save(folder / "target_vocab.json");
  io::Json map, config;
  map["eos_token"] = marks_.eos;
  map["unk_token"] = marks_.unk;
  map["pad_token"] = marks_.pad;
  config = map;
  config["tokenizer_class"] = "MarianTokenizer";
  config["separate_vocabs"] = has_two_vocabularies();
  config["clean_up_tokenization_spaces"] = marks_.clean_up;
  if (marks_.begin != marks_.pad) config["decoder_start_token"] = marks_.begin;
  io::write_json(folder / "special_tokens_map.json", map);
  io::write_json(folder / "tokenizer_config.json", config);
}

}  // namespace attend::text
