#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "attend/decode/options.hpp"

namespace attend::decode::detail {

/// Throws ValueError, IndexError, naming the search and the constraint.
template <class Options>
void check_constraints(const char* search, const Options& options, index_t vocabulary, index_t sentences) {
  const Constraints& c = options.constraints;
  const auto check_lists = [&](const char* name, const std::vector<std::vector<token_t>>& lists) {
    check_value(
        lists.empty() || static_cast<index_t>(lists.size()) == sentences, search,
        std::string(name) + " has " + std::to_string(lists.size()) + " lists for " + std::to_string(sentences) + " sentences");
    for (std::size_t s = 0; s < lists.size(); ++s)
      for (const token_t token : lists[s])
        check_token(search, ("a token of " + std::string(name) + " " + std::to_string(s)).c_str(), token, vocabulary);
  };
  check_lists("prefix", c.prefix);
  check_lists("allowed", c.allowed);
  for (std::size_t s = 0; s < c.prefix.size(); ++s) {
    const auto& prefix = c.prefix[s];
    const index_t most = options.max_length[static_cast<index_t>(s)];
    check_value(static_cast<index_t>(prefix.size()) <= most, search,
                "prefix " + std::to_string(s) + " has " + std::to_string(prefix.size()) + " tokens, max_length is " +
                    std::to_string(most));
    check_value(std::find(prefix.begin(), prefix.end(), options.eos) == prefix.end(), search,
                "prefix " + std::to_string(s) + " holds the end token");
  }
  for (std::size_t i = 0; i < c.banned.size(); ++i) {
    check_value(!c.banned[i].empty(), search, "banned sequence " + std::to_string(i) + " is empty");
    for (const token_t token : c.banned[i]) check_token(search, "a banned token", token, vocabulary);
  }
  check_value(c.no_repeat_ngram >= 0, search, "no_repeat_ngram is negative: " + std::to_string(c.no_repeat_ngram));
}

/// What the constraints say about each row of one step, gathered in lists for the kernels.
struct StepRules {
  struct Lists {
    std::vector<index_t> rows;
    std::vector<token_t> tokens;
    void add(index_t row, token_t token) { rows.push_back(row), tokens.push_back(token); }
  };
  Lists forced, ended, banned;       ///< forced: the only one that may come; ended: the end token does; banned: may not come
  std::vector<index_t> kept, lists;  ///< the rows that keep only the tokens of a list, and which list

  void clear() {
    for (Lists* list : {&forced, &ended, &banned}) list->rows.clear(), list->tokens.clear();
    kept.clear(), lists.clear();
  }
};

/// True where the constraints may rule out something for one row and not for another.
inline bool by_row(const Constraints& c) {
  const auto longer = [](const std::vector<token_t>& sequence) { return sequence.size() > 1; };
  return !c.prefix.empty() || !c.allowed.empty() || c.no_repeat_ngram > 0 || c.force_end ||
         std::any_of(c.banned.begin(), c.banned.end(), longer);
}

/// Adds what a row of `sentence` may not get after `tokens`.
template <class Options>
void add_rules(const Options& options, index_t row, index_t sentence, std::span<const token_t> tokens, StepRules& rules) {
  const Constraints& c = options.constraints;
  const auto s = static_cast<std::size_t>(sentence);
  const std::size_t length = tokens.size();
  if (!c.prefix.empty() && length < c.prefix[s].size()) return rules.forced.add(row, c.prefix[s][length]);
  if (c.force_end && static_cast<index_t>(length) == options.max_length[sentence]) return rules.ended.add(row, options.eos);
  if (!c.allowed.empty() && !c.allowed[s].empty()) rules.kept.push_back(row), rules.lists.push_back(sentence);
  const auto ends_with = [&](std::span<const token_t> some) {
    return std::equal(some.begin(), some.end(), tokens.end() - some.size());
  };
  for (const auto& sequence : c.banned)
    if (const std::size_t before = sequence.size() - 1; before > 0 && before <= length)
      if (ends_with({sequence.data(), before})) rules.banned.add(row, sequence.back());
  if (c.no_repeat_ngram > 0) {
    const auto before = static_cast<std::size_t>(c.no_repeat_ngram) - 1;  // tokens of the n-gram that stand already
    for (std::size_t i = 0; i + before < length; ++i)
      if (ends_with(tokens.subspan(i, before))) rules.banned.add(row, tokens[i + before]);
  }
}

}  // namespace attend::decode::detail
