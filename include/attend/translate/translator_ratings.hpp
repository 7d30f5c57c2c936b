#pragma once

/// How a Translator rates and aligns translations, and finds others. Part of translator.hpp.

#include <limits>
#include <numeric>

#include "attend/decode/adjust.hpp"
#include "attend/decode/required.hpp"
#include "attend/text/piece_words.hpp"
#include "attend/translate/translator.hpp"
#include "attend/translate/unknown_words.hpp"

namespace attend::decode {

/// What the model gives for these targets, not what it would say itself.
template <class Tokenizer, class T, Device D>
std::vector<detail::ForcedTarget> Translator<Tokenizer, T, D>::force(std::span<const detail::SourcePart* const> sources,
                                                                     std::span<const std::vector<token_t>> targets, bool scores,
                                                                     bool attention) const {
  std::vector<std::vector<token_t>> tokens;
  for (const auto* part : sources) tokens.push_back(part->tokens);
  std::vector<std::vector<detail::ForcedTarget>> all;
  for (const auto& member : model_.members()) {
    const auto layers = count_of(member.transformer().decoder.layers);
    const index_t layer = options_.alignment_layer >= 0 ? options_.alignment_layer : std::max<index_t>(layers - 2, 0);
    const detail::ForcedPass pass{
        .bos = begin_token(), .eos = tokenizer_.eos(), .scores = scores, .layer = attention ? layer : -1};
    all.push_back(member.evaluate([&](const auto& model) { return detail::force_targets(model, tokens, targets, pass); }));
  }
  return detail::mean_of(std::move(all));
}

/// Replaces and aligns, batch by batch, what needs one more pass for it.
template <class Tokenizer, class T, Device D>
void Translator<Tokenizer, T, D>::use_attention(std::span<const detail::SourcePart* const> parts,
                                                std::span<Translation* const> translations) const {
  const token_t unk = options_.unknown == Unknown::replace ? text::unknown_token(tokenizer_) : -1;
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const auto& tokens = translations[i]->tokens;
    const bool has_unknown = unk >= 0 && std::find(tokens.begin(), tokens.end(), unk) != tokens.end();
    if (options_.alignments || has_unknown) needed.push_back(i);
  }
  const auto most = static_cast<std::size_t>(options_.batch_sentences);
  for (std::size_t first = 0; first < needed.size(); first += most) {
    const auto batch = std::span(needed).subspan(first, std::min(most, needed.size() - first));
    std::vector<const detail::SourcePart*> sources;
    std::vector<std::vector<token_t>> targets;
    for (const std::size_t i : batch) sources.push_back(parts[i]), targets.push_back(translations[i]->tokens);
    const auto forced = force(sources, targets, false, true);
    for (std::size_t k = 0; k < batch.size(); ++k)
      replace_or_align(*sources[k], forced[k].attention, unk >= 0, options_.alignments, *translations[batch[k]]);
  }
}

/// The same of one translation, whose tokens attended as `attention` [tokens, source] says.
template <class Tokenizer, class T, Device D>
void Translator<Tokenizer, T, D>::replace_or_align(const detail::SourcePart& part, const Tensor<float>& attention, bool replace,
                                                   bool align, Translation& translation) const {
  const auto source_tokens = std::span(part.tokens).first(part.tokens.size() - 1);
  if (source_tokens.empty()) return;
  const auto best = best_sources(attention, count_of(source_tokens));
  const auto source_pieces = [&](std::span<const token_t> tokens) {
    std::vector<std::string> names;
    for (const token_t token : tokens) names.push_back(text::piece(tokenizer_, token));
    return names;
  };
  const auto source_words = text::piece_words(source_pieces(source_tokens), part.text, [&](std::string_view word) {
    return source_pieces(tokenizer_.encode(std::string(word)));
  });
  auto names = pieces(translation.tokens);
  if (replace)
    detail::replace_unknown_words(part.text, text::unknown_token(tokenizer_), best, source_words, translation, names,
                                  [&](std::span<const token_t> tokens) { return tokenizer_.decode(tokens); });
  if (!align) return;
  const auto target_words = text::piece_words(
      names, translation.text, [&](std::string_view word) { return pieces(text::encode_target(tokenizer_, std::string(word))); });
  translation.alignment = align_words(best, source_words, target_words);
}

