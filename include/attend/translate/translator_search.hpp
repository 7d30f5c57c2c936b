#pragma once

/// How a Translator searches. Part of translator.hpp.

#include "attend/core/printable.hpp"
#include "attend/translate/translator.hpp"

namespace attend::decode {

/// Splits where the options want it, and encodes.
template <class Tokenizer, class T, Device D>
auto Translator<Tokenizer, T, D>::cut(std::span<const std::string> sentences, std::size_t before,
                                      std::span<const std::string> prefixes, std::vector<std::size_t>& counts) const -> Parts {
  check_value(prefixes.empty() || prefixes.size() == sentences.size(), "Translator", prefixes.size(), " prefixes for ",
              sentences.size(), " sentences");
  const index_t positions = source_positions(), longest = model_.longest();
  const auto length = [&](std::string_view text) {  // the end token counted
    return static_cast<index_t>(tokenizer_.encode(std::string(text)).size()) + 1;
  };
  Parts parts;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const std::string name = "sentence " + std::to_string(before + i + 1);
    text::check_utf8("Translator: " + name, sentences[i]);
    if (!prefixes.empty()) text::check_utf8("Translator: the prefix of " + name, prefixes[i]);
    const std::size_t first = parts.size();
    std::string_view rest = sentences[i];
    index_t word = 0;
    for (const auto text : detail::parts_of(sentences[i], options_, [&](auto part) { return length(part) <= positions; })) {
      word += detail::first_word_of(rest, text);
      rest.remove_prefix(static_cast<std::size_t>(text.data() - rest.data()));
      detail::SourcePart part{.sentence = i,
                              .part = parts.size() - first,
                              .text = text,
                              .first_word = word,
                              .tokens = tokenizer_.encode(std::string(text)),
                              .prefix = {}};
      if (part.tokens.empty()) continue;
      part.tokens.push_back(tokenizer_.eos());
      const auto count = count_of(part.tokens);
      check_value(count <= positions, "Translator", name, " has ", count, " tokens, the model takes ", positions, "; split it");
      if (!prefixes.empty() && part.part == 0) part.prefix = text::encode_target(tokenizer_, prefixes[i]);
      check_value(count_of(part.prefix) <= longest, "Translator", "the prefix of ", name, " has ", part.prefix.size(),
                  " tokens, the model gives at most ", longest);
      parts.push_back(std::move(part));
    }
    counts.push_back(parts.size() - first);
  }
  return parts;
}

/// Batches parts of like lengths; where somebody hears of tokens, the parts of a sentence in their order.
template <class Tokenizer, class T, Device D>
TranslationLists Translator<Tokenizer, T, D>::translate_parts(const Parts& parts, std::size_t before,
                                                              detail::Streams* streams) const {
  const bool told = streams != nullptr && options_.on_token;
  // Who is told of every token hears the parts of a sentence one after another.
  const auto wave = [&](const detail::SourcePart* p) { return told ? p->part : 0; };
  Batch order;
  for (const auto& part : parts) order.push_back(&part);
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return wave(a) != wave(b) ? wave(a) < wave(b) : a->tokens.size() > b->tokens.size();
  });
  TranslationLists results(parts.size());
  const auto put_away = [&](const Batch& batch, Results<Results<Hypothesis>> found) {
    Batch sources;
    std::vector<Translation*> translations;
    for (std::size_t k = 0; k < batch.size(); ++k) {
      auto& list = nth(results, batch[k] - parts.data());
      list.reserve(found[k].size());
      for (auto& h : found[k]) {
        list.push_back({.text = tokenizer_.decode(h.tokens),
                        .score = h.score,
                        .log_probability = h.log_probability,
                        .tokens = std::move(h.tokens),
                        .finished = h.finished,
                        .token_log_probabilities = std::move(h.token_log_probabilities),
                        .end_token = h.end_token,
                        .distributions = std::move(h.distributions)});
        sources.push_back(batch[k]);
        translations.push_back(&list.back());
      }
    }
    use_attention(sources, translations);
  };
  if (side_by_side()) {
    const auto batches = even_batches(order);
    std::vector<Results<Results<Hypothesis>>> found(batches.size());
    ThreadPool::instance().run(count_of(batches), 1, [&](index_t first, index_t last) {
      for (index_t b = first; b < last; ++b) nth(found, b) = search(nth(batches, b), before, {});
    });
    for (std::size_t b = 0; b < batches.size(); ++b) put_away(batches[b], std::move(found[b]));
    return results;
  }
  const auto most = static_cast<std::size_t>(options_.batch_sentences);
  for (std::size_t first = 0; first < order.size();) {
    Batch batch;
    const std::size_t now = wave(order[first]);
    for (; first < order.size() && batch.size() < most && wave(order[first]) == now; ++first)
      if (!told || !streams->stopped(order[first]->sentence, options_.n_best)) batch.push_back(order[first]);
    if (batch.empty()) continue;
    std::vector<std::size_t> sentences;
    for (const auto* part : batch) sentences.push_back(part->sentence);
    put_away(batch, search(batch, before, told ? streams->of_batch(std::move(sentences)) : TokenCallback()));
    for (std::size_t k = 0; told && k < batch.size(); ++k)
      streams->finish(batch[k]->sentence, nth(results, batch[k] - parts.data()));
  }
  return results;
}

