#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

/// How the `transformers` library tidies what its tokenizers decode.

namespace attend::text {

/// Puts `to` in the place of every `from`, from left to right.
inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty() || text.find(from) == text.npos) return;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find(from, begin)) != text.npos; begin = at + from.size()) {
    out.append(text, begin, at - begin);
    out += to;
  }
  out.append(text, begin);
  text = std::move(out);
}

/// Takes the space before a mark of punctuation or an English contraction away, as `clean_up_tokenization_spaces` does.
inline std::string clean_up_spaces(std::string text) {
  for (const std::string_view after : {".", "?", "!", ",", "' ", "n't", "'m", "'s", "'ve", "'re"})
    replace_all(text, " " + std::string(after), after == "' " ? "'" : after);
  return text;
}

}  // namespace attend::text
