#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/lowercase.hpp"
#include "attend/text/utf8.hpp"

/// Cuts text into sentences, and sentences into parts, and joins what became of them. It goes by rules alone, the same for every
/// language: marks, spaces, capitals, and the commonest abbreviations of several languages.

namespace attend::detail {

/// Whether `c` is one of the characters of `set`.
inline bool is_one_of(char32_t c, std::u32string_view set) { return set.find(c) != set.npos; }

/// Marks that end a sentence if white space follows.
inline bool is_stop(char32_t c) { return is_one_of(c, U".!?\u2026\u203C\u2047\u2048\u2049\u061F\u06D4\u0964\u0965\u0589\u1362"); }
/// Marks that end a sentence in scripts that put no space after it.
inline bool is_wide_stop(char32_t c) { return is_one_of(c, U"\u3002\uFF01\uFF1F\uFF61"); }
/// Quotes and brackets that may follow the mark and still belong to the sentence.
inline bool is_closing(char32_t c) {
  return is_one_of(c, U"\"')]}\u2019\u201D\u00BB\u203A\u300D\u300F\u3011\u3015\u3009\u300B\uFF09\uFF3D\uFF5D\u201C\u2018");
}
/// What may stand before the first letter of a sentence.
inline bool is_opening(char32_t c) {
  return is_one_of(c, U"\"'([{\u2018\u201C\u201E\u201A\u00AB\u2039\u00BF\u00A1-\u2013\u2014\u2015*\u2022");
}
/// Characters that end a line.
inline bool is_line_end(char32_t c) { return is_one_of(c, U"\n\r\u0085\u2028\u2029"); }
/// Marks after which a long sentence is best cut: those that white space must follow, and those that it need not.
inline bool is_clause_mark(char32_t c) { return is_one_of(c, U",;:\u2014\u2013\u060C\u061B.!?\u2026"); }
/// The same in scripts that put no space after them.
inline bool is_wide_clause_mark(char32_t c) { return is_one_of(c, U"\u3001\uFF0C\uFF1B\uFF1A\u3002\uFF01\uFF1F"); }

/// Han, Japanese syllables and their full-width signs, which are written without spaces.
inline bool is_spaceless(char32_t c) {
  return (c >= 0x2E80 && c <= 0x2FDF) || (c >= 0x3000 && c <= 0x30FF) || (c >= 0x31F0 && c <= 0x31FF) ||
         (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFF01 && c <= 0xFF9F) || (c >= 0x20000 && c <= 0x3FFFF);
}

/// 0 to 9.
inline bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }
/// A letter for all that matters here: no space, digit, or ASCII mark.
inline bool is_word_character(char32_t c) {
  return c >= 0x80 ? !text::is_space(c) && !is_closing(c) && !is_opening(c) && !is_stop(c)
                   : (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Words, in lower case, whose period seldom ends a sentence.
inline bool is_abbreviation(std::u32string_view word) {
  static constexpr std::u32string_view known[] = {
      U"adm",  U"al",  U"approx", U"art",  U"aug",  U"ave",  U"bd",       U"blvd", U"bzw", U"ca",   U"capt", U"cf",
      U"cmdr", U"co",  U"col",    U"corp", U"dec",  U"dep",  U"dept",     U"dott", U"dr",  U"dra",  U"ed",   U"eds",
      U"ee",   U"eq",  U"est",    U"evtl", U"feb",  U"fig",  U"figs",     U"fr",   U"gen", U"ggf",  U"gov",  U"hon",
      U"hr",   U"inc", U"inkl",   U"jan",  U"jr",   U"lt",   U"ltd",      U"maj",  U"mgr", U"mlle", U"mm",   U"mme",
      U"mr",   U"mrs", U"ms",     U"mt",   U"nov",  U"nr",   U"n\u00FAm", U"oct",  U"pp",  U"pr",   U"prof", U"p\u00E1g",
      U"ref",  U"rep", U"rev",    U"sen",  U"sep",  U"sept", U"sgt",      U"sig",  U"sr",  U"sra",  U"srta", U"st",
      U"str",  U"tel", U"ud",     U"uds",  U"univ", U"vgl",  U"vol",      U"vs"};
  static_assert(std::is_sorted(std::begin(known), std::end(known)));
  return std::binary_search(std::begin(known), std::end(known), word);
}

/// Whether the period at `at` in `text` belongs to a short form or a number, as in `Dr. Who`, `J. Bach`, `z. B.`, `e.g. this`,
/// `3. Oktober`. If that cannot be told from a sentence's end, as in `the U.S. He`, it is taken for a short form: two
/// sentences in one are better than a part of one.
inline bool is_short_form(std::u32string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && (is_word_character(text[begin - 1]) || is_ascii_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
  const std::u32string_view word = text.substr(begin, at - begin);
  if (word.empty()) return false;
  if (std::all_of(word.begin(), word.end(), is_ascii_digit)) return word.size() <= 2;
  if (std::none_of(word.begin(), word.end(), [](char32_t c) { return is_cased(c); })) return false;
  if (word.size() == 1) return true;
  // Letters with periods between, each part short: `U.S`, `z.B`, `Ph.D`.
  if (word.find(U'.') != word.npos) {
    std::size_t part = 0;
    for (const char32_t c : word) {
      part = c == '.' ? 0 : part + 1;
      if (part > 2) return false;
    }
    return true;
  }
  std::u32string lower;
  for (const char32_t c : word) lower.push_back(simple_lowercase(c));
  return is_abbreviation(lower);
}

/// The end of the sentence whose last mark stands at `at`, or `at` if that mark ends none.
inline std::size_t sentence_end(std::u32string_view text, std::size_t at) {
  std::size_t end = at;
  bool wide = false;
  while (end < text.size() && (is_stop(text[end]) || is_wide_stop(text[end]))) wide = is_wide_stop(text[end++]);
  const bool lone_period = end == at + 1 && text[at] == '.';
  const auto begins_word = [&](std::size_t i) { return i < text.size() && !text::is_space(text[i]) && !is_closing(text[i]); };
  // A quote that opens the next word does not close this sentence; and what closes German quotes opens Chinese ones.
  const auto closes = [&](std::size_t i) {
    if (wide) return !is_one_of(text[i], U"\u2018\u201C");
    return !begins_word(i + 1) || !is_opening(text[i]);
  };
  while (end < text.size() && is_closing(text[end]) && closes(end)) ++end;
  // French puts a space before the quote that closes.
  std::size_t quote = end;
  while (quote < text.size() && text::is_space(text[quote]) && !is_line_end(text[quote])) ++quote;
  if (!wide && quote < text.size() && is_one_of(text[quote], U"\u00BB\u203A") &&
      (!begins_word(quote + 1) || is_clause_mark(text[quote + 1])))
    end = quote + 1;
  if (end == text.size() || wide) return end;
  if (!text::is_space(text[end])) return at;
  if (lone_period && is_short_form(text, at)) return at;
  std::size_t next = end;
  while (next < text.size() && (text::is_space(text[next]) || is_opening(text[next])) && !is_line_end(text[next])) ++next;
  const bool goes_on = next < text.size() && is_cased(text[next]) && simple_lowercase(text[next]) == text[next];
  return goes_on ? at : end;
}

/// `text` from byte `begin` to `end` without white space around it, appended to `parts` unless nothing is left.
inline void append_trimmed(std::string_view text, std::size_t begin, std::size_t end, std::vector<std::string_view>& parts) {
  std::string_view part = text::trim_end(text.substr(begin, end - begin));
  while (!part.empty()) {
    const auto first = text::code_point_at(part, 0);
    if (!text::is_space(first.value)) break;
    part.remove_prefix(first.length);
  }
  if (!part.empty()) parts.push_back(part);
}

/// Where to cut a sentence that is too long, in bytes: after the clause mark nearest the middle, if one stands between the first
/// and the last quarter; otherwise in the white space nearest the middle; else between any two characters. 0 if it is one
/// character.
inline std::size_t middle_cut(std::string_view text) {
  constexpr std::size_t none = std::string_view::npos;
  std::size_t clause = none, space = none, any = none;
  const auto nearer = [&](std::size_t at, std::size_t& best) {
    const auto distance = [&](std::size_t x) { return 2 * x > text.size() ? 2 * x - text.size() : text.size() - 2 * x; };
    if (at > 0 && at < text.size() && (best == none || distance(at) < distance(best))) best = at;
  };
  char32_t before = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto point = text::code_point_at(text, at);
    nearer(at, any);
    if (text::is_space(point.value)) {
      nearer(at, space);
      if (is_clause_mark(before)) nearer(at, clause);
    } else if (is_wide_clause_mark(before)) {
      nearer(at, clause);
    }
    before = point.value;
    at += point.length;
  }
  if (clause != none && clause >= text.size() / 4 && clause <= text.size() - text.size() / 4) return clause;
  if (space != none) return space;
  return any == none ? 0 : any;
}

}  // namespace attend::detail

namespace attend::text {

/// The sentences of `text`, without the white space around them: none for a text without words. A sentence ends
/// - at the end of a line;
/// - after `.`, `!`, `?`, `…` and their like in other scripts, with closing quotes and brackets, if white space follows and then
///   no small letter; not after an abbreviation (`Dr.`), initials (`J. S.`), or a number of one or two digits (`3.`);
/// - after the full-width marks of Chinese and Japanese, where nothing needs to follow.
inline std::vector<std::string_view> split_sentences(std::string_view text) {
  std::u32string points;
  std::vector<std::size_t> bytes;  // where each code point begins
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    points.push_back(point.value);
    bytes.push_back(at);
    at += point.length;
  }
  bytes.push_back(text.size());
  std::vector<std::string_view> sentences;
  std::size_t begin = 0;
  const auto cut = [&](std::size_t end) {
    detail::append_trimmed(text, bytes[begin], bytes[end], sentences);
    begin = end;
  };
  for (std::size_t i = 0; i < points.size();) {
    std::size_t next = i + 1;
    if (detail::is_line_end(points[i])) {
      cut(next);
    } else if (detail::is_stop(points[i]) || detail::is_wide_stop(points[i])) {
      const std::size_t end = detail::sentence_end(points, i);
      if (end > i) cut(end);
      next = std::max(next, end);
      while (end == i && next < points.size() && detail::is_stop(points[next])) ++next;  // the other marks of `...`
    }
    i = next;
  }
  cut(points.size());
  return sentences;
}

/// Parts of a sentence for which `fits(std::string_view)` holds: the sentence itself, or else halves of it, cut at the clause
/// mark nearest the middle, else at white space, else between two characters; and so on with each half. One character is a part
/// even if it does not fit.
template <class Fits>
std::vector<std::string_view> split_to_fit(std::string_view sentence, Fits&& fits) {
  std::vector<std::string_view> parts, waiting;
  detail::append_trimmed(sentence, 0, sentence.size(), waiting);
  while (!waiting.empty()) {
    const std::string_view part = waiting.back();
    waiting.pop_back();
    const std::size_t cut = fits(part) ? 0 : detail::middle_cut(part);
    if (cut == 0) {
      parts.push_back(part);
      continue;
    }
    detail::append_trimmed(part, cut, part.size(), waiting);
    detail::append_trimmed(part, 0, cut, waiting);
  }
  return parts;
}

/// Whether text that follows this one joins it without a space: after Chinese and Japanese characters.
inline bool joins_without_space(std::string_view text) {
  std::size_t last = text.size();
  while (last > 0 && (static_cast<unsigned char>(text[--last]) & 0xC0) == 0x80) continue;
  return last < text.size() && detail::is_spaceless(code_point_at(text, last).value);
}

/// Adds the next sentence to a text: after a space, or none after Chinese and Japanese.
inline void append_sentence(std::string& text, std::string_view sentence) {
  if (!text.empty() && !sentence.empty() && !joins_without_space(text)) text.push_back(' ');
  text += sentence;
}

}  // namespace attend::text
