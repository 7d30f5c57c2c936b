#pragma once

// clang-format off
#include <cstdint>  // first, because SentencePiece 0.2.0 forgets it
#include <sentencepiece_processor.h>
// clang-format on

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/tokenizer.hpp"
#include "attend/core/types.hpp"
#include "attend/io/file.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/utf8.hpp"

namespace attend::detail {

/// What SentencePiece says of a call: a type of its own, since 0.2.2 Abseil's.
using SentencePieceStatus = decltype(std::declval<const sentencepiece::SentencePieceProcessor&>().status());

/// Text as SentencePiece takes it: its string_view is the standard's, Abseil's, or, where its makers have built it, one of its
/// own.
inline absl::string_view sentencepiece_text(std::string_view text) { return {text.data(), text.size()}; }

/// Joins tokens or pieces to `text`. SentencePiece takes a vector of them, since 0.2.2 a span, and then warns of vectors.
template <class Processor, class Item>
SentencePieceStatus decode_by(const Processor& processor, const std::vector<Item>& items, std::string& text) {
  if constexpr (requires { processor.Decode(std::span(items), &text); }) return processor.Decode(std::span(items), &text);
  else return processor.Decode(items, &text);
}

}  // namespace attend::detail

namespace attend::text {

/// How SentencePiece finds its pieces.
enum class SentencePieceModel {
  unigram,  ///< the vocabulary that makes the text most likely (Kudo 2018)
  bpe,      ///< byte-pair encoding: the most frequent pairs, merged again and again (Sennrich et al. 2016)
};

/// What `SentencePiece::train` learns.
struct SentencePieceOptions {
  index_t vocabulary = 8000;  ///< pieces, the four marks included; a small corpus may give fewer
  SentencePieceModel model = SentencePieceModel::unigram;
  double character_coverage = 1.0;  ///< share of all characters that get a piece, 0.98 to 1; 0.9995 for Chinese or Japanese
  bool byte_fallback = false;       ///< write characters without a piece as bytes, for 256 pieces more, instead of `<unk>`
  std::string normalization = "nmt_nfkc";  ///< or `nfkc`, `nmt_nfkc_cf`, `nfkc_cf` (these two fold case), `identity`
  index_t max_sentences = 1'000'000;       ///< of a larger corpus, as many as this, evenly spread, are trained on
};

/// Splits sentences into subwords and joins them again, with the SentencePiece library. A value: copies share one model, which
/// never changes, and may be used from several threads.
class SentencePiece {
 public:
  /// The marks of models that `train` makes.
  static constexpr token_t pad_id = 0, bos_id = 1, eos_id = 2, unk_id = 3;

  /// Learns one vocabulary for both sides of a corpus. The same corpus and options give the same model, byte for byte, on any
  /// number of processors, but for SentencePiece's versions, of which 0.2.2 finds other pieces. Lines over 4192 bytes teach
  /// nothing. Throws ValueError for an option out of range, a corpus without text, or a vocabulary that is too small for the
  /// characters of the corpus.
  static SentencePiece train(const Corpus& corpus, const SentencePieceOptions& options = {}) {
    std::vector<const std::string*> sentences;
    sentences.reserve(corpus.pairs.size() * 2);
    for (const SentencePair& pair : corpus) {
      sentences.push_back(&pair.source);
      sentences.push_back(&pair.target);
    }
    return train_on(std::move(sentences), options);
  }
  /// The same from sentences alone, for a vocabulary of one language.
  static SentencePiece train(std::span<const std::string> sentences, const SentencePieceOptions& options = {}) {
    std::vector<const std::string*> pointers;
    pointers.reserve(sentences.size());
    for (const std::string& sentence : sentences) pointers.push_back(&sentence);
    return train_on(std::move(pointers), options);
  }

