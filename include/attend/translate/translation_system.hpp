#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/printable.hpp"
#include "attend/core/tokenizer.hpp"
#include "attend/decode/constraints.hpp"
#include "attend/decode/ensemble.hpp"
#include "attend/decode/sample.hpp"
#include "attend/decode/scoring.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/translate/translation_parts.hpp"
#include "attend/translate/translator_options.hpp"

namespace attend::decode::detail {

/// What texts are translated with (models, tokenizer and options) and what follows from these for each part of a sentence. All
/// tokenizers are one type here, so that none is a reason to compile the searches once more.
template <class T, Device D>
struct TranslationSystem {
  using value_type = T;
  using device_type = D;

  Ensemble<TransformerModel<T, D>> model;
  text::AnyTokenizer tokenizer;
  TranslatorOptions options;
  index_t weight_bytes = 0;                       // that a step reads, about
  token_t first = -1;                             // that every translation begins with; -1: none
  std::vector<token_t> suppressed = {};           // tokens and
  std::vector<std::vector<token_t>> banned = {};  // sequences that may not come

  /// Throws ValueError for options out of range, and if models, tokenizer and options do not go together.
  TranslationSystem(const std::vector<nn::Transformer<T, D>>& models, text::AnyTokenizer with, const TranslatorOptions& o)
      : model(make_model(models, o)), tokenizer(std::move(with)), options(o), first(text::forced_begin(tokenizer)) {
    for (const auto& m : models) weight_bytes += nn::parameter_count(m) * bytes_of_number(m, o.precision);
    if (first < 0) first = o.first;
    check_value(o.min_length <= model.longest(), "Translator", "min_length is ", o.min_length, ", the model gives at most ",
                model.longest(), " tokens");
    if (o.sample)
      check_sampling({.samples = o.n_best, .temperature = o.temperature, .top_k = o.top_k, .top_p = o.top_p, .min_p = o.min_p},
                     1);
    const index_t tokens = tokenizer.size(), target_tokens = text::target_size(tokenizer);
    const index_t source = models.front().encoder.options.vocabulary, target = model.vocabulary();
    check_value(tokens <= source && target_tokens <= target, "Translator", "the tokenizer has ", tokens,
                (target_tokens == tokens ? "" : " and " + std::to_string(target_tokens)),
                " tokens, the model's vocabularies are ", source, " and ", target);
    check_value(tokenizer.eos() >= 0, "Translator", "the tokenizer has no end token");
    forbid();
  }

  [[nodiscard]] index_t source_positions() const {
    index_t least = model.members().front().transformer().encoder.options.max_length;
    for (const auto& m : model.members()) least = std::min(least, m.transformer().encoder.options.max_length);
    return least;
  }
  /// What stands before every translation: the tokenizer's begin token, or, if it has none, its end token.
  [[nodiscard]] token_t begin_token() const { return tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eos(); }
  /// How long a part's translation may be.
  [[nodiscard]] index_t limit(const SourcePart& part) const {
    const double by_source = std::ceil(options.max_ratio * static_cast<double>(part.tokens.size())) + 10;
    const index_t most = options.max_length > 0 ? options.max_length : model.longest();
    const bool shorter = options.max_length == 0 && by_source < static_cast<double>(most);  // the ratio may be infinite
    const index_t wanted = shorter ? static_cast<index_t>(by_source) : std::min(most, model.longest());
    return std::max({options.min_length, wanted, count_of(begun(part.prefix))});
  }
  /// What a translation with this prefix begins with: the token that comes first, if there is one, and the prefix.
  [[nodiscard]] std::vector<token_t> begun(std::vector<token_t> prefix) const {
    if (first >= 0) prefix.insert(prefix.begin(), first);
    return prefix;
  }
  /// Of a Translation or Hypothesis: what a beam search would rank it by, but for coverage.
  template <class Rated>
  [[nodiscard]] double search_score(const Rated& t) const {
    return normalized_score(t.log_probability, count_of(t.token_log_probabilities), options.length_penalty,
                            options.normalization);
  }

