#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/tokenizer.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/ensemble.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "attend/decode/scoring.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/translate/translation_parts.hpp"
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
  /// search, without coverage penalty, and the probabilities are those without a shortlist. Alignments come where the options
  /// want them. Nothing is split. `before` pairs came before these: messages go by a pair's number. Throws ValueError for another
  /// number of targets than of sources, and for a side that is not UTF-8 or has more tokens than positions.
  [[nodiscard]] Results<Translation> score(std::span<const std::string> sources, std::span<const std::string> targets,
                                           std::size_t before = 0) const;

  /// Which words of the sources and of their translations belong together: each token of a target to the source token that the
  /// decoder's attention was most on when that token was to come (TranslatorOptions::alignment_layer), and so their words. The
  /// end tokens take no part. Of tokens that do not show where words begin, as those of a user's own tokenizer may, each is a
  /// word unless together they are the text. Source: Garg et al. 2019. Throws as `score`.
  [[nodiscard]] std::vector<Alignment> align(std::span<const std::string> sources, std::span<const std::string> targets) const;

  /// The ways in which a translation may go on after `prefix`: the `count` most probable next tokens, most probable first, each
  /// with the best translation that begins so; fewer where the model has no more. None that the options forbid. An empty sentence
  /// has the empty translation. `before` sentences came before this one: messages go by its number.
  /// Throws as `translate`, and for a sentence that would be split.
  [[nodiscard]] Results<Translation> alternatives(std::string_view sentence, std::string_view prefix, index_t count,
                                                  std::size_t before = 0) const;

  /// What the tokens of a translation look like.
  [[nodiscard]] std::vector<std::string> pieces(std::span<const token_t> tokens) const {
    std::vector<std::string> names;
    for (const token_t token : tokens) names.push_back(text::target_piece(tokenizer_, token));
    return names;
  }
  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const TranslatorOptions& options() const { return options_; }

 private:
  using Model = Ensemble<TransformerModel<T, D>>;
  using Parts = std::vector<detail::SourcePart>;
  using Batch = std::vector<const detail::SourcePart*>;

  static Model make_model(const std::vector<nn::Transformer<T, D>>& models, const TranslatorOptions& options);
  void forbid();
  /// What the options say of these parts, prefixes and shortlists aside.
  [[nodiscard]] Constraints constraints_of(std::span<const detail::SourcePart* const> batch, std::size_t before) const;
  /// The phrases that the translation of a part must have, as tokens.
  [[nodiscard]] std::vector<std::vector<token_t>> required_in(const detail::SourcePart& part) const;
  /// The shortlist of a part, there being one, and the tokens that it must have; empty: all may come.
  [[nodiscard]] std::vector<token_t> allowed_in(const detail::SourcePart& part,
                                                const std::vector<std::vector<token_t>>& required) const;
  /// Changes the model's log-probabilities [1, vocabulary] of what follows `part.prefix` as a search would that is to find these
  /// phrases.
  void adjust_next(const detail::SourcePart& part, std::size_t before, const std::vector<std::vector<token_t>>& required,
                   const Tensor<Wide<T>, D>& x) const;

  [[nodiscard]] index_t source_positions() const {
    index_t least = model_.members().front().transformer().encoder.options.max_length;
    for (const auto& m : model_.members()) least = std::min(least, m.transformer().encoder.options.max_length);
    return least;
  }
  /// What stands before every translation: the tokenizer's begin token, or where it has none its end token.
  [[nodiscard]] token_t begin_token() const { return tokenizer_.bos() >= 0 ? tokenizer_.bos() : tokenizer_.eos(); }
  [[nodiscard]] index_t limit(const detail::SourcePart& part) const {
    const double by_source = std::ceil(options_.max_ratio * static_cast<double>(part.tokens.size())) + 10;
    const index_t most = options_.max_length > 0 ? options_.max_length : model_.longest();
    const bool shorter = options_.max_length == 0 && by_source < static_cast<double>(most);  // the ratio may be infinite
    const index_t wanted = shorter ? static_cast<index_t>(by_source) : std::min(most, model_.longest());
    return std::max({options_.min_length, wanted, count_of(part.prefix)});
  }

  /// The parts of all sentences, in order, and how many each sentence has.
  Parts cut(std::span<const std::string> sentences, std::size_t before, std::span<const std::string> prefixes,
            std::vector<std::size_t>& counts) const;
  /// The translations of each part. Those of sentences before it in `parts` are done when a part of a later wave begins.
  TranslationLists translate_parts(const Parts& parts, std::size_t before, detail::Streams* streams) const;
  /// Whether batches are translated at the same time, each by one thread.
  [[nodiscard]] bool side_by_side() const;
  [[nodiscard]] std::vector<Batch> even_batches(const Batch& order) const;
  Results<Results<Hypothesis>> search(std::span<const detail::SourcePart* const> batch, std::size_t before,
                                      const TokenCallback& on_token) const;

  // translator_ratings.hpp
  std::vector<detail::ForcedTarget> force(std::span<const detail::SourcePart* const> sources,
                                          std::span<const std::vector<token_t>> targets, bool scores, bool attention) const;
  /// Replaces unknown words and adds alignments, as the options have it; each of `parts` has the translation at the same place.
  void use_attention(std::span<const detail::SourcePart* const> parts, std::span<Translation* const> translations) const;
  void replace_or_align(const detail::SourcePart& part, const Tensor<float>& attention, bool replace, bool align,
                        Translation& translation) const;
  Results<Translation> rate(std::span<const std::string> sources, std::span<const std::string> targets, std::size_t before,
                            bool scores, bool align) const;
  /// Of a Translation or Hypothesis: what a beam search would rank it by, but for coverage.
  template <class Rated>
  [[nodiscard]] double search_score(const Rated& t) const {
    return normalized_score(t.log_probability, count_of(t.token_log_probabilities), options_.length_penalty,
                            options_.normalization);
  }

  Model model_;
  Tokenizer tokenizer_;
  TranslatorOptions options_;
  std::vector<token_t> suppressed_;
  std::vector<std::vector<token_t>> banned_;
};

