#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "attend/text/unicode_classes.hpp"
#include "attend/text/utf8.hpp"

/// Byte-level pieces as GPT-2 has them: text is cut into words, and each byte of them written as a character that can be seen.
/// Source: github.com/openai/gpt-2, src/encoder.py.

namespace attend::detail {

/// The character for each byte: itself where it can be seen in Latin-1, otherwise one from U+0100 on, in order.
inline const std::array<char32_t, 256>& byte_characters() {
  static const auto table = [] {
    std::array<char32_t, 256> characters{};
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool seen = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      characters[byte] = seen ? byte : next++;
    }
    return characters;
  }();
  return table;
}

/// The way back: the byte of each character below U+0144, -1 for one that stands for none.
inline const std::array<int, 0x144>& character_bytes() {
  static const auto table = [] {
    std::array<int, 0x144> bytes;
    bytes.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) bytes[byte_characters()[byte]] = static_cast<int>(byte);
    return bytes;
  }();
  return table;
}

}  // namespace attend::detail

namespace attend::text {

/// `text` with a character for each byte.
inline std::string bytes_as_characters(std::string_view text) {
  std::string out;
  for (const char byte : text) append_utf8(out, detail::byte_characters()[static_cast<unsigned char>(byte)]);
  return out;
}

/// The text of pieces of such characters; bytes that are not UTF-8 become U+FFFD. A piece with another character stands for its
/// own bytes.
inline std::string characters_as_bytes(const std::vector<std::string>& pieces) {
  std::string bytes;
  for (const std::string& piece : pieces) {
    std::string own;
    bool all = true;
    for_each_code_point(piece, [&](char32_t c) {
      const int byte = c < detail::character_bytes().size() ? detail::character_bytes()[c] : -1;
      all = all && byte >= 0;
      own.push_back(static_cast<char>(byte));
    });
    bytes += all ? own : piece;
  }
  return encode_utf8(decode_utf8(bytes));
}

/// The words of a text as GPT-2 cuts it, which together are the text: an English contraction (`'s`), a run of letters, of numbers
/// or of other characters with the space before it, or a run of white space. Its pattern is
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
inline std::vector<std::string_view> byte_level_words(std::string_view text) {
  enum class Kind { letter, number, space, other };
  const auto kind_at = [&](std::size_t at, std::size_t& length) {
    const CodePoint point = code_point_at(text, at);
    length = static_cast<std::size_t>(point.length);
    if (is_letter(point.value)) return Kind::letter;
    if (is_number(point.value)) return Kind::number;
    return is_white_space(point.value) ? Kind::space : Kind::other;
  };
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin, length = 0;
    if (text[begin] == '\'')
      for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
        if (text.substr(begin).starts_with(contraction)) end = begin + contraction.size();
    if (end == begin) {
      std::size_t first = begin;
      if (text[begin] == ' ' && begin + 1 < text.size()) ++first;
      if (kind_at(first, length) == Kind::space) first = begin;
      const Kind kind = kind_at(first, length);
      std::size_t last = first;  // where the last character of the run begins
      for (end = first; end < text.size() && kind_at(end, length) == kind; end += length) last = end;
      // Of white space before a word the last character is left for that word.
      if (kind == Kind::space && end < text.size() && last > begin) end = last;
    }
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

}  // namespace attend::text
