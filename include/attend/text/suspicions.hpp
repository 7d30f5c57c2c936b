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

/// How often each text was added, and which one most often.
struct Tally {
  std::unordered_map<std::string_view, index_t> counts;
  index_t most_often = 0;
  std::string_view commonest;

  void add(std::string_view what) {
    const index_t count = ++counts[what];
    if (count > most_often) most_often = count, commonest = what;
  }
};

/// The first three words of a sentence that has more than three; otherwise nothing.
inline std::string_view beginning(std::string_view sentence) {
  std::size_t end = 0;
  for (int words = 0; words < 3; ++words) {
    end = sentence.find(' ', sentence.find_first_not_of(' ', end));
    if (end == std::string_view::npos) return {};
  }
  return sentence.substr(0, end);
}

/// What is worth knowing of one side of a corpus, which must outlive it.
struct SideSummary {
  Tally sentences, beginnings;
  index_t without_letters = 0;

  template <class Sentences>
  explicit SideSummary(const Sentences& side) {
    for (const std::string_view sentence : side) {
      sentences.add(sentence);
      if (const auto words = beginning(sentence); !words.empty()) beginnings.add(words);
      bool letters = false;
      text::for_each_code_point(sentence,
                                [&](char32_t c) { letters |= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0xAA; });
      without_letters += !letters;
    }
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
/// same sentence again and again, a column of numbers, codes or notes on origin where a language should be. Each suspicion is a
/// sentence for people to read; there are none if nothing is odd.
template <class Corpus>
std::vector<std::string> suspicions(const Corpus& corpus) {
  constexpr index_t few = 500;
  // Views of sentences that the corpus holds, copies of those that it makes as it goes.
  using Pair = decltype(*std::begin(corpus));
  using Side = std::conditional_t<std::is_lvalue_reference_v<Pair>, std::string_view, std::string>;
  std::vector<Side> sources, targets;
  index_t equal = 0;
  for (const auto& pair : corpus) {
    sources.emplace_back(pair.source), targets.emplace_back(pair.target);
    equal += pair.source == pair.target;
  }
  const auto pairs = count_of(sources);
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
    const auto distinct = count_of(summary.sentences.counts);
    if (distinct == 1 && summary.sentences.commonest.empty()) continue;  // a language model has no sources
    if (2 * summary.without_letters > pairs)
      list.push_back("the " + side + " has no letter in " + detail::share_text(summary.without_letters, pairs) +
                     " of the pairs; is it the right column?");
    const auto quoted = [](std::string_view text) { return '"' + detail::printable(text, 40) + '"'; };
    if (pairs >= 20 && 10 * distinct < pairs)
      list.push_back("the " + std::to_string(pairs) + " pairs have only " + std::to_string(distinct) + " distinct " + side +
                     (distinct == 1 ? ", " : "s, ") + quoted(summary.sentences.commonest) + " " +
                     std::to_string(summary.sentences.most_often) + " times; is it the right column?");
    else if (pairs >= 20 && 2 * summary.beginnings.most_often > pairs)
      list.push_back("the " + side + " begins with " + quoted(summary.beginnings.commonest) + " in " +
                     detail::share_text(summary.beginnings.most_often, pairs) + " of the pairs; is it the right column?");
  }
  return list;
}

}  // namespace attend::text
