#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/decode/adjust.hpp"
#include "attend/decode/required.hpp"
#include "attend/translate/part_search.hpp"
#include "attend/translate/target_reading.hpp"
#include "attend/translate/translation_system.hpp"

/// The ways in which a translation may go on after a prefix.
namespace attend::decode::detail {

/// Changes the model's log-probabilities [1, vocabulary] of what follows the beginning of `part` as a search for translations
/// with these phrases would, except for the forced end: the question is what may follow without it.
template <class T, Device D>
void adjust_next(const TranslationSystem<T, D>& system, const SourcePart& part, std::size_t before,
                 const std::vector<std::vector<token_t>>& required, const Tensor<Wide<T>, D>& x) {
  const SourcePart* const own = &part;
  GreedyOptions rules{.eos = system.tokenizer.eos(),
                      .end_tokens = system.options.end_tokens,
                      .max_length = system.model.longest(),
                      .min_length = system.options.min_length,
                      .suppressed = system.suppressed,
                      .constraints = system.constraints_of(std::span(&own, 1), before)};
  rules.constraints.force_end = rules.constraints.score_forced_end = false;
  if (system.options.shortlist) rules.constraints.allowed = {system.allowed_in(part, required)};
  check_constraints("alternatives", rules, system.model.vocabulary(), 1);
  Adjust<Wide<T>, D, GreedyOptions> adjust("alternatives", rules, system.model.vocabulary());
  const auto given = system.begun(part.prefix);
  adjust(count_of(given), x, [&](index_t, std::vector<token_t>& tokens) {
    tokens = given;
    return index_t{0};
  });
}

/// See `Translator::alternatives`. Goes step by step to the end of the prefix, and searches on from each of the next tokens.
template <class T, Device D>
Results<Translation> alternatives(const TranslationSystem<T, D>& system, std::string_view sentence, std::string_view prefix,
                                  index_t count, std::size_t before) {
  check_value(count >= 1, "alternatives", "count is ", count, ", expected at least 1");
  const std::vector<std::string> sentences{std::string(sentence)}, prefixes{std::string(prefix)};
  const std::vector<SourcePart> parts = cut_sentences(system, sentences, before, prefixes).parts;
  if (parts.empty()) return Results<Translation>(1);
  check_value(parts.size() == 1, "alternatives", "sentence ", before + 1, " is one of ", parts.size(), " parts, expected one");
  const SourcePart& part = parts.front();

  const auto is_end = [&](token_t token) {
    const auto& others = system.options.end_tokens;
    return token == system.tokenizer.eos() || std::find(others.begin(), others.end(), token) != others.end();
  };
  const auto given = system.begun(part.prefix);
  const bool full = count_of(given) >= system.model.longest();  // then only an end may follow
  const auto phrases = system.required_in(part);
  const RequiredPhrases required(phrases);
  auto met = required.begin();
  for (const token_t token : given) required.follow(met, token);
  const bool may_end = required.met(met) == required.tokens();

  // The model step by step to the end of the prefix.
  Translation ended{.tokens = given};  // if the end token follows right there
  const auto [source, segments] = end_to_end(std::span(&part.tokens, 1), -1, -1);
  auto state = system.model.begin(source.template to<D>(), segments);
  std::vector<std::pair<double, token_t>> next;                // as the options have it
  std::vector<float> plain;                                    // as the model has it
  const auto add_given = [&](Translation& t, token_t token) {  // as a search does if a prefix leaves no choice
    const bool certain = system.first >= 0 && t.token_log_probabilities.empty();
    t.token_log_probabilities.push_back(certain ? 0 : nth(plain, token));
    if (!system.options.distributions) return;
    t.distributions.emplace_back(plain.size(), -std::numeric_limits<float>::infinity());
    nth(t.distributions.back(), token) = t.token_log_probabilities.back();
  };
  for (std::size_t i = 0; i <= given.size(); ++i) {
    const token_t token = i == 0 ? system.begin_token() : given[i - 1];
    const auto x = system.model.step(state, std::span(&token, 1));  // [1, vocabulary]
    if (!system.options.sample) sharpen(x, system.options.temperature);
    plain = std::move(rows_of(x).front());
    if (i < given.size()) {
      add_given(ended, given[i]);
      continue;
    }
    adjust_next(system, part, before, phrases, x);
    const auto values = x.to_host();
    for (index_t t = 0; t < values.size(); ++t)
      next.emplace_back(-static_cast<double>(values.data()[t]), static_cast<token_t>(t));
  }
  std::erase_if(next, [&](const auto& n) { return std::isinf(n.first) || (is_end(n.second) ? !may_end : full); });
  const auto kept = std::min(next.size(), static_cast<std::size_t>(count));
  std::partial_sort(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(kept), next.end());
  next.resize(kept);

  std::vector<SourcePart> longer;
  for (const auto& [value, token] : next) {
    if (is_end(token)) continue;
    longer.push_back(part);
    longer.back().prefix.push_back(token);
  }
  auto lists = PartSearch(system).translate(longer, before, nullptr);
  Results<Translation> results;
  std::size_t used = 0;
  for (const auto& [value, token] : next) {
    if (!is_end(token)) {
      results.push_back(std::move(lists[used++].front()));
      continue;
    }
    Translation here = ended;
    here.text = system.tokenizer.decode(here.tokens);
    here.end_token = token;
    add_given(here, token);
    for (const float v : here.token_log_probabilities) here.log_probability += static_cast<double>(v);
    here.score = system.search_score(here);
    const SourcePart* const own = &part;
    Translation* const translation = &here;
    TargetReading(system).use_attention(std::span(&own, 1), std::span(&translation, 1));
    results.push_back(std::move(here));
  }
  return results;
}

}  // namespace attend::decode::detail
