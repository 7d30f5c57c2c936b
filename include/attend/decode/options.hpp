#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/options.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/types.hpp"

namespace attend::decode {

/// The most tokens that a hypothesis may have, begin and end token not counted: one number for all sentences, or one for each.
class LengthLimit {
 public:
  /// The same for all sentences, or one number for each.
  LengthLimit(index_t all) : all_(all) {}                                                  // NOLINT: `.max_length = 50`
  LengthLimit(std::vector<index_t> each) : each_(std::move(each)), per_sentence_(true) {}  // NOLINT

  /// That of a sentence.
  [[nodiscard]] index_t operator[](index_t sentence) const { return per_sentence_ ? nth(each_, sentence) : all_; }
  /// Throws ValueError if their count is not `sentences` or one is below `least` (or negative).
  void check(const char* search, index_t sentences, index_t least) const {
    check_value(!per_sentence_ || count_of(each_) == sentences, search, "max_length has ", each_.size(), " values for ",
                sentences, " sentences");
    const index_t count = per_sentence_ ? sentences : 1;
    for (index_t i = 0; i < count; ++i) {
      const std::string name = per_sentence_ ? "max_length of sentence " + std::to_string(i) : "max_length";
      check_value((*this)[i] >= 0, search, name, " is negative: ", (*this)[i]);
      check_value((*this)[i] >= least, search, name, " is ", (*this)[i], ", below min_length ", least);
    }
  }

 private:
  index_t all_ = 0;
  std::vector<index_t> each_;
  bool per_sentence_ = false;
};

/// The only tokens that may follow a hypothesis of a sentence, which has these tokens so far (the begin token not among them).
/// The end token may come only if it is one of them; an empty list ends the hypothesis, unfinished; no list: all may come.
using AllowedNext = std::function<std::optional<std::vector<token_t>>(index_t sentence, std::span<const token_t> tokens)>;

/// Changes the log-probabilities [vocabulary] of what follows a hypothesis of a sentence, which has these tokens so far (the
/// begin token not among them). None may become larger than 0 or NaN, which is a ValueError; minus infinity rules a token out.
using EditLogProbabilities =
    std::function<void(index_t sentence, std::span<const token_t> tokens, std::span<float> log_probabilities)>;

/// What a search may and may not produce, besides the lengths, and what it is to like less. A hypothesis after which nothing
/// may come ends there, unfinished.
///
/// These apply in this order: a shortlist, the penalties, `edit`, all that is ruled out, `renormalize`. The log-probabilities and
/// the score of a hypothesis are those after that.
struct Constraints {
  /// The first token of every hypothesis, with log-probability 0 (`forced_bos_token_id` of transformers), such as the mark of the
  /// language that a model is to translate into; -1: none. It counts as one of the hypothesis's tokens, and a prefix follows it.
  token_t first = -1;
  /// What each sentence's hypotheses begin with; empty, or empty for one sentence: nothing. It may neither hold the end token nor
  /// be longer than max_length, and overrides all that is ruled out. Its log-probabilities are the model's own.
  std::vector<std::vector<token_t>> prefix = {};
  /// A shortlist for each sentence: the only tokens that may come, beside the end token, which always may; empty, or empty for
  /// one sentence: all. Log-probabilities are those given that one of them comes: log p - log (sum of p over them).
  std::vector<std::vector<token_t>> allowed = {};
  /// Sequences of tokens that never come; those of one token are like `suppressed` (`bad_words_ids` of transformers).
  std::vector<std::vector<token_t>> banned = {};
  /// No n-gram comes twice in a hypothesis, its prefix counted, the begin token not; 0: no such rule. (transformers counts the
  /// begin token too, which shows only if that may come again.)
  index_t no_repeat_ngram = 0;
  /// After max_length tokens the end token `eos` follows, with log-probability 0 (`forced_eos_token_id` of transformers).
  bool force_end = false;
  /// With `force_end`: it follows with the log-probability that the model gives it there, as in fairseq; if that is minus
  /// infinity, it does not.
  bool score_forced_end = false;
  /// What is ruled out, `suppressed` and min_length too, counts as impossible: log-probabilities are those given that something
  /// else comes, log p - log (sum of p over it) (`renormalize_logits` of transformers). Not those of a prefix.
  bool renormalize = false;
  /// The log-probability of a token that stands in the hypothesis already, its prefix counted, the begin token not, is multiplied
  /// by this, above 0: a number above 1 makes repetitions rarer; 1: no penalty. As beam search of transformers has it. Source:
  /// Keskar et al. 2019, "CTRL: a conditional Transformer language model for controllable generation", section 4.1.
  double repetition_penalty = 1;
  /// The token for unknown words, and what its log-probability is lowered by, at least 0 (`--unkpen` of fairseq).
  token_t unknown = -1;
  double unknown_penalty = 0;
  /// What may come next, asked before each step for each hypothesis; the prefix does not ask. Log-probabilities stay as they are
  /// (`prefix_allowed_tokens_fn` of transformers).
  AllowedNext allowed_next = {};
  /// Called before each choice, for one hypothesis after another, if more than one token may come.
  EditLogProbabilities edit = {};

