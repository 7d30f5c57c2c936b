#pragma once

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace attend {

/// The shortest text that `parse_number` reads back to the same number, whatever the locale.
template <class N>
std::string number_text(N value) {
  std::array<char, 40> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

/// Reads a number that fills the whole text. False if there is none, or one that `N` cannot hold; `value` is then as it was.
template <class N>
bool parse_number(std::string_view text, N& value) {
  N parsed{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, parsed);
  if (result.ec != std::errc() || result.ptr != end) return false;
  value = parsed;
  return true;
}

}  // namespace attend
