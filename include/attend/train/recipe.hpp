#pragma once

#include <algorithm>
#include <cmath>

#include "attend/core/threads.hpp"
#include "attend/nn/transformer_options.hpp"

namespace attend::train {

/// Sizes that suit a corpus and the time that there is. How it is best trained follows from the corpus and the model: see
/// `completed`.
struct Recipe {
  index_t vocabulary;            ///< subwords to learn, of both languages together; a small corpus gives fewer
  nn::TransformerOptions sizes;  ///< of the network, but for its vocabulary

  /// The options of a network for so many subwords.
  [[nodiscard]] nn::TransformerOptions model(index_t subwords) const {
    auto options = sizes;
    options.vocabulary = subwords;
    return options;
  }
};

/// The recipe for `pairs` sentence pairs and so many minutes of training (0: as many as it takes) on `processors` threads. In
/// little time a smaller network gets further: it sees the corpus more often. What was tried with 3,000,
/// 29,000 and 110,000 pairs stands in benchmarks/results/recipes.md; the sizes for more pairs, and for more than twenty processor
/// minutes for each 10,000 pairs, are estimates.
inline Recipe recipe(index_t pairs, double minutes = 0, int processors = threads()) {
  const auto count = static_cast<double>(std::max<index_t>(pairs, 1));
  const double work =
      minutes > 0 ? minutes * std::max(processors, 1) / (count / 10'000) : 1e9;  // processor minutes for each 10,000 pairs
  struct Sizes {
    double pairs, work;  // from this many pairs and this much work
    index_t layers, d_model, d_ff, heads;
  };
  constexpr Sizes ladder[] = {
      {400'000, 60, 6, 512, 2048, 8}, {60'000, 5, 3, 256, 1024, 4}, {6'000, 20, 3, 256, 1024, 4},
      {6'000, 0, 4, 128, 256, 4},     {0, 0, 3, 256, 512, 4},
  };
  const Sizes* s = ladder;
  while (count < s->pairs || work < s->work) ++s;
  nn::TransformerOptions sizes{.d_model = s->d_model,
                               .heads = s->heads,
                               .d_ff = s->d_ff,
                               .layers = s->layers,
                               .max_length = 256,
                               .share_embeddings = true,
                               .tie_head = true};
  // What is seen often needs more against overfitting; what is seen ten times only learns more slowly for it.
  const double most = count < 60'000 ? 0.3 : count < 400'000 ? 0.15 : 0.1;
  sizes.dropout = std::min(most, work < 3 ? 0.1 : work < 10 ? std::max(0.1, most / 2) : work < 20 ? 0.2 : 0.3);
  const auto subwords = std::llround(2000 * std::pow(count / 3000, 0.7) / 500) * 500;
  return {.vocabulary = count < 400'000 ? std::clamp<index_t>(subwords, 500, 10'000) : 16'000, .sizes = sizes};
}

}  // namespace attend::train
