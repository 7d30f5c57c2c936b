#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "attend/decode/constraints.hpp"
#include "attend/decode/diversity.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/required.hpp"

namespace attend::decode::detail {

/// What a step of a beam search offers the rows of one sentence, or of one group of its beam, to go on by; and which of that is
/// taken.
template <class T, Device D>
class BeamOffer {
 public:
  struct Candidate {
    double total;        // log-probability of its tokens, less what diversity takes off: it is ranked by this
    index_t row, place;  // row of the state; place among that row's k tokens, from k on among the required ones
  };

  explicit BeamOffer(const BeamOptions& options)
      : options_(options),
        width_(options.beam_groups > 0 ? options.beam / options.beam_groups : 0),
        diversity_(options.diversity_penalty),
        required_(options.required) {}

  /// How many hypotheses the beam keeps, or each of its groups.
  [[nodiscard]] index_t width() const { return width_; }
  [[nodiscard]] RequiredRows<T, D>& required() { return required_; }
  [[nodiscard]] const RequiredRows<T, D>& required() const { return required_; }

  /// Each row's k most probable tokens, [rows, k].
  void begin_step(index_t k, const T* values, const token_t* tokens) {
    k_ = k, values_ = values, tokens_ = tokens;
    diversity_.begin_step();
  }
  void begin_group(index_t sentence) {
    sentence_ = sentence;
    candidates_.clear();
    diversity_.begin_group(sentence);
  }
  /// Adds the tokens that a row of `length` tokens may go on by. False if there are none.
  bool list(index_t row, double total, index_t length) {
    const std::size_t before = candidates_.size();
    const bool has_all = required_.met(sentence_, row) == required_.tokens(sentence_);  // otherwise it may not end
    const bool forced = is_forced(options_, sentence_, length);                         // then diversity has no say
    const auto add = [&](token_t token, T log_probability, index_t place) {
      const double value = checked_log_probability("beam_search", static_cast<double>(log_probability), token);
      if (std::isinf(value)) return false;
      if (has_all || !is_end(options_, token))
        candidates_.push_back({total + value - (forced ? 0 : diversity_.penalty(token)), row, place});
      return true;
    };
    const token_t* const own = tokens_ + row * k_;
    index_t listed = 0;
    while (listed < k_ && add(own[listed], values_[row * k_ + listed], listed))
      ++listed;  // they are sorted: after the first that may not come, none may
    if (!has_all) {
      const auto [first, end] = required_.of_row(row);
      for (index_t taken = first; taken < end; ++taken)
        if (std::find(own, own + listed, required_.token(taken)) == own + listed)
          add(required_.token(taken), required_.value(taken), k_ + taken);
    }
    return candidates_.size() > before;
  }
  /// Ranks what was added, as far as it may be taken: the 2 * width best, or more if there are several end tokens, so that
  /// `width` can go on; all of it, if there are required phrases.
  void rank() {
    const auto size = count_of(candidates_);
    const index_t times = count_of(options_.end_tokens) + 2;
    shown_ = width_ > size / times ? size : times * width_;
    by_bank_ = required_.tokens(sentence_) > 0;
    ranked_ = by_bank_ ? size : shown_;
    std::partial_sort(candidates_.begin(), candidates_.begin() + ranked_, candidates_.end(),
                      [](const Candidate& a, const Candidate& b) {
                        if (a.total != b.total) return a.total > b.total;
                        return a.row != b.row ? a.row < b.row : a.place < b.place;
                      });
    live_ = whole_ = 0;
    if (by_bank_) fill_banks();
  }
  [[nodiscard]] index_t ranked() const { return ranked_; }
  /// How many of them would be ranked without required phrases.
  [[nodiscard]] index_t shown() const { return shown_; }
  [[nodiscard]] const Candidate& operator[](index_t rank) const { return nth(candidates_, rank); }
  [[nodiscard]] token_t token(const Candidate& c) const {
    return c.place < k_ ? tokens_[c.row * k_ + c.place] : required_.token(c.place - k_);
  }
  [[nodiscard]] T value(const Candidate& c) const {
    return c.place < k_ ? values_[c.row * k_ + c.place] : required_.value(c.place - k_);
  }

  /// How many of the required tokens the candidate has.
  [[nodiscard]] index_t met(index_t rank) const { return by_bank_ ? nth(banks_, rank) : 0; }
  [[nodiscard]] bool has_all(index_t rank) const { return !by_bank_ || met(rank) == required_.tokens(sentence_); }
  /// Whether the candidate counts if it is an ending: it has all that is required, and is among the first `width` of those that
  /// do, so that no ending is taken that a narrower choice would have passed over. To be asked of each rank, in order.
  [[nodiscard]] bool may_count(index_t rank) { return has_all(rank) && whole_++ < width_; }
  /// Whether there is a place for it in the next step, which it then takes.
  [[nodiscard]] bool may_live(index_t rank) {
    if (by_bank_) return nth(places_, nth(banks_, rank))-- > 0;
    return live_++ < width_;
  }
  /// The candidate lives on.
  void follow(const Candidate& c) { required_.follow(sentence_, c.row, token(c)); }
  /// A hypothesis goes on by this token, which the groups to come are told of.
  void choose(token_t token) { chosen_.push_back(token); }
  /// Tells the groups to come of what this one has chosen.
  void end_group() {
    for (const token_t t : chosen_) diversity_.add(t);
    chosen_.clear();
  }

 private:
  /// Finds each candidate's bank, the number of required tokens that it has, and how many places of the beam each bank gets.
  void fill_banks() {
    banks_.clear();
    std::vector<index_t> counts(static_cast<std::size_t>(required_.tokens(sentence_)) + 1, 0);
    for (const Candidate& c : candidates_) {
      const bool end = is_end(options_, token(c));
      banks_.push_back(end ? required_.met(sentence_, c.row) : required_.met_with(sentence_, c.row, token(c)));
      if (!end) ++nth(counts, banks_.back());
    }
    places_ = share_out(counts, width_);
  }

  const BeamOptions& options_;
  index_t width_;
  Diversity diversity_;
  RequiredRows<T, D> required_;
  index_t k_ = 0, sentence_ = 0, shown_ = 0, ranked_ = 0;
  index_t live_ = 0, whole_ = 0;  // of those asked about: how many live on, and how many have all that is required
  const T* values_ = nullptr;
  const token_t* tokens_ = nullptr;
  std::vector<Candidate> candidates_;
  bool by_bank_ = false;
  std::vector<index_t> banks_, places_;
  std::vector<token_t> chosen_;
};

}  // namespace attend::decode::detail
