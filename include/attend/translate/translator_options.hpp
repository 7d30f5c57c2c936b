#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/decode/options.hpp"
#include "attend/decode/results.hpp"
#include "attend/ops/packed_weights.hpp"
#include "attend/translate/alignment.hpp"

namespace attend::decode {

/// What becomes of the token for unknown words in translations.
enum class Unknown {
  suppress,  ///< it never comes
  allow,     ///< it comes, and stands in the text as the tokenizer writes it
  replace,   ///< it comes, and the text has in its place the source word that it attends to most (as it stands there, less the
             ///< marks around it); see TranslatorOptions::alignment_layer
};
/// The names of its values.
constexpr auto names_of(Unknown) {
  return std::to_array<Named<Unknown>>(
      {{Unknown::suppress, "suppress"}, {Unknown::allow, "allow"}, {Unknown::replace, "replace"}});
}

/// What becomes of a sentence with more tokens than the model has positions.
enum class LongInput {
  refuse,  ///< ValueError
  split,   ///< its parts are translated: text::split_sentences, and of a sentence that is still too long text::split_to_fit
};
/// The names of its values.
constexpr auto names_of(LongInput) {
  return std::to_array<Named<LongInput>>({{LongInput::refuse, "refuse"}, {LongInput::split, "split"}});
}

/// The tokens that may come in the translation of a source with these tokens, the end token aside; none: all. A `Shortlist` is
/// one.
using AllowedTokens = std::function<std::vector<token_t>(std::span<const token_t> source)>;

/// Phrases that the translation of a source must have, as they are to stand there: a glossary, say.
using RequiredText = std::function<std::vector<std::string>(std::string_view source)>;

/// A token that a translation got.
struct TranslatedToken {
  std::size_t sentence;    ///< its number, those before the call counted
  index_t sample;          ///< which of its samples
  token_t token;           ///< the end token too
  double log_probability;  ///< as the translation counts it
  std::string_view text;   ///< the translation so far, this token included
  bool last;               ///< nothing but the end can follow in this part of the sentence
};
/// Called for each token as it comes; false: that translation ends here, unfinished.
using TranslationCallback = std::function<bool(const TranslatedToken&)>;

/// How many hypotheses a beam search keeps: 4 unless a number was given, which a search that has no use for one can then refuse.
class BeamSize {
 public:
  BeamSize() = default;
  BeamSize(index_t size) : size_(size), given_(true) {}  // NOLINT: `.beam = 6`
  /// The size; 4 if none was given.
  operator index_t() const { return size_; }  // NOLINT: it is a number
  /// Whether a number was given.
  [[nodiscard]] bool given() const { return given_; }

