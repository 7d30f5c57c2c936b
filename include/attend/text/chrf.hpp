#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/text/lowercase.hpp"
#include "attend/text/ngrams.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// How `chrf` compares.
struct ChrfOptions {
  index_t character_order = 6;  ///< longest n-grams of characters, 1 to 100
  index_t word_order = 0;       ///< longest n-grams of words, 0 to 100; 2 gives chrF++
  index_t beta = 2;             ///< how many times as much recall counts as precision, 1 to 100
  bool lowercase = false;       ///< compare in lower case
};

/// A corpus chrF.
struct ChrfScore {
  double score = 0;       ///< 0 to 100
  std::string name;       ///< `chrF2`, or `chrF2++` with n-grams of words
  std::string signature;  ///< `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no`

  /// One line in sacreBLEU's form: `chrF2|nrefs:1|... = 60.65`.
  [[nodiscard]] std::string text() const { return name + '|' + signature + " = " + detail::fixed(score, 2); }
};

}  // namespace attend::text

namespace attend::detail {

/// N-grams of one order in a hypothesis and in a reference, and how many they share.
struct ChrfCounts {
  index_t hypothesis = 0, reference = 0, matches = 0;
};

/// F-score from precision and recall, each a mean over the orders that both sides are long enough for.
inline double chrf_score(std::span<const ChrfCounts> orders, index_t beta) {
  double precision = 0, recall = 0, used = 0;
  for (const ChrfCounts& c : orders) {
    if (c.hypothesis == 0 || c.reference == 0) continue;
    precision += static_cast<double>(c.matches) / static_cast<double>(c.hypothesis);
    recall += static_cast<double>(c.matches) / static_cast<double>(c.reference);
    used += 1;
  }
  if (precision + recall == 0) return 0;
  precision /= used;
  recall /= used;
  const double factor = static_cast<double>(beta) * static_cast<double>(beta);
  return 100 * (1 + factor) * precision * recall / (factor * precision + recall);
}

/// The symbols that chrF counts in one sentence: its characters without white space, and its words.
struct ChrfSentence {
  Ngrams characters, words;

  static ChrfSentence make(const std::string& sentence, const text::ChrfOptions& options, WordNumbers& numbers) {
    const std::string cased = options.lowercase ? text::lowercase(sentence) : sentence;
    std::vector<std::uint32_t> characters, words;
    characters.reserve(cased.size());
    text::for_each_word(cased, [&](std::string_view word) {
      text::for_each_code_point(word, [&](char32_t c) { characters.push_back(c); });
      if (options.word_order > 0) add_word(word, numbers, words);
    });
    return {{std::move(characters), options.character_order}, {std::move(words), options.word_order}};
  }

 private:
  /// A punctuation mark at the end of a word is a word of its own; one at its beginning only if there is none at its end.
  static void add_word(std::string_view word, WordNumbers& numbers, std::vector<std::uint32_t>& words) {
    const auto is_mark = [](char c) {
      return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    };
    std::size_t split = 0;
    if (is_mark(word.back())) {
      split = word.size() - 1;
    } else if (is_mark(word.front())) {
      split = 1;
    }
    if (split > 0) words.push_back(numbers(word.substr(0, split)));
    words.push_back(numbers(word.substr(split)));
  }
};

/// chrF of a corpus with any number of references; see text::chrf.
inline text::ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::span<const std::string>> references,
                            const text::ChrfOptions& options) {
  check_score_input("chrf", hypotheses, references);
  const auto in_range = [](index_t value, index_t least) { return value >= least && value <= 100; };
  if (!in_range(options.character_order, 1) || !in_range(options.word_order, 0) || !in_range(options.beta, 1))
    throw ValueError("chrf: got character_order ", options.character_order, ", word_order ", options.word_order, " and beta ",
                     options.beta, ", expected at least 1, 0 and 1, and at most 100");
  const auto orders = static_cast<std::size_t>(options.character_order + options.word_order);
  std::vector<ChrfCounts> totals(orders), counts(orders), best(orders);
  WordNumbers numbers;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const ChrfSentence hypothesis = ChrfSentence::make(hypotheses[i], options, numbers);
    double best_score = -1;
    for (const auto& set : references) {
      const ChrfSentence reference = ChrfSentence::make(set[i], options, numbers);
      std::size_t order = 0;
      const auto count = [&](const Ngrams& mine, const Ngrams& theirs, index_t most) {
        for (index_t n = 1; n <= most; ++n) {
          const index_t reference_count = theirs.count(n);
          // What the reference is too short for does not count against the hypothesis.
          counts[order++] = {reference_count > 0 ? mine.count(n) : 0, reference_count,
                             clipped_matches(mine, std::span(&theirs, 1), n)};
        }
      };
      count(hypothesis.characters, reference.characters, options.character_order);
      count(hypothesis.words, reference.words, options.word_order);
      if (const double score = chrf_score(counts, options.beta); score > best_score) {
        best_score = score;
        best = counts;
      }
    }
    for (std::size_t k = 0; k < orders; ++k) {
      totals[k].hypothesis += best[k].hypothesis;
      totals[k].reference += best[k].reference;
      totals[k].matches += best[k].matches;
    }
  }
  return {chrf_score(totals, options.beta), "chrF" + std::to_string(options.beta) + std::string(options.word_order, '+'),
          "nrefs:" + std::to_string(references.size()) + "|case:" + (options.lowercase ? "lc" : "mixed") + "|eff:yes|nc:" +
              std::to_string(options.character_order) + "|nw:" + std::to_string(options.word_order) + "|space:no"};
}

}  // namespace attend::detail

namespace attend::text {

/// chrF of a whole corpus: the F-score, with recall counting `beta` times as much as precision, of n-grams of characters
/// (white space left out) and, on request, of words. Counts are summed over all sentences first; of several references each
/// sentence takes the one that it agrees with best. Equals sacreBLEU's `corpus_chrf`.
/// Throws ValueError if the lists are empty or differ in length, or an option is out of range. Bytes that are not UTF-8 count as
/// U+FFFD. Source: Popović 2015, "chrF: character n-gram F-score"; Popović 2017, "chrF++".
inline ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
                      const ChrfOptions& options = {}) {
  return detail::chrf(hypotheses, std::span(&references, 1), options);
}

/// The same with several references for each hypothesis: `references[r][i]` is the r-th one of `hypotheses[i]`.
inline ChrfScore chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                      const ChrfOptions& options = {}) {
  const std::vector<std::span<const std::string>> sets(references.begin(), references.end());
  return detail::chrf(hypotheses, sets, options);
}

}  // namespace attend::text
