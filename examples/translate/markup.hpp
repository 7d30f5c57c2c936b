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

/// With so many decimals: 3.14.
inline std::string fixed(double value, int decimals) {
  std::array<char, 400> buffer{};  // the largest double has 309 digits
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals);
  return std::string(buffer.data(), end.ptr);
}

/// With so many digits that count, in scientific notation where that is shorter: 0.0005, 1e-06.
inline std::string general(double value, int digits) {
  std::array<char, 400> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, digits);
  return std::string(buffer.data(), end.ptr);
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

}  // namespace report
