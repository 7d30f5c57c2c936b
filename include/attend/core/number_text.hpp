#pragma once

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace attend {

namespace detail {

/// Writes the shortest text of a number from `begin` on, and returns its end.
template <class N>
char* write_number(N value, char* begin, char* end) {
  return std::to_chars(begin, end, value).ptr;
}

}  // namespace detail

/// The shortest text that `parse_number` reads back as the same number, whatever the locale.
template <class N>
std::string number_text(N value) {
  std::array<char, 40> buffer{};
  return std::string(buffer.data(), detail::write_number(value, buffer.data(), buffer.data() + buffer.size()));
}

/// Reads a number that fills the whole text. False if there is none, or one that `N` cannot hold; `value` then stays as it was.
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