  /// What the tokens of a translation look like.
  [[nodiscard]] std::vector<std::string> pieces(std::span<const token_t> tokens) const {
    std::vector<std::string> names;
    for (const token_t token : tokens) names.push_back(text::target_piece(tokenizer, token));
    return names;
  }

  /// What the options say of these parts, prefixes and shortlists aside. The user's functions are told of sentences by their
  /// numbers in the whole text.
  [[nodiscard]] Constraints constraints_of(std::span<const SourcePart* const> batch, std::size_t before) const {
    const auto& o = options;
    Constraints c{.first = first,
                  .banned = banned,
                  .no_repeat_ngram = o.no_repeat_ngram,
                  .force_end = o.force_end,
                  .score_forced_end = o.score_forced_end,
                  .renormalize = o.renormalize,
                  .repetition_penalty = o.repetition_penalty,
                  .unknown = text::unknown_token(tokenizer),
                  .unknown_penalty = o.unknown_penalty};
    if (!o.allowed_next && !o.edit) return c;
    std::vector<index_t> numbers;
    for (const auto* part : batch) numbers.push_back(before + part->sentence);
    if (o.allowed_next)
      c.allowed_next = [this, numbers](index_t sentence, std::span<const token_t> tokens) {
        return options.allowed_next(nth(numbers, sentence), tokens);
      };
    if (o.edit)
      c.edit = [this, numbers](index_t sentence, std::span<const token_t> tokens, std::span<float> log_probabilities) {
        options.edit(nth(numbers, sentence), tokens, log_probabilities);
      };
    return c;
  }
  /// The phrases that the translation of a part must have, as tokens, each cut as it stands. Throws ValueError for a phrase that
  /// no translation can have: the search could name only its tokens.
  [[nodiscard]] std::vector<std::vector<token_t>> required_in(const SourcePart& part) const {
    std::vector<std::vector<token_t>> phrases;
    if (!options.required) return phrases;
    const token_t unknown = text::unknown_token(tokenizer);
    for (const auto& words : options.required(part.text)) {
      text::check_utf8("Translator: required", words);
      phrases.push_back(text::encode_target(tokenizer, words));
      const auto& phrase = phrases.back();
      const auto check = [&](bool good, const auto&... why) {
        check_value(good, "Translator", "required has '", attend::detail::printable(words), "', which has ", why...);
      };
      check(!phrase.empty(), "no tokens");
      check(unknown < 0 || std::find(phrase.begin(), phrase.end(), unknown) == phrase.end(),
            "a character or word that the tokenizer does not know");
      const auto count = count_of(phrase);
      check(count <= limit(part), count, " tokens, and the translation ", limit(part), " at most");
    }
    return phrases;
  }
  /// The tokens that may come in a part, given that the options have a shortlist: its own and those that must come; empty: all.
  /// The search adds the end token.
  [[nodiscard]] std::vector<token_t> allowed_in(const SourcePart& part, const std::vector<std::vector<token_t>>& required) const {
    auto allowed = options.shortlist(part.tokens);
    for (const auto& phrase : required)
      if (!allowed.empty()) allowed.insert(allowed.end(), phrase.begin(), phrase.end());
    return allowed;
  }