/// On a processor, where nobody hears of what happens on the way.
template <class Tokenizer, class T, Device D>
bool Translator<Tokenizer, T, D>::side_by_side() const {
  const auto& o = options_;
  return std::same_as<D, Cpu> && !o.on_token && !o.allowed_next && !o.edit && !o.required && !o.trace;
}

/// Batches that keep all threads busy to the end: as many for each of them, and none so small that it reads the weights for
/// little.
template <class Tokenizer, class T, Device D>
auto Translator<Tokenizer, T, D>::even_batches(const Batch& order) const -> std::vector<Batch> {
  constexpr index_t worth_a_thread = 8;
  const auto up = [](index_t a, index_t b) { return (a + b - 1) / b; };
  const index_t n = count_of(order), most = options_.batch_sentences, together = threads();
  const index_t rounds = together == 1 ? up(n, most) : std::max<index_t>(2, up(n, together * most));  // the longest come first
  const index_t size = std::max(up(n, together * std::max<index_t>(rounds, 1)), std::min(worth_a_thread, most));
  std::vector<Batch> batches;
  for (index_t first = 0; first < n; first += size)
    batches.emplace_back(order.begin() + first, order.begin() + std::min(first + size, n));
  return batches;
}

/// Functions of the user's are told of sentences by their numbers in the whole text.
template <class Tokenizer, class T, Device D>
Constraints Translator<Tokenizer, T, D>::constraints_of(std::span<const detail::SourcePart* const> batch,
                                                        std::size_t before) const {
  const auto& o = options_;
  Constraints c{.banned = banned_,
                .no_repeat_ngram = o.no_repeat_ngram,
                .force_end = o.force_end,
                .score_forced_end = o.score_forced_end,
                .renormalize = o.renormalize,
                .repetition_penalty = o.repetition_penalty,
                .unknown = text::unknown_token(tokenizer_),
                .unknown_penalty = o.unknown_penalty};
  if (!o.allowed_next && !o.edit) return c;
  std::vector<index_t> numbers;
  for (const auto* part : batch) numbers.push_back(static_cast<index_t>(before + part->sentence));
  if (o.allowed_next)
    c.allowed_next = [this, numbers](index_t sentence, std::span<const token_t> tokens) {
      return options_.allowed_next(nth(numbers, sentence), tokens);
    };
  if (o.edit)
    c.edit = [this, numbers](index_t sentence, std::span<const token_t> tokens, std::span<float> log_probabilities) {
      options_.edit(nth(numbers, sentence), tokens, log_probabilities);
    };
  return c;
}

/// Cuts them as they stand. Throws ValueError for one that no translation can have; the search would say so of tokens.
template <class Tokenizer, class T, Device D>
std::vector<std::vector<token_t>> Translator<Tokenizer, T, D>::required_in(const detail::SourcePart& part) const {
  std::vector<std::vector<token_t>> phrases;
  if (!options_.required) return phrases;
  const token_t unknown = text::unknown_token(tokenizer_);
  for (const auto& words : options_.required(part.text)) {
    text::check_utf8("Translator: required", words);
    phrases.push_back(text::encode_target(tokenizer_, words));
    const auto& phrase = phrases.back();
    const auto check = [&](bool good, const std::string& why) {
      check_value(good, "Translator", "required has '", attend::detail::printable(words), "', which has ", why);
    };
    check(!phrase.empty(), "no tokens");
    check(unknown < 0 || std::find(phrase.begin(), phrase.end(), unknown) == phrase.end(),
          "a character or word that the tokenizer does not know");
    const auto count = count_of(phrase);
    check(count <= limit(part),
          std::to_string(count) + " tokens, and the translation " + std::to_string(limit(part)) + " at most");
  }
  return phrases;
}

