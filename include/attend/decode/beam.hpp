#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/decode/adjust.hpp"
#include "attend/decode/beam_trace.hpp"
#include "attend/decode/coverage.hpp"
#include "attend/decode/hypothesis.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/options.hpp"
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
        adjust_("beam_search", options, vocabulary_),
        coverage_(options.coverage) {
    check_options("beam_search", options, vocabulary_, sentences);
    check_constraints("beam_search", options, vocabulary_, sentences);
    check_value(options.beam >= 1, "beam_search", "beam is " + std::to_string(options.beam) + ", expected at least 1");
    check_value(options.n_best >= 1 && options.n_best <= options.beam, "beam_search",
                "n_best is " + std::to_string(options.n_best) + ", expected 1 to the beam " + std::to_string(options.beam));
    check_value(std::isfinite(options.alpha), "beam_search", "alpha is not finite");
    check_value(options.temperature > 0 && std::isfinite(options.temperature), "beam_search",
                "temperature is " + std::to_string(options.temperature) + ", expected a positive number");
    check_value(options.coverage >= 0 && std::isfinite(options.coverage), "beam_search",
                "coverage is " + std::to_string(options.coverage) + ", expected a number of at least 0");
    check_value(!coverage_.counts() || attends(), "beam_search",
                "coverage needs the model's attention to its source, which it does not give");
    check_value(!options.keep_unfinished || !options.constraints.force_end, "beam_search",
                "keep_unfinished and force_end exclude each other");
    if (options.trace) options.trace->sentences.assign(static_cast<std::size_t>(sentences), {});
    results_.resize(static_cast<std::size_t>(sentences));
    for (index_t s = 0; s < sentences; ++s) {
      groups_.push_back({s, s, 1, {}, {}});
      rows_.push_back({root, root, 0, options.bos});
    }
  }

  Results<Results<Hypothesis>> run() {
    // Of each row the first `beam` tokens and as many more as may be ends are all that can matter.
    const auto ends = static_cast<index_t>(options_.end_tokens.size()) + 1;
    const index_t k = options_.beam <= vocabulary_ - ends ? options_.beam + ends : vocabulary_;
    for (index_t length = 0; !rows_.empty(); ++length) {
      const auto count = static_cast<index_t>(rows_.size());
      tokens_.clear();
      for (const Row& row : rows_) tokens_.push_back(row.token);
      const auto log_probabilities = checked_step("beam_search", model_, state_, tokens_);  // [rows, vocabulary]
      if constexpr (AttendingModel<M>)
        if (coverage_.counts()) coverage_.read(model_, state_);
      adjust_(length, log_probabilities, [&](index_t row, std::vector<token_t>& prefix) { return prefix_of(row, prefix); });
      if (options_.distributions) distributions_.push_back(rows_of(log_probabilities));
      const Tensor<T, D> values({count, k});
      const Tensor<token_t, D> tokens({count, k});
      top_k(D{}, count, vocabulary_, k, log_probabilities.data(), values.data(), tokens.data());
      advance(length, k, values.to_host().data(), tokens.to_host().data());
    }
    return std::move(results_);
  }

 private:
  static constexpr index_t root = -1;

  /// A token of a prefix, and the node of the token before it.
  struct Node {
    index_t parent;
    token_t token;
    float log_probability;
  };
  /// A live hypothesis: a row of the state.
  struct Row {
    index_t node;            // its last token, `root` while it is empty
    index_t traced;          // the same in the trace
    double log_probability;  // of its tokens together
    token_t token;           // what the model is given next
  };
  struct Ending {
    double score, log_probability;
    index_t node;                   // the last token before the end
    float end_log_probability = 0;  // of the end token, where `finished`
    bool finished = false;
    token_t end = -1;  // the end token
    index_t row = 0;   // of the state, that it came from
  };
  /// A sentence under way: its rows stand side by side, the most probable first; its endings, the best first; and in that order
  /// too what nothing could follow.
  struct Group {
    index_t sentence, first_row, rows;
    std::vector<Ending> endings, stuck;
  };
  struct Candidate {
    double log_probability;
    index_t row, place;  // of the state; among that row's k tokens
  };

  [[nodiscard]] bool attends() const {
    if constexpr (AttendingModel<M>) return model_.attends();
    return false;
  }
  /// Writes the tokens of a row, and gives its sentence.
  index_t prefix_of(index_t row, std::vector<token_t>& prefix) const {
    for (index_t at = rows_[static_cast<std::size_t>(row)].node; at != root; at = nodes_[static_cast<std::size_t>(at)].parent)
      prefix.push_back(nodes_[static_cast<std::size_t>(at)].token);
    std::reverse(prefix.begin(), prefix.end());
    const auto group =
        std::upper_bound(groups_.begin(), groups_.end(), row, [](index_t r, const Group& g) { return r < g.first_row; });
    return (group - 1)->sentence;
  }

  /// One step of all sentences: values, tokens [rows, k] are each row's most probable next tokens.
  void advance(index_t length, index_t k, const T* values, const token_t* tokens) {
    next_rows_.clear();
    origins_.clear();
    std::size_t kept = 0;
    for (Group& group : groups_) {
      const auto first_row = static_cast<index_t>(next_rows_.size());
      choose(group, length, k, values, tokens);
      const index_t live = static_cast<index_t>(next_rows_.size()) - first_row;
      if (live == 0 || is_done(group, length + 1, next_rows_[static_cast<std::size_t>(first_row)].log_probability)) {
        next_rows_.resize(static_cast<std::size_t>(first_row));
        origins_.resize(next_rows_.size());
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
    if (coverage_.counts()) coverage_.follow(origins_);
    if (!rows_.empty() && !unchanged) model_.reorder(state_, std::span<const index_t>(origins_));
  }

  /// Goes through the best continuations of a sentence, 2 * beam of them, or more where there are several end tokens, so that as
  /// many as the beam go on: the first `beam` that do not end live on; those that end count if they are among the first `beam` of
  /// all, so that an end is never taken that a narrower choice would have passed over.
  void choose(Group& group, index_t length, index_t k, const T* values, const token_t* tokens) {
    candidates_.clear();
    const index_t last = last_length(group);
    for (index_t row = group.first_row; row < group.first_row + group.rows; ++row) {
      const std::size_t before = candidates_.size();
      for (index_t place = 0; place < k; ++place) {
        const index_t at = row * k + place;
        const double value = checked_log_probability("beam_search", static_cast<double>(values[at]), tokens[at]);
        if (std::isinf(value)) break;  // and so are those after it
        candidates_.push_back({rows_[static_cast<std::size_t>(row)].log_probability + value, row, place});
      }
      if (candidates_.size() == before && length < last) keep(group.stuck, unfinished(row, length));
    }
    const auto size = static_cast<index_t>(candidates_.size()), beam = options_.beam;
    const index_t times = static_cast<index_t>(options_.end_tokens.size()) + 2;
    const index_t considered = beam > size / times ? size : times * beam;
    std::partial_sort(candidates_.begin(), candidates_.begin() + considered, candidates_.end(),
                      [](const Candidate& a, const Candidate& b) {
                        if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
                        return a.row != b.row ? a.row < b.row : a.place < b.place;
                      });
    index_t live = 0;
    for (index_t rank = 0; rank < considered; ++rank) {
      const Candidate& c = candidates_[static_cast<std::size_t>(rank)];
      const token_t token = tokens[c.row * k + c.place];
      const T value = values[c.row * k + c.place];
      const Node node{rows_[static_cast<std::size_t>(c.row)].node, token, static_cast<float>(value)};
      const bool end = is_end(options_, token), cut = !end && options_.keep_unfinished && length == last;
      const bool ends = (end || cut) && rank < options_.beam && length <= last,
                 lives = !end && length < last && live < options_.beam;
      const double total = score(c.log_probability, length + 1) + (ends ? coverage_.penalty(c.row) : 0);
      if (ends && end)
        keep(group.endings, {total, c.log_probability, node.parent, node.log_probability, true, token, c.row});
      if (ends && !end) keep(group.endings, {total, c.log_probability, add(node, c.row)});
      if (lives) {
        const auto place = options_.trace ? static_cast<index_t>(traced(group).size()) : root;
        next_rows_.push_back({add(node, c.row), place, c.log_probability, token});
        origins_.push_back(c.row);
        ++live;
      }
      if (options_.trace)
        traced(group).push_back({length, rows_[static_cast<std::size_t>(c.row)].traced, token, static_cast<double>(value),
                                 c.log_probability, total,
                                 ends    ? Fate::ended
                                 : lives ? Fate::live
                                         : Fate::dropped});
    }
  }
  /// The tokens that a hypothesis has before the last step that it may make.
  [[nodiscard]] index_t last_length(const Group& group) const {
    return options_.max_length[group.sentence] - (options_.keep_unfinished ? 1 : 0);
  }
  /// The hypothesis of `length` tokens that a row holds.
  [[nodiscard]] Ending unfinished(index_t row, index_t length) const {
    const Row& r = rows_[static_cast<std::size_t>(row)];
    return {score(r.log_probability, length) + coverage_.penalty_before(row), r.log_probability, r.node};
  }
  /// `row`: of the state, that the token was chosen from.
  index_t add(const Node& node, index_t row) {
    nodes_.push_back(node);
    if (options_.distributions) node_rows_.push_back(row);
    return static_cast<index_t>(nodes_.size()) - 1;
  }
  [[nodiscard]] std::vector<BeamCandidate>& traced(const Group& group) const {
    return options_.trace->sentences[static_cast<std::size_t>(group.sentence)];
  }

  /// Endings beyond this many cannot matter any more.
  [[nodiscard]] std::size_t wanted() const {
    return static_cast<std::size_t>(options_.stop == Stop::exact ? options_.n_best : options_.beam);
  }
  [[nodiscard]] double score(double log_probability, index_t length) const {
    return normalized_score(log_probability, length, options_.alpha, options_.normalization);
  }

  /// Of equal scores, the ending that came first is the better one.
  void keep(std::vector<Ending>& list, const Ending& ending) const {
    if (list.size() == wanted() && ending.score <= list.back().score) return;
    if (list.size() == wanted()) list.pop_back();
    const auto at =
        std::upper_bound(list.begin(), list.end(), ending, [](const Ending& a, const Ending& b) { return a.score > b.score; });
    list.insert(at, ending);
  }

  /// `length`: the tokens of the live hypotheses; `best`: the log-probability of the first of them.
  [[nodiscard]] bool is_done(const Group& group, index_t length, double best) const {
    if (group.endings.size() < wanted()) return false;
    if (options_.stop == Stop::first) return true;
    // Log-probabilities only sink, and the penalty grows (alpha > 0) or shrinks with the length: the best that can still come
    // has the log-probability of now and either the shortest or the longest length. Coverage takes away from that, never adds.
    const index_t last = last_length(group), longest = last < std::numeric_limits<index_t>::max() ? last + 1 : last;
    const double bound = options_.stop == Stop::present_length ? score(best, length)
                                                               : std::max(score(best, length + 1), score(best, longest));
    return bound <= group.endings.back().score;
  }

  /// Writes the results of a sentence; where nothing has finished, the best of what nothing could follow and of the hypotheses of
  /// `length` tokens that its rows hold, if that is the limit.
  void report(Group& group, index_t length) {
    auto& endings = group.endings;
    if (endings.empty()) {
      endings.swap(group.stuck);
      for (index_t row = group.first_row; length >= last_length(group) && row < group.first_row + group.rows; ++row)
        keep(endings, unfinished(row, length));  // else all of them are stuck
    }
    if (static_cast<index_t>(endings.size()) > options_.n_best) endings.resize(static_cast<std::size_t>(options_.n_best));
    for (const Ending& ending : endings) results_[static_cast<std::size_t>(group.sentence)].push_back(hypothesis(ending));
  }
  [[nodiscard]] Hypothesis hypothesis(const Ending& ending) const {
    Hypothesis h{.log_probability = ending.log_probability,
                 .score = ending.score,
                 .finished = ending.finished,
                 .end_token = ending.end};
    std::vector<index_t> rows;  // that the tokens were chosen from, the last one first
    if (ending.finished) h.token_log_probabilities.push_back(ending.end_log_probability), rows.push_back(ending.row);
    for (index_t at = ending.node; at != root; at = nodes_[static_cast<std::size_t>(at)].parent) {
      h.tokens.push_back(nodes_[static_cast<std::size_t>(at)].token);
      h.token_log_probabilities.push_back(nodes_[static_cast<std::size_t>(at)].log_probability);
      if (options_.distributions) rows.push_back(node_rows_[static_cast<std::size_t>(at)]);
    }
    std::reverse(h.tokens.begin(), h.tokens.end());
    std::reverse(h.token_log_probabilities.begin(), h.token_log_probabilities.end());
    std::reverse(rows.begin(), rows.end());
    for (std::size_t step = 0; options_.distributions && step < rows.size(); ++step)
      h.distributions.push_back(distributions_[step][static_cast<std::size_t>(rows[step])]);
    return h;
  }

  M& model_;
  typename M::State& state_;
  const BeamOptions& options_;
  index_t vocabulary_;
  std::vector<Node> nodes_;  // of all hypotheses there were
  std::vector<index_t> node_rows_;                                // of each node, and
  std::vector<std::vector<std::vector<float>>> distributions_;    // of each step and row: both where they are asked for
  std::vector<Row> rows_, next_rows_;
  std::vector<index_t> origins_;  // the row that each of next_rows_ continues
  std::vector<Group> groups_;
  std::vector<Candidate> candidates_;
  std::vector<token_t> tokens_;
  Adjust<T, D, BeamOptions> adjust_;
  Coverage coverage_;
  Results<Results<Hypothesis>> results_;
};

}  // namespace detail

