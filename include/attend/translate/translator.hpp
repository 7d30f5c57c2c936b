#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/text/any_tokenizer.hpp"
#include "attend/translate/alternatives.hpp"
#include "attend/translate/part_search.hpp"
#include "attend/translate/target_reading.hpp"
#include "attend/translate/translation_parts.hpp"
#include "attend/translate/translation_system.hpp"
#include "attend/translate/translator_options.hpp"

namespace attend::decode {

/// Strings in, strings out: tokenizer, search and model as one. Sentences are sorted by length and translated in batches; what
/// one sentence gets does not depend on the others. Several threads may share one.
///
/// Shares the model's parameters: after more training it translates with the new weights.
template <class Tokenizer, class T, Device D = Cpu>
class Translator {
 public:
  /// Throws ValueError for options out of range or a tokenizer with more tokens than the model.
  Translator(const nn::Transformer<T, D>& model, Tokenizer tokenizer, const TranslatorOptions& options = {})
      : Translator(std::vector<nn::Transformer<T, D>>{model}, std::move(tokenizer), options) {}
  /// An ensemble: tokens have the mean of the probabilities that the models give them. Throws the same, and ValueError for models
  /// whose vocabularies differ.
  Translator(const std::vector<nn::Transformer<T, D>>& models, Tokenizer tokenizer, const TranslatorOptions& options = {});

  /// The best translation of one sentence.
  std::string operator()(std::string_view sentence) const {
    return translate(std::vector<std::string>{std::string(sentence)}).front().front().text;
  }
  /// The best translation of each sentence, in their order.
  std::vector<std::string> operator()(std::span<const std::string> sentences) const {
    std::vector<std::string> texts;
    texts.reserve(sentences.size());
    for (auto& best : translate(sentences)) texts.push_back(std::move(best.front().text));
    return texts;
  }
  /// The `n_best` translations of each sentence, best first. An empty sentence has the empty translation. `before` sentences came
  /// before these: sampling and messages go by a sentence's number, so that what is drawn does not depend on how a text is cut.
  /// `prefixes`, if given: what the translation of each sentence begins with, cut into tokens as it stands.
  ///
  /// A sentence that is translated in parts has the best translations of all parts, joined, then the second best, and so on; its
  /// score is the sum of theirs, and the end tokens of all parts but the last stand among its tokens.
  /// Throws ValueError for a sentence or a prefix that is not UTF-8, or has more tokens than the model has positions, and for a
  /// prefix that the model gives no probability.
  [[nodiscard]] TranslationLists translate(std::span<const std::string> sentences, std::size_t before = 0,
                                           std::span<const std::string> prefixes = {}) const;

  /// How the model rates given translations; an empty sentence too has its end token, and so a rating. The score is that of the
  /// search, without coverage penalty, and the probabilities are those without a shortlist. Alignments come if the options ask
  /// for them. Nothing is split. `before` pairs came before these: messages go by a pair's number. Throws ValueError if there are
  /// not as many targets as sources, and for a side that is not UTF-8 or has more tokens than positions.
  [[nodiscard]] Results<Translation> score(std::span<const std::string> sources, std::span<const std::string> targets,
                                           std::size_t before = 0) const {
    return detail::TargetReading(system_).rate(sources, targets, before, true, options().alignments);
  }

  /// Which words of the sources and of their translations belong together: each token of a target to the source token that the
  /// decoder's attention was most on when that token was to come (TranslatorOptions::alignment_layer), and so their words. The
  /// end tokens take no part. If tokens do not show where words begin, as those of a user's own tokenizer may not, each counts as
  /// a word, unless together they are the text. Source: Garg et al. 2019. Throws as `score`.
  [[nodiscard]] std::vector<Alignment> align(std::span<const std::string> sources, std::span<const std::string> targets) const {
    std::vector<Alignment> alignments;
    for (auto& rated : detail::TargetReading(system_).rate(sources, targets, 0, false, true))
      alignments.push_back(std::move(rated.alignment));
    return alignments;
  }

  /// The ways in which a translation may go on after `prefix`: the `count` most probable next tokens, most probable first, each
  /// with the best translation that begins so; fewer if the model has no more. None that the options forbid. An empty sentence
  /// has the empty translation. `before` sentences came before this one: messages go by its number.
  /// Throws as `translate`, and for a sentence that would be split.
  [[nodiscard]] Results<Translation> alternatives(std::string_view sentence, std::string_view prefix, index_t count,
                                                  std::size_t before = 0) const {
    return detail::alternatives(system_, sentence, prefix, count, before);
  }

  /// What the tokens of a translation look like.
  [[nodiscard]] std::vector<std::string> pieces(std::span<const token_t> tokens) const { return system_.pieces(tokens); }
  [[nodiscard]] const Tokenizer& tokenizer() const { return *tokenizer_; }
  [[nodiscard]] const TranslatorOptions& options() const { return system_.options; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  detail::TranslationSystem<T, D> system_;
};

// The functions that use all the rest are defined outside the class, so that a program can have them compiled once: see
// compiled.hpp.

/// All else follows from these.
template <class Tokenizer, class T, Device D>
Translator<Tokenizer, T, D>::Translator(const std::vector<nn::Transformer<T, D>>& models, Tokenizer tokenizer,
                                        const TranslatorOptions& options)
    : tokenizer_(std::make_shared<const Tokenizer>(std::move(tokenizer))),
      system_(models, text::AnyTokenizer::sharing(tokenizer_), options) {}

/// Cuts the sentences into parts, translates these, and joins their translations.
template <class Tokenizer, class T, Device D>
TranslationLists Translator<Tokenizer, T, D>::translate(std::span<const std::string> sentences, std::size_t before,
                                                        std::span<const std::string> prefixes) const {
  const text::AnyTokenizer& tokenizer = system_.tokenizer;
  detail::Streams streams(options().on_token, before, [&](std::span<const token_t> tokens) { return tokenizer.decode(tokens); });
  const auto [parts, counts] = detail::cut_sentences(system_, sentences, before, prefixes);
  auto lists = detail::PartSearch(system_).translate(parts, before, &streams);
  TranslationLists results;
  results.reserve(sentences.size());
  std::size_t first = 0;
  for (const std::size_t count : counts) {
    std::vector<std::vector<Translation>> own;
    std::vector<index_t> words;
    for (std::size_t k = first; k < first + count; ++k) own.push_back(std::move(lists[k])), words.push_back(parts[k].first_word);
    results.push_back(detail::join_parts(std::move(own), words, tokenizer.eos()));
    first += count;
  }
  return results;
}

/// What a Translator is made from decides its types: `decode::Translator translate(model, tokenizer)`.
template <class Tokenizer, class T, Device D>
Translator(const nn::Transformer<T, D>&, Tokenizer, const TranslatorOptions&) -> Translator<Tokenizer, T, D>;
/// The same with the usual options.
template <class Tokenizer, class T, Device D>
Translator(const nn::Transformer<T, D>&, Tokenizer) -> Translator<Tokenizer, T, D>;
/// The same of an ensemble.
template <class Tokenizer, class T, Device D>
Translator(const std::vector<nn::Transformer<T, D>>&, Tokenizer, const TranslatorOptions&) -> Translator<Tokenizer, T, D>;
/// The same of an ensemble with the usual options.
template <class Tokenizer, class T, Device D>
Translator(const std::vector<nn::Transformer<T, D>>&, Tokenizer) -> Translator<Tokenizer, T, D>;

}  // namespace attend::decode
