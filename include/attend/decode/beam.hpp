#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/decode/adjust.hpp"
#include "attend/decode/beam_offer.hpp"
#include "attend/decode/beam_trace.hpp"
#include "attend/decode/beam_tree.hpp"
#include "attend/decode/coverage.hpp"
#include "attend/decode/diversity.hpp"
#include "attend/decode/hypothesis.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/options.hpp"
#include "attend/decode/required.hpp"
#include "attend/decode/results.hpp"

namespace attend::decode {

namespace detail {

/// One call of `beam_search`: the beams of its sentences, and how they go on.
template <StepModel M>
class BeamSearch {
 public:
  using T = typename M::value_type;
  using D = typename M::device_type;

  BeamSearch(M& model, typename M::State& state, index_t sentences, const BeamOptions& options)
      : model_(model),
        state_(state),
        options_(options),
        vocabulary_(model.vocabulary()),
        tree_(options.distributions),
        adjust_("beam_search", options, vocabulary_),
        offer_(options),
        coverage_(options.coverage) {
    check_options("beam_search", options, vocabulary_, sentences);
    check_constraints("beam_search", options, vocabulary_, sentences);
    check_value(options.n_best <= options.beam, "beam_search", "n_best is ", options.n_best, ", expected 1 to the beam ",
                options.beam);
    check_value(!coverage_.counts() || attends(), "beam_search",
                "coverage needs the model's attention to its source, which it does not give");
    check_value(!options.keep_unfinished || !options.constraints.force_end, "beam_search",
                "keep_unfinished and force_end exclude each other");
    check_groups(options);
    check_required(options, vocabulary_, sentences);
    if (options.trace) options.trace->sentences.assign(sentences, {});
    results_.resize(sentences);
    unfinished_.resize(results_.size());
    for (index_t s = 0; s < sentences; ++s) {
      for (index_t g = 0; g < options.beam_groups; ++g) groups_.push_back({s, s, 1, {}, {}});  // they share the first row
      rows_.push_back({BeamTree::root, BeamTree::root, 0, 0, options.bos});
    }
  }

  Results<Results<Hypothesis>> run() {
    // Of each row only the `beam` best tokens, and one more for each end token, can matter.
    const auto ends = count_of(options_.end_tokens) + 1;
    const index_t k = options_.beam <= vocabulary_ - ends ? options_.beam + ends : vocabulary_;
    for (index_t length = 0; !rows_.empty(); ++length) {
      const auto count = count_of(rows_);
      tokens_.clear();
      for (const Row& row : rows_) tokens_.push_back(row.token);
      const Tensor<T, D> values({count, k});
      const Tensor<token_t, D> tokens({count, k});
      if (offer_.required().any() || !adjust_.step_to_best(model_, state_, tokens_, length, values, tokens)) {
        const auto log_probabilities = checked_step("beam_search", model_, state_, tokens_);  // [rows, vocabulary]
        adjust_(length, log_probabilities, [&](index_t row, std::vector<token_t>& prefix) { return prefix_of(row, prefix); });
        if (options_.distributions) tree_.add_step(rows_of(log_probabilities));
        take_required(log_probabilities);
        top_k(D{}, count, vocabulary_, k, log_probabilities.data(), values.data(), tokens.data());
      }
      if constexpr (AttendingModel<M>)
        if (coverage_.counts()) coverage_.read(model_, state_);
      const auto host_values = values.to_host();
      const auto host_tokens = tokens.to_host();
      offer_.begin_step(k, host_values.data(), host_tokens.data());
      advance(length);
    }
    for (std::size_t s = 0; s < results_.size(); ++s) {
      auto& list = results_[s];
      if (list.empty()) list = std::move(unfinished_[s]);
      if (options_.beam_groups > 1) list = merge_groups(std::move(list), options_.n_best);
    }
    return std::move(results_);
  }

 private:
  using Ending = BeamEnding;

  /// A live hypothesis: a row of the state.
  struct Row {
    index_t node;            // its last token, the root while it is empty
    index_t traced;          // the same in the trace
    double log_probability;  // of its tokens together
    double total;            // that, less what diversity has taken off: what it is ranked by
    token_t token;           // what the model is given next
  };
  /// A sentence under way, or a group of its beam. Its rows stand side by side, the most probable first. `endings` has the best
  /// first; so has `stuck`: the hypotheses that nothing could follow, or that were cut off before they had all that is required.
  struct Group {
    index_t sentence, first_row, rows;
    std::vector<Ending> endings, stuck;
  };

  [[nodiscard]] bool attends() const {
    if constexpr (AttendingModel<M>) return model_.attends();
    return false;
  }
  /// Writes the tokens of a row, and gives its sentence.
  index_t prefix_of(index_t row, std::vector<token_t>& prefix) const {
    tree_.prefix(nth(rows_, row).node, prefix);
    const auto group =
        std::upper_bound(groups_.begin(), groups_.end(), row, [](index_t r, const Group& g) { return r < g.first_row; });
    return (group - 1)->sentence;
  }

