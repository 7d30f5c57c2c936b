#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"
#include "attend/text/utf8.hpp"

namespace attend::detail {

/// What is worth knowing of one side of a corpus.
struct SideSummary {
  index_t distinct = 0;
  index_t most_often = 0;  // how often the commonest sentence stands there
  std::string commonest;
  index_t without_letters = 0;

  template <class Sentences>
  explicit SideSummary(const Sentences& sentences) {
    std::unordered_map<std::string_view, index_t> counts;
    for (const std::string_view sentence : sentences) {
      const index_t count = ++counts[sentence];
      if (count > most_often) most_often = count, commonest = sentence;
      bool letters = false;
      text::for_each_code_point(sentence,
                                [&](char32_t c) { letters |= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0xAA; });
      without_letters += !letters;
    }
    distinct = static_cast<index_t>(counts.size());
  }
};

/// `97 % (2910 of 3000)`.
inline std::string share_text(index_t part, index_t whole) {
  return std::to_string(100 * part / std::max<index_t>(whole, 1)) + " % (" + std::to_string(part) + " of " +
         std::to_string(whole) + ")";
}

}  // namespace attend::detail

namespace attend::text {

/// What about these pairs makes it unlikely that a translator can be learnt from them: too few of them, sides that are equal, the
/// same sentence again and again, a column of numbers or codes where a language should be. Each is a sentence for people; none
/// where nothing is odd.
template <class Corpus>
std::vector<std::string> suspicions(const Corpus& corpus) {
  constexpr index_t few = 500;
  // Views of what the corpus holds, copies of what it makes up.
  using Pair = decltype(*std::begin(corpus));
  using Side = std::conditional_t<std::is_lvalue_reference_v<Pair>, std::string_view, std::string>;
  std::vector<Side> sources, targets;
  index_t equal = 0;
  for (const auto& pair : corpus) {
    sources.emplace_back(pair.source), targets.emplace_back(pair.target);
    equal += pair.source == pair.target;
  }
  const auto pairs = static_cast<index_t>(sources.size());
  std::vector<std::string> list;
  if (pairs == 0) return list;
  if (pairs < few)
    list.push_back("there are only " + std::to_string(pairs) +
                   " pairs; simple sentences take a few thousand to learn, general text tens of thousands");
  if (2 * equal > pairs)
    list.push_back("source and target are the same in " + detail::share_text(equal, pairs) + " of the pairs");
  for (const bool is_source : {true, false}) {
    const std::string side = is_source ? "source" : "target";
    const detail::SideSummary summary(is_source ? sources : targets);
    if (2 * summary.without_letters > pairs)
      list.push_back("the " + side + " has no letter in " + detail::share_text(summary.without_letters, pairs) +
                     " of the pairs; is it the right column?");
    if (pairs >= 20 && 10 * summary.distinct < pairs)
      list.push_back("the " + std::to_string(pairs) + " pairs have only " + std::to_string(summary.distinct) + " distinct " +
                     side + (summary.distinct == 1 ? ", \"" : "s, \"") + detail::printable(summary.commonest, 40) + "\" " +
                     std::to_string(summary.most_often) + " times; is it the right column?");
  }
  return list;
}

}  // namespace attend::text
