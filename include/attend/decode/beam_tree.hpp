#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "attend/decode/hypothesis.hpp"

namespace attend::decode::detail {

/// How a hypothesis of a beam search ended.
struct BeamEnding {
  double score, log_probability;
  index_t node;                   // the last token before the end
  float end_log_probability = 0;  // of the end token, if `finished`
  bool finished = false;
  token_t end = -1;  // the end token
  index_t row = 0;   // of the state, from which it came
  index_t met = 0;   // if it is no result: how many required tokens it has, which counts for more than the score
};

/// All hypotheses of a beam search, which share their beginnings: each token that was chosen, and what stands before it.
class BeamTree {
 public:
  static constexpr index_t root = -1;

  /// A token of a prefix, and the node of the token before it.
  struct Node {
    index_t parent;
    token_t token;
    float log_probability;
  };

  /// `distributions`: whether hypotheses come with Hypothesis::distributions.
  explicit BeamTree(bool distributions) : distributions_(distributions) {}

  /// What the tokens of the next step are chosen from, by rows of the state.
  void add_step(std::vector<std::vector<float>> rows) { steps_.push_back(std::move(rows)); }
  /// Adds a node and gives its number; `row`: the row of the state that its token was chosen from.
  index_t add(const Node& node, index_t row) {
    nodes_.push_back(node);
    if (distributions_) rows_.push_back(row);
    return count_of(nodes_) - 1;
  }

  /// Writes the tokens up to a node.
  void prefix(index_t node, std::vector<token_t>& tokens) const {
    for (index_t at = node; at != root; at = nth(nodes_, at).parent) tokens.push_back(nth(nodes_, at).token);
    std::reverse(tokens.begin(), tokens.end());
  }
  [[nodiscard]] Hypothesis hypothesis(const BeamEnding& ending) const {
    Hypothesis h{
        .log_probability = ending.log_probability, .score = ending.score, .finished = ending.finished, .end_token = ending.end};
    std::vector<index_t> rows;  // that the tokens were chosen from, the last one first
    if (ending.finished) h.token_log_probabilities.push_back(ending.end_log_probability), rows.push_back(ending.row);
    for (index_t at = ending.node; at != root; at = nth(nodes_, at).parent) {
      h.tokens.push_back(nth(nodes_, at).token);
      h.token_log_probabilities.push_back(nth(nodes_, at).log_probability);
      if (distributions_) rows.push_back(nth(rows_, at));
    }
    std::reverse(h.tokens.begin(), h.tokens.end());
    std::reverse(h.token_log_probabilities.begin(), h.token_log_probabilities.end());
    std::reverse(rows.begin(), rows.end());
    for (std::size_t step = 0; distributions_ && step < rows.size(); ++step)
      h.distributions.push_back(nth(steps_[step], rows[step]));
    return h;
  }

 private:
  bool distributions_;
  std::vector<Node> nodes_;
  std::vector<index_t> rows_;                           // of each node, if distributions are kept
  std::vector<std::vector<std::vector<float>>> steps_;  // of each step and row, likewise
};

}  // namespace attend::decode::detail
