#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

/// Appends `what` and the first of the names to a message, after what it has; nothing if there are no names.
inline void list_names(std::string& message, const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  message += std::string(message.empty() ? "" : "; ") + what + " ";
  constexpr std::size_t shown = 8;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) message += (i ? ", " : "") + names[i];
  if (names.size() > shown) message += " and " + std::to_string(names.size() - shown) + " more";
}

}  // namespace attend::detail
