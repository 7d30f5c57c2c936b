#pragma once

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/tokenizer.hpp"
#include "attend/core/types.hpp"
#include "attend/io/file.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/sentencepiece_model.hpp"
#include "attend/text/utf8.hpp"

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
  /// number of processors. Lines over 4192 bytes teach nothing. Throws ValueError for an option out of range, a corpus without
  /// text, or a vocabulary that is too small for the characters of the corpus.
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
  static SentencePiece load(const std::filesystem::path& path) { return parse(path.string(), io::read_file(path)); }
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
    check("decode", processor_->Decode(std::vector<int>(tokens.begin(), tokens.end()), &text));
    return text;
  }

  /// The text of pieces, which need not all be the model's own.
  [[nodiscard]] std::string join(const std::vector<std::string>& pieces) const {
    std::string text;
    check("join", processor_->Decode(pieces, &text));
    return text;
  }

  /// The piece that a token stands for. Throws IndexError for a token outside the vocabulary.
  [[nodiscard]] const std::string& piece(token_t token) const {
    check_token("piece", token, "");
    return processor_->IdToPiece(token);
  }
  /// The token of a piece; `unk()` if there is no such piece.
  [[nodiscard]] token_t token(std::string_view piece) const { return processor_->PieceToId(piece); }

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
    check("encode", processor_->Encode(text, &out));
    return out;
  }

  void check_token(const char* operation, token_t token, const std::string& where) const {
    if (token < 0 || token >= size())
      throw IndexError("SentencePiece::", operation, ": token ", token, where, ", expected 0 to ", size() - 1);
  }

  static void check(const char* operation, const sentencepiece::util::Status& status) {
    if (!status.ok()) throw Error("SentencePiece::", operation, ": ", status.message());
  }

  std::shared_ptr<const Processor> processor_;
};

static_assert(Tokenizer<SentencePiece>);

}  // namespace attend::text

namespace attend::detail {

/// Keeps SentencePiece from writing its progress and its opinions to standard error. Its log level can be reached only as an
/// option of training, so this starts a training that ends at once for want of input.
inline void silence_sentencepiece() {
  static const bool done = [] {
    using Options = std::unordered_map<std::string, std::string>;
    sentencepiece::SentencePieceTrainer::Train(Options{{"minloglevel", "3"}, {"model_type", "char"}}).IgnoreError();
    return true;
  }();
  (void)done;
}

/// What a message of SentencePiece says, without the place in its source and the condition that it puts in front. `otherwise` if
/// the message says no more than that.
inline std::string sentencepiece_message(const sentencepiece::util::Status& status, const char* otherwise) {
  const std::string message = status.message();
  const std::size_t end = message.rfind(']');
  if (end == std::string::npos) return printable(message);
  return end + 2 < message.size() ? printable(std::string_view(message).substr(end + 2)) : otherwise;
}

/// Whether a line has anything to learn from: SentencePiece normalizes control characters, spaces, U+2581 and U+FFFD away,
/// passes over lines with U+2585, which it uses itself, and ends the program when nothing at all is left.
inline bool has_text_for_sentencepiece(std::string_view line) {
  bool has_text = false, is_reserved = false;
  text::for_each_code_point(line, [&](char32_t c) {
    is_reserved |= c == 0x2585;
    has_text |= c > 0x20 && !(c >= 0x7F && c <= 0x9F) && !text::is_space(c) && !(c >= 0x200B && c <= 0x200F) && c != 0xFEFF &&
                c != 0x2581 && c != text::replacement_character;
  });
  return has_text && !is_reserved;
}

/// Hands sentences to SentencePiece without copying them.
class SentencePointers : public sentencepiece::SentenceIterator {
 public:
  explicit SentencePointers(std::span<const std::string* const> sentences) : rest_(sentences) {}
  bool done() const override { return rest_.empty(); }
  void Next() override { rest_ = rest_.subspan(1); }
  const std::string& value() const override { return *rest_.front(); }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::span<const std::string* const> rest_;
};

}  // namespace attend::detail

namespace attend::text {

inline SentencePiece SentencePiece::parse(const std::string& name, std::string_view bytes) {
  detail::silence_sentencepiece();
  auto processor = std::make_shared<Processor>();
  try {
    detail::check_sentencepiece_model(bytes);
    if (const auto status = processor->LoadFromSerializedProto(bytes); !status.ok())
      throw FormatError("is no SentencePiece model: ", detail::sentencepiece_message(status, "it cannot be parsed"));
  } catch (const std::exception& error) {  // SentencePiece's trie has exceptions of its own
    throw FormatError("SentencePiece: ", name, ' ', error.what());
  }
  return SentencePiece(std::move(processor));
}

inline SentencePiece SentencePiece::train_on(std::vector<const std::string*> sentences, const SentencePieceOptions& options) {
  const std::string operation = "SentencePiece::train: ";
  constexpr index_t largest = 1'000'000, fewest = 100;
  if (options.vocabulary < 5 || options.vocabulary > largest)
    throw ValueError(operation, "vocabulary is ", options.vocabulary, ", expected 5 to 1000000");
  if (!(options.character_coverage >= 0.98 && options.character_coverage <= 1))
    throw ValueError(operation, "character_coverage is ", options.character_coverage, ", expected 0.98 to 1");
  if (options.max_sentences < fewest)
    throw ValueError(operation, "max_sentences is ", options.max_sentences, ", expected 100 or more");
  constexpr std::array<std::string_view, 5> rules{"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"};
  if (std::find(rules.begin(), rules.end(), options.normalization) == rules.end())
    throw ValueError(operation, "normalization is `", options.normalization,
                     "`, expected nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity");

  std::erase_if(sentences, [](const std::string* line) { return !detail::has_text_for_sentencepiece(*line); });
  if (sentences.empty()) throw ValueError(operation, "the corpus has no text");
  if (const auto most = static_cast<std::size_t>(options.max_sentences); sentences.size() > most) {
    for (std::size_t i = 0; i < most; ++i) sentences[i] = sentences[i * sentences.size() / most];
    sentences.resize(most);
  }
  std::size_t bytes = 0;
  for (const std::string* sentence : sentences) bytes += sentence->size();

  char coverage[32];
  const auto end = std::to_chars(coverage, coverage + sizeof coverage, options.character_coverage);
  const std::unordered_map<std::string, std::string> arguments{
      {"model_type", options.model == SentencePieceModel::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.vocabulary)},
      {"hard_vocab_limit", "false"},  // a corpus of a few sentences gives what it can
      {"character_coverage", std::string(coverage, end.ptr)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", options.normalization},
      {"pad_id", std::to_string(pad_id)},
      {"bos_id", std::to_string(bos_id)},
      {"eos_id", std::to_string(eos_id)},
      {"unk_id", std::to_string(unk_id)},
      // Sums are made in one part for each thread, so the number of threads decides the last bits of the scores; it is also
      // written into the model. Hence one number everywhere.
      {"num_threads", "8"},
      {"train_extremely_large_corpus", bytes > 200'000'000 ? "true" : "false"},  // 64-bit positions
      {"minloglevel", "3"},
  };
  detail::SentencePointers input(sentences);
  std::string model;
  try {
    if (const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &input, &model); !status.ok())
      throw ValueError(operation, "vocabulary ", options.vocabulary, ": ",
                       detail::sentencepiece_message(status, "the corpus gives no model"));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw ValueError(operation, error.what());
  }
  return from_serialized(model);
}

}  // namespace attend::text