  template <class F>
  static void fields(F&& field) {
    field("no_repeat_ngram", &Constraints::no_repeat_ngram, at_least(0));
    field("repetition_penalty", &Constraints::repetition_penalty, more_than(0));
    field("unknown_penalty", &Constraints::unknown_penalty, at_least(0));
  }
};

/// What `on_token` is told: that a hypothesis goes on by a token.
struct TokenEvent {
  index_t sentence, sample;  ///< sample: 0 in `greedy`
  index_t position;          ///< of the token in the hypothesis: 0, 1, ...
  token_t token;             ///< the end token too
  double log_probability;    ///< as the hypothesis counts it
  bool last;                 ///< this is an end token, or token number max_length, after which only an end token can come
};
/// Called after each step for each hypothesis that got a token, sentence by sentence; false: it stops here, unfinished.
using TokenCallback = std::function<bool(const TokenEvent&)>;

/// All that a beam search looked at: beam_trace.hpp.
struct BeamTrace;

/// Options of `greedy`.
struct GreedyOptions {
  token_t bos = 1;                       ///< stands before every hypothesis
  token_t eos = 2;                       ///< ends it
  std::vector<token_t> end_tokens = {};  ///< others that end it in the same way
  LengthLimit max_length = 256;          ///< tokens, without bos and eos
  index_t min_length = 0;                ///< no end token is allowed before this many tokens
  std::vector<token_t> suppressed = {};  ///< never produced: padding, bos, the unknown token
  Constraints constraints = {};          ///< what else may not come, or must
  TokenCallback on_token = {};           ///< told of every token as it comes
  bool distributions = false;            ///< hypotheses come with Hypothesis::distributions