/// Beam search: for each of the `sentences` rows of `state`, the n-best list of hypotheses, best score first; of equal scores
/// the one that ended earlier, from the more probable prefix, with the lower token, comes first.
///
/// At each step the `beam` most probable continuations live on. A list holds only finished hypotheses, and may be shorter than
/// n_best, unless none has finished: then the best of those come back that max_length has cut off or that nothing could follow. A
/// hypothesis of max_length tokens still counts as finished if eos is among the `beam` best continuations. The first step works
/// on one row a sentence; a sentence that is done leaves the state at once. The state is used up.
/// With beam = 1 and alpha = 0 the result is that of `greedy`.
///
/// What `generate` of transformers finds with num_beams, length_penalty and early_stopping within max_new_tokens = n comes from
/// `alpha` = length_penalty, `normalization` = marian, `stop` = present_length for early_stopping False, first for True, exact
/// for "never", and either `keep_unfinished` with max_length = n or, where there is a forced_eos_token_id, `force_end` with
/// max_length = n - 1.
/// Throws ValueError, IndexError for bad options, ValueError for a prefix that the model gives no probability, Error where a
/// log-probability is NaN.
template <StepModel M>
Results<Results<Hypothesis>> beam_search(M& model, typename M::State& state, index_t sentences,
                                         const BeamOptions& options = {}) {
  const NoGrad no_grad;
  return detail::BeamSearch<M>(model, state, sentences, options).run();
}

}  // namespace attend::decode