 private:
  index_t size_ = 4;
  bool given_ = false;
};

/// How a Translator searches and groups its work. What means nothing to the chosen search is refused: a beam with sampling, what
/// shapes a draw without. But `stop`, `keep_unfinished` and `trace`, which are for beam search alone, are passed over elsewhere.
struct TranslatorOptions {
  BeamSize beam = {};           ///< 1: greedy search
  index_t n_best = 1;           ///< translations per sentence; at most `beam`, unless they are sampled
  double length_penalty = 0.6;  ///< of scores and of what a beam search prefers; 0: none; larger favours longer translations
  LengthNormalization normalization = LengthNormalization::google;
  Stop stop = Stop::exact;  ///< when a sentence's beam search ends
  index_t min_length = 0;   ///< tokens
  index_t max_length = 0;   ///< tokens; 0: `max_ratio` times the source's length and 10 more
  double max_ratio = 2;
  bool sample = false;           ///< draw translations at random instead of searching the best
  double temperature = 1;        ///< of sampling and of beam search; below 1 sharpens
  index_t top_k = 0;             ///< of sampling: among the k most probable tokens; 0: among all
  double top_p = 1;              ///< of sampling: among the most probable tokens that have this share of the mass
  double min_p = 0;              ///< of sampling: among tokens at least this share as probable as the most probable one; 0: all
  std::uint64_t seed = 0;        ///< of sampling
  index_t batch_sentences = 32;  ///< sentences translated together, at most
  /// For float models on the CPU, with slightly other results. int8: products in 8-bit integers, a quarter of the memory to read.
  /// bf16: products of numbers that are rounded to bfloat16, half of it.
  Precision precision = Precision::full;
  /// Gets all that the beam search of the latest batch looked at: for one sentence at a time, and one thread.
  BeamTrace* trace = nullptr;
  double coverage_penalty = 0;    ///< of beam search: strength of GNMT's; 0: none. See BeamOptions::coverage
  bool keep_unfinished = false;   ///< of beam search: see BeamOptions::keep_unfinished
  index_t no_repeat_ngram = 0;    ///< no n tokens in a row come twice in a translation; 0: they may
  bool force_end = false;         ///< at the length limit the end token follows, with log-probability 0
  bool score_forced_end = false;  ///< with force_end: with the model's own log-probability
  bool renormalize = false;       ///< see Constraints::renormalize
  double repetition_penalty = 1;  ///< above 1: tokens that stand there already come less often; 1: none
  double unknown_penalty = 0;     ///< subtracted from the unknown token's log-probability; not with `Unknown::suppress`
  /// The token that every translation begins with, with log-probability 0, such as the mark of its language; -1: none. If the
  /// tokenizer was given a target language, that language's token comes in its place. It stands among a translation's tokens,
  /// before those of a prefix. A sentence that is translated in parts has it in each.
  token_t first = -1;
  std::vector<token_t> end_tokens = {};           ///< other tokens that end a translation just as the tokenizer's end token
  bool suppress_marks = true;                     ///< the tokens for begin and padding never come
  std::vector<token_t> suppressed = {};           ///< other tokens that never come
  std::vector<std::vector<token_t>> banned = {};  ///< sequences of tokens that never come
  /// The same as text, as the tokenizer splits it: words, phrases. Another way to split the same word is not covered, and a
  /// longer word may begin with the same tokens.
  std::vector<std::string> banned_text = {};
  Unknown unknown = Unknown::suppress;
  LongInput long_input = LongInput::refuse;
  bool split_sentences = false;  ///< sentences of a longer text are translated each by itself, as models are trained to
  bool alignments = false;       ///< translations come with their alignments
  /// The decoder layer whose cross-attention, averaged over its heads, gives the alignments; 0 is the first. -1: the last but
  /// one, which aligns best, or the only one. Source: Garg et al. 2019, "Jointly learning to align and translate", section 4.
  index_t alignment_layer = -1;
  /// The only tokens that may come, by sentence. Log-probabilities are those given that, and their last bits go by the batch.
  AllowedTokens shortlist = {};
  TranslationCallback on_token = {};  ///< told of every token; of greedy search and sampling
  /// What may come next and how probable it is, by functions of your own: see Constraints. They are told of a sentence by its
  /// number, those before the call counted, of its parts one by one, and from several threads where these share a translator.
  AllowedNext allowed_next = {};
  EditLogProbabilities edit = {};
  bool distributions = false;    ///< translations come with the log-probabilities of the whole vocabulary at every step
  index_t beam_groups = 1;       ///< of beam search: groups that are to find different translations; see BeamOptions::beam_groups
  double diversity_penalty = 0;  ///< of beam search: how much; both or neither
  /// Of beam search: no translation ends without these phrases, each cut into tokens by itself; see BeamOptions::required. The
  /// parts of a sentence that is split are sources of their own. ValueError for a phrase with unknown characters or too many
  /// tokens.
  RequiredText required = {};