  template <class F>
  static void fields(F&& field) {
    field("min_length", &GreedyOptions::min_length, at_least(0));
    field("constraints", &GreedyOptions::constraints);
  }
};

/// What a sum of log-probabilities is divided by to give the score of a hypothesis of n tokens, the end token counted.
enum class LengthNormalization {
  google,  ///< ((5 + n) / 6)^alpha. Source: Wu et al. 2016, "Google's neural machine translation system", eq. 14
  marian,  ///< n^alpha, as in Marian, fairseq and transformers
};
/// The names of its values.
constexpr auto names_of(LengthNormalization) {
  return std::to_array<Named<LengthNormalization>>(
      {{LengthNormalization::google, "google"}, {LengthNormalization::marian, "marian"}});
}

/// The score of a hypothesis of `length` tokens, the end token counted: its log-probability over the length penalty.
inline double normalized_score(double log_probability, index_t length, double alpha, LengthNormalization normalization) {
  const auto n = static_cast<double>(std::max<index_t>(length, 1));
  return log_probability / std::pow(normalization == LengthNormalization::google ? (5 + n) / 6 : n, alpha);
}

/// When a sentence's beam search ends (besides when all hypotheses have reached the length limit).
enum class Stop {
  /// When no continuation of a live hypothesis, up to max_length, can enter the n-best list: nothing better is ever missed
  /// (`early_stopping = "never"` of transformers finds the same).
  exact,
  /// When `beam` hypotheses have finished and no live one could replace one of them if it ended at its present length and
  /// log-probability (`early_stopping = False` of transformers). Quicker if alpha > 0, but may miss a longer, better one.
  present_length,
  /// As soon as `beam` hypotheses have finished (`early_stopping = True` of transformers).
  first,
};
/// The names of its values.
constexpr auto names_of(Stop) {
  return std::to_array<Named<Stop>>({{Stop::exact, "exact"}, {Stop::present_length, "present"}, {Stop::first, "first"}});
}

/// Options of `beam_search`.
struct BeamOptions {
  token_t bos = 1;                       ///< stands before every hypothesis
  token_t eos = 2;                       ///< ends it
  std::vector<token_t> end_tokens = {};  ///< others that end it in the same way
  LengthLimit max_length = 256;          ///< tokens, without bos and eos
  index_t min_length = 0;                ///< no end token is allowed before this many tokens
  std::vector<token_t> suppressed = {};  ///< never produced: padding, bos, the unknown token
  index_t beam = 4;                      ///< hypotheses kept per sentence and step
  index_t n_best = 1;                    ///< at most this many come back per sentence, at most `beam`
  double alpha = 0.6;                    ///< strength of the length penalty; 0: the score is the sum; larger favours longer ones
  LengthNormalization normalization = LengthNormalization::google;
  Stop stop = Stop::exact;
  /// true: what reaches max_length without the end token is a result like those that end, and max_length counts the end token
  /// too. false: it is one only if nothing ends, and the end token may follow after max_length tokens.
  bool keep_unfinished = false;
  Constraints constraints = {};  ///< what else may not come, or must
  /// Strength of the coverage penalty: when a hypothesis of source words j and target tokens i ends, its score gains coverage *
  /// sum_j log(min(sum_i p_ij, 1)), never above 0, p_ij being the attention of token i to word j. 0: none. Needs an
  /// AttendingModel. Source: Wu et al. 2016, "Google's neural machine translation system", eq. 14.
  double coverage = 0;
  BeamTrace* trace = nullptr;  ///< gets all that the search looked at
  /// Log-probabilities are those of softmax(log p / temperature), those of a prefix too, as in fairseq; above 0: above 1 brings
  /// the tokens nearer to each other, so that lengths and penalties count for more; below 1 sharpens.
  double temperature = 1;
  bool distributions = false;  ///< hypotheses come with Hypothesis::distributions
  /// Diverse beams: into how many groups of one size the beam is divided, each searched by itself except that it loses
  /// `diversity_penalty` for each time that a group before it has chosen the same token at the same place. Both or neither:
  /// beam_groups > 1, diversity_penalty > 0. The n-best list has the best of all groups, each once; the penalty counts in scores,
  /// not in log-probabilities. Source: Vijayakumar et al. 2016, "Diverse beam search"; as version 4 of transformers has it.
  /// (fairseq also counts the candidates that the groups before have passed over.)
  index_t beam_groups = 1;
  double diversity_penalty = 0;
  /// Phrases, sequences of tokens, that each hypothesis of a sentence must have, in any order; two may share tokens. Empty, or
  /// empty for one sentence: none. No hypothesis ends without them. The beam is shared out among hypotheses by how many of these
  /// tokens they have, so it should be larger than the number of these tokens. If none gets to have all within max_length, the
  /// unfinished ones that have most come back. Source: Post and Vilar 2018, "Fast lexically constrained decoding with dynamic
  /// beam allocation for neural machine translation".
  std::vector<std::vector<std::vector<token_t>>> required = {};

