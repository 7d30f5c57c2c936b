#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/cpu/constrain.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/cpu/top_k.hpp"
#include "attend/decode/constraints.hpp"

namespace attend::decode::detail {

/// The one place where log-probabilities change between the model and the choice of tokens: those that the options rule out
/// become minus infinity. Made once a search.
template <class T, Device D, class Options>
class Adjust {
 public:
  Adjust(const char* search, const Options& options, index_t vocabulary)
      : search_(search),
        options_(options),
        vocabulary_(vocabulary),
        never_(options.suppressed),
        by_row_(by_row(options.constraints)) {
    for (const auto& sequence : options.constraints.banned)
      if (sequence.size() == 1) never_.push_back(sequence[0]);
    std::vector<token_t> all;
    for (auto list : options.constraints.allowed) {
      if (!list.empty()) list.push_back(options.eos);
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
      begins_.push_back(static_cast<index_t>(all.size()));
      lengths_.push_back(static_cast<index_t>(list.size()));
      all.insert(all.end(), list.begin(), list.end());
    }
    if (!all.empty())
      allowed_ = Tensor<token_t>({static_cast<index_t>(all.size())}, std::span<const token_t>(all)).template to<D>();
  }

  /// x [rows, vocabulary] follows prefixes of `length` tokens; prefix_of(row, tokens) writes those of a row and gives its
  /// sentence. Throws ValueError where the model gives a token of a forced prefix no probability.
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
    const Tensor<T, D> only = take_forced(x, prefix_of);
    restrict(x);
    fill_columns(D{}, rows, vocabulary_, static_cast<index_t>(never_.size()), never_.data(), never, x.data());
    if (length < options_.min_length) fill_columns(D{}, rows, vocabulary_, 1, &options_.eos, never, x.data());
    const auto& banned = rules_.banned;
    if (!banned.rows.empty())
      set_entries(D{}, static_cast<index_t>(banned.rows.size()), vocabulary_, banned.rows.data(), banned.tokens.data(), never,
                  x.data());
    if (options_.constraints.renormalize) log_softmax_forward(D{}, rows, vocabulary_, x.data(), x.data());
    if (const auto& one = rules_.forced; !one.rows.empty())
      keep_entries(D{}, only.size(), vocabulary_, one.rows.data(), one.tokens.data(), only.data(), x.data());
  }

 private:
  /// What remains of the rows that only one token may follow: the model's value of a forced one, 0 of the end token. Puts both in
  /// one list.
  template <class PrefixOf>
  Tensor<T, D> take_forced(const Tensor<T, D>& x, PrefixOf& prefix_of) {
    auto &one = rules_.forced, &ended = rules_.ended;
    const auto forced = static_cast<index_t>(one.rows.size());
    if (forced == 0 && ended.rows.empty()) return {};
    one.rows.insert(one.rows.end(), ended.rows.begin(), ended.rows.end());
    one.tokens.insert(one.tokens.end(), ended.tokens.begin(), ended.tokens.end());
    const Tensor<T, D> values({static_cast<index_t>(one.rows.size())}, T(0));
    if (forced > 0) {
      take_entries(D{}, forced, vocabulary_, one.rows.data(), one.tokens.data(), x.data(), values.data());
      check_prefix(values.rows(0, forced), prefix_of);
    }
    return values;
  }
  /// Throws ValueError where one of the values of the first forced tokens is minus infinity: a hypothesis that ended there would
  /// stand above real ones.
  template <class PrefixOf>
  void check_prefix(const Tensor<T, D>& values, PrefixOf& prefix_of) {
    const auto host = values.to_host();
    for (index_t i = 0; i < host.size(); ++i) {
      if (host.data()[i] != -std::numeric_limits<T>::infinity()) continue;
      const auto at = static_cast<std::size_t>(i);
      tokens_.clear();
      const index_t sentence = prefix_of(rules_.forced.rows[at], tokens_);
      throw ValueError(std::string(search_) + ": the model gives token " + std::to_string(rules_.forced.tokens[at]) +
                       ", at position " + std::to_string(tokens_.size()) + " of prefix " + std::to_string(sentence) +
                       ", no probability");
    }
  }
  void restrict(const Tensor<T, D>& x) {
    const auto count = static_cast<index_t>(rules_.kept.size());
    if (count == 0) return;
    std::vector<index_t> begins, lengths;
    for (const index_t list : rules_.lists) {
      begins.push_back(begins_[static_cast<std::size_t>(list)]);
      lengths.push_back(lengths_[static_cast<std::size_t>(list)]);
    }
    restrict_rows(D{}, count, vocabulary_, rules_.kept.data(), begins.data(), lengths.data(), allowed_.data(), x.data());
  }

  const char* search_;
  const Options& options_;
  index_t vocabulary_;
  std::vector<token_t> never_;  // in no row
  bool by_row_;
  Tensor<token_t, D> allowed_;             // the lists of all sentences, the end token among them
  std::vector<index_t> begins_, lengths_;  // of each sentence's list in it
  StepRules rules_;
  std::vector<token_t> tokens_;
};

/// Tells `on_token` of a token after `length` others. False where the hypothesis is to stop.
template <class Options>
bool tell(const Options& options, index_t sentence, index_t sample, index_t length, token_t token, double log_probability) {
  if (!options.on_token) return true;
  const bool last = token == options.eos || length + 1 == options.max_length[sentence];
  return options.on_token({sentence, sample, length, token, log_probability, last});
}

}  // namespace attend::decode::detail
