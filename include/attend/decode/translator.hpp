#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "attend/decode/transformer.hpp"

namespace attend::decode {

/// How a Translator searches and groups its work.
struct TranslatorOptions {
  index_t beam = 4;             ///< 1: greedy search
  index_t n_best = 1;           ///< translations per sentence, at most `beam`
  double length_penalty = 0.6;  ///< 0: none; larger favours longer translations
  LengthNormalization normalization = LengthNormalization::google;
  Stop stop = Stop::exact;  ///< when a sentence's beam search ends
  index_t min_length = 0;   ///< tokens
  index_t max_length = 0;   ///< tokens; 0: `max_ratio` times the source's length and 10 more
  double max_ratio = 2;
  bool sample = false;           ///< draw translations at random instead of searching the best
  double temperature = 1;        ///< of sampling; below 1 sharpens
  index_t top_k = 0;             ///< of sampling: among the k most probable tokens; 0: among all
  double top_p = 1;              ///< of sampling: among the most probable tokens that have this share of the mass
  std::uint64_t seed = 0;        ///< of sampling
  index_t batch_sentences = 32;  ///< sentences translated at once
  /// int8: products in 8-bit integers, for float models: a quarter of the memory to read, and slightly other results.
  Precision precision = Precision::full;
};

/// A translation and how the model rates it.
struct Translation {
  std::string text;
  double score = 0;            ///< what the search ranks by
  double log_probability = 0;  ///< of all tokens and the end
  std::vector<token_t> tokens;
  bool finished = true;  ///< false where the length limit cut it off
};

/// Strings in, strings out: tokenizer, search and model as one. Sentences are sorted by length and translated in batches; what
/// one sentence gets does not depend on the others. Several threads may share one.
///
/// Shares the model's parameters: after more training it translates with the new weights.
template <class Tokenizer, class T, Device D = Cpu>
class Translator {
 public:
  /// Throws ValueError for options out of range or a tokenizer with more tokens than the model.
  Translator(const nn::Transformer<T, D>& model, Tokenizer tokenizer, const TranslatorOptions& options = {});

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
  /// Throws ValueError for a sentence with more tokens than the model has positions.
  [[nodiscard]] std::vector<std::vector<Translation>> translate(std::span<const std::string> sentences,
                                                                std::size_t before = 0) const;

  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const TranslatorOptions& options() const { return options_; }

 private:
  void translate_batch(std::span<const std::size_t> batch, const std::vector<std::vector<token_t>>& sources, std::size_t before,
                       std::vector<std::vector<Translation>>& results) const {
    std::vector<token_t> tokens;
    std::vector<index_t> lengths, limits;
    std::vector<std::uint64_t> ids;
    for (const std::size_t i : batch) {
      tokens.insert(tokens.end(), sources[i].begin(), sources[i].end());
      lengths.push_back(static_cast<index_t>(sources[i].size()));
      limits.push_back(limit(lengths.back()));
      ids.push_back(before + i);
    }
    const Tensor<token_t, Cpu> host({static_cast<index_t>(tokens.size())}, std::span<const token_t>(tokens));
    auto state = model_.begin(host.template to<D>(), Segments::ragged(lengths));
    const auto found = search(state, std::move(limits), std::move(ids));
    for (std::size_t k = 0; k < batch.size(); ++k)
      for (const auto& h : found[k])
        results[batch[k]].push_back({tokenizer_.decode(h.tokens), h.score, h.log_probability, h.tokens, h.finished});
  }

  /// What stands before every translation: the tokenizer's begin token, or where it has none its end token.
  [[nodiscard]] token_t begin_token() const { return tokenizer_.bos() >= 0 ? tokenizer_.bos() : tokenizer_.eos(); }

  [[nodiscard]] index_t limit(index_t source_length) const {
    const index_t wanted = options_.max_length > 0
                               ? options_.max_length
                               : static_cast<index_t>(std::ceil(options_.max_ratio * static_cast<double>(source_length))) + 10;
    return std::max(options_.min_length, std::min(wanted, model_.longest()));
  }

  std::vector<std::vector<Hypothesis>> search(typename TransformerModel<T, D>::State& state, std::vector<index_t> limits,
                                              std::vector<std::uint64_t> ids) const {
    const auto& o = options_;
    const auto sentences = static_cast<index_t>(limits.size());
    if (o.sample)
      return decode::sample(model_, state, sentences,
                            {.bos = begin_token(),
                             .eos = tokenizer_.eos(),
                             .max_length = std::move(limits),
                             .min_length = o.min_length,
                             .suppressed = suppressed_,
                             .samples = o.n_best,
                             .temperature = o.temperature,
                             .top_k = o.top_k,
                             .top_p = o.top_p,
                             .seed = o.seed,
                             .sentence_ids = std::move(ids)});
    if (o.beam > 1)
      return decode::beam_search(model_, state, sentences,
                                 {.bos = begin_token(),
                                  .eos = tokenizer_.eos(),
                                  .max_length = std::move(limits),
                                  .min_length = o.min_length,
                                  .suppressed = suppressed_,
                                  .beam = o.beam,
                                  .n_best = o.n_best,
                                  .alpha = o.length_penalty,
                                  .normalization = o.normalization,
                                  .stop = o.stop});
    std::vector<std::vector<Hypothesis>> results;
    for (auto& h : decode::greedy(model_, state, sentences,
                                  {.bos = begin_token(),
                                  .eos = tokenizer_.eos(),
                                  .max_length = std::move(limits),
                                  .min_length = o.min_length,
                                  .suppressed = suppressed_}))
      results.push_back({std::move(h)});
    return results;
  }

