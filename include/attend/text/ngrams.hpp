#pragma once

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/types.hpp"

/// What BLEU and chrF share: n-grams of one sentence, counted and matched.

namespace attend::detail {

/// Numbers for words, the same number for the same word.
class WordNumbers {
 public:
  std::uint32_t operator()(std::string_view word) {
    if (const auto found = numbers_.find(word); found != numbers_.end()) return found->second;
    return numbers_.emplace(word, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;  // so that a word is looked up without being copied
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
};

/// The n-grams of a sequence, of all orders up to `order` at once: the places where they begin, sorted by the `order` symbols
/// that follow. Equal n-grams of any of the orders then stand side by side, so counting needs no hashing and no copies.
class Ngrams {
 public:
  using Symbols = std::span<const std::uint32_t>;

  Ngrams(std::vector<std::uint32_t> symbols, index_t order) : symbols_(std::move(symbols)), starts_(symbols_.size()) {
    const auto most = static_cast<std::size_t>(order);
    for (std::size_t i = 0; i < starts_.size(); ++i) starts_[i] = static_cast<std::uint32_t>(i);
    std::sort(starts_.begin(), starts_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Symbols all(symbols_), x = all.subspan(a), y = all.subspan(b);
      return compare(x.first(std::min(most, x.size())), y.first(std::min(most, y.size()))) < 0;
    });
  }

  /// Symbols in the sequence.
  [[nodiscard]] index_t size() const { return count_of(symbols_); }
  /// N-grams of order n, repeated ones counted as often as they stand there.
  [[nodiscard]] index_t count(index_t n) const { return std::max<index_t>(0, size() - n + 1); }

  /// Goes through the distinct n-grams of one order in their sorted order.
  class Runs {
   public:
    Runs(const Ngrams& ngrams, index_t n) : ngrams_(&ngrams), n_(static_cast<std::size_t>(n)) { next(); }
    /// Whether there is an n-gram here; only then are `gram` and `count` valid.
    explicit operator bool() const { return count_ > 0; }
    [[nodiscard]] Symbols gram() const { return gram_; }
    [[nodiscard]] index_t count() const { return count_; }
    void next() {
      count_ = 0;
      const Symbols all(ngrams_->symbols_);
      for (; at_ < ngrams_->starts_.size(); ++at_) {
        const std::size_t start = ngrams_->starts_[at_];
        if (start + n_ > all.size()) continue;  // too near the end to begin an n-gram
        const Symbols here = all.subspan(start, n_);
        if (count_ > 0 && compare(here, gram_) != 0) return;
        gram_ = here;
        ++count_;
      }
    }

   private:
    const Ngrams* ngrams_;
    std::size_t n_, at_ = 0;
    Symbols gram_;
    index_t count_ = 0;
  };

  static std::strong_ordering compare(Symbols a, Symbols b) {
    const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (x == a.end() || y == b.end()) return a.size() <=> b.size();
    return *x <=> *y;
  }

 private:
  std::vector<std::uint32_t> symbols_, starts_;
};

/// How many of the hypothesis' n-grams of order n stand in a reference, each counted at most as often as in the reference
/// that has it most often.
inline index_t clipped_matches(const Ngrams& hypothesis, std::span<const Ngrams> references, index_t n) {
  std::vector<Ngrams::Runs> runs;
  runs.reserve(references.size());
  for (const Ngrams& reference : references) runs.emplace_back(reference, n);
  index_t matches = 0;
  for (Ngrams::Runs mine(hypothesis, n); mine; mine.next()) {
    index_t most = 0;
    for (Ngrams::Runs& theirs : runs) {
      while (theirs && Ngrams::compare(theirs.gram(), mine.gram()) < 0) theirs.next();
      if (theirs && Ngrams::compare(theirs.gram(), mine.gram()) == 0) most = std::max(most, theirs.count());
    }
    matches += std::min(mine.count(), most);
  }
  return matches;
}

/// Throws ValueError unless there is a hypothesis and every set of references has one line for each.
inline void check_score_input(const char* metric, std::span<const std::string> hypotheses,
                              std::span<const std::span<const std::string>> references) {
  const std::string name(metric);
  if (hypotheses.empty()) throw ValueError(name, ": got no hypotheses, expected at least one");
  if (references.empty()) throw ValueError(name, ": got no references, expected at least one set");
  for (std::size_t i = 0; i < references.size(); ++i)
    if (references[i].size() != hypotheses.size())
      throw ValueError(name, ": got ", hypotheses.size(), " hypotheses and ", references[i].size(), " references in set ", i + 1,
                       ", expected as many of both");
}

/// A number with a fixed count of decimals, whatever the locale.
inline std::string fixed(double value, int decimals) {
  char text[400];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals);
  return end.ec == std::errc{} ? std::string(text, end.ptr) : std::string("?");
}

}  // namespace attend::detail