/// What `score` and `align` have in common: the longest pairs first, in batches.
template <class Tokenizer, class T, Device D>
Results<Translation> Translator<Tokenizer, T, D>::rate(std::span<const std::string> sources, std::span<const std::string> targets,
                                                       std::size_t before, bool scores, bool align) const {
  check_value(sources.size() == targets.size(), "score", targets.size(), " targets for ", sources.size(), " sources");
  const index_t vocabulary = model_.members().front().transformer().encoder.options.vocabulary;
  Parts parts;
  Results<Translation> results;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    text::check_utf8("score: source " + std::to_string(before + i + 1), sources[i]);
    text::check_utf8("score: target " + std::to_string(before + i + 1), targets[i]);
    parts.push_back({.text = sources[i], .tokens = tokenizer_.encode(sources[i]), .prefix = {}});
    parts.back().tokens.push_back(tokenizer_.eos());
    results.push_back({.text = targets[i], .tokens = text::encode_target(tokenizer_, targets[i]), .end_token = tokenizer_.eos()});
    detail::check_forced("source", before + i, parts.back().tokens, 0, source_positions(), vocabulary);
    detail::check_forced("target", before + i, results.back().tokens, 1, model_.longest() + 1, model_.vocabulary());
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return results[a].tokens.size() > results[b].tokens.size(); });
  const auto most = static_cast<std::size_t>(options_.batch_sentences);
  for (std::size_t first = 0; first < order.size(); first += most) {
    const auto batch = std::span(order).subspan(first, std::min(most, order.size() - first));
    std::vector<const detail::SourcePart*> from;
    std::vector<std::vector<token_t>> to;
    for (const std::size_t i : batch) from.push_back(&parts[i]), to.push_back(results[i].tokens);
    auto forced = force(from, to, scores, align);
    for (std::size_t k = 0; k < batch.size(); ++k) {
      Translation& t = results[batch[k]];
      t.token_log_probabilities = std::move(forced[k].token_log_probabilities);
      for (const float value : t.token_log_probabilities) t.log_probability += static_cast<double>(value);
      t.score = search_score(t);
      if (align) replace_or_align(*from[k], forced[k].attention, false, true, t);
    }
  }
  return results;
}

/// Rates, and aligns where the options want it.
template <class Tokenizer, class T, Device D>
Results<Translation> Translator<Tokenizer, T, D>::score(std::span<const std::string> sources,
                                                        std::span<const std::string> targets, std::size_t before) const {
  return rate(sources, targets, before, true, options_.alignments);
}

/// Aligns, without ratings.
template <class Tokenizer, class T, Device D>
std::vector<Alignment> Translator<Tokenizer, T, D>::align(std::span<const std::string> sources,
                                                          std::span<const std::string> targets) const {
  std::vector<Alignment> alignments;
  for (auto& rated : rate(sources, targets, 0, false, true)) alignments.push_back(std::move(rated.alignment));
  return alignments;
}

/// By the same rules: but for the forced end, since what may follow without is asked for.
template <class Tokenizer, class T, Device D>
void Translator<Tokenizer, T, D>::adjust_next(const detail::SourcePart& part, std::size_t before,
                                              const std::vector<std::vector<token_t>>& required,
                                              const Tensor<Wide<T>, D>& x) const {
  const detail::SourcePart* const own = &part;
  GreedyOptions rules{.eos = tokenizer_.eos(),
                      .end_tokens = options_.end_tokens,
                      .max_length = model_.longest(),
                      .min_length = options_.min_length,
                      .suppressed = suppressed_,
                      .constraints = constraints_of(std::span(&own, 1), before)};
  rules.constraints.force_end = rules.constraints.score_forced_end = false;
  if (options_.shortlist) rules.constraints.allowed = {allowed_in(part, required)};
  detail::check_constraints("alternatives", rules, model_.vocabulary(), 1);
  detail::Adjust<Wide<T>, D, GreedyOptions> adjust("alternatives", rules, model_.vocabulary());
  adjust(count_of(part.prefix), x, [&](index_t, std::vector<token_t>& tokens) {
    tokens = part.prefix;
    return index_t{0};
  });
}