  /// One step of all sentences.
  void advance(index_t length) {
    next_rows_.clear();
    origins_.clear();
    std::size_t kept = 0;
    for (Group& group : groups_) {
      const auto first_row = count_of(next_rows_);
      choose(group, length);
      const index_t live = count_of(next_rows_) - first_row;
      if (live == 0 || is_done(group, length + 1, nth(next_rows_, first_row).total)) {
        next_rows_.resize(first_row);
        origins_.resize(next_rows_.size());
        offer_.required().resize(next_rows_.size());
        report(group, length);
        continue;
      }
      group.first_row = first_row;
      group.rows = live;
      if (&groups_[kept] != &group) groups_[kept] = std::move(group);
      ++kept;
    }
    groups_.resize(kept);
    const bool unchanged = origins_.size() == rows_.size() && std::is_sorted(origins_.begin(), origins_.end()) &&
                           std::adjacent_find(origins_.begin(), origins_.end()) == origins_.end();
    rows_.swap(next_rows_);
    offer_.required().end_step();
    if (coverage_.counts()) coverage_.follow(origins_);
    if (!rows_.empty() && !unchanged) model_.reorder(state_, std::span<const index_t>(origins_));
  }

  /// Takes the log-probabilities of the tokens that bring hypotheses further in a required phrase.
  void take_required(const Tensor<T, D>& x) {
    auto& required = offer_.required();
    if (!required.any()) return;
    required.begin_step();
    for (const Group& group : groups_)
      for (index_t row = group.first_row; row < group.first_row + group.rows; ++row) required.list(group.sentence, row);
    required.take(x);
  }

  /// Goes through the best continuations of a sentence: the first `width` that do not end live on, those that end count.
  void choose(Group& group, index_t length) {
    const index_t last = last_length(group);
    offer_.begin_group(group.sentence);
    for (index_t row = group.first_row; row < group.first_row + group.rows; ++row)
      if (!offer_.list(row, nth(rows_, row).total, length) && (length < last || cuts(group, length)))
        keep(group.stuck, unfinished(group, row, length));
    offer_.rank();
    for (index_t rank = 0; rank < offer_.ranked(); ++rank) {
      const auto& c = offer_[rank];
      const Row& row = nth(rows_, c.row);
      const token_t token = offer_.token(c);
      const T value = offer_.value(c);
      const BeamTree::Node node{row.node, token, static_cast<float>(value)};
      const double log_probability = row.log_probability + static_cast<double>(value);
      const bool counts = offer_.may_count(rank), end = is_end(options_, token);
      const bool cut = !end && cuts(group, length);
      const bool ends = (end || cut) && counts && length <= last, lacks = cut && !offer_.has_all(rank);
      const bool chosen = !end && (length < last || cut) && offer_.may_live(rank), lives = chosen && length < last;
      if (chosen) offer_.choose(token);  // the last token of a hypothesis that is cut off here, too
      // Most candidates neither end nor are told of, and a score takes a power.
      const double total =
          !ends && !lacks && !options_.trace ? 0 : score(c.total, length + 1) + (ends || lacks ? coverage_.penalty(c.row) : 0);
      if (ends && end) keep(group.endings, {total, log_probability, node.parent, node.log_probability, true, token, c.row});
      if (ends && !end) keep(group.endings, {total, log_probability, tree_.add(node, c.row)});
      if (lacks) {
        Ending ending{total, log_probability, tree_.add(node, c.row)};
        ending.met = offer_.met(rank);
        keep(group.stuck, ending);
      }
      if (lives) {
        const auto place = options_.trace ? static_cast<index_t>(traced(group).size()) : BeamTree::root;
        next_rows_.push_back({tree_.add(node, c.row), place, log_probability, c.total, token});
        origins_.push_back(c.row);
        offer_.follow(c);
      }
      if (options_.trace && (rank < offer_.shown() || ends || lives))
        traced(group).push_back({length, row.traced, token, static_cast<double>(value), log_probability, total,
                                 ends    ? Fate::ended
                                 : lives ? Fate::live
                                         : Fate::dropped});
    }
    offer_.end_group();
  }
  /// How many tokens a hypothesis has before the last step that it may make.
  [[nodiscard]] index_t last_length(const Group& group) const {
    return options_.max_length[group.sentence] - (options_.keep_unfinished ? 1 : 0);
  }
  /// Whether the next token of a hypothesis of `length` tokens is its last, be it an end or not.
  [[nodiscard]] bool cuts(const Group& group, index_t length) const {
    return options_.keep_unfinished && length == last_length(group);
  }
  /// The hypothesis of `length` tokens that a row holds.
  [[nodiscard]] Ending unfinished(const Group& group, index_t row, index_t length) const {
    const Row& r = nth(rows_, row);
    Ending ending{score(r.total, length) + coverage_.penalty_before(row), r.log_probability, r.node};
    ending.met = offer_.required().met(group.sentence, row);
    return ending;
  }
  [[nodiscard]] std::vector<BeamCandidate>& traced(const Group& group) const {
    return nth(options_.trace->sentences, group.sentence);
  }

