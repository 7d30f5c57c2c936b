#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/cpu/constrain.hpp"
#include "attend/decode/options.hpp"

/// Phrases that hypotheses must have, and how a beam is shared out so that some get there. Source: Post and Vilar 2018, "Fast
/// lexically constrained decoding with dynamic beam allocation for neural machine translation".
namespace attend::decode::detail {

/// Throws ValueError, IndexError for what no hypothesis could have.
inline void check_required(const BeamOptions& o, index_t vocabulary, index_t sentences) {
  const auto& all = o.required;
  check_value(all.empty() || count_of(all) == sentences, "beam_search", "required has ", all.size(), " lists for ", sentences,
              " sentences");
  const auto holds = [](const std::vector<token_t>& list, token_t t) {
    return std::find(list.begin(), list.end(), t) != list.end();
  };
  for (std::size_t s = 0; s < all.size(); ++s)
    for (std::size_t i = 0; i < all[s].size(); ++i) {
      const std::string name = "required phrase " + std::to_string(i) + " of sentence " + std::to_string(s);
      const auto& phrase = all[s][i];
      check_value(!phrase.empty(), "beam_search", name, " is empty");
      const index_t most = o.max_length[s];
      check_value(count_of(phrase) <= most, "beam_search", name, " has ", phrase.size(), " tokens, max_length is ", most);
      for (const token_t t : phrase) {
        check_token("beam_search", ("a token of " + name).c_str(), t, vocabulary);
        const bool listed =
            o.constraints.allowed.empty() || o.constraints.allowed[s].empty() || holds(o.constraints.allowed[s], t);
        const auto& banned = o.constraints.banned;
        const bool never =
            holds(o.suppressed, t) || std::find(banned.begin(), banned.end(), std::vector<token_t>{t}) != banned.end();
        check_value(!is_end(o, t) && listed && !never, "beam_search", name, " has token ", t, ", which may not come");
      }
    }
}

/// Of each phrase of a sentence, how many of its tokens a hypothesis ends with; all of them once it has the phrase.
using PhraseState = std::vector<std::size_t>;

/// The phrases of one sentence.
class RequiredPhrases {
 public:
  explicit RequiredPhrases(std::vector<std::vector<token_t>> phrases) : phrases_(std::move(phrases)) {
    for (const auto& phrase : phrases_) {
      tokens_ += count_of(phrase);
      // Knuth, Morris and Pratt: of each beginning of a phrase, the longest shorter one that it ends with.
      auto& shorter = shorter_.emplace_back(phrase.size(), 0);
      for (std::size_t i = 1; i < phrase.size(); ++i) shorter[i] = extended(phrase, shorter, shorter[i - 1], phrase[i]);
    }
  }

  /// The tokens of all phrases together.
  [[nodiscard]] index_t tokens() const { return tokens_; }
  /// The state of the empty hypothesis.
  [[nodiscard]] PhraseState begin() const { return PhraseState(phrases_.size(), 0); }
  /// The hypothesis goes on by a token.
  void follow(PhraseState& state, token_t token) const {
    for (std::size_t p = 0; p < phrases_.size(); ++p)
      if (state[p] < phrases_[p].size()) state[p] = extended(phrases_[p], shorter_[p], state[p], token);
  }
  /// How many of the tokens a hypothesis has: of the phrases that it has, and of the one that it is furthest in. All of them only
  /// if it has all phrases.
  [[nodiscard]] index_t met(const PhraseState& state) const {
    std::size_t whole = 0, part = 0;
    for (std::size_t p = 0; p < phrases_.size(); ++p) {
      if (state[p] == phrases_[p].size()) whole += state[p];
      else part = std::max(part, state[p]);
    }
    return static_cast<index_t>(whole + part);
  }
  /// The tokens that bring a hypothesis further in a phrase that it lacks, each once.
  [[nodiscard]] std::vector<token_t> next(const PhraseState& state) const {
    std::vector<token_t> list;
    for (std::size_t p = 0; p < phrases_.size(); ++p)
      if (state[p] < phrases_[p].size()) list.push_back(phrases_[p][state[p]]);
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

 private:
  /// How many of the phrase's first tokens a sequence ends with that ended with n of them and goes on by `token`.
  static std::size_t extended(const std::vector<token_t>& phrase, const std::vector<std::size_t>& shorter, std::size_t n,
                              token_t token) {
    while (n > 0 && phrase[n] != token) n = shorter[n - 1];
    return phrase[n] == token ? n + 1 : 0;
  }

  std::vector<std::vector<token_t>> phrases_;
  std::vector<std::vector<std::size_t>> shorter_;
  index_t tokens_ = 0;
};

/// Where the rows of a beam search stand with the phrases of their sentences, and by which tokens they get further. Nothing is
/// kept or done if no sentence has phrases.
template <class T, Device D>
class RequiredRows {
 public:
  /// `required`: the phrases of each sentence; empty: none. There is one row for each sentence to begin with.
  explicit RequiredRows(const std::vector<std::vector<std::vector<token_t>>>& required) {
    const auto is_empty = [](const auto& phrases) { return phrases.empty(); };
    if (std::all_of(required.begin(), required.end(), is_empty)) return;
    for (const auto& phrases : required) states_.push_back(phrases_.emplace_back(phrases).begin());
  }

