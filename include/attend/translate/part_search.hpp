#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "attend/translate/target_reading.hpp"
#include "attend/translate/translation_parts.hpp"
#include "attend/translate/translator_options.hpp"

namespace attend::decode::detail {

/// How many times b it takes to reach a.
inline index_t quotient_up(index_t a, index_t b) { return (a + b - 1) / b; }

/// `sentences` in batches of at most `most`, of which `together` threads take one each at a time: as few as there can be. Those
/// that are under way together are dealt out to their batches in turn. A thread that would get fewer than `least` gets none.
template <class Sentence>
std::vector<std::vector<Sentence>> dealt_batches(const std::vector<Sentence>& sentences, index_t most, index_t together,
                                                 index_t least) {
  const index_t n = count_of(sentences), rounds = quotient_up(n, together * most);
  const index_t size = quotient_up(n, std::max<index_t>(1, rounds));
  std::vector<std::vector<Sentence>> batches;
  for (index_t first = 0; first < n; first += size) {
    const index_t here = std::min(size, n - first), count = std::max(quotient_up(here, most), std::min(together, here / least));
    for (index_t b = 0; b < count; ++b) {
      auto& batch = batches.emplace_back();
      for (index_t i = first + b; i < first + here; i += count) batch.push_back(nth(sentences, i));
    }
  }
  return batches;
}

/// Finds the translations of parts of sentences, in batches of like lengths, or of large models in large ones.
template <class System>
class PartSearch {
 public:
  explicit PartSearch(const System& system) : system_(system) {}

