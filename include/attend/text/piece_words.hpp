#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/core/types.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// Words of a text, counted from 0, from `first` to `last`; none if `last` is less than `first`.
struct WordRange {
  index_t first = 0, last = -1;
  friend bool operator==(const WordRange&, const WordRange&) = default;
};

/// The number of words that white space separates.
inline index_t count_words(std::string_view text) {
  index_t count = 0;
  for_each_word(text, [&](std::string_view) { ++count; });
  return count;
}

}  // namespace attend::text

namespace attend::detail {

/// What SentencePiece writes for a space.
inline constexpr char32_t piece_space = 0x2581;

/// The words of pieces that show where words begin; `count` is set to how many there are. A space by itself belongs to the word
/// after it.
inline std::vector<text::WordRange> words_by_spaces(std::span<const std::string> pieces, index_t& count) {
  std::vector<text::WordRange> ranges;
  index_t word = -1;
  bool between = true;
  for (const std::string& piece : pieces) {
    text::WordRange range;
    text::for_each_code_point(piece, [&](char32_t c) {
      if (c == piece_space || text::is_space(c)) {
        between = true;
        return;
      }
      if (between) ++word;
      between = false;
      if (range.last < range.first) range.first = word;
      range.last = word;
    });
    ranges.push_back(range);
  }
  count = word + 1;
  for (std::size_t i = ranges.size(); i-- > 1;) {
    const text::WordRange after = ranges[i];
    text::WordRange& range = ranges[i - 1];
    if (range.last < range.first && after.first <= after.last && !pieces[i - 1].empty()) range = {after.first, after.first};
  }
  return ranges;
}

/// The words of pieces that together are the text without its spaces; empty if they are not.
inline std::vector<text::WordRange> words_by_characters(std::span<const std::string> pieces, std::string_view text) {
  std::string characters;
  std::vector<index_t> word_of;  // of each byte of them
  index_t word = 0;
  text::for_each_word(text, [&](std::string_view w) {
    characters += w;
    word_of.insert(word_of.end(), w.size(), word++);
  });
  std::vector<text::WordRange> ranges;
  std::size_t at = 0;
  for (const std::string& piece : pieces) {
    if (characters.compare(at, piece.size(), piece) != 0) return {};
    if (piece.empty()) ranges.emplace_back();
    else ranges.push_back({word_of[at], word_of[at + piece.size() - 1]});
    at += piece.size();
  }
  return at == characters.size() ? ranges : std::vector<text::WordRange>{};
}

}  // namespace attend::detail

namespace attend::text {

/// Which words of `text` each of its pieces belongs to. Pieces with `▁` for a space, as SentencePiece has them, show it
/// themselves. Others are found in the text if together they make it up, spaces aside; otherwise piece i is taken for word i.
///
/// Normalisation may take words away from the pieces or make two of one: then `pieces_of(word)`, the pieces of one word by
/// itself, decides how many of the pieces' words belong to that word.
template <class PiecesOf>
std::vector<WordRange> piece_words(std::span<const std::string> pieces, std::string_view text, PiecesOf&& pieces_of) {
  const auto marked = [](const std::string& piece) { return piece.find("\u2581") != piece.npos; };
  std::vector<WordRange> ranges;
  if (!std::any_of(pieces.begin(), pieces.end(), marked)) {
    ranges = detail::words_by_characters(pieces, text);
    for (auto i = count_of(ranges); i < count_of(pieces); ++i) ranges.push_back({i, i});
    return ranges;
  }
  index_t found = 0;
  ranges = detail::words_by_spaces(pieces, found);
  const index_t words = count_words(text);
  if (found == words) return ranges;
  std::vector<index_t> word_of;  // of each of the pieces' words
  index_t word = 0;
  for_each_word(text, [&](std::string_view w) {
    index_t count = 0;
    const std::vector<std::string> alone = pieces_of(w);
    (void)detail::words_by_spaces(alone, count);
    word_of.insert(word_of.end(), static_cast<std::size_t>(count), word++);
  });
  for (WordRange& range : ranges) {
    if (range.last < range.first) continue;
    for (index_t* place : {&range.first, &range.last}) {
      const index_t known = *place < count_of(word_of) ? nth(word_of, *place) : words - 1;
      *place = std::max<index_t>(known, 0);
    }
  }
  return ranges;
}

}  // namespace attend::text
