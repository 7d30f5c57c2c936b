#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/random.hpp"
#include "attend/core/types.hpp"
#include "attend/text/lines.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// A sentence and its translation.
struct SentencePair {
  std::string source, target;
  friend bool operator==(const SentencePair&, const SentencePair&) = default;
};

/// What became of each line of the files that a corpus was read from: `lines` is the sum of the six counts below it.
struct CorpusReport {
  index_t lines = 0;
  index_t pairs = 0;            ///< kept
  index_t empty = 0;            ///< left out: one side or both have no text
  index_t too_long = 0;         ///< left out: a side has more than `max_characters`
  index_t malformed = 0;        ///< left out: no tab in the line
  index_t invalid_utf8 = 0;     ///< left out on request: not UTF-8
  index_t duplicates = 0;       ///< left out on request: the same pair stood in an earlier line
  index_t first_malformed = 0;  ///< number of the first line without a tab, counted from 1; 0 if there is none

  /// `1000 lines, 990 pairs; left out: 7 empty, 3 too long`.
  [[nodiscard]] std::string text() const {
    std::string out =
        std::to_string(lines) + (lines == 1 ? " line, " : " lines, ") + std::to_string(pairs) + (pairs == 1 ? " pair" : " pairs");
    const char* separator = "; left out: ";
    const auto add = [&](index_t count, const std::string& what) {
      if (count == 0) return;
      out += separator + std::to_string(count) + what;
      separator = ", ";
    };
    add(empty, " empty");
    add(too_long, " too long");
    add(malformed, " without a tab (the first is line " + std::to_string(first_malformed) + ")");
    add(invalid_utf8, " not UTF-8");
    add(duplicates, duplicates == 1 ? " duplicate" : " duplicates");
    return out;
  }
};

/// Sentence pairs, and what was left out when they were read.
struct Corpus {
  std::vector<SentencePair> pairs;
  CorpusReport report;

  /// The pairs, as a range.
  [[nodiscard]] index_t size() const { return count_of(pairs); }
  [[nodiscard]] bool empty() const { return pairs.empty(); }
  [[nodiscard]] auto begin() const { return pairs.begin(); }
  [[nodiscard]] auto end() const { return pairs.end(); }
  const SentencePair& operator[](index_t i) const { return nth(pairs, i); }

  /// All source sentences, in order.
  [[nodiscard]] std::vector<std::string> sources() const { return side(&SentencePair::source); }
  /// All target sentences, in order.
  [[nodiscard]] std::vector<std::string> targets() const { return side(&SentencePair::target); }
  /// The same pairs for translating the other way.
  [[nodiscard]] Corpus reversed() const {
    Corpus other = *this;
    for (SentencePair& pair : other.pairs) std::swap(pair.source, pair.target);
    return other;
  }

 private:
  [[nodiscard]] std::vector<std::string> side(std::string SentencePair::*member) const {
    std::vector<std::string> sentences;
    sentences.reserve(pairs.size());
    for (const SentencePair& pair : pairs) sentences.push_back(pair.*member);
    return sentences;
  }
};

/// Which pairs of a file are taken.
struct ReadOptions {
  index_t max_characters = 1000;   ///< pairs with a longer side are left out and counted; code points, 1 or more
  bool remove_duplicates = false;  ///< keep only the first of pairs that are equal on both sides
  bool skip_invalid_utf8 = false;  ///< leave out and count lines that are not UTF-8, instead of an exception
};

}  // namespace attend::text

namespace attend::detail {

/// Takes pairs line by line, counts what does not belong, and hands on what does.
template <class Take>
class PairFilter {
 public:
  PairFilter(const char* operation, const text::ReadOptions& options, Take& take) : options_(options), take_(take) {
    if (options.max_characters < 1)
      throw ValueError(operation, ": max_characters is ", options.max_characters, ", expected 1 or more");
  }

