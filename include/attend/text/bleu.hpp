#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/text/lowercase.hpp"
#include "attend/text/ngrams.hpp"
#include "attend/text/tokenize_13a.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// How BLEU splits sentences into words.
enum class BleuTokenize {
  v13a,  ///< as `mteval-v13a` does, the usual choice for text as people write it
  none,  ///< at white space only, for text that is tokenized already ("tokenized BLEU")
};

/// How `bleu` compares.
struct BleuOptions {
  BleuTokenize tokenize = BleuTokenize::v13a;
  bool lowercase = false;  ///< compare in lower case
};

/// A corpus BLEU and what it is made of.
struct BleuScore {
  double score = 0;                            ///< 0 to 100
  std::array<double, 4> precisions{};          ///< of 1- to 4-grams, 0 to 100, smoothed
  double brevity_penalty = 0;                  ///< 1 if the hypotheses are long enough
  index_t hypothesis_length = 0;               ///< in tokens
  index_t reference_length = 0;                ///< in tokens, of the reference nearest in length to each hypothesis
  std::array<index_t, 4> matches{}, totals{};  ///< n-grams of the hypotheses: found in a reference, and all
  std::string signature;                       ///< `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`

  /// One line in sacreBLEU's form: `BLEU|nrefs:1|... = 31.26 64.1/37.2/24.1/16.1 (BP = 1.000 ratio = ...)`.
  [[nodiscard]] std::string text() const {
    const double ratio =
        reference_length > 0 ? static_cast<double>(hypothesis_length) / static_cast<double>(reference_length) : 0.0;
    std::string line = "BLEU|" + signature + " = " + detail::fixed(score, 2) + ' ';
    for (std::size_t n = 0; n < 4; ++n) line += (n == 0 ? "" : "/") + detail::fixed(precisions[n], 1);
    return line + " (BP = " + detail::fixed(brevity_penalty, 3) + " ratio = " + detail::fixed(ratio, 3) +
           " hyp_len = " + std::to_string(hypothesis_length) + " ref_len = " + std::to_string(reference_length) + ")";
  }
};

}  // namespace attend::text

namespace attend::detail {

/// The n-grams of one sentence's words.
inline Ngrams bleu_ngrams(const std::string& sentence, const text::BleuOptions& options, WordNumbers& numbers) {
  std::string words = options.lowercase ? text::lowercase(sentence) : sentence;
  if (options.tokenize == text::BleuTokenize::v13a) words = text::tokenize_13a(text::trim_end(words));
  std::vector<std::uint32_t> symbols;
  text::for_each_word(words, [&](std::string_view word) { symbols.push_back(numbers(word)); });
  return {std::move(symbols), 4};
}

/// Fills in the figures that follow from the counts.
inline void finish_bleu(text::BleuScore& result) {
  const auto hypothesis = static_cast<double>(result.hypothesis_length), reference = static_cast<double>(result.reference_length);
  result.brevity_penalty = hypothesis >= reference ? 1.0 : hypothesis > 0 ? std::exp(1 - reference / hypothesis) : 0.0;
  if (std::all_of(result.matches.begin(), result.matches.end(), [](index_t m) { return m == 0; })) return;
  // Exponential smoothing: the k-th order without a match counts as 1 / 2^k of a match. An order without any n-gram (all
  // hypotheses shorter than n) keeps a precision of 0, and the score is 0.
  double log_sum = 0, divisor = 1;
  for (std::size_t n = 0; n < 4; ++n) {
    if (result.totals[n] == 0) return;
    const auto matches = static_cast<double>(result.matches[n]), total = static_cast<double>(result.totals[n]);
    if (result.matches[n] == 0) divisor *= 2;
    result.precisions[n] = result.matches[n] == 0 ? 100.0 / (divisor * total) : 100.0 * matches / total;
    log_sum += std::log(result.precisions[n]);
  }
  result.score = result.brevity_penalty * std::exp(log_sum / 4);
}

/// BLEU of a corpus with any number of references; see text::bleu.
inline text::BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::span<const std::string>> references,
                            const text::BleuOptions& options) {
  check_score_input("bleu", hypotheses, references);
  text::BleuScore result;
  WordNumbers numbers;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const Ngrams hypothesis = bleu_ngrams(hypotheses[i], options, numbers);
    std::vector<Ngrams> refs;
    refs.reserve(references.size());
    for (const auto& set : references) refs.push_back(bleu_ngrams(set[i], options, numbers));
    // The reference nearest in length; of two equally near, the shorter.
    const auto nearest = std::min_element(refs.begin(), refs.end(), [&](const Ngrams& a, const Ngrams& b) {
      return std::pair(std::abs(a.size() - hypothesis.size()), a.size()) <
             std::pair(std::abs(b.size() - hypothesis.size()), b.size());
    });
    result.hypothesis_length += hypothesis.size();
    result.reference_length += nearest->size();
    for (index_t n = 1; n <= 4; ++n) {
      nth(result.matches, n - 1) += clipped_matches(hypothesis, refs, n);
      nth(result.totals, n - 1) += hypothesis.count(n);
    }
  }
  finish_bleu(result);
  result.signature = "nrefs:" + std::to_string(references.size()) + "|case:" + (options.lowercase ? "lc" : "mixed") +
                     "|eff:no|tok:" + (options.tokenize == text::BleuTokenize::v13a ? "13a" : "none") + "|smooth:exp";
  return result;
}

}  // namespace attend::detail

namespace attend::text {

/// BLEU of a whole corpus: the geometric mean of clipped 1- to 4-gram precisions, times the brevity penalty exp(1 - reference
/// length / hypothesis length) if the hypotheses are shorter. Equals sacreBLEU's `corpus_bleu` with its default exponential
/// smoothing. `hypotheses[i]` is compared with `references[i]`.
/// Throws ValueError if the lists are empty or differ in length. Bytes that are not UTF-8 count as part of their word. Source:
/// Papineni et al. 2002; Post 2018, "A call for clarity in reporting BLEU scores".
inline BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
                      const BleuOptions& options = {}) {
  return detail::bleu(hypotheses, std::span(&references, 1), options);
}

/// The same with several references for each hypothesis: `references[r][i]` is the r-th one of `hypotheses[i]`.
inline BleuScore bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                      const BleuOptions& options = {}) {
  const std::vector<std::span<const std::string>> sets(references.begin(), references.end());
  return detail::bleu(hypotheses, sets, options);
}

}  // namespace attend::text
