#pragma once

#include <vector>

#include "attend/core/types.hpp"

namespace attend::decode {

/// What became of a continuation that a beam search looked at.
enum class Fate {
  live,     ///< it was carried on
  ended,    ///< it ended, by an end token or, with keep_unfinished, by max_length, and counted
  dropped,  ///< there were better ones
};

/// A continuation that a step of a beam search looked at: a prefix and one token more.
struct BeamCandidate {
  index_t step;            ///< of the search, from 0 on: the tokens of the prefix
  index_t parent;          ///< the prefix: its place in the sentence's list; -1: the empty prefix
  token_t token;           ///< the end token too
  double log_probability;  ///< of the token
  double total;            ///< of all tokens
  double score;            ///< `total` normalised by the length, as if it ended here
  Fate fate;
};

/// All that a beam search looked at, written where BeamOptions::trace points to one: for each sentence, step by step, the 2 *
/// beam most probable continuations (beam more for each of `end_tokens`), best first. What was there before is overwritten.
struct BeamTrace {
  std::vector<std::vector<BeamCandidate>> sentences;
};

}  // namespace attend::decode
