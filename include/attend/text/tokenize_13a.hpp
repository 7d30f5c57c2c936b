#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "attend/text/utf8.hpp"

namespace attend::detail {

/// 0 to 9.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Marks that belong to numbers too.
inline bool is_period_or_comma(char c) { return c == '.' || c == ','; }
/// ASCII punctuation and symbols, but for `'`, `-`, period and comma.
inline bool is_mark_of_13a(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

/// Every `from` in `text`, found left to right, becomes `to`.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = text.find(from, at);
    if (found == std::string_view::npos) return out += text.substr(at);
    (out += text.substr(at, found - at)) += to;
    at = found + from.size();
  }
  return out;
}

/// Puts a space between two neighbouring bytes for which `first` and `second` hold, and, as asked, one before or after the two.
/// As with a regular expression of two characters, the two are used up: the search goes on after them.
template <class First, class Second>
std::string separated(std::string_view text, bool space_before, bool space_after, First first, Second second) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (at + 1 < text.size() && first(text[at]) && second(text[at + 1])) {
      if (space_before) out.push_back(' ');
      (out += text[at]).push_back(' ');
      out += text[++at];
      if (space_after) out.push_back(' ');
    } else {
      out += text[at];
    }
  }
  return out;
}

}  // namespace attend::detail

namespace attend::text {

/// `line` with its words and punctuation marks apart, one space between them: the tokens that BLEU has been reported on since
/// `mteval-v13a`, as sacreBLEU makes them. Splits off ASCII punctuation, periods and commas except those between digits, and
/// hyphens after digits; undoes the entities of &, <, > and the double quote. The rules know only ASCII, and every byte of
/// another character counts as neither digit nor mark, so they work on bytes and give what they would on code points.
inline std::string tokenize_13a(std::string_view line) {
  std::string text = detail::replaced(line, "<skipped>", "");
  text = detail::replaced(detail::replaced(text, "-\n", ""), "\n", " ");
  if (text.find('&') != std::string::npos) {  // one after the other, as the original has it: `&amp;lt;` ends as `<`
    text = detail::replaced(detail::replaced(text, "&quot;", "\""), "&amp;", "&");
    text = detail::replaced(detail::replaced(text, "&lt;", "<"), "&gt;", ">");
  }
  std::string marked = " ";
  marked.reserve(text.size() * 2);
  for (const char c : text) {
    if (detail::is_mark_of_13a(c)) {
      ((marked += ' ') += c) += ' ';
    } else {
      marked += c;
    }
  }
  marked += ' ';
  const auto not_digit = [](char c) { return !detail::is_digit(c); };
  text = detail::separated(marked, false, true, not_digit, detail::is_period_or_comma);
  text = detail::separated(text, true, false, detail::is_period_or_comma, not_digit);
  text = detail::separated(text, false, true, detail::is_digit, [](char c) { return c == '-'; });
  return collapse_spaces(text);
}

}  // namespace attend::text
