#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Whether `pattern` describes all of `name`. `*` in it stands for any characters, dots among them, or none: `encoder.*` is the
/// whole encoder, `*.bias` every bias.
constexpr bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') star = p++, resume = n;
    else if (p < pattern.size() && pattern[p] == name[n]) ++p, ++n;
    else if (star != pattern.npos) p = star + 1, n = ++resume;  // the last star takes one more character
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// Whether one of the patterns matches.
inline bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, name); });
}

}  // namespace attend
