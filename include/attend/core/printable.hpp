#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace attend::detail {

/// Text from outside, for a message of one line: UTF-8 cut to at most `longest` bytes, control characters replaced.
inline std::string printable(std::string_view text, std::size_t longest = 200) {
  std::size_t length = std::min(text.size(), longest);
  while (length > 0 && length < text.size() && (text[length] & 0xc0) == 0x80) --length;  // not within a character
  std::string shown(text.substr(0, length));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return length < text.size() ? shown + "..." : shown;
}

}  // namespace attend::detail
