#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/shape.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/safetensors_writer.hpp"

namespace attend::decode {

/// How a shortlist is learned. Memory goes by how many pairs of a source and a target token ever meet: 32 to 64 bytes for each.
struct ShortlistOptions {
  index_t best = 100;           ///< target tokens for each source token, at most; the most probable ones
  index_t frequent = 100;       ///< target tokens for every sentence; the most frequent ones
  index_t iterations = 5;       ///< of expectation and maximisation
  index_t max_pairs = 500'000;  ///< of more pairs, as many as this, evenly spread, are learned from
};

}  // namespace attend::decode

namespace attend::detail {

/// The table of IBM model 1: t(f | e) for the target tokens f that stand in some pair with the source token e.
class TranslationTable {
 public:
  struct Entry {
    std::uint64_t key = empty;  // e above, f in the lower 32 bits
    float probability = 0, count = 0;
  };
  static constexpr std::uint64_t empty = ~std::uint64_t{0};

  TranslationTable() : entries_(1 << 12) {}

  /// The entry of e and f, made if there is none. Valid until the next one is made.
  Entry& at(token_t e, token_t f) {
    if (2 * used_ >= entries_.size()) grow();
    const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(e)) << 32) | static_cast<std::uint32_t>(f);
    Entry& entry = find(key);
    if (entry.key == empty) entry.key = key, ++used_;
    return entry;
  }
  [[nodiscard]] std::vector<Entry>& entries() { return entries_; }

 private:
  Entry& find(std::uint64_t key) {
    const std::size_t mask = entries_.size() - 1;
    std::size_t place = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 20) & mask;
    while (entries_[place].key != empty && entries_[place].key != key) place = (place + 1) & mask;
    return entries_[place];
  }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.key != empty) find(entry.key) = entry;
  }

  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

}  // namespace attend::detail

namespace attend::decode {

/// For each sentence the few target tokens that its translation is likely to need, learned from sentence pairs: for each source
/// token its most probable translations, and the most frequent tokens of all. A search that looks at these alone saves most of
/// the work that a large vocabulary makes.
///
/// IBM model 1 says which translations are probable: p(targets | sources) = prod_f sum_e t(f | e), with t found by expectation
/// and maximisation; one of the e is a word that stands in no sentence. Source: Brown et al. 1993, "The mathematics of
/// statistical machine translation", section 4.2.
class Shortlist {
 public:
  /// Learns from `pairs`: pairs.source(i) and pairs.target(i) give the tokens of pair i of pairs.size(), as train::EncodedPairs
  /// does. The same pairs give the same shortlist. Throws ValueError for an option out of range or no pairs, IndexError for a
  /// token outside a vocabulary.
  template <class Pairs>
  static Shortlist learn(const Pairs& pairs, index_t source_vocabulary, index_t target_vocabulary,
                         const ShortlistOptions& options = {});

