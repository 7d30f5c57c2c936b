#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/text/piece_words.hpp"
#include "attend/text/split_sentences.hpp"
#include "attend/text/utf8.hpp"
#include "attend/translate/translator_options.hpp"

namespace attend::decode::detail {

/// Quotes, brackets, and what ends a sentence or a clause.
inline bool is_text_mark(char32_t c) {
  using namespace attend::detail;
  return c != '-' &&
         (is_closing(c) || is_opening(c) || is_stop(c) || is_wide_stop(c) || is_clause_mark(c) || is_wide_clause_mark(c));
}

/// `word` without the marks around it; itself if it is nothing but marks.
inline std::string_view without_marks(std::string_view word) {
  std::size_t begin = word.size(), end = 0;
  for (std::size_t at = 0; at < word.size();) {
    const auto point = text::code_point_at(word, at);
    const std::size_t next = at + static_cast<std::size_t>(point.length);
    if (!is_text_mark(point.value)) begin = std::min(begin, at), end = next;
    at = next;
  }
  return begin < end ? word.substr(begin, end - begin) : word;
}

/// The text of tokens, some of which are unknown words: words[i] is to stand for token i (empty: as the tokenizer writes it).
/// Each is a word of its own, but for marks that follow it or open before it. `pieces`, the names of the tokens, get the words
/// too, so that they are the pieces of the text.
inline std::string text_with_words(std::span<const token_t> tokens, std::span<const std::string> words,
                                   std::vector<std::string>& pieces,
                                   const std::function<std::string(std::span<const token_t>)>& decode) {
  constexpr std::string_view space = "\u2581";
  const auto is_space = [&](std::size_t i) { return pieces[i].starts_with(space); };
  bool marked = false;  // whether pieces say where their words begin
  for (std::size_t i = 0; i < pieces.size(); ++i) marked = marked || is_space(i);
  std::string text;
  bool glue = true;  // whether what comes next does so without a space
  for (std::size_t i = 0; i < tokens.size();) {
    std::size_t end = i;
    while (end < tokens.size() && words[end].empty()) ++end;
    if (end > i) {
      const std::string known = decode(tokens.subspan(i, end - i));
      if (!glue && !known.empty() && (marked ? is_space(i) : !is_text_mark(text::code_point_at(known, 0).value))) text += ' ';
      text += known;
      glue = text.empty();
    }
    if (end < tokens.size()) {
      // The last character before the word, if it is one that opens something.
      std::size_t last = text.size();
      while (last > 0 && (static_cast<unsigned char>(text[--last]) & 0xC0) == 0x80) continue;
      const char32_t before = text.empty() ? U' ' : text::code_point_at(text, last).value;
      const bool opens =
          before != '-' && attend::detail::is_opening(before) && !(attend::detail::is_closing(before) && before < 0x80);
      if (!text.empty() && !text::is_space(before) && !opens) text += ' ';
      text += words[end];
      if (marked) pieces[end] = std::string(opens ? "" : space) + words[end];
      else pieces[end] = words[end];
      glue = false;
      ++end;
    }
    i = end;
  }
  return text;
}

/// Puts source words into the text of a translation for each of its unknown tokens: the word of the source token best[i] for
/// token i. `pieces`: see text_with_words.
inline void replace_unknown_words(std::string_view source, token_t unknown, std::span<const index_t> best,
                                  std::span<const text::WordRange> source_words, Translation& translation,
                                  std::vector<std::string>& pieces,
                                  const std::function<std::string(std::span<const token_t>)>& decode) {
  std::vector<std::string_view> words;
  text::for_each_word(source, [&](std::string_view word) { words.push_back(word); });
  std::vector<std::string> replacements(pieces.size());
  bool any = false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (translation.tokens[i] != unknown) continue;
    const text::WordRange range = nth(source_words, best[i]);
    if (range.first > range.last || range.first >= count_of(words)) continue;
    replacements[i] = without_marks(nth(words, range.first));
    any = true;
  }
  if (any) translation.text = text_with_words(translation.tokens, replacements, pieces, decode);
}

}  // namespace attend::decode::detail
