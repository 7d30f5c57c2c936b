#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/decode/scoring.hpp"
#include "attend/text/piece_words.hpp"
#include "attend/translate/alignment.hpp"
#include "attend/translate/translation_system.hpp"
#include "attend/translate/unknown_words.hpp"

namespace attend::decode::detail {

/// Reads given translations, each in one pass through the models: how probable they are, and what their tokens attended to, which
/// says what belongs together, and what an unknown word stands for.
template <class System>
class TargetReading {
 public:
  explicit TargetReading(const System& system) : system_(system) {}

  /// Replaces unknown words and adds alignments, as the options ask, batch by batch, in the translations that need one more pass
  /// for it; translations[i] is that of parts[i].
  void use_attention(std::span<const SourcePart* const> parts, std::span<Translation* const> translations) const {
    const token_t unk = system_.options.unknown == Unknown::replace ? text::unknown_token(system_.tokenizer) : -1;
    std::vector<std::size_t> needed;
    for (std::size_t i = 0; i < translations.size(); ++i) {
      const auto& tokens = translations[i]->tokens;
      const bool has_unknown = unk >= 0 && std::find(tokens.begin(), tokens.end(), unk) != tokens.end();
      if (system_.options.alignments || has_unknown) needed.push_back(i);
    }
    const auto most = static_cast<std::size_t>(system_.options.batch_sentences);
    for (std::size_t first = 0; first < needed.size(); first += most) {
      const auto batch = std::span(needed).subspan(first, std::min(most, needed.size() - first));
      std::vector<const SourcePart*> sources;
      std::vector<std::vector<token_t>> targets;
      for (const std::size_t i : batch) sources.push_back(parts[i]), targets.push_back(translations[i]->tokens);
      const auto forced = force(sources, targets, false, true);
      for (std::size_t k = 0; k < batch.size(); ++k)
        replace_or_align(*sources[k], forced[k].attention, unk >= 0, system_.options.alignments, *translations[batch[k]]);
    }
  }

  /// What `score` and `align` have in common: the longest pairs first, in batches.
  [[nodiscard]] Results<Translation> rate(std::span<const std::string> sources, std::span<const std::string> targets,
                                          std::size_t before, bool scores, bool align) const {
    check_value(sources.size() == targets.size(), "score", targets.size(), " targets for ", sources.size(), " sources");
    const index_t vocabulary = system_.model.members().front().transformer().encoder.options.vocabulary;
    std::vector<SourcePart> parts;
    Results<Translation> results;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      text::check_utf8("score: source " + std::to_string(before + i + 1), sources[i]);
      text::check_utf8("score: target " + std::to_string(before + i + 1), targets[i]);
      parts.push_back({.text = sources[i], .tokens = system_.tokenizer.encode(sources[i]), .prefix = {}});
      text::add_source_end(system_.tokenizer, parts.back().tokens);
      results.push_back({.text = targets[i],
                         .tokens = system_.begun(text::encode_target(system_.tokenizer, targets[i])),
                         .end_token = system_.tokenizer.eos()});
      check_forced("source", before + i, parts.back().tokens, 0, system_.source_positions(), vocabulary);
      check_forced("target", before + i, results.back().tokens, 1, system_.model.longest() + 1, system_.model.vocabulary());
    }
    std::vector<std::size_t> order(parts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return results[a].tokens.size() > results[b].tokens.size(); });
    const auto most = static_cast<std::size_t>(system_.options.batch_sentences);
    for (std::size_t first = 0; first < order.size(); first += most) {
      const auto batch = std::span(order).subspan(first, std::min(most, order.size() - first));
      std::vector<const SourcePart*> from;
      std::vector<std::vector<token_t>> to;
      for (const std::size_t i : batch) from.push_back(&parts[i]), to.push_back(results[i].tokens);
      auto forced = force(from, to, scores, align);
      for (std::size_t k = 0; k < batch.size(); ++k) {
        Translation& t = results[batch[k]];
        t.token_log_probabilities = std::move(forced[k].token_log_probabilities);
        if (scores && system_.first >= 0) t.token_log_probabilities.front() = 0;  // as a search counts it
        for (const float value : t.token_log_probabilities) t.log_probability += static_cast<double>(value);
        t.score = system_.search_score(t);
        if (align) replace_or_align(*from[k], forced[k].attention, false, true, t);
      }
    }
    return results;
  }

 private:
  /// What the model makes of these given targets, rather than what it would say itself.
  [[nodiscard]] std::vector<ForcedTarget> force(std::span<const SourcePart* const> sources,
                                                std::span<const std::vector<token_t>> targets, bool scores,
                                                bool attention) const {
    std::vector<std::vector<token_t>> tokens;
    for (const auto* part : sources) tokens.push_back(part->tokens);
    std::vector<std::vector<ForcedTarget>> all;
    for (const auto& member : system_.model.members()) {
      const auto layers = count_of(member.transformer().decoder.layers);
      const index_t layer =
          system_.options.alignment_layer >= 0 ? system_.options.alignment_layer : std::max<index_t>(layers - 2, 0);
      const ForcedPass pass{
          .bos = system_.begin_token(), .eos = system_.tokenizer.eos(), .scores = scores, .layer = attention ? layer : -1};
      all.push_back(member.evaluate([&](const auto& model) { return force_targets(model, tokens, targets, pass); }));
    }
    return mean_of(std::move(all));
  }
  /// Replaces and aligns in one translation, whose tokens attended as `attention` [tokens, source] says.
  void replace_or_align(const SourcePart& part, const Tensor<float>& attention, bool replace, bool align,
                        Translation& translation) const {
    const auto source_tokens = std::span(part.tokens).first(part.tokens.size() - 1);
    if (source_tokens.empty()) return;
    auto best = best_sources(attention, count_of(source_tokens));
    const auto source_pieces = [&](std::span<const token_t> tokens) {
      std::vector<std::string> names;
      for (const token_t token : tokens)
        names.push_back(text::is_mark(system_.tokenizer, token) ? std::string() : text::piece(system_.tokenizer, token));
      return names;
    };
    const auto source_words = text::piece_words(source_pieces(source_tokens), part.text, [&](std::string_view word) {
      return source_pieces(system_.tokenizer.encode(std::string(word)));
    });
    auto names = system_.pieces(translation.tokens);
    if (replace)
      replace_unknown_words(part.text, text::unknown_token(system_.tokenizer), best, source_words, translation, names,
                            [&](std::span<const token_t> tokens) { return system_.tokenizer.decode(tokens); });
    if (!align) return;
    if (system_.first >= 0 && !names.empty()) names.erase(names.begin()), best.erase(best.begin());  // no part of the text
    const auto target_words = text::piece_words(names, translation.text, [&](std::string_view word) {
      return system_.pieces(text::encode_target(system_.tokenizer, std::string(word)));
    });
    translation.alignment = align_words(best, source_words, target_words);
  }

  const System& system_;
};
template <class System>
TargetReading(const System&) -> TargetReading<System>;

}  // namespace attend::decode::detail
