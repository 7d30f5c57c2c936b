#pragma once

#include <vector>

#include "attend/core/types.hpp"

namespace attend::decode {

/// One output of a search.
struct Hypothesis {
  std::vector<token_t> tokens = {};  ///< without the begin and end tokens
  double log_probability = 0;        ///< of all the tokens and, if it is finished, of the end token
  /// What n-best lists are sorted by: `log_probability`, in beam search normalised by the length.
  double score = 0;
  /// Of each token, then of the end token if it is finished; they add up to `log_probability`.
  std::vector<float> token_log_probabilities = {};
  bool finished = false;   ///< ended by an end token, not by the length limit or because nothing could follow
  token_t end_token = -1;  ///< which one, if it is finished
  /// If asked for: for each of `token_log_probabilities`, those of the whole vocabulary that the token was chosen from.
  std::vector<std::vector<float>> distributions = {};
};

}  // namespace attend::decode