  template <class F>
  static void fields(F&& field) {
    using O = BeamOptions;
    field("min_length", &O::min_length, at_least(0));
    field("beam", &O::beam, at_least(1));
    field("n_best", &O::n_best, at_least(1));
    field("alpha", &O::alpha, finite());
    field("normalization", &O::normalization);
    field("stop", &O::stop);
    field("constraints", &O::constraints);
    field("coverage", &O::coverage, at_least(0));
    field("temperature", &O::temperature, more_than(0));
    field("beam_groups", &O::beam_groups, at_least(1));
    field("diversity_penalty", &O::diversity_penalty, at_least(0));
  }
};

/// Options of `sample`.
struct SampleOptions {
  token_t bos = 1;                       ///< stands before every hypothesis
  token_t eos = 2;                       ///< ends it
  std::vector<token_t> end_tokens = {};  ///< others that end it in the same way
  LengthLimit max_length = 256;          ///< tokens, without bos and eos
  index_t min_length = 0;                ///< no end token is allowed before this many tokens
  std::vector<token_t> suppressed = {};  ///< never produced: padding, bos, the unknown token
  index_t samples = 1;                   ///< drawn per sentence, independently
  double temperature = 1;                ///< log-probabilities are divided by it; above 0; below 1 sharpens
  index_t top_k = 0;                     ///< draw among the k most probable tokens only; 0: among all
  double top_p = 1;                      ///< draw among the fewest most probable tokens that together have this share of the mass
  /// Draw among those tokens only that are at least this share as probable as the most probable one, after temperature; 0: among
  /// all. Source: Nguyen et al. 2024, "Turning up the heat: min-p sampling for creative and coherent LLM outputs".
  double min_p = 0;
  std::uint64_t seed = 0;
  /// The number of each sentence in the random stream; empty: its place in the batch. With numbers of its own, a sentence's
  /// samples stay the same in whatever batch it stands.
  std::vector<std::uint64_t> sentence_ids = {};
  Constraints constraints = {};  ///< what else may not come, or must
  TokenCallback on_token = {};   ///< told of every token as it comes
  bool distributions = false;    ///< hypotheses come with Hypothesis::distributions

  template <class F>
  static void fields(F&& field) {
    using O = SampleOptions;
    field("min_length", &O::min_length, at_least(0));
    field("samples", &O::samples, at_least(1));
    field("temperature", &O::temperature, more_than(0));
    field("top_k", &O::top_k, at_least(0));
    field("top_p", &O::top_p, Bounds{.least = 0, .most = 1, .above = true});
    field("min_p", &O::min_p, between(0, 1));
    field("constraints", &O::constraints);
  }
};

namespace detail {

/// Whether a token ends a hypothesis.
template <class Options>
bool is_end(const Options& options, token_t token) {
  return token == options.eos ||
         std::find(options.end_tokens.begin(), options.end_tokens.end(), token) != options.end_tokens.end();
}

/// Throws IndexError, naming the search and the option, if the token is outside the vocabulary.
inline void check_token(const char* search, const char* name, token_t token, index_t vocabulary) {
  if (token < 0 || token >= vocabulary)
    throw IndexError(search, ": ", name, " is ", token, ", outside the vocabulary of ", vocabulary);
}

/// Checks what all searches have in common. Throws ValueError, IndexError.
template <class Options>
void check_options(const char* search, const Options& options, index_t vocabulary, index_t sentences) {
  check_fields(search, options);
  check_value(sentences >= 0, search, "the number of sentences is negative: ", sentences);
  check_value(vocabulary > 0 && vocabulary <= std::numeric_limits<token_t>::max(), search, "a model with a vocabulary of ",
              vocabulary);
  check_token(search, "bos", options.bos, vocabulary);
  check_token(search, "eos", options.eos, vocabulary);
  for (const token_t token : options.end_tokens) check_token(search, "an end token", token, vocabulary);
  options.max_length.check(search, sentences, options.min_length);
  std::vector<bool> seen(vocabulary, false);
  index_t distinct = 0;
  for (const token_t token : options.suppressed) {
    check_token(search, "a suppressed token", token, vocabulary);
    if (!nth(seen, token)) ++distinct;
    nth(seen, token) = true;
  }
  check_value(distinct < vocabulary, search, "all ", vocabulary, " tokens are suppressed");
}

}  // namespace detail

}  // namespace attend::decode