/// What a search adds to the lists is the end token.
template <class Tokenizer, class T, Device D>
std::vector<token_t> Translator<Tokenizer, T, D>::allowed_in(const detail::SourcePart& part,
                                                             const std::vector<std::vector<token_t>>& required) const {
  auto allowed = options_.shortlist(part.tokens);
  for (const auto& phrase : required)
    if (!allowed.empty()) allowed.insert(allowed.end(), phrase.begin(), phrase.end());
  return allowed;
}

/// One batch, by whichever search the options choose.
template <class Tokenizer, class T, Device D>
Results<Results<Hypothesis>> Translator<Tokenizer, T, D>::search(std::span<const detail::SourcePart* const> batch,
                                                                 std::size_t before, const TokenCallback& on_token) const {
  const auto& o = options_;
  const auto sentences = count_of(batch);
  std::vector<std::vector<token_t>> sources;
  std::vector<index_t> limits;
  std::vector<std::uint64_t> ids;
  std::vector<token_t> head;  // all that a batch with shortlists needs; none where one of its sentences may need more
  Constraints constraints = constraints_of(batch, before);
  std::vector<std::vector<std::vector<token_t>>> required;
  bool restricted = static_cast<bool>(o.shortlist);
  for (const auto* part : batch) {
    sources.push_back(part->tokens);
    limits.push_back(limit(*part));
    ids.push_back(static_cast<std::uint64_t>(before + part->sentence) ^ (static_cast<std::uint64_t>(part->part) << 40));
    constraints.prefix.push_back(part->prefix);
    required.push_back(required_in(*part));
    if (!o.shortlist) continue;
    constraints.allowed.push_back(allowed_in(*part, required.back()));
    const auto& allowed = constraints.allowed.back();
    // What a prefix does to the model's own probabilities would depend on the other sentences' shortlists.
    restricted = restricted && !allowed.empty() && part->prefix.empty();
    head.insert(head.end(), allowed.begin(), allowed.end());
  }
  const auto is_empty = [](const auto& prefix) { return prefix.empty(); };
  if (std::all_of(constraints.prefix.begin(), constraints.prefix.end(), is_empty)) constraints.prefix.clear();
  if (std::all_of(required.begin(), required.end(), is_empty)) required.clear();
  head.push_back(tokenizer_.eos());
  head.insert(head.end(), o.end_tokens.begin(), o.end_tokens.end());
  const auto [source, segments] = detail::end_to_end(sources, -1, -1);
  auto state =
      model_.begin(source.template to<D>(), segments, restricted ? std::span<const token_t>(head) : std::span<const token_t>());
  const auto with_common = [&](auto options) {
    options.bos = begin_token();
    options.eos = tokenizer_.eos();
    options.end_tokens = o.end_tokens;
    options.max_length = std::move(limits);
    options.min_length = o.min_length;
    options.suppressed = suppressed_;
    options.constraints = std::move(constraints);
    options.distributions = o.distributions;
    return options;
  };
  const auto scored = [&](auto lists) {  // these searches rank nothing, and know of no length penalty
    for (auto& list : lists)
      for (auto& h : list) h.score = search_score(h);
    return lists;
  };
  if (o.sample) {
    auto options = with_common(SampleOptions{.samples = o.n_best,
                                             .temperature = o.temperature,
                                             .top_k = o.top_k,
                                             .top_p = o.top_p,
                                             .min_p = o.min_p,
                                             .seed = o.seed,
                                             .sentence_ids = std::move(ids)});
    options.on_token = on_token;
    return scored(decode::sample(model_, state, sentences, options));
  }
  if (o.beam > 1)
    return decode::beam_search(model_, state, sentences,
                               with_common(BeamOptions{.beam = o.beam,
                                                       .n_best = o.n_best,
                                                       .alpha = o.length_penalty,
                                                       .normalization = o.normalization,
                                                       .stop = o.stop,
                                                       .keep_unfinished = o.keep_unfinished,
                                                       .coverage = o.coverage_penalty,
                                                       .trace = o.trace,
                                                       .temperature = o.temperature,
                                                       .beam_groups = o.beam_groups,
                                                       .diversity_penalty = o.diversity_penalty,
                                                       .required = std::move(required)}));
  auto options = with_common(GreedyOptions{});
  options.on_token = on_token;
  Results<Results<Hypothesis>> results;
  for (auto& h : decode::greedy(model_, state, sentences, options)) results.emplace_back().push_back(std::move(h));
  return scored(std::move(results));
}

}  // namespace attend::decode