  void add(std::string_view source, std::string_view target) {
    text::SentencePair pair{text::collapse_spaces(source), text::collapse_spaces(target)};
    text::CorpusReport& report = report_;
    ++report.lines;
    if (pair.source.empty() || pair.target.empty()) {
      ++report.empty;
    } else if (is_too_long(pair.source) || is_too_long(pair.target)) {
      ++report.too_long;
    } else if (options_.remove_duplicates && !seen_.insert(pair.source + '\t' + pair.target).second) {
      ++report.duplicates;  // a tab joins the two because white space inside them has become plain spaces
    } else {
      ++report.pairs;
      take_(std::move(pair));
    }
  }
  void add_invalid_utf8() { ++report_.lines, ++report_.invalid_utf8; }
  void add_malformed() {
    ++report_.malformed;
    if (++report_.lines; report_.first_malformed == 0) report_.first_malformed = report_.lines;
  }
  [[nodiscard]] const text::CorpusReport& report() const { return report_; }

 private:
  [[nodiscard]] bool is_too_long(const std::string& sentence) const {
    const auto most = static_cast<std::size_t>(options_.max_characters);
    return sentence.size() > most && text::count_code_points(sentence) > options_.max_characters;
  }

  text::ReadOptions options_;
  Take& take_;
  text::CorpusReport report_;
  std::unordered_set<std::string> seen_;
};

}  // namespace attend::detail

namespace attend::text {

/// Calls `take(SentencePair)` for each pair of a file of lines `source<TAB>target`, and keeps none: for corpora that are larger
/// than memory (but `remove_duplicates` remembers all). Says what became of the lines. What a pair is, and what is thrown: see
/// `read_tsv`.
template <class Take>
CorpusReport for_each_pair(const std::filesystem::path& path, const ReadOptions& options, Take&& take) {
  detail::PairFilter<std::remove_reference_t<Take>> pairs("read_tsv", options, take);
  detail::TextReader file(path);
  for (std::string_view line; file.next(line);) {
    const std::size_t tab = line.find('\t');
    if (!options.skip_invalid_utf8) file.check_utf8("read_tsv", line);
    if (options.skip_invalid_utf8 && !is_utf8(line)) {
      pairs.add_invalid_utf8();
    } else if (tab != std::string_view::npos) {
      const std::string_view rest = line.substr(tab + 1);
      pairs.add(line.substr(0, tab), rest.substr(0, rest.find('\t')));
    } else if (trim_end(line).empty()) {
      pairs.add("", "");
    } else {
      pairs.add_malformed();
    }
  }
  const CorpusReport& report = pairs.report();
  if (report.malformed > 0 && report.malformed + report.empty == report.lines)
    throw FormatError("read_tsv: ", path.string(), " has ", report.lines,
                      " lines and a tab in none of them, expected lines `source<TAB>target`");
  return report;
}
/// The same for two files, the sentence in line i of one being the translation of line i of the other. See `read_aligned`.
template <class Take>
CorpusReport for_each_pair(const std::filesystem::path& source_path, const std::filesystem::path& target_path,
                           const ReadOptions& options, Take&& take) {
  detail::PairFilter<std::remove_reference_t<Take>> pairs("read_aligned", options, take);
  detail::TextReader source(source_path), target(target_path);
  std::string_view from, to;
  while (true) {
    const bool more = source.next(from);
    if (more != target.next(to)) break;
    if (!more) return pairs.report();
    if (!options.skip_invalid_utf8) {
      source.check_utf8("read_aligned", from);
      target.check_utf8("read_aligned", to);
    } else if (!is_utf8(from) || !is_utf8(to)) {
      pairs.add_invalid_utf8();
      continue;
    }
    pairs.add(from, to);
  }
  for (auto* file : {&source, &target})
    while (file->next(from)) continue;
  throw FormatError("read_aligned: ", source_path.string(), " has ", source.number(), " lines and ", target_path.string(),
                    " has ", target.number(), ", expected as many in both");
}

}  // namespace attend::text

