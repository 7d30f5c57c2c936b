#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "attend/text/utf8.hpp"

/// Text and numbers as HTML wants them, whatever the locale.
namespace report {

/// Text for HTML, between tags or in a quoted attribute. What HTML cannot hold becomes U+FFFD.
inline std::string escaped(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  attend::text::for_each_code_point(text, [&](char32_t c) {
    switch (c) {
      case U'&':
        html += "&amp;";
        return;
      case U'<':
        html += "&lt;";
        return;
      case U'>':
        html += "&gt;";
        return;
      case U'"':
        html += "&quot;";
        return;
      case U'\'':
        html += "&#39;";
        return;
      default:
        break;
    }
    const bool control = (c < 0x20 && c != '\t' && c != '\n') || (c >= 0x7F && c < 0xA0);
    const bool noncharacter = (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
    attend::text::append_utf8(html, control || noncharacter ? attend::text::replacement_character : c);
  });
  return html;
}

/// A card with a number and what it is; `style`: a space and a class of its own.
inline std::string tile(std::string_view value, std::string_view name, std::string_view style = "") {
  std::string html = "<div class=\"card tile";
  html.append(style).append("\"><b>").append(escaped(value)).append("</b><span>").append(escaped(name));
  return html.append("</span></div>\n");
}

/// With so many decimals: 3.14.
inline std::string fixed(double value, int decimals) {
  std::array<char, 400> buffer{};  // the largest double has 309 digits
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals);
  return std::string(buffer.data(), end.ptr);
}

/// With so many significant digits, in scientific notation if that is shorter: 0.0005, 1e-06.
inline std::string general(double value, int digits) {
  std::array<char, 400> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, digits);
  return std::string(buffer.data(), end.ptr);
}

/// With so many decimals and a true minus sign: −0.25.
inline std::string with_minus(double value, int decimals) {
  if (!std::isfinite(value)) return value < 0 ? "−∞" : value > 0 ? "∞" : "not a number";
  std::string text = fixed(value, decimals);
  if (text[0] != '-') return text;
  text.erase(0, 1);
  return text.find_first_not_of("0.") == std::string::npos ? text : "−" + text;
}

/// With commas: 1,234,567.
inline std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > (value < 0 ? 4U : 3U);) digits.insert(at -= 3, ",");
  return digits;
}

/// 1 min 12 s; 2 h 3 min.
inline std::string duration(double seconds) {
  if (!(seconds > 0)) seconds = 0;
  const std::int64_t whole = std::llround(std::min(seconds, 1e15));
  if (whole >= 3600) return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
  if (whole >= 60) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return seconds < 9.95 ? fixed(seconds, 1) + " s" : std::to_string(whole) + " s";
}

/// About how wide a text is drawn, in sizes of its letters.
inline double text_width(std::string_view text) {
  double width = 0;
  attend::text::for_each_code_point(text, [&](char32_t c) {
    const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
    const bool mark = within(0x300, 0x36F) || within(0x200B, 0x200F) || within(0xFE00, 0xFE0F);
    const bool full = within(0x1100, 0x115F) || within(0x2E80, 0xA4CF) || within(0xAC00, 0xD7A3) || within(0xF900, 0xFAFF) ||
                      within(0xFE30, 0xFE6F) || within(0xFF00, 0xFF60) || within(0x1F300, 0x3FFFD);
    const bool wide = c == U'm' || c == U'w' || c == U'M' || c == U'W' || c == U'▁' || within(U'A', U'Z');
    width += mark ? 0 : full ? 1.05 : wide ? 0.8 : 0.58;
  });
  return width;
}

/// The text, cut to fit with an ellipsis at its end if it is wider than `width`.
inline std::string fitted(std::string_view text, double width) {
  if (text_width(text) <= width) return std::string(text);
  auto points = attend::text::decode_utf8(text);
  do points.pop_back();
  while (!points.empty() && text_width(attend::text::encode_utf8(points)) + 1 > width);
  return attend::text::encode_utf8(points += U'…');
}

/// Whether a text's first letter says that it is written from right to left. Source: Unicode's bidirectional algorithm (UAX 9),
/// rule P2, with whole blocks for the classes R and AL.
inline bool is_right_to_left(std::string_view text) {
  int direction = 0;
  attend::text::for_each_code_point(text, [&](char32_t c) {
    if (direction != 0) return;
    const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
    if (within(0x590, 0x8FF) || within(0xFB1D, 0xFDFF) || within(0xFE70, 0xFEFF) || within(0x10800, 0x10FFF) ||
        within(0x1E800, 0x1EFFF))
      direction = -1;
    else if (within(U'A', U'Z') || within(U'a', U'z') || (c >= 0xC0 && !within(0x2000, 0x2BFF) && !within(0x3000, 0x3004)))
      direction = 1;
  });
  return direction < 0;
}

}  // namespace report