  TransformerModel<T, D> model_;
  Tokenizer tokenizer_;
  TranslatorOptions options_;
  std::vector<token_t> suppressed_;
};

// The two that reach all the rest stand outside the class: so a program may have them compiled once, see compiled.hpp.

template <class Tokenizer, class T, Device D>
Translator<Tokenizer, T, D>::Translator(const nn::Transformer<T, D>& model, Tokenizer tokenizer, const TranslatorOptions& options)
    : model_(model, options.precision), tokenizer_(std::move(tokenizer)), options_(options) {
  const auto& o = options_;
  check_value(o.beam >= 1, "Translator", "beam is " + std::to_string(o.beam) + ", expected at least 1");
  check_value(o.n_best >= 1 && (o.sample || o.n_best <= o.beam), "Translator",
              "n_best is " + std::to_string(o.n_best) + ", expected 1 to beam, " + std::to_string(o.beam));
  check_value(o.batch_sentences >= 1, "Translator", "batch_sentences is " + std::to_string(o.batch_sentences));
  check_value(o.max_length >= 0 && o.max_ratio > 0, "Translator", "max_length and max_ratio must be positive");
  check_value(o.min_length >= 0, "Translator", "min_length is negative");
  check_value(o.max_length == 0 || o.min_length <= o.max_length, "Translator",
              "min_length is " + std::to_string(o.min_length) + ", max_length " + std::to_string(o.max_length));
  check_value(o.min_length <= model_.longest(), "Translator",
              "min_length is " + std::to_string(o.min_length) + ", the model gives at most " + std::to_string(model_.longest()) +
                  " tokens");
  check_value(std::isfinite(o.length_penalty), "Translator", "length_penalty is not finite");
  if (o.sample)
    detail::check_sampling({.samples = o.n_best, .temperature = o.temperature, .top_k = o.top_k, .top_p = o.top_p}, 1);
  const index_t tokens = tokenizer_.size(), source = model.encoder.options.vocabulary, target = model_.vocabulary();
  check_value(tokens <= source && tokens <= target, "Translator",
              "the tokenizer has " + std::to_string(tokens) + " tokens, the model's vocabularies are " + std::to_string(source) +
                  " and " + std::to_string(target));
  check_value(tokenizer_.eos() >= 0, "Translator", "the tokenizer has no end token");
  const auto never = [&](token_t mark) {
    if (mark >= 0) suppressed_.push_back(mark);
  };
  never(tokenizer_.pad());
  if (tokenizer_.bos() != tokenizer_.eos()) never(tokenizer_.bos());
  if constexpr (requires { tokenizer_.unk(); }) never(tokenizer_.unk());
  for (index_t t = tokens; t < target; ++t) suppressed_.push_back(static_cast<token_t>(t));
}

template <class Tokenizer, class T, Device D>
std::vector<std::vector<Translation>> Translator<Tokenizer, T, D>::translate(std::span<const std::string> sentences,
                                                                             std::size_t before) const {
  std::vector<std::vector<Translation>> results(sentences.size());
  std::vector<std::vector<token_t>> sources(sentences.size());
  std::vector<std::size_t> order;
  const index_t longest = model_.transformer().encoder.options.max_length;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    sources[i] = tokenizer_.encode(sentences[i]);
    if (sources[i].empty()) {
      results[i].emplace_back();
      continue;
    }
    sources[i].push_back(tokenizer_.eos());
    check_value(static_cast<index_t>(sources[i].size()) <= longest, "Translator",
                "sentence " + std::to_string(before + i + 1) + " has " + std::to_string(sources[i].size()) +
                    " tokens, the model takes " + std::to_string(longest) + "; split it");
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  const auto batch = static_cast<std::size_t>(options_.batch_sentences);
  for (std::size_t first = 0; first < order.size(); first += batch)
    translate_batch(std::span<const std::size_t>(order).subspan(first, std::min(batch, order.size() - first)), sources, before,
                    results);
  return results;
}

template <class Tokenizer, class T, Device D>
Translator(const nn::Transformer<T, D>&, Tokenizer, const TranslatorOptions&) -> Translator<Tokenizer, T, D>;
template <class Tokenizer, class T, Device D>
Translator(const nn::Transformer<T, D>&, Tokenizer) -> Translator<Tokenizer, T, D>;

}  // namespace attend::decode
