#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/decode/hypothesis.hpp"
#include "attend/decode/results.hpp"
#include "attend/nn/transformer.hpp"

namespace attend::decode {

namespace detail {

/// What one pass through a model that is given the targets says of each sentence.
struct ForcedTarget {
  std::vector<float> token_log_probabilities;  // of each token, then of the end; if asked for
  Tensor<float> attention{Shape{0, 0}};        // [target tokens and the end, source tokens]; if asked for
};

/// What is to be found out by such a pass.
struct ForcedPass {
  token_t bos = 1, eos = 2;
  bool scores = true;  ///< the log-probabilities
  index_t layer = -1;  ///< the decoder layer whose cross-attention is wanted, mean over its heads; -1: none
};

/// Throws ValueError for a side with more tokens than there are positions, IndexError for a token outside the vocabulary.
inline void check_forced(const char* side, std::size_t sentence, std::span<const token_t> tokens, index_t more, index_t positions,
                         index_t vocabulary) {
  const auto name = [&] { return std::string(side) + " " + std::to_string(sentence + 1); };
  const index_t count = count_of(tokens) + more;
  if (count > positions)
    throw ValueError("score: ", name(), " has ", count, " tokens", (more > 0 ? " with the begin token" : ""),
                     ", the model takes ", positions);
  for (const token_t token : tokens)
    if (token < 0 || token >= vocabulary)
      throw IndexError("score: ", name(), " has token ", token, ", outside the vocabulary of ", vocabulary);
}

/// Tokens of all sentences end to end; each with `before` before it and `after` after it, where these are not negative.
inline std::pair<Tensor<token_t>, Segments> end_to_end(std::span<const std::vector<token_t>> sentences, token_t before,
                                                       token_t after) {
  std::vector<token_t> all;
  std::vector<index_t> lengths;
  for (const auto& tokens : sentences) {
    const std::size_t begin = all.size();
    if (before >= 0) all.push_back(before);
    all.insert(all.end(), tokens.begin(), tokens.end());
    if (after >= 0) all.push_back(after);
    lengths.push_back(all.size() - begin);
  }
  return {Tensor<token_t>({count_of(all)}, std::span<const token_t>(all)), Segments::ragged(lengths)};
}

/// log p[label] of each row of softmax(logits(x)); the logits of all rows never exist at once.
template <class T, Device D>
std::vector<float> label_log_probabilities(const nn::Transformer<T, D>& model, const Tensor<T, D>& x,
                                           const Tensor<token_t, D>& labels) {
  constexpr index_t chunk = 256;
  std::vector<float> all;
  for (index_t first = 0; first < x.dim(0); first += chunk) {
    const index_t rows = std::min(chunk, x.dim(0) - first);
    const auto logits = model.logits(Var<T, D>(x.rows(first, rows))).value();
    const Tensor<Wide<T>, D> losses({rows}), log_sums({rows});
    cross_entropy_forward(D{}, {rows, logits.dim(1), labels.data() + first}, logits.data(), losses.data(), log_sums.data());
    const auto host = losses.to_host();
    for (index_t r = 0; r < rows; ++r) all.push_back(-static_cast<float>(host.data()[r]));
  }
  return all;
}

/// Reads whole sentences, and keeps the attention of one layer to the source: that of all would fill the memory.
template <class T, Device D>
struct ForcedReading {
  nn::WholeSentences<T, D> sentences;
  index_t layer;  // -1: none
  AttentionWeights<T, D>* attention;

