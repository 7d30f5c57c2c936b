#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/constrain.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/cpu/top_k.hpp"
#include "attend/decode/constraints.hpp"
#include "attend/decode/model.hpp"

namespace attend::decode::detail {

/// x [rows, vocabulary] becomes log softmax(x / temperature).
template <class T, Device D>
void sharpen(const Tensor<T, D>& x, double temperature) {
  if (temperature == 1) return;
  const auto factor = static_cast<Wide<T>>(std::clamp(1 / temperature, 1e-30, 1e30));  // no 0, no infinity: their product is NaN
  scale_add(D{}, x.size(), factor, x.data(), Wide<T>(0), x.data());
  log_softmax_forward(D{}, x.dim(0), x.dim(1), x.data(), x.data());
}

/// The one place where log-probabilities change between the model and the choice of tokens: what the options want less of is
/// lowered, what they rule out becomes minus infinity. Made once per search.
template <class T, Device D, class Options>
class Adjust {
 public:
  Adjust(const char* search, const Options& options, index_t vocabulary)
      : search_(search),
        options_(options),
        vocabulary_(vocabulary),
        ends_(options.end_tokens),
        excluded_(options.suppressed),
        by_row_(by_row(options.constraints)) {
    ends_.push_back(options.eos);
    for (const auto& sequence : options.constraints.banned)
      if (sequence.size() == 1) excluded_.push_back(sequence[0]);
    std::sort(excluded_.begin(), excluded_.end());
    excluded_.insert(excluded_.end(), ends_.begin(), ends_.end());
    std::vector<token_t> all;
    for (auto list : options.constraints.allowed) {
      if (!list.empty()) list.insert(list.end(), ends_.begin(), ends_.end());
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
      begins_.push_back(count_of(all));
      lengths_.push_back(count_of(list));
      all.insert(all.end(), list.begin(), list.end());
    }
    if (!all.empty()) allowed_ = Tensor<token_t>({count_of(all)}, std::span<const token_t>(all)).template to<D>();
  }

  /// A step of a model after prefixes of `length` tokens, from which only the best tokens of each row are wanted: the same to the
  /// bit as `step`, what is done to its result here, and `top_k`, but faster. values, best [rows, k] or, for k = 1, [rows].
  /// False, and nothing is done, if the model or the options need all log-probabilities.
  template <StepModel M>
  bool step_to_best(M& model, typename M::State& state, std::span<const token_t> tokens, index_t length,
                    const Tensor<T, D>& values, const Tensor<token_t, D>& best) const {
    if constexpr (LogitModel<M>) {
      if (!only_excludes() || !model.gives_logits(state)) return false;
      const auto x = checked_logits(search_, model, state, tokens);
      top_k_of_logits(D{}, kernels::as_rows(x), excluded(length), values.size() / x.dim(0), values.data(), best.data());
      return true;
    }
    return false;
  }

  /// x [rows, vocabulary] follows prefixes of `length` tokens; prefix_of(row, tokens) writes those of a row and gives its
  /// sentence. Throws ValueError if the model gives a token of a forced prefix no probability.
  template <class PrefixOf>
  void operator()(index_t length, const Tensor<T, D>& x, PrefixOf&& prefix_of) {
    const index_t rows = x.dim(0);
    constexpr T never = -std::numeric_limits<T>::infinity();
    rules_.clear();
    for (index_t row = 0; by_row_ && row < rows; ++row) {
      tokens_.clear();
      const index_t sentence = prefix_of(row, tokens_);
      add_rules(options_, row, sentence, tokens_, rules_);
    }
    // Sampling applies its temperature in the draw, and reports the log-probabilities from before that.
    if constexpr (std::same_as<Options, BeamOptions>) sharpen(x, options_.temperature);
    const Tensor<T, D> only = take_forced(x, prefix_of);
    restrict(x);
    penalize(x);
    if (options_.constraints.edit) edit(x, prefix_of);
    keep_next(x);
    const auto out = excluded(length);
    fill_columns(D{}, rows, vocabulary_, count_of(out), out.data(), never, x.data());
    const auto& banned = rules_.banned;
    if (!banned.rows.empty()) set_entries(D{}, entries(banned), vocabulary_, never, x.data());
    if (options_.constraints.renormalize) log_softmax_forward(D{}, rows, vocabulary_, x.data(), x.data());
    if (const auto& one = rules_.forced; !one.rows.empty()) keep_entries(D{}, entries(one), vocabulary_, only.data(), x.data());
  }