  [[nodiscard]] bool any() const { return !phrases_.empty(); }
  /// The tokens of all phrases of a sentence together.
  [[nodiscard]] index_t tokens(index_t sentence) const { return any() ? of(sentence).tokens() : 0; }
  /// How many of them a row of that sentence has.
  [[nodiscard]] index_t met(index_t sentence, index_t row) const { return any() ? of(sentence).met(state(row)) : 0; }
  /// The same once it goes on by a token.
  [[nodiscard]] index_t met_with(index_t sentence, index_t row, token_t token) const {
    PhraseState next = state(row);
    of(sentence).follow(next, token);
    return of(sentence).met(next);
  }

  /// A new step: rows are listed one after another, and then the log-probabilities x [rows, vocabulary] of their tokens taken.
  void begin_step() {
    next_.clear();
    rows_.clear();
    tokens_.clear();
  }
  void list(index_t sentence, index_t row) {
    for (const token_t token : of(sentence).next(state(row))) rows_.push_back(row), tokens_.push_back(token);
  }
  void take(const Tensor<T, D>& x) {
    const auto count = count_of(rows_);
    const Tensor<T, D> values({count});
    take_entries(D{}, {count, rows_.data(), tokens_.data()}, x.dim(1), x.data(), values.data());
    values_ = values.to_host();
  }
  /// Which of what was taken belongs to a row: the first, and one past the last.
  [[nodiscard]] std::pair<index_t, index_t> of_row(index_t row) const {
    const auto [first, end] = std::equal_range(rows_.begin(), rows_.end(), row);
    return {first - rows_.begin(), end - rows_.begin()};
  }
  [[nodiscard]] token_t token(index_t taken) const { return nth(tokens_, taken); }
  [[nodiscard]] T value(index_t taken) const { return values_.data()[taken]; }

  /// The next row of the step to come continues `row` by a token.
  void follow(index_t sentence, index_t row, token_t token) {
    if (any()) of(sentence).follow(next_.emplace_back(state(row)), token);
  }
  /// Keeps only the first `rows` rows of the step to come.
  void resize(std::size_t rows) {
    if (any()) next_.resize(rows);
  }
  void end_step() { states_.swap(next_); }

 private:
  [[nodiscard]] const RequiredPhrases& of(index_t sentence) const { return nth(phrases_, sentence); }
  [[nodiscard]] const PhraseState& state(index_t row) const { return nth(states_, row); }

  std::vector<RequiredPhrases> phrases_;  // of each sentence
  std::vector<PhraseState> states_, next_;
  std::vector<index_t> rows_;  // of what is taken
  std::vector<token_t> tokens_;
  Tensor<T> values_;
};

/// How many places of a beam each bank gets: the candidates that have one and the same number of required tokens. All banks get
/// as many, the last the remainder too; what one has no candidates for goes to the others, first to those with most tokens.
/// `counts`: the candidates of each.
inline std::vector<index_t> share_out(const std::vector<index_t>& counts, index_t beam) {
  const auto banks = count_of(counts);
  std::vector<index_t> places(counts.size(), beam / banks);
  places.back() += beam % banks;
  index_t left = 0;
  for (std::size_t b = 0; b < places.size(); ++b) {
    const index_t more = std::max<index_t>(places[b] - counts[b], 0);
    places[b] -= more, left += more;
  }
  for (std::size_t b = places.size(); b-- > 0;) {
    const index_t more = std::min(left, counts[b] - places[b]);
    places[b] += more, left -= more;
  }
  return places;
}

}  // namespace attend::decode::detail