  [[nodiscard]] Places places() const { return sentences.places(); }
  [[nodiscard]] nn::OwnKeys<T, D> own(index_t l, bool causal) const { return sentences.own(l, causal); }
  [[nodiscard]] nn::MemoryKeys<T, D> source(index_t l, std::size_t i) const {
    auto keys = sentences.source(l, i);
    if (l == layer) keys.weights = attention;
    return keys;
  }
};

/// One batch through a model in evaluation mode. Sources as the encoder gets them, targets without begin and end.
template <class T, Device D>
std::vector<ForcedTarget> force_targets(const nn::Transformer<T, D>& model, std::span<const std::vector<token_t>> sources,
                                        std::span<const std::vector<token_t>> targets, const ForcedPass& pass) {
  const NoGrad no_grad;
  const auto& decoder = model.decoder;
  const auto [source, source_segments] = end_to_end(sources, -1, -1);
  const auto [target, segments] = end_to_end(targets, pass.bos, -1);
  const nn::Memory<T, D> memory = model.encode(source.template to<D>(), source_segments);
  const nn::StackCall<T, D> call{.memories = {&memory, 1}};
  AttentionWeights<T, D> attention;
  const ForcedReading<T, D> reading{{segments, call}, pass.layer, &attention};
  const auto x = (*decoder.embed_tokens)(target.template to<D>());
  std::vector<ForcedTarget> results(targets.size());
  if (pass.scores) {
    const auto labels = end_to_end(targets, -1, pass.eos).first;
    const auto values = label_log_probabilities(model, decoder.read(x, reading).value(), labels.template to<D>());
    for (std::size_t s = 0; s < results.size(); ++s) {
      const auto first = values.begin() + segments.begin(s);
      results[s].token_log_probabilities.assign(first, first + segments.length(s));
    }
  } else if (pass.layer >= 0) {
    (void)decoder.read_layers(x, reading, pass.layer + 1);
  }
  if (attention.sentences() > 0)
    for (std::size_t s = 0; s < results.size(); ++s) {
      const auto sentence = static_cast<index_t>(s);
      const Tensor<float> mean({segments.length(sentence), source_segments.length(sentence)}, 0.0f);
      const index_t heads = attention.heads();
      for (index_t h = 0; h < heads; ++h) {
        const auto weights = attention.matrix(sentence, h).to_host();
        for (index_t i = 0; i < mean.size(); ++i)
          mean.data()[i] += static_cast<float>(weights.data()[i]) / static_cast<float>(heads);
      }
      results[s].attention = mean;
    }
  return results;
}

/// The view of an ensemble from those of its models, each a batch: log of the mean probabilities, and the sum of the attentions,
/// which is largest where their mean is.
inline std::vector<ForcedTarget> mean_of(std::vector<std::vector<ForcedTarget>> models) {
  auto mean = std::move(models.front());
  const auto count = static_cast<double>(models.size());
  for (std::size_t s = 0; s < mean.size() && models.size() > 1; ++s) {
    auto& values = mean[s].token_log_probabilities;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = std::exp(static_cast<double>(values[i]));
      for (std::size_t m = 1; m < models.size(); ++m)
        sum += std::exp(static_cast<double>(models[m][s].token_log_probabilities[i]));
      values[i] = static_cast<float>(std::log(sum / count));
    }
    for (index_t i = 0; i < mean[s].attention.size(); ++i)
      for (std::size_t m = 1; m < models.size(); ++m) mean[s].attention.data()[i] += models[m][s].attention.data()[i];
  }
  return mean;
}

/// A target with the log-probabilities that a pass found.
inline Hypothesis rated(std::vector<token_t> target, std::vector<float> token_log_probabilities) {
  Hypothesis h{.tokens = std::move(target), .token_log_probabilities = std::move(token_log_probabilities), .finished = true};
  for (const float value : h.token_log_probabilities) h.log_probability += static_cast<double>(value);
  h.score = h.log_probability;
  return h;
}

}  // namespace detail

/// How probable the model finds given targets: the log-probability of each token given those before it, and of the end token
/// after the last, all of a sentence in one pass (teacher forcing). A search reports the same numbers, to rounding, for what it
/// finds. Sources are as the encoder gets them, their end token included; targets without begin and end. The model should be in
/// evaluation mode. Throws ValueError for a side with more tokens than the model has positions, or another number of targets than
/// of sources, IndexError for a token outside the vocabulary.
template <class T, Device D>
Results<Hypothesis> score(const nn::Transformer<T, D>& model, std::span<const std::vector<token_t>> sources,
                          std::span<const std::vector<token_t>> targets, token_t bos, token_t eos) {
  check_value(sources.size() == targets.size(), "score", targets.size(), " targets for ", sources.size(), " sources");
  const auto& encoder = model.encoder.options;
  const auto& decoder = model.decoder.options;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    detail::check_forced("source", i, sources[i], 0, encoder.max_length, encoder.vocabulary);
    detail::check_forced("target", i, targets[i], 1, decoder.max_length, decoder.vocabulary);
  }
  Results<Hypothesis> results;
  if (sources.empty()) return results;
  auto forced = detail::force_targets(model, sources, targets, {.bos = bos, .eos = eos});
  for (std::size_t i = 0; i < targets.size(); ++i)
    results.push_back(detail::rated(targets[i], std::move(forced[i].token_log_probabilities)));
  return results;
}

}  // namespace attend::decode