namespace attend::detail {

/// Puts pairs into a corpus. It has a name so that attend::compiled can have what is called with it.
struct AppendPair {
  text::Corpus& corpus;
  void operator()(text::SentencePair pair) const { corpus.pairs.push_back(std::move(pair)); }
};

}  // namespace attend::detail

namespace attend::text {

/// Reads pairs from a file of lines `source<TAB>target`. Further columns are ignored: collections such as Tatoeba's name the
/// authors there. White space at the ends of a sentence is dropped and runs inside become one plain space.
/// Throws IoError if the file cannot be read, FormatError if a line is not UTF-8 or no line has a tab, ValueError for
/// an option out of range. All else that is wrong with a line is counted in the corpus' `report`.
inline Corpus read_tsv(const std::filesystem::path& path, const ReadOptions& options = {}) {
  Corpus corpus;
  corpus.report = for_each_pair(path, options, detail::AppendPair{corpus});
  return corpus;
}

/// Reads pairs from two files, the sentence in line i of one being the translation of line i of the other. White space and
/// errors are as with `read_tsv`; files of different line counts are a FormatError.
inline Corpus read_aligned(const std::filesystem::path& source_path, const std::filesystem::path& target_path,
                           const ReadOptions& options = {}) {
  Corpus corpus;
  corpus.report = for_each_pair(source_path, target_path, options, detail::AppendPair{corpus});
  return corpus;
}

/// Three parts of a corpus that share no source sentence.
struct Split {
  Corpus train, validation, test;
};

/// How a corpus is split.
struct SplitOptions {
  index_t validation = 1500;  ///< pairs, 0 or more
  index_t test = 1500;        ///< pairs, 0 or more
  std::uint64_t seed = 1;
};

/// Divides a corpus at random so that all pairs of one source sentence go to the same part: a translation that was seen in
/// training tells nothing when it is tested. The parts are shuffled (corpora come sorted by length), and depend on the corpus,
/// the counts and the seed alone. Validation and test get the number of pairs asked for, or a few fewer if the last sources to
/// choose from have too many translations each. Throws ValueError for a negative count, or if nothing is left to train on.
inline Split split_by_source(Corpus corpus, const SplitOptions& options = {}) {
  if (options.validation < 0 || options.test < 0)
    throw ValueError("split_by_source: got ", options.validation, " validation and ", options.test,
                     " test pairs, expected 0 or more");
  if (options.validation >= corpus.size() || options.test >= corpus.size() - options.validation)
    throw ValueError("split_by_source: the corpus has ", corpus.size(), " pairs, expected more than the ", options.validation,
                     " for validation and ", options.test, " for test");

  std::vector<std::vector<std::size_t>> groups;  // pairs of one source sentence, by their places in the corpus
  std::unordered_map<std::string_view, std::size_t> group_of;
  for (std::size_t i = 0; i < corpus.pairs.size(); ++i) {
    const auto [found, is_new] = group_of.try_emplace(corpus.pairs[i].source, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  const Generator::Stream random = Generator(options.seed).next();
  for (std::size_t i = groups.size(); i > 1; --i) std::swap(groups[i - 1], groups[random.below(i, i)]);

  Split split;
  const auto take = [&](Corpus& part, const std::vector<std::size_t>& group) {
    for (const std::size_t i : group) part.pairs.push_back(std::move(corpus.pairs[i]));
  };
  for (const std::vector<std::size_t>& group : groups) {
    const auto fits = [&](const Corpus& part, index_t wanted) { return part.size() + count_of(group) <= wanted; };
    if (fits(split.validation, options.validation)) {
      take(split.validation, group);
    } else if (fits(split.test, options.test)) {
      take(split.test, group);
    } else {
      take(split.train, group);
    }
  }
  for (Corpus* part : {&split.train, &split.validation, &split.test}) part->report.lines = part->report.pairs = part->size();
  return split;
}

}  // namespace attend::text
