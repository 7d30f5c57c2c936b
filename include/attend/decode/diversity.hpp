#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attend/decode/hypothesis.hpp"
#include "attend/decode/options.hpp"
#include "attend/decode/results.hpp"

namespace attend::decode::detail {

/// Throws ValueError for groups that make no sense.
inline void check_groups(const BeamOptions& o) {
  check_value(o.beam % o.beam_groups == 0, "beam_search", "beam_groups is ", o.beam_groups, ", expected a divisor of the beam ",
              o.beam);
  check_value((o.beam_groups > 1) == (o.diversity_penalty > 0), "beam_search", "beam_groups is ", o.beam_groups,
              " and diversity_penalty ", o.diversity_penalty, ", expected both or neither");
  check_value(o.required.empty() || o.beam_groups == 1, "beam_search", "required and beam_groups exclude each other");
}

/// What tells the groups of a sentence's beam apart: a group loses `strength` for each time that one before it has chosen the
/// same token in the same step (Hamming diversity). Source: Vijayakumar et al. 2016, "Diverse beam search: decoding diverse
/// solutions from neural sequence models", section 3.
class Diversity {
 public:
  explicit Diversity(double strength) : strength_(strength) {}

  /// A new step: no group has chosen anything.
  void begin_step() { sentence_ = -1; }
  /// A group of this sentence is next; those of one sentence come one after another.
  void begin_group(index_t sentence) {
    if (sentence != sentence_) chosen_.clear();
    sentence_ = sentence;
  }
  void add(token_t token) {
    if (strength_ > 0) chosen_.push_back(token);
  }
  [[nodiscard]] double penalty(token_t token) const {
    return chosen_.empty() ? 0 : strength_ * static_cast<double>(std::count(chosen_.begin(), chosen_.end(), token));
  }

 private:
  double strength_;
  index_t sentence_ = -1;
  std::vector<token_t> chosen_;  // by the groups before
};

/// One list of what the groups of a sentence found: the `n_best` best, each once.
inline Results<Hypothesis> merge_groups(Results<Hypothesis> all, index_t n_best) {
  std::stable_sort(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  Results<Hypothesis> merged;
  for (auto& h : all) {
    const auto same = [&](const Hypothesis& other) { return other.tokens == h.tokens && other.end_token == h.end_token; };
    if (count_of(merged) < n_best && std::none_of(merged.begin(), merged.end(), same)) merged.push_back(std::move(h));
  }
  return merged;
}

}  // namespace attend::decode::detail