  /// Endings beyond this many cannot matter any more.
  [[nodiscard]] std::size_t wanted() const {
    return static_cast<std::size_t>(options_.stop == Stop::exact ? std::min(options_.n_best, offer_.width()) : offer_.width());
  }
  [[nodiscard]] double score(double log_probability, index_t length) const {
    return normalized_score(log_probability, length, options_.alpha, options_.normalization);
  }

  /// Of equal scores, the ending that came first is the better one.
  void keep(std::vector<Ending>& list, const Ending& ending) const {
    const auto better = [](const Ending& a, const Ending& b) { return a.met != b.met ? a.met > b.met : a.score > b.score; };
    if (list.size() == wanted() && !better(ending, list.back())) return;
    if (list.size() == wanted()) list.pop_back();
    list.insert(std::upper_bound(list.begin(), list.end(), ending, better), ending);
  }

  /// `length`: the tokens of the live hypotheses; `best`: the log-probability of the first of them.
  [[nodiscard]] bool is_done(const Group& group, index_t length, double best) const {
    if (group.endings.size() < wanted()) return false;
    if (options_.stop == Stop::first) return true;
    // Log-probabilities only fall, and the penalty grows (alpha > 0) or shrinks with the length: the best that can still come has
    // the present log-probability and either the shortest or the longest length. Coverage takes away from that, never adds.
    const index_t last = last_length(group), longest = last < std::numeric_limits<index_t>::max() ? last + 1 : last;
    const double bound =
        options_.stop == Stop::present_length ? score(best, length) : std::max(score(best, length + 1), score(best, longest));
    return bound <= group.endings.back().score;
  }

  /// Writes the results of a sentence; if nothing has finished, the best of what nothing could follow and of the hypotheses of
  /// `length` tokens that its rows hold, if that is the limit.
  void report(Group& group, index_t length) {
    auto& endings = group.endings;
    auto& list = nth((endings.empty() ? unfinished_ : results_), group.sentence);
    if (endings.empty()) {
      endings.swap(group.stuck);
      const bool cut_off = length >= last_length(group) && !cuts(group, length);  // otherwise all that there is stands in `stuck`
      for (index_t row = group.first_row; cut_off && row < group.first_row + group.rows; ++row)
        keep(endings, unfinished(group, row, length));
    }
    if (count_of(endings) > options_.n_best) endings.resize(options_.n_best);
    for (const Ending& ending : endings) list.push_back(tree_.hypothesis(ending));
  }

  M& model_;
  typename M::State& state_;
  const BeamOptions& options_;
  index_t vocabulary_;
  BeamTree tree_;  // all hypotheses there were
  std::vector<Row> rows_, next_rows_;
  std::vector<index_t> origins_;  // the row that each of next_rows_ continues
  std::vector<Group> groups_;
  std::vector<token_t> tokens_;
  Adjust<T, D, BeamOptions> adjust_;
  BeamOffer<T, D> offer_;
  Coverage coverage_;
  Results<Results<Hypothesis>> results_, unfinished_;  // unfinished: what comes back if there are no results
};

}  // namespace detail

/// Beam search: for each of the `sentences` rows of `state`, the n-best list of hypotheses, best score first; of equal scores the
/// one that ended earlier comes first, then the one from the more probable prefix, then the one with the lower token.
///
/// At each step the `beam` most probable continuations live on. A list holds only finished hypotheses and may be shorter than
/// n_best; if none has finished, it holds the best of those that max_length has cut off or that nothing could follow. A
/// hypothesis of max_length tokens still counts as finished if eos is among the `beam` best continuations. The first step works
/// on one row per sentence; a sentence that is done leaves the state at once. The state is used up.
/// With beam = 1 and alpha = 0 the result is that of `greedy`.
///
/// What `generate` of transformers finds with num_beams, length_penalty and early_stopping within max_new_tokens = n comes from
/// `alpha` = length_penalty, `normalization` = marian, `stop` = present_length for early_stopping False, first for True, exact
/// for "never", and either `keep_unfinished` with max_length = n or, if there is a forced_eos_token_id, `force_end` with
/// max_length = n - 1.
/// Throws ValueError, IndexError for bad options, ValueError for a prefix that the model gives no probability, Error if a
/// log-probability is NaN or a logit NaN or infinite.
template <StepModel M>
Results<Results<Hypothesis>> beam_search(M& model, typename M::State& state, index_t sentences, const BeamOptions& options = {}) {
  const NoGrad no_grad;
  return detail::BeamSearch<M>(model, state, sentences, options).run();
}

}  // namespace attend::decode