  /// The tokens that may come in the translation of a sentence, in rising order. Throws IndexError for a token outside the source
  /// vocabulary.
  [[nodiscard]] std::vector<token_t> allowed(std::span<const token_t> source) const {
    std::vector<token_t> all(frequent_.begin(), frequent_.end());
    for (const token_t token : source) {
      check_token("a source token", token, source_vocabulary());
      const auto list = best(token);
      all.insert(all.end(), list.begin(), list.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
  /// The same: what TranslatorOptions::shortlist asks for.
  std::vector<token_t> operator()(std::span<const token_t> source) const { return allowed(source); }
  /// The likely translations of one token, best first.
  [[nodiscard]] std::span<const token_t> best(token_t source) const {
    check_token("a source token", source, source_vocabulary());
    const auto first = static_cast<std::size_t>(nth(begin_, source));
    return {tokens_.data() + first, static_cast<std::size_t>(begin_[static_cast<std::size_t>(source) + 1]) - first};
  }
  /// Those that every sentence gets, most frequent first.
  [[nodiscard]] std::span<const token_t> frequent() const { return frequent_; }
  [[nodiscard]] index_t source_vocabulary() const { return count_of(begin_) - 1; }
  [[nodiscard]] index_t target_vocabulary() const { return target_vocabulary_; }

  /// Writes a safetensors file, whole or not at all. Throws IoError.
  void save(const std::filesystem::path& path) const {
    io::SafetensorsWriter writer;
    writer.metadata("format", format);
    writer.metadata("target_vocabulary", std::to_string(target_vocabulary_));
    writer.add<token_t>("frequent", Shape{count_of(frequent_)}, std::span<const token_t>(frequent_));
    writer.add<std::int64_t>("begin", Shape{count_of(begin_)}, std::span<const std::int64_t>(begin_));
    writer.add<token_t>("tokens", Shape{count_of(tokens_)}, std::span<const token_t>(tokens_));
    writer.write(path);
  }
  /// Reads such a file. Throws IoError if it cannot be read, FormatError if it is no shortlist.
  static Shortlist load(const std::filesystem::path& path) {
    const auto file = io::SafetensorsFile::open(path);
    const auto fail = [&](const std::string& what) { throw FormatError("shortlist: ", path.string(), " ", what); };
    const auto text = [&](const char* key) {
      const auto found = file.metadata().find(key);
      return found == file.metadata().end() ? std::string() : found->second;
    };
    if (text("format") != format) fail("is no shortlist");
    Shortlist list;
    const std::string size = text("target_vocabulary");
    if (size.empty() || size.size() > 9 || size.find_first_not_of("0123456789") != size.npos)
      fail("has the target_vocabulary '" + attend::detail::printable(size) + "'");
    list.target_vocabulary_ = std::stoll(size);
    list.frequent_ = file.read<token_t>("frequent");
    list.begin_ = file.read<std::int64_t>("begin");
    list.tokens_ = file.read<token_t>("tokens");
    if (list.begin_.empty() || list.begin_.front() != 0 || !std::is_sorted(list.begin_.begin(), list.begin_.end()) ||
        list.begin_.back() != static_cast<std::int64_t>(list.tokens_.size()))
      fail("has a table of contents that does not fit");
    for (const auto* tokens : {&list.frequent_, &list.tokens_})
      for (const token_t token : *tokens)
        if (token < 0 || token >= list.target_vocabulary_)
          fail("has token " + std::to_string(token) + ", outside its target vocabulary of " + size);
    return list;
  }

 private:
  static constexpr const char* format = "attend shortlist";

  static void check_token(const char* what, token_t token, index_t vocabulary) {
    if (token < 0 || token >= vocabulary)
      throw IndexError("Shortlist: ", what, " is ", token, ", outside the vocabulary of ", vocabulary);
  }

  std::vector<token_t> frequent_;          // of the target vocabulary
  std::vector<std::int64_t> begin_ = {0};  // [source vocabulary + 1]: where each source token's translations stand in tokens_
  std::vector<token_t> tokens_;
  index_t target_vocabulary_ = 0;
};

/// IBM model 1 by expectation maximisation: see the declaration.
template <class Pairs>
Shortlist Shortlist::learn(const Pairs& pairs, index_t source_vocabulary, index_t target_vocabulary,
                           const ShortlistOptions& options) {
  const auto at_least = [](index_t value, index_t least, const char* name) {
    check_value(value >= least, "Shortlist", name, " is ", value, ", expected ", least, " or more");
  };
  constexpr index_t largest = std::numeric_limits<token_t>::max();
  at_least(options.best, 0, "best");
  at_least(options.frequent, 0, "frequent");
  at_least(options.iterations, 1, "iterations");
  at_least(options.max_pairs, 1, "max_pairs");
  at_least(source_vocabulary, 1, "the source vocabulary");
  at_least(target_vocabulary, 1, "the target vocabulary");
  check_value(source_vocabulary < largest && target_vocabulary < largest, "Shortlist", "a vocabulary is too large");
  const auto size = count_of(pairs);
  check_value(size > 0, "Shortlist", "there are no pairs to learn from");
  const index_t count = std::min(size, options.max_pairs);
  const auto nothing = static_cast<token_t>(source_vocabulary);  // the word that stands in no sentence

  // Each iteration counts by the probabilities of the one before; the first by equal ones.
  attend::detail::TranslationTable table;
  std::vector<std::int64_t> occurrences(target_vocabulary, 0);
  std::vector<token_t> sources;
  std::vector<float> shares;
  std::vector<double> totals;
  for (index_t iteration = 0; iteration < options.iterations; ++iteration) {
    for (index_t i = 0; i < count; ++i) {
      const index_t pair = i * size / count;
      const auto source = pairs.source(pair);
      sources.assign(source.begin(), source.end());
      if (iteration == 0)
        for (const token_t e : sources) check_token("a source token", e, source_vocabulary);
      sources.push_back(nothing);
      for (const token_t f : pairs.target(pair)) {
        if (iteration == 0) {
          check_token("a target token", f, target_vocabulary);
          ++nth(occurrences, f);
        }
        float sum = 0;
        shares.clear();
        for (const token_t e : sources) {
          shares.push_back(iteration == 0 ? 1.0f : table.at(e, f).probability);
          sum += shares.back();
        }
        for (std::size_t k = 0; k < sources.size() && sum > 0; ++k) table.at(sources[k], f).count += shares[k] / sum;
      }
    }
    totals.assign(static_cast<std::size_t>(source_vocabulary) + 1, 0);
    for (const auto& entry : table.entries())
      if (entry.key != attend::detail::TranslationTable::empty) totals[entry.key >> 32] += static_cast<double>(entry.count);
    for (auto& entry : table.entries()) {
      if (entry.key == attend::detail::TranslationTable::empty) continue;
      const double total = totals[entry.key >> 32];
      entry.probability = total > 0 ? static_cast<float>(static_cast<double>(entry.count) / total) : 0.0f;
      entry.count = 0;
    }
  }

  auto& entries = table.entries();
  std::erase_if(entries, [&](const auto& entry) {
    return entry.probability <= 0 || entry.key >> 32 == static_cast<std::uint64_t>(source_vocabulary);
  });
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    if (a.key >> 32 != b.key >> 32) return a.key < b.key;
    return a.probability != b.probability ? a.probability > b.probability : a.key < b.key;
  });
  Shortlist list;
  list.target_vocabulary_ = target_vocabulary;
  list.begin_.clear();
  std::size_t at = 0;
  for (index_t e = 0; e < source_vocabulary; ++e) {
    list.begin_.push_back(static_cast<std::int64_t>(list.tokens_.size()));
    for (index_t k = 0; at < entries.size() && entries[at].key >> 32 == static_cast<std::uint64_t>(e); ++at, ++k)
      if (k < options.best) list.tokens_.push_back(static_cast<token_t>(entries[at].key & 0xFFFFFFFFu));
  }
  list.begin_.push_back(static_cast<std::int64_t>(list.tokens_.size()));
  for (token_t f = 0; f < static_cast<token_t>(target_vocabulary); ++f)
    if (nth(occurrences, f) > 0) list.frequent_.push_back(f);
  std::stable_sort(list.frequent_.begin(), list.frequent_.end(),
                   [&](token_t a, token_t b) { return nth(occurrences, a) > nth(occurrences, b); });
  if (count_of(list.frequent_) > options.frequent) list.frequent_.resize(options.frequent);
  return list;
}

}  // namespace attend::decode