// What reaches all the rest stands outside the class: so a program may have it compiled once, see compiled.hpp.

/// Checks that models, tokenizer and options go together, and gathers what may not come.
template <class Tokenizer, class T, Device D>
Translator<Tokenizer, T, D>::Translator(const std::vector<nn::Transformer<T, D>>& models, Tokenizer tokenizer,
                                        const TranslatorOptions& options)
    : model_(make_model(models, options)), tokenizer_(std::move(tokenizer)), options_(options) {
  const auto& o = options_;
  check_value(o.min_length <= model_.longest(), "Translator", "min_length is ", o.min_length, ", the model gives at most ",
              model_.longest(), " tokens");
  if (o.sample)
    detail::check_sampling(
        {.samples = o.n_best, .temperature = o.temperature, .top_k = o.top_k, .top_p = o.top_p, .min_p = o.min_p}, 1);
  const index_t tokens = tokenizer_.size(), target_tokens = text::target_size(tokenizer_);
  const index_t source = models.front().encoder.options.vocabulary, target = model_.vocabulary();
  check_value(tokens <= source && target_tokens <= target, "Translator", "the tokenizer has ", tokens,
              (target_tokens == tokens ? "" : " and " + std::to_string(target_tokens)), " tokens, the model's vocabularies are ",
              source, " and ", target);
  check_value(tokenizer_.eos() >= 0, "Translator", "the tokenizer has no end token");
  forbid();
}

