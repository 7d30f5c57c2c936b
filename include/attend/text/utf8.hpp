#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "attend/core/error.hpp"
#include "attend/core/types.hpp"

/// UTF-8: strict checking, decoding, and the white space of Unicode. Text stays in `std::string`; code points appear only where
/// characters are counted or compared.

namespace attend::text {

/// What stands in for bytes that are not UTF-8: U+FFFD.
inline constexpr char32_t replacement_character = 0xFFFD;

/// One code point read from a text: its value, the bytes it took, and whether they were UTF-8.
struct CodePoint {
  char32_t value = replacement_character;
  int length = 1;
  bool valid = false;
};

/// The code point that begins at byte `at` of `text`, at < text.size(). Overlong forms, surrogates and values over U+10FFFF are
/// not valid. What is not valid has the value U+FFFD and the length of the longest beginning of a sequence that stands there,
/// at least 1, so that replacing it gives what Unicode recommends ("maximal subparts", Unicode 15, section 3.9).
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  if (first < 0x80) return {first, 1, true};
  if (first < 0xC2 || first > 0xF4) return {};
  const int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // Only the second byte has bounds of its own: they keep out overlong forms, surrogates and what lies beyond U+10FFFF.
  unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  char32_t value = first & (0x7Fu >> length);
  for (int k = 1; k < length; ++k) {
    const std::size_t i = at + static_cast<std::size_t>(k);
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {replacement_character, k, false};
    value = value << 6 | (byte(i) & 0x3Fu);
    low = 0x80, high = 0xBF;
  }
  return {value, length, true};
}

/// The first byte of `text` that is not part of valid UTF-8, or `npos`.
inline std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight;
    while (at + sizeof eight <= text.size()) {  // most text is ASCII
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) != 0) break;
      at += sizeof eight;
    }
    if (at == text.size()) break;
    const CodePoint point = code_point_at(text, at);
    if (!point.valid) return at;
    at += point.length;
  }
  return std::string_view::npos;
}

/// Whether all of `text` is UTF-8.
inline bool is_utf8(std::string_view text) { return find_invalid_utf8(text) == std::string_view::npos; }

/// `FF`: a byte in hexadecimal digits.
inline std::string hexadecimal(char byte) {
  constexpr const char* digits = "0123456789ABCDEF";
  const auto value = static_cast<unsigned char>(byte);
  return {digits[value >> 4], digits[value & 15]};
}

/// Throws ValueError, which begins with `what` and names the first byte at fault (counted from 1), if `text` is not UTF-8.
inline void check_utf8(const std::string& what, std::string_view text) {
  const std::size_t at = find_invalid_utf8(text);
  if (at == std::string_view::npos) return;
  throw ValueError(what, ": byte ", at + 1, " is 0x", hexadecimal(text[at]), ", expected UTF-8");
}

/// Calls `visit(char32_t)` for each code point; what is not UTF-8 is visited as U+FFFD.
template <class Visit>
void for_each_code_point(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    visit(point.value);
    at += point.length;
  }
}

/// The code points of `text`; what is not UTF-8 becomes U+FFFD.
inline std::u32string decode_utf8(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  for_each_code_point(text, [&](char32_t c) { points.push_back(c); });
  return points;
}

/// Appends one code point as UTF-8; surrogates and values over U+10FFFF as U+FFFD.
inline void append_utf8(std::string& text, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = replacement_character;
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

/// Code points as UTF-8.
inline std::string encode_utf8(std::u32string_view points) {
  std::string text;
  text.reserve(points.size());
  for (const char32_t c : points) append_utf8(text, c);
  return text;
}

/// The number of code points.
inline index_t count_code_points(std::string_view text) {
  index_t count = 0;
  for_each_code_point(text, [&](char32_t) { ++count; });
  return count;
}

/// White space by Unicode's property of that name, and the four ASCII separators U+001C to U+001F, as in Python's `str.split`.
inline bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

/// White space by Unicode's property alone.
inline bool is_white_space(char32_t c) { return is_space(c) && !(c >= 0x1C && c <= 0x1F); }

/// Calls `visit(std::string_view)` for each run of `text` that has no white space; which characters are that, says `is_between`.
template <class Visit>
void for_each_word(std::string_view text, Visit&& visit, bool (*is_between)(char32_t) = is_space) {
  std::size_t begin = 0, at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    const auto length = static_cast<std::size_t>(point.length);
    if (is_between(point.value)) {
      if (at > begin) visit(text.substr(begin, at - begin));
      begin = at + length;
    }
    at += length;
  }
  if (at > begin) visit(text.substr(begin, at - begin));
}

/// `text` without white space at its end.
inline std::string_view trim_end(std::string_view text) {
  std::size_t end = 0;
  for_each_word(text, [&](std::string_view word) { end = static_cast<std::size_t>(word.data() - text.data()) + word.size(); });
  return text.substr(0, end);
}

/// `text` without white space at its ends.
inline std::string_view trim(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for_each_word(text, [&](std::string_view word) {
    const auto at = static_cast<std::size_t>(word.data() - text.data());
    begin = std::min(begin, at);
    end = at + word.size();
  });
  return end == 0 ? std::string_view() : text.substr(begin, end - begin);
}

/// `text` without white space at its ends, and with one plain space for each run of white space inside.
inline std::string collapse_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_word(text, [&](std::string_view word) {
    if (!out.empty()) out.push_back(' ');
    out += word;
  });
  return out;
}

}  // namespace attend::text