/// Goes step by step to the end of the prefix, and searches on from each of the next tokens.
template <class Tokenizer, class T, Device D>
Results<Translation> Translator<Tokenizer, T, D>::alternatives(std::string_view sentence, std::string_view prefix, index_t count,
                                                               std::size_t before) const {
  check_value(count >= 1, "alternatives", "count is ", count, ", expected at least 1");
  const std::vector<std::string> sentences{std::string(sentence)}, prefixes{std::string(prefix)};
  std::vector<std::size_t> counts;
  const Parts parts = cut(sentences, before, prefixes, counts);
  if (parts.empty()) return Results<Translation>(1);
  check_value(parts.size() == 1, "alternatives", "sentence ", before + 1, " is one of ", parts.size(), " parts, expected one");
  const detail::SourcePart& part = parts.front();

  const auto is_end = [&](token_t token) {
    const auto& others = options_.end_tokens;
    return token == tokenizer_.eos() || std::find(others.begin(), others.end(), token) != others.end();
  };
  const bool full = count_of(part.prefix) >= model_.longest();  // then only an end may follow
  const auto phrases = required_in(part);
  const detail::RequiredPhrases required(phrases);
  auto met = required.begin();
  for (const token_t token : part.prefix) required.follow(met, token);
  const bool may_end = required.met(met) == required.tokens();

  // The model step by step to the end of the prefix.
  Translation ended{.tokens = part.prefix};  // by an end token, there
  const auto [source, segments] = detail::end_to_end(std::span(&part.tokens, 1), -1, -1);
  auto state = model_.begin(source.template to<D>(), segments);
  std::vector<std::pair<double, token_t>> next;                // as the options have it
  std::vector<float> plain;                                    // as the model has it
  const auto add_given = [&](Translation& t, token_t token) {  // as a search does where a prefix leaves no choice
    t.token_log_probabilities.push_back(nth(plain, token));
    if (!options_.distributions) return;
    t.distributions.emplace_back(plain.size(), -std::numeric_limits<float>::infinity());
    nth(t.distributions.back(), token) = nth(plain, token);
  };
  for (std::size_t i = 0; i <= part.prefix.size(); ++i) {
    const token_t token = i == 0 ? begin_token() : part.prefix[i - 1];
    const auto x = model_.step(state, std::span(&token, 1));  // [1, vocabulary]
    if (!options_.sample) detail::sharpen(x, options_.temperature);
    plain = std::move(detail::rows_of(x).front());
    if (i < part.prefix.size()) {
      add_given(ended, part.prefix[i]);
      continue;
    }
    adjust_next(part, before, phrases, x);
    const auto values = x.to_host();
    for (index_t t = 0; t < values.size(); ++t)
      next.emplace_back(-static_cast<double>(values.data()[t]), static_cast<token_t>(t));
  }
  std::erase_if(next, [&](const auto& n) { return std::isinf(n.first) || (is_end(n.second) ? !may_end : full); });
  const auto kept = std::min(next.size(), static_cast<std::size_t>(count));
  std::partial_sort(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(kept), next.end());
  next.resize(kept);

  Parts longer;
  for (const auto& [value, token] : next) {
    if (is_end(token)) continue;
    longer.push_back(part);
    longer.back().prefix.push_back(token);
  }
  auto lists = translate_parts(longer, before, nullptr);
  Results<Translation> results;
  std::size_t used = 0;
  for (const auto& [value, token] : next) {
    if (!is_end(token)) {
      results.push_back(std::move(lists[used++].front()));
      continue;
    }
    Translation here = ended;
    here.text = tokenizer_.decode(here.tokens);
    here.end_token = token;
    add_given(here, token);
    for (const float v : here.token_log_probabilities) here.log_probability += static_cast<double>(v);
    here.score = search_score(here);
    const detail::SourcePart* const own = &part;
    Translation* const translation = &here;
    use_attention(std::span(&own, 1), std::span(&translation, 1));
    results.push_back(std::move(here));
  }
  return results;
}

}  // namespace attend::decode
