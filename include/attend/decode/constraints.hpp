#pragma once

#include <algorithm>
#include <cmath>
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
    check_value(lists.empty() || count_of(lists) == sentences, search, name, " has ", lists.size(), " lists for ", sentences,
                " sentences");
    for (std::size_t s = 0; s < lists.size(); ++s)
      for (const token_t token : lists[s])
        check_token(search, ("a token of " + std::string(name) + " " + std::to_string(s)).c_str(), token, vocabulary);
  };
  check_value(c.first >= -1, search, "first is ", c.first, ", expected a token, or -1 for none");
  if (c.first >= 0) {
    check_token(search, "first", c.first, vocabulary);
    check_value(!is_end(options, c.first), search, "first is the end token ", c.first);
    for (index_t s = 0; s < sentences; ++s)
      check_value(options.max_length[s] >= 1, search, "first is ", c.first, ", and max_length is 0");
  }
  check_lists("prefix", c.prefix);
  check_lists("allowed", c.allowed);
  for (std::size_t s = 0; s < c.prefix.size(); ++s) {
    const auto& prefix = c.prefix[s];
    const index_t most = options.max_length[s] - (c.first >= 0 ? 1 : 0);
    check_value(count_of(prefix) <= most, search, "prefix ", s, " has ", prefix.size(), " tokens, max_length is ",
                options.max_length[s], (c.first >= 0 ? ", of which first is one" : ""));
    check_value(std::none_of(prefix.begin(), prefix.end(), [&](token_t t) { return is_end(options, t); }), search, "prefix ", s,
                " holds the end token");
  }
  for (std::size_t i = 0; i < c.banned.size(); ++i) {
    check_value(!c.banned[i].empty(), search, "banned sequence ", i, " is empty");
    for (const token_t token : c.banned[i]) check_token(search, "a banned token", token, vocabulary);
  }
  check_value(!c.score_forced_end || c.force_end, search, "score_forced_end goes with force_end, which is not asked for");
  if (c.unknown_penalty > 0) check_token(search, "unknown, which unknown_penalty is for,", c.unknown, vocabulary);
}

/// What the constraints say about each row of one step, gathered in lists for the kernels.
struct StepRules {
  struct Lists {
    std::vector<index_t> rows;
    std::vector<token_t> tokens;
    void add(index_t row, token_t token) { rows.push_back(row), tokens.push_back(token); }
  };
  Lists forced, certain;             ///< the only token that may come, with the model's log-probability, with 0
  Lists scored_ends;                 ///< the end token, which must come, with the model's log-probability
  Lists banned, repeated;            ///< banned: may not come; repeated: stands in the hypothesis already
  std::vector<index_t> kept, lists;  ///< the rows that keep only the tokens of a list, and which list
  /// The rows that only these tokens may follow: `length` tokens from `begin` on.
  struct Next {
    std::vector<index_t> rows, begins, lengths;
    std::vector<token_t> tokens;
  } next;

  void clear() {
    for (Lists* list : {&forced, &certain, &scored_ends, &banned, &repeated}) list->rows.clear(), list->tokens.clear();
    kept.clear(), lists.clear();
    next.rows.clear(), next.begins.clear(), next.lengths.clear(), next.tokens.clear();
  }
};

/// True if the constraints may rule out something for one row and not for another.
inline bool by_row(const Constraints& c) {
  const auto longer = [](const std::vector<token_t>& sequence) { return sequence.size() > 1; };
  return c.first >= 0 || !c.prefix.empty() || !c.allowed.empty() || c.no_repeat_ngram > 0 || c.force_end ||
         c.repetition_penalty != 1 || c.allowed_next || std::any_of(c.banned.begin(), c.banned.end(), longer);
}

/// The token of a sentence's prefix that must come after `length` others; null if none must.
inline const token_t* prefix_token(const Constraints& c, index_t sentence, std::size_t length) {
  const std::size_t before = c.first >= 0 ? 1 : 0;
  if (c.prefix.empty() || length < before || length - before >= nth(c.prefix, sentence).size()) return nullptr;
  return &nth(c.prefix, sentence)[length - before];
}

/// Whether only one token may come after `length` others.
template <class Options>
bool is_forced(const Options& options, index_t sentence, std::size_t length) {
  const Constraints& c = options.constraints;
  return (c.first >= 0 && length == 0) || prefix_token(c, sentence, length) != nullptr ||
         (c.force_end && static_cast<index_t>(length) == options.max_length[sentence]);
}

/// Adds to `rules` what must, may or may not follow `tokens` in a row of `sentence`.
template <class Options>
void add_rules(const Options& options, index_t row, index_t sentence, std::span<const token_t> tokens, StepRules& rules) {
  const Constraints& c = options.constraints;
  const auto s = static_cast<std::size_t>(sentence);
  const std::size_t length = tokens.size();
  if (const token_t* const next = prefix_token(c, sentence, length)) return rules.forced.add(row, *next);
  if (c.first >= 0 && length == 0) return rules.certain.add(row, c.first);
  if (is_forced(options, sentence, length)) return (c.score_forced_end ? rules.scored_ends : rules.certain).add(row, options.eos);
  if (!c.allowed.empty() && !c.allowed[s].empty()) rules.kept.push_back(row), rules.lists.push_back(sentence);
  const auto ends_with = [&](std::span<const token_t> some) {
    return std::equal(some.begin(), some.end(), tokens.end() - some.size());
  };
  for (const auto& sequence : c.banned)
    if (const std::size_t before = sequence.size() - 1; before > 0 && before <= length)
      if (ends_with({sequence.data(), before})) rules.banned.add(row, sequence.back());
  if (c.no_repeat_ngram > 0) {
    const auto before = static_cast<std::size_t>(c.no_repeat_ngram) - 1;  // tokens of the n-gram that are there already
    for (std::size_t i = 0; i + before < length; ++i)
      if (ends_with(tokens.subspan(i, before))) rules.banned.add(row, tokens[i + before]);
  }
  if (c.repetition_penalty != 1) {
    std::vector<token_t> distinct(tokens.begin(), tokens.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const token_t token : distinct) rules.repeated.add(row, token);
  }
  if (!c.allowed_next) return;
  if (const auto list = c.allowed_next(sentence, tokens)) {
    auto& next = rules.next;
    next.rows.push_back(row);
    next.begins.push_back(count_of(next.tokens));
    next.lengths.push_back(count_of(*list));
    next.tokens.insert(next.tokens.end(), list->begin(), list->end());
  }
}

}  // namespace attend::decode::detail