 private:
  /// The models as one that is searched. Throws ValueError if their vocabularies differ.
  static Ensemble<TransformerModel<T, D>> make_model(const std::vector<nn::Transformer<T, D>>& models,
                                                     const TranslatorOptions& options) {
    check_translator(options);
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
    return Ensemble<TransformerModel<T, D>>(std::move(members));
  }
  /// What a number of the weights takes in products.
  static index_t bytes_of_number(const nn::Transformer<T, D>& model, Precision precision) {
    if (precision == Precision::int8 || nn::is_quantized(model)) return 1;
    return precision == Precision::bf16 ? 2 : sizeof(T);
  }
  /// Gathers what may not come.
  void forbid() {
    const auto& o = options;
    const auto never = [&](token_t mark) {
      if (mark >= 0) suppressed.push_back(mark);
    };
    if (o.suppress_marks) never(tokenizer.pad());
    if (o.suppress_marks && tokenizer.bos() != tokenizer.eos()) never(tokenizer.bos());
    if (o.unknown == Unknown::suppress) never(text::unknown_token(tokenizer));
    for (index_t t = text::target_size(tokenizer); t < model.vocabulary(); ++t) suppressed.push_back(static_cast<token_t>(t));
    const auto check = [&](const char* name, token_t token) {
      check_value(token >= 0 && token < model.vocabulary(), "Translator", name, " has token ", token,
                  ", outside the vocabulary of ", model.vocabulary());
    };
    for (const token_t token : o.suppressed) {
      check("suppressed", token);
      suppressed.push_back(token);
    }
    for (const token_t token : o.end_tokens) check("end_tokens", token);
    if (first >= 0) check("first", first);
    check_value(o.unknown_penalty == 0 || text::unknown_token(tokenizer) >= 0, "Translator",
                "unknown_penalty is given, and the tokenizer has no unknown token");
    for (const auto& sequence : o.banned) {
      check_value(!sequence.empty(), "Translator", "banned has an empty sequence");
      for (const token_t token : sequence) check("banned", token);
      banned.push_back(sequence);
    }
    for (const auto& words : o.banned_text) {
      text::check_utf8("Translator: banned_text", words);
      banned.push_back(text::encode_target(tokenizer, words));
      check_value(!banned.back().empty(), "Translator", "banned_text has '", words, "', which has no tokens");
    }
  }
};

/// The parts of all sentences, in order, and how many each sentence has.
struct CutSentences {
  std::vector<SourcePart> parts;
  std::vector<std::size_t> counts;
};

/// Splits if the options want it, and encodes. See `Translator::translate`.
template <class System>
CutSentences cut_sentences(const System& system, std::span<const std::string> sentences, std::size_t before,
                           std::span<const std::string> prefixes) {
  check_value(prefixes.empty() || prefixes.size() == sentences.size(), "Translator", prefixes.size(), " prefixes for ",
              sentences.size(), " sentences");
  const index_t positions = system.source_positions(), longest = system.model.longest();
  const auto ends = text::source_end(system.tokenizer).size();
  const auto length = [&](std::string_view text) {  // what ends it counted
    return static_cast<index_t>(system.tokenizer.encode(std::string(text)).size() + ends);
  };
  CutSentences cut;
  std::vector<SourcePart>& parts = cut.parts;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const std::string name = "sentence " + std::to_string(before + i + 1);
    text::check_utf8("Translator: " + name, sentences[i]);
    if (!prefixes.empty()) text::check_utf8("Translator: the prefix of " + name, prefixes[i]);
    const std::size_t first = parts.size();
    std::string_view rest = sentences[i];
    index_t word = 0;
    for (const auto text : parts_of(sentences[i], system.options, [&](auto part) { return length(part) <= positions; })) {
      word += first_word_of(rest, text);
      rest.remove_prefix(text.data() - rest.data());
      SourcePart part{.sentence = i,
                      .part = parts.size() - first,
                      .text = text,
                      .first_word = word,
                      .tokens = system.tokenizer.encode(std::string(text)),
                      .prefix = {}};
      if (part.tokens.empty()) continue;
      text::add_source_end(system.tokenizer, part.tokens);
      const auto count = count_of(part.tokens);
      check_value(count <= positions, "Translator", name, " has ", count, " tokens, the model takes ", positions, "; split it");
      if (!prefixes.empty() && part.part == 0) part.prefix = text::encode_target(system.tokenizer, prefixes[i]);
      check_value(count_of(system.begun(part.prefix)) <= longest, "Translator", "the prefix of ", name, " has ",
                  part.prefix.size(), " tokens, the model gives at most ", longest);
      parts.push_back(std::move(part));
    }
    cut.counts.push_back(parts.size() - first);
  }
  return cut;
}

}  // namespace attend::decode::detail