/// The models as one that is searched. Throws ValueError if their vocabularies differ.
template <class Tokenizer, class T, Device D>
auto Translator<Tokenizer, T, D>::make_model(const std::vector<nn::Transformer<T, D>>& models, const TranslatorOptions& options)
    -> Model {
  detail::check_translator(options);
  check_value(!models.empty(), "Translator", "there is no model");
  std::vector<TransformerModel<T, D>> members;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const auto &first = models.front().options, &own = models[m].options;
    check_value(own.encoder.vocabulary == first.encoder.vocabulary && own.decoder.vocabulary == first.decoder.vocabulary,
                "Translator", "model ", m + 1, " has vocabularies of ", own.encoder.vocabulary, " and ", own.decoder.vocabulary,
                ", the first model ", first.encoder.vocabulary, " and ", first.decoder.vocabulary);
    const auto layers = count_of(models[m].decoder.layers);
    check_value(options.alignment_layer < layers, "Translator", "alignment_layer is ", options.alignment_layer,
                ", the decoder has ", layers, " layers");
    members.emplace_back(models[m], StepOptions{.precision = options.precision, .attention = options.coverage_penalty > 0});
  }
  return Model(std::move(members));
}

/// Gathers what may not come.
template <class Tokenizer, class T, Device D>
void Translator<Tokenizer, T, D>::forbid() {
  const auto& o = options_;
  const auto never = [&](token_t mark) {
    if (mark >= 0) suppressed_.push_back(mark);
  };
  if (o.suppress_marks) never(tokenizer_.pad());
  if (o.suppress_marks && tokenizer_.bos() != tokenizer_.eos()) never(tokenizer_.bos());
  if (o.unknown == Unknown::suppress) never(text::unknown_token(tokenizer_));
  for (index_t t = text::target_size(tokenizer_); t < model_.vocabulary(); ++t) suppressed_.push_back(static_cast<token_t>(t));
  const auto check = [&](const char* name, token_t token) {
    check_value(token >= 0 && token < model_.vocabulary(), "Translator", name, " has token ", token,
                ", outside the vocabulary of ", model_.vocabulary());
  };
  for (const token_t token : o.suppressed) {
    check("suppressed", token);
    suppressed_.push_back(token);
  }
  for (const token_t token : o.end_tokens) check("end_tokens", token);
  check_value(o.unknown_penalty == 0 || text::unknown_token(tokenizer_) >= 0, "Translator",
              "unknown_penalty is given, and the tokenizer has no unknown token");
  for (const auto& sequence : o.banned) {
    check_value(!sequence.empty(), "Translator", "banned has an empty sequence");
    for (const token_t token : sequence) check("banned", token);
    banned_.push_back(sequence);
  }
  for (const auto& words : o.banned_text) {
    text::check_utf8("Translator: banned_text", words);
    banned_.push_back(text::encode_target(tokenizer_, words));
    check_value(!banned_.back().empty(), "Translator", "banned_text has '", words, "', which has no tokens");
  }
}

/// Cuts the sentences into parts, translates these, and joins their translations.
template <class Tokenizer, class T, Device D>
TranslationLists Translator<Tokenizer, T, D>::translate(std::span<const std::string> sentences, std::size_t before,
                                                        std::span<const std::string> prefixes) const {
  detail::Streams streams(options_.on_token, before, [&](std::span<const token_t> tokens) { return tokenizer_.decode(tokens); });
  std::vector<std::size_t> counts;
  const Parts parts = cut(sentences, before, prefixes, counts);
  auto lists = translate_parts(parts, before, &streams);
  TranslationLists results;
  results.reserve(sentences.size());
  std::size_t first = 0;
  for (const std::size_t count : counts) {
    std::vector<std::vector<Translation>> own;
    std::vector<index_t> words;
    for (std::size_t k = first; k < first + count; ++k) own.push_back(std::move(lists[k])), words.push_back(parts[k].first_word);
    results.push_back(detail::join_parts(std::move(own), words, tokenizer_.eos()));
    first += count;
  }
  return results;
}

/// What a Translator is made from says its types: `decode::Translator translate(model, tokenizer)`.
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

#include "attend/translate/translator_ratings.hpp"
#include "attend/translate/translator_search.hpp"
