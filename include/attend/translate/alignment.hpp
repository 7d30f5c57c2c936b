#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/text/piece_words.hpp"

namespace attend::decode {

/// A word of a sentence and a word of its translation that mean the same; words are what white space separates, counted from 0.
struct Link {
  index_t source, target;
  friend bool operator==(const Link& a, const Link& b) { return a.source == b.source && a.target == b.target; }
  friend bool operator<(const Link& a, const Link& b) { return a.source != b.source ? a.source < b.source : a.target < b.target; }
};

/// The links of a sentence pair, each once, in order of their source words.
using Alignment = std::vector<Link>;

/// `0-0 1-2 2-1`: source word, target word, as Pharaoh and its successors write alignments.
inline std::string to_pharaoh(const Alignment& alignment) {
  std::string text;
  for (const Link& link : alignment)
    text += (text.empty() ? "" : " ") + std::to_string(link.source) + "-" + std::to_string(link.target);
  return text;
}

/// The source position that each target position attends to most, among the first `sources`; of equal weights, the first.
/// `weights`: [targets, `sources` or more].
inline std::vector<index_t> best_sources(const Tensor<float>& weights, index_t sources) {
  std::vector<index_t> best;
  for (index_t t = 0; t < weights.dim(0); ++t) {
    const float* row = weights.data() + t * weights.dim(1);
    best.push_back(std::max_element(row, row + sources) - row);
  }
  return best;
}

/// The words that the tokens' links connect: target token i, of the words target_words[i], with source token best[i].
inline Alignment align_words(std::span<const index_t> best, std::span<const text::WordRange> source_words,
                             std::span<const text::WordRange> target_words) {
  Alignment links;
  for (std::size_t i = 0; i < target_words.size() && i < best.size(); ++i) {
    const text::WordRange source = nth(source_words, best[i]), target = target_words[i];
    for (index_t s = source.first; s <= source.last; ++s)
      for (index_t t = target.first; t <= target.last; ++t) links.push_back({s, t});
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

}  // namespace attend::decode