 private:
  /// Whether the options do no more to log-probabilities than to rule out `excluded` tokens in every row.
  [[nodiscard]] bool only_excludes() const {
    if constexpr (std::same_as<Options, BeamOptions>)
      if (options_.temperature != 1) return false;
    const Constraints& c = options_.constraints;
    return !by_row_ && !options_.distributions && !c.edit && !c.renormalize && !(c.unknown_penalty > 0);
  }
  /// The tokens that cannot follow prefixes of `length` tokens in any row.
  [[nodiscard]] std::span<const token_t> excluded(index_t length) const {
    return {excluded_.data(), length < options_.min_length ? excluded_.size() : excluded_.size() - ends_.size()};
  }
  static kernels::Entries entries(const StepRules::Lists& at) { return {count_of(at.rows), at.rows.data(), at.tokens.data()}; }
  /// The values of rows that only one token may follow: the model's for a token of a prefix or a scored end, otherwise 0.
  /// Puts all of these rows into `rules_.forced`.
  template <class PrefixOf>
  Tensor<T, D> take_forced(const Tensor<T, D>& x, PrefixOf& prefix_of) {
    auto& one = rules_.forced;
    const auto append = [&](const StepRules::Lists& more) {
      one.rows.insert(one.rows.end(), more.rows.begin(), more.rows.end());
      one.tokens.insert(one.tokens.end(), more.tokens.begin(), more.tokens.end());
    };
    const auto of_prefix = count_of(one.rows);
    append(rules_.scored_ends);
    const auto taken = count_of(one.rows);
    append(rules_.certain);
    if (one.rows.empty()) return {};
    const Tensor<T, D> values({count_of(one.rows)}, T(0));
    if (taken > 0) take_entries(D{}, {taken, one.rows.data(), one.tokens.data()}, vocabulary_, x.data(), values.data());
    if (of_prefix > 0) check_prefix(values.rows(0, of_prefix), prefix_of);
    return values;
  }
  /// Throws ValueError if the model's value for a token of a prefix is minus infinity: a hypothesis that ended there would rank
  /// above real ones.
  template <class PrefixOf>
  void check_prefix(const Tensor<T, D>& values, PrefixOf& prefix_of) {
    const auto host = values.to_host();
    for (index_t i = 0; i < host.size(); ++i) {
      if (host.data()[i] != -std::numeric_limits<T>::infinity()) continue;
      const auto at = static_cast<std::size_t>(i);
      tokens_.clear();
      const index_t sentence = prefix_of(rules_.forced.rows[at], tokens_);
      throw ValueError(search_, ": the model gives token ", rules_.forced.tokens[at], ", at position ", tokens_.size(),
                       " of prefix ", sentence, ", no probability");
    }
  }
  void restrict(const Tensor<T, D>& x) {
    const auto count = count_of(rules_.kept);
    if (count == 0) return;
    std::vector<index_t> begins, lengths;
    for (const index_t list : rules_.lists) {
      begins.push_back(nth(begins_, list));
      lengths.push_back(nth(lengths_, list));
    }
    restrict_rows(D{}, {count, rules_.kept.data(), begins.data(), lengths.data(), allowed_.data()}, vocabulary_, x.data());
  }
  void penalize(const Tensor<T, D>& x) const {
    const Constraints& c = options_.constraints;
    if (const auto& again = rules_.repeated; !again.rows.empty())
      scale_entries(D{}, entries(again), vocabulary_, static_cast<T>(std::clamp(c.repetition_penalty, 1e-30, 1e30)),
                    x.data());  // see sharpen
    if (c.unknown_penalty > 0) add_to_column(D{}, x.dim(0), vocabulary_, c.unknown, static_cast<T>(-c.unknown_penalty), x.data());
  }
  /// The user's function gets floats; what it leaves as it was keeps all of its digits.
  template <class PrefixOf>
  void edit(const Tensor<T, D>& x, PrefixOf& prefix_of) {
    const auto host = x.to_host();  // x itself on the processor
    std::vector<float> before(vocabulary_), values;
    for (index_t row = 0; row < host.dim(0); ++row) {
      tokens_.clear();
      const index_t sentence = prefix_of(row, tokens_);
      if (is_forced(options_, sentence, tokens_.size())) continue;
      T* const own = host.data() + row * vocabulary_;
      for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(own[i]);
      values = before;
      options_.constraints.edit(sentence, tokens_, values);
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (values[i] == before[i]) continue;
        if (!(values[i] <= 0.01))  // a little above 0 is rounding
          throw ValueError(search_, ": edit gives token ", i, " the log-probability ", values[i], ", expected at most 0");
        own[i] = static_cast<T>(values[i]);
      }
    }
    // Not by `assign`, which counts as a change of weights: packed ones would be made again.
    if constexpr (!std::same_as<D, Cpu>) copy_to_device(D{}, x.size(), host.data(), x.data());
  }
  /// Leaves only the tokens that `allowed_next` has named.
  void keep_next(const Tensor<T, D>& x) const {
    const auto& next = rules_.next;
    if (next.rows.empty()) return;
    for (const token_t token : next.tokens) check_token(search_, "a token of allowed_next", token, vocabulary_);
    const auto columns = Tensor<token_t>({count_of(next.tokens)}, std::span<const token_t>(next.tokens)).template to<D>();
    keep_listed(D{}, {count_of(next.rows), next.rows.data(), next.begins.data(), next.lengths.data(), columns.data()},
                vocabulary_, x.data());
  }

  const char* search_;
  const Options& options_;
  index_t vocabulary_;
  std::vector<token_t> ends_;      // all that end a hypothesis
  std::vector<token_t> excluded_;  // what follows in no row, in order, and then `ends_`
  bool by_row_;
  Tensor<token_t, D> allowed_;             // the lists of all sentences, the end token among them
  std::vector<index_t> begins_, lengths_;  // of each sentence's list in it
  StepRules rules_;
  std::vector<token_t> tokens_;
};

/// The rows of x [rows, vocabulary], on whatever device, as numbers on the host.
template <class T, Device D>
std::vector<std::vector<float>> rows_of(const Tensor<T, D>& x) {
  const auto host = x.to_host();
  std::vector<std::vector<float>> rows;
  for (index_t r = 0; r < host.dim(0); ++r) {
    const T* const row = host.data() + r * host.dim(1);
    auto& values = rows.emplace_back();
    values.reserve(host.dim(1));
    for (index_t c = 0; c < host.dim(1); ++c) values.push_back(static_cast<float>(row[c]));
  }
  return rows;
}

/// Tells `on_token` of a token after `length` others. False if the hypothesis is to stop.
template <class Options>
bool tell(const Options& options, index_t sentence, index_t sample, index_t length, token_t token, double log_probability) {
  if (!options.on_token) return true;
  const bool last = is_end(options, token) || length + 1 == options.max_length[sentence];
  return options.on_token({sentence, sample, length, token, log_probability, last});
}

}  // namespace attend::decode::detail
