#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "attend/core/error.hpp"
#include "attend/text/sentencepiece_model.hpp"
#include "attend/text/unicode_classes.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// SentencePiece's compiled table of normalization, applied as the tokenizers library does it (`Precompiled`): cluster by
/// cluster, by the shortest rule that matches, where SentencePiece takes the longest anywhere in the text. A cluster (a letter
/// and its accents) of less than six bytes is looked up as one, and replaced as a whole by what its beginning stands for;
/// otherwise each of its characters is. Source: github.com/huggingface/spm_precompiled.
class Charsmap {
 public:
  /// Throws FormatError `has a normalization table ...` for a table that is damaged.
  explicit Charsmap(std::string table) : table_(std::move(table)) {
    attend::detail::NormalizationTable::check(table_);
    if (!table_.empty()) trie_bytes_ = word(0);
  }

  /// The text with every cluster replaced; as it is if the table is empty.
  [[nodiscard]] std::string apply(std::string_view text) const {
    if (table_.empty()) return std::string(text);
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::string_view cluster = text.substr(begin, cluster_length(text, begin));
      begin += cluster.size();
      std::string_view found;
      constexpr std::size_t longest = 5;
      if (cluster.size() <= longest && find(cluster, found)) {
        out += found;
        continue;
      }
      for (std::size_t at = 0; at < cluster.size();) {
        const std::string_view character = cluster.substr(at, static_cast<std::size_t>(code_point_at(cluster, at).length));
        out += find(character, found) ? found : character;
        at += character.size();
      }
    }
    return out;
  }

 private:
  enum class Hangul { none, l, v, t, lv, lvt };

  static Hangul hangul(char32_t c) {
    if ((c >= 0x1100 && c <= 0x115F) || (c >= 0xA960 && c <= 0xA97C)) return Hangul::l;
    if ((c >= 0x1160 && c <= 0x11A7) || (c >= 0xD7B0 && c <= 0xD7C6)) return Hangul::v;
    if ((c >= 0x11A8 && c <= 0x11FF) || (c >= 0xD7CB && c <= 0xD7FB)) return Hangul::t;
    if (c >= 0xAC00 && c <= 0xD7A3) return (c - 0xAC00) % 28 == 0 ? Hangul::lv : Hangul::lvt;
    return Hangul::none;
  }
  static bool is_hangul_pair(Hangul a, Hangul b) {
    using enum Hangul;
    return (a == l && (b == l || b == v || b == lv || b == lvt)) || ((a == lv || a == v) && (b == v || b == t)) ||
           ((a == lvt || a == t) && b == t);
  }
  /// What no accent goes on: the property Control, as far as characters of three bytes have it.
  static bool is_control(char32_t c) {
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0xAD || c == 0x61C || c == 0x180E || c == 0x200B || c == 0x200E ||
           c == 0x200F || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           (c >= 0xFFF0 && c <= 0xFFFB);
  }
  /// What the character after it joins: the property Prepend, of characters of two bytes. Longer ones make no short clusters.
  static bool is_prepended(char32_t c) { return (c >= 0x600 && c <= 0x605) || c == 0x6DD || c == 0x70F; }

  /// The bytes of the cluster that begins there; exact for those of less than six bytes (Unicode Standard Annex 29). Longer ones
  /// may be cut where it makes no difference.
  static std::size_t cluster_length(std::string_view text, std::size_t begin) {
    CodePoint before = code_point_at(text, begin);
    std::size_t end = begin + static_cast<std::size_t>(before.length);
    const char32_t first = before.value;
    while (end < text.size()) {
      const CodePoint next = code_point_at(text, end);
      const bool joins = before.value == '\r' ? next.value == '\n'
                         : is_control(before.value)
                             ? false
                             : joins_cluster(next.value) || is_hangul_pair(hangul(before.value), hangul(next.value)) ||
                                   (is_prepended(before.value) && !is_control(next.value)) ||
                                   // The copyright and trade marks are pictures, which U+200D binds to the next.
                                   (before.value == 0x200D && (first == 0xA9 || first == 0xAE) && next.value >= 0x203C &&
                                    !is_letter(next.value) && !is_number(next.value));
      if (!joins) break;
      end += static_cast<std::size_t>(next.length);
      before = next;
    }
    return end - begin;
  }

  /// The little-endian 32-bit word of that number; the table is known to have it.
  [[nodiscard]] std::uint32_t word(std::size_t i) const {
    std::uint32_t value = 0;
    std::memcpy(&value, table_.data() + 4 * i, sizeof value);
    return value;
  }
  /// What the shortest rule that `key` begins with puts in its place. The layout is described at `NormalizationTable`.
  bool find(std::string_view key, std::string_view& found) const {
    const auto children = [](std::uint32_t unit) { return std::size_t{unit >> 10} << ((unit & 0x200u) >> 6); };
    const std::size_t units = trie_bytes_ / 4;
    std::size_t node = children(word(1));
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return false;
      node ^= byte;
      if (node >= units) return false;
      const std::uint32_t unit = word(node + 1);
      if ((unit & 0x800000FFu) != byte) return false;
      node ^= children(unit);
      if (node >= units) return false;
      if ((unit & 0x100u) == 0) continue;
      const std::string_view texts = std::string_view(table_).substr(4 + trie_bytes_);
      const std::size_t begin = word(node + 1) & 0x7FFFFFFFu;
      if (begin >= texts.size()) return false;
      found = texts.substr(begin, texts.find('\0', begin) - begin);
      return true;
    }
    return false;
  }

  std::string table_;
  std::size_t trie_bytes_ = 0;
};

}  // namespace attend::text