  template <class F>
  static void fields(F&& field) {
    using O = TranslatorOptions;
    field("beam", &O::beam, at_least(1), IfAbsent{BeamSize()}, Flag{.text = "Beam size; 1: greedy", .within = between(1, 1000)});
    field("n_best", &O::n_best, at_least(1),
          Flag{.text = "Translations per line, each with its score", .within = between(1, 1000)});
    field("length_penalty", &O::length_penalty, finite(), Flag{"0: none; larger favours longer translations"});
    field("normalization", &O::normalization, Flag{"How the length penalty grows with a length n: ((5+n)/6)^a or n^a"});
    field("coverage_penalty", &O::coverage_penalty, at_least(0),
          Flag{"Strength of the coverage penalty, against words left out; 0: none", "--coverage"});
    field("stop", &O::stop,
          Flag{"When a search ends: exact, when nothing better can come; present, when nothing live is better as it stands; "
               "first, when as many as the beam have ended"});
    field("max_length", &O::max_length, at_least(0),
          Flag{"The most tokens of a translation; 0: twice the source's and 10 more", "--max-tokens"});
    field("max_ratio", &O::max_ratio, more_than(0), or_infinite(), IfAbsent{std::numeric_limits<double>::infinity()});
    field("min_length", &O::min_length, at_least(0), Flag{"The fewest tokens of a translation", "--min-tokens"});
    field("no_repeat_ngram", &O::no_repeat_ngram, at_least(0), Flag{"No so many tokens in a row come twice; 0: they may"});
    field("repetition_penalty", &O::repetition_penalty, more_than(0),
          Flag{"Above 1, tokens that a translation has already come less often; 1: no penalty"});
    field("unknown_penalty", &O::unknown_penalty, at_least(0),
          Flag{"What the log-probability of the unknown token is lowered by, where --unknown lets it come"});
    field("first", &O::first, at_least(-1));
    field("end_tokens", &O::end_tokens);
    field("suppress_marks", &O::suppress_marks);
    field("suppressed", &O::suppressed);
    field("banned", &O::banned);
    field("banned_text", &O::banned_text);
    field("keep_unfinished", &O::keep_unfinished);
    field("renormalize", &O::renormalize);
    field("force_end", &O::force_end, Flag{"At the length limit the end follows, whatever the model says"});
    field("score_forced_end", &O::score_forced_end,
          Flag{"With --force-end: it counts as the model rates it there, not as certain"});
    field("beam_groups", &O::beam_groups, at_least(1),
          Flag{.text = "Groups of the beam that are to find different translations", .within = between(1, 1000)});
    field("diversity_penalty", &O::diversity_penalty, at_least(0),
          Flag{"By how much: off for each group before with the same token"});
    field("unknown", &O::unknown,
          Flag{"The token for unknown words: suppress it, allow it, or replace it by the source word that it attends to"});
    field("sample", &O::sample, Flag{"Draw translations at random instead of searching the best"});
    field("temperature", &O::temperature, more_than(0), Flag{"Of sampling and of beam search; below 1 sharpens"});
    field("top_k", &O::top_k, at_least(0), Flag{"Sample among the k most probable tokens; 0: all"});
    field("top_p", &O::top_p, Bounds{.least = 0, .most = 1, .above = true},
          Flag{"Sample among the most probable tokens of this share"});
    field("min_p", &O::min_p, between(0, 1),
          Flag{"Sample among tokens at least this share as probable as the most probable; 0: all"});
    field("seed", &O::seed, Flag{"Of sampling"});
    field("long_input", &O::long_input);
    field("split_sentences", &O::split_sentences);
    field("batch_sentences", &O::batch_sentences, at_least(1));
    field("alignment_layer", &O::alignment_layer, at_least(-1));
  }
};

/// A translation and how the model rates it.
struct Translation {
  std::string text = {};
  /// `log_probability` normalised by the length, alike for every search; what a beam search ranks by.
  double score = 0;
  double log_probability = 0;  ///< of all tokens and the end, as the options change them
  std::vector<token_t> tokens = {};
  bool finished = true;  ///< false if the length limit cut it off
  /// Of each token, then of the end if it is finished; together `log_probability`, but for rounding.
  std::vector<float> token_log_probabilities = {};
  Alignment alignment = {};  ///< of its words to those of the source, if asked for
  token_t end_token = -1;    ///< that ended it, if it is finished and not empty
  /// If asked for: for each of `token_log_probabilities`, those of the whole vocabulary that the token was chosen from.
  std::vector<std::vector<float>> distributions = {};
};
/// The translations of each sentence.
using TranslationLists = Results<Results<Translation>>;

namespace detail {

/// Throws ValueError if an option is given that the search would pass over.
inline void check_used(const TranslatorOptions& o) {
  const auto check = [](bool good, const auto&... what) { check_value(good, "Translator", what...); };
  check(!o.sample || !o.beam.given() || o.beam == 1, "beam is ", o.beam, ", and sampling is asked for, which keeps no beam");
  const auto of_sampling = [&](bool given, const char* name, auto value) {
    check(!given || o.sample, name, " is ", value, ", and sampling is not asked for");
  };
  of_sampling(o.top_k != 0, "top_k", o.top_k);
  of_sampling(o.top_p != 1, "top_p", o.top_p);
  of_sampling(o.min_p != 0, "min_p", o.min_p);
  of_sampling(o.seed != 0, "seed", o.seed);
  check(o.temperature == 1 || o.sample || o.beam > 1, "temperature is ", o.temperature, ", of which greedy search knows nothing");
  const bool beams = o.beam > 1 && !o.sample;
  check(o.beam_groups == 1 || beams, "beam_groups is ", o.beam_groups, ", which goes with beam search");
  check(!o.required || beams, "required goes with beam search");
  check(!o.score_forced_end || o.force_end, "score_forced_end goes with force_end, which is not asked for");
  check(o.unknown_penalty == 0 || o.unknown != Unknown::suppress, "unknown_penalty is ", o.unknown_penalty,
        ", and the unknown token never comes");
}

/// Throws ValueError, naming the option, for what is wrong whatever the tokenizer and the model.
inline void check_translator(const TranslatorOptions& o) {
  const auto check = [](bool good, const auto&... what) { check_value(good, "Translator", what...); };
  check_fields("Translator", o);
  check(o.sample || o.n_best <= o.beam, "n_best is ", o.n_best, ", expected 1 to beam, ", o.beam);
  check(o.max_length == 0 || o.min_length <= o.max_length, "min_length is ", o.min_length, ", max_length ", o.max_length);
  check(o.coverage_penalty == 0 || (o.beam > 1 && !o.sample),
        "coverage_penalty goes with beam search, " +
            (o.sample ? std::string("and sampling is asked for") : "the beam is " + std::to_string(o.beam)));
  check(o.beam % o.beam_groups == 0, "beam_groups is ", o.beam_groups, ", expected a divisor of the beam, ", o.beam);
  check((o.beam_groups > 1) == (o.diversity_penalty > 0), "beam_groups is ", o.beam_groups, " and diversity_penalty ",
        o.diversity_penalty, ", expected both or neither");
  check(!o.required || o.beam_groups == 1, "required and beam_groups exclude each other");
  check(!o.on_token || o.sample || o.beam == 1, "on_token goes with sampling and greedy search, the beam is ", o.beam);
  check_used(o);
}

}  // namespace detail

}  // namespace attend::decode
