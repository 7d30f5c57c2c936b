#pragma once

// clang-format off
#include <cstdint>  // first, because SentencePiece 0.2.0 forgets it
#include <sentencepiece_trainer.h>
// clang-format on

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/standard.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/sentencepiece_model.hpp"
#include "attend/text/utf8.hpp"

// How a SentencePiece is trained and read: part of sentencepiece.hpp, and of compiled.cpp where a program has that.

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
inline std::string sentencepiece_message(const SentencePieceStatus& status, const char* otherwise) {
  const std::string message(status.message());
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
  SentencePieceStatus status() const override { return {}; }

 private:
  std::span<const std::string* const> rest_;
};

}  // namespace attend::detail

namespace attend::text {

ATTEND_INLINE SentencePiece SentencePiece::parse(const std::string& name, std::string_view bytes) {
  detail::silence_sentencepiece();
  auto processor = std::make_shared<Processor>();
  try {
    detail::check_sentencepiece_model(bytes);
    if (const auto status = processor->LoadFromSerializedProto(detail::sentencepiece_text(bytes)); !status.ok())
      throw FormatError("is no SentencePiece model: ", detail::sentencepiece_message(status, "it cannot be parsed"));
  } catch (const std::exception& error) {  // SentencePiece's trie has exceptions of its own
    throw FormatError("SentencePiece: ", name, ' ', error.what());
  }
  return SentencePiece(std::move(processor));
}

ATTEND_INLINE SentencePiece SentencePiece::train_on(std::vector<const std::string*> sentences,
                                                    const SentencePieceOptions& options) {
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