  /// Reads a model file of any SentencePiece program. Throws IoError if it cannot be read, FormatError if it is damaged.
  static SentencePiece load(const std::filesystem::path& path) {
    const std::string bytes = io::read_file(path);
    io::check_no_pointer(bytes, path.string() + ": ");
    return parse(path.string(), bytes);
  }
  /// The same from the bytes of such a file.
  static SentencePiece from_serialized(std::string_view bytes) { return parse("the model", bytes); }
  /// Writes a model file, whole or not at all. Throws IoError.
  void save(const std::filesystem::path& path) const { io::write_file_atomically(path, std::string_view(serialized())); }
  /// The bytes of such a file.
  [[nodiscard]] std::string serialized() const { return processor_->serialized_model_proto(); }

  /// The tokens of `text`, without begin and end marks. Throws ValueError for a text that is not UTF-8, naming the place (to have
  /// U+FFFD there instead: `encode_utf8(decode_utf8(text))`), and for one of more than 64 MiB.
  [[nodiscard]] std::vector<token_t> encode(std::string_view text) const { return encode_as<token_t>(text); }
  /// The same tokens as the pieces of text that they stand for; `▁` in them is a space.
  [[nodiscard]] std::vector<std::string> pieces(std::string_view text) const { return encode_as<std::string>(text); }

  /// The text of tokens; begin, end and padding marks give no text, `<unk>` gives ` ⁇ `. Throws IndexError for a token outside
  /// the vocabulary.
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) check_token("decode", tokens[i], " at position " + std::to_string(i));
    std::string text;
    check("decode", detail::decode_by(*processor_, std::vector<int>(tokens.begin(), tokens.end()), text));
    return text;
  }

  /// The text of pieces, which need not all be the model's own.
  [[nodiscard]] std::string join(const std::vector<std::string>& pieces) const {
    std::string text;
    check("join", detail::decode_by(*processor_, pieces, text));
    return text;
  }

  /// The piece that a token stands for. Throws IndexError for a token outside the vocabulary.
  [[nodiscard]] const std::string& piece(token_t token) const {
    check_token("piece", token, "");
    return processor_->IdToPiece(token);
  }
  /// The token of a piece; `unk()` if there is no such piece.
  [[nodiscard]] token_t token(std::string_view piece) const { return processor_->PieceToId(detail::sentencepiece_text(piece)); }

  /// Tokens are 0 to size() - 1.
  [[nodiscard]] index_t size() const { return processor_->GetPieceSize(); }
  /// The marks; -1 for one that a model from elsewhere does not have.
  [[nodiscard]] token_t pad() const { return processor_->pad_id(); }
  [[nodiscard]] token_t bos() const { return processor_->bos_id(); }
  [[nodiscard]] token_t eos() const { return processor_->eos_id(); }
  [[nodiscard]] token_t unk() const { return processor_->unk_id(); }

 private:
  using Processor = sentencepiece::SentencePieceProcessor;

  explicit SentencePiece(std::shared_ptr<const Processor> processor) : processor_(std::move(processor)) {}

  static SentencePiece parse(const std::string& name, std::string_view bytes);
  static SentencePiece train_on(std::vector<const std::string*> sentences, const SentencePieceOptions& options);

  template <class T>
  [[nodiscard]] std::vector<T> encode_as(std::string_view text) const {
    constexpr std::size_t most = std::size_t{1} << 26;  // SentencePiece counts in int, and takes some 50 bytes for each
    if (text.size() > most)
      throw ValueError("SentencePiece::encode: the text has ", text.size(), " bytes, expected at most ", most);
    check_utf8("SentencePiece::encode", text);
    std::vector<T> out;
    check("encode", processor_->Encode(detail::sentencepiece_text(text), &out));
    return out;
  }

  void check_token(const char* operation, token_t token, const std::string& where) const {
    if (token < 0 || token >= size())
      throw IndexError("SentencePiece::", operation, ": token ", token, where, ", expected 0 to ", size() - 1);
  }

  static void check(const char* operation, const detail::SentencePieceStatus& status) {
    if (!status.ok()) throw Error("SentencePiece::", operation, ": ", status.message());
  }

  std::shared_ptr<const Processor> processor_;
};

static_assert(Tokenizer<SentencePiece>);

}  // namespace attend::text

#ifndef ATTEND_COMPILED
#include "attend/text/sentencepiece_making.hpp"
#endif