  /// The translations of each part; `streams` may be null. If a callback is told of tokens, the parts of a sentence come in their
  /// order: the first parts of all sentences, then the second ones, and so on.
  [[nodiscard]] TranslationLists translate(std::span<const SourcePart> parts, std::size_t before, Streams* streams) const {
    const bool told = streams != nullptr && system_.options.on_token;
    // A callback that is told of every token hears of the parts of a sentence one after another.
    const auto wave = [&](const SourcePart* p) { return told ? p->part : 0; };
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
          list.push_back({.text = system_.tokenizer.decode(h.tokens),
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
      TargetReading(system_).use_attention(sources, translations);
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
    const auto most = static_cast<std::size_t>(system_.options.batch_sentences);
    for (std::size_t first = 0; first < order.size();) {
      Batch batch;
      const std::size_t now = wave(order[first]);
      for (; first < order.size() && batch.size() < most && wave(order[first]) == now; ++first)
        if (!told || !streams->stopped(order[first]->sentence, system_.options.n_best)) batch.push_back(order[first]);
      if (batch.empty()) continue;
      std::vector<std::size_t> sentences;
      for (const auto* part : batch) sentences.push_back(part->sentence);
      put_away(batch, search(batch, before, told ? streams->of_batch(std::move(sentences)) : TokenCallback()));
      for (std::size_t k = 0; told && k < batch.size(); ++k)
        streams->finish(batch[k]->sentence, nth(results, batch[k] - parts.data()));
    }
    return results;
  }

 private:
  using D = typename System::device_type;
  using Batch = std::vector<const SourcePart*>;

  /// Whether batches are translated at the same time, each by one thread: on a processor, if no callback is told what happens on
  /// the way.
  [[nodiscard]] bool side_by_side() const {
    const auto& o = system_.options;
    return std::same_as<D, Cpu> && !o.on_token && !o.allowed_next && !o.edit && !o.required && !o.trace;
  }
  /// Batches that keep all threads busy to the end: the same number for each thread, and none so small that reading the weights
  /// hardly pays. Each step of a batch reads them from memory if no cache holds them, which takes as long as multiplying some 25
  /// rows by them (150 GFLOP/s and 12 GB/s of a core were measured): batches are then as large as they may be.
  [[nodiscard]] std::vector<Batch> even_batches(const Batch& order) const {
    constexpr index_t worth_a_thread = 8, more_than_caches = index_t{1} << 28;
    const index_t n = count_of(order), most = system_.options.batch_sentences, together = threads();
    if (together > 1 && system_.weight_bytes > more_than_caches) return dealt_batches(order, most, together, worth_a_thread);
    const index_t least = quotient_up(n, together * most), rounds = together == 1 ? least : std::max<index_t>(2, least);
    // The longest come first.
    const index_t size = std::max(quotient_up(n, together * std::max<index_t>(rounds, 1)), std::min(worth_a_thread, most));
    std::vector<Batch> batches;
    for (index_t first = 0; first < n; first += size)
      batches.emplace_back(order.begin() + first, order.begin() + std::min(first + size, n));
    return batches;
  }
  /// One batch, by whichever search the options choose.
  [[nodiscard]] Results<Results<Hypothesis>> search(std::span<const SourcePart* const> batch, std::size_t before,
                                                    const TokenCallback& on_token) const {
    const auto& o = system_.options;
    const auto sentences = count_of(batch);
    std::vector<std::vector<token_t>> sources;
    std::vector<index_t> limits;
    std::vector<std::uint64_t> ids;
    std::vector<token_t> head;  // all that a batch with shortlists needs; empty if one of its sentences may need more
    Constraints constraints = system_.constraints_of(batch, before);
    std::vector<std::vector<std::vector<token_t>>> required;
    bool restricted = static_cast<bool>(o.shortlist);
    for (const auto* part : batch) {
      sources.push_back(part->tokens);
      limits.push_back(system_.limit(*part));
      ids.push_back(static_cast<std::uint64_t>(before + part->sentence) ^ (static_cast<std::uint64_t>(part->part) << 40));
      constraints.prefix.push_back(part->prefix);
      required.push_back(system_.required_in(*part));
      if (!o.shortlist) continue;
      constraints.allowed.push_back(system_.allowed_in(*part, required.back()));
      const auto& allowed = constraints.allowed.back();
      // What a prefix does to the model's own probabilities would depend on the other sentences' shortlists.
      restricted = restricted && !allowed.empty() && part->prefix.empty();
      head.insert(head.end(), allowed.begin(), allowed.end());
    }
    const auto is_empty = [](const auto& prefix) { return prefix.empty(); };
    if (std::all_of(constraints.prefix.begin(), constraints.prefix.end(), is_empty)) constraints.prefix.clear();
    if (std::all_of(required.begin(), required.end(), is_empty)) required.clear();
    head.push_back(system_.tokenizer.eos());
    head.insert(head.end(), o.end_tokens.begin(), o.end_tokens.end());
    const auto [source, segments] = end_to_end(sources, -1, -1);
    auto state = system_.model.begin(source.template to<D>(), segments,
                                     restricted ? std::span<const token_t>(head) : std::span<const token_t>());
    const auto with_common = [&](auto options) {
      options.bos = system_.begin_token();
      options.eos = system_.tokenizer.eos();
      options.end_tokens = o.end_tokens;
      options.max_length = std::move(limits);
      options.min_length = o.min_length;
      options.suppressed = system_.suppressed;
      options.constraints = std::move(constraints);
      options.distributions = o.distributions;
      return options;
    };
    const auto scored = [&](auto lists) {  // these searches rank nothing, and know of no length penalty
      for (auto& list : lists)
        for (auto& h : list) h.score = system_.search_score(h);
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
      return scored(decode::sample(system_.model, state, sentences, options));
    }
    if (o.beam > 1)
      return decode::beam_search(system_.model, state, sentences,
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
    for (auto& h : decode::greedy(system_.model, state, sentences, options)) results.emplace_back().push_back(std::move(h));
    return scored(std::move(results));
  }

  const System& system_;
};
template <class System>
PartSearch(const System&) -> PartSearch<System>;

}  // namespace attend::decode::detail
