#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"

/// A check of SentencePiece model files before the SentencePiece library gets to see them. The library trusts the normalization
/// table inside and the pieces that users defined (it follows links and counts matches without looking), so that a damaged or a
/// malicious file makes it read out of bounds; and it takes a file that was cut off between two fields for complete.

namespace attend::detail {

/// Goes through the fields of one serialized Protocol Buffers message.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  /// Moves to the next field; false at the end of the message. Throws FormatError if the bytes are no message.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    if (tag > 0xFFFFFFFF || tag >> 3 == 0) throw broken();
    number_ = static_cast<std::uint32_t>(tag >> 3);
    wire_type_ = static_cast<unsigned>(tag & 7);
    switch (wire_type_) {
      case 0:
        integer_ = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        throw broken();
    }
    return true;
  }

  /// Whether this is field `number`, and holds bytes: a string or a message.
  [[nodiscard]] bool is_bytes(std::uint32_t number) const { return wire_type_ == 2 && number_ == number; }
  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  /// Whether this is field `number`, and holds an integer.
  [[nodiscard]] bool is_integer(std::uint32_t number) const { return wire_type_ == 0 && number_ == number; }
  [[nodiscard]] std::uint64_t integer() const { return integer_; }

 private:
  static FormatError broken() { return FormatError("is damaged or no SentencePiece model"); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    throw broken();
  }

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) throw broken();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_, bytes_;
  std::uint64_t integer_ = 0;
  std::uint32_t number_ = 0;
  unsigned wire_type_ = 0;
};

/// A compiled normalization table: a 32-bit length, a double array (a trie, whose equal branches may be shared) of that many
/// bytes, and zero-terminated replacement texts, which the trie's values point at. A unit of the trie holds a label in its low
/// byte, in bit 8 whether a value stands below it, and above that the distance to its children: child c of unit i stands at
/// i ^ distance ^ c if that unit's label is c, its value at child 0. Units with bit 31 set are values.
class NormalizationTable {
 public:
  /// Throws FormatError unless every walk through `table` stays inside it, and passes no more values than SentencePiece has room
  /// for.
  static void check(std::string_view table) {
    if (table.empty()) return;  // normalizes nothing
    NormalizationTable checked(table);
    if (checked.values_below(0, 0) > most_values) fail("with too many texts on one way");
  }

 private:
  static constexpr int most_values = 32, most_depth = 1000;  // real ones are less than 20 deep
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  explicit NormalizationTable(std::string_view table) : table_(table) {
    if (table.size() < 8) fail("that is cut off");
    const std::size_t bytes = word(0), block = 256 * 4;
    if (bytes > table.size() - 4 || bytes % block != 0 || bytes == 0) fail("of a wrong size");
    texts_ = table.substr(4 + bytes);
    if (texts_.empty() || texts_.back() != '\0') fail("whose texts have no end");
    const std::size_t units = bytes / 4;
    values_.assign(units, -1);
    first_child_.assign(units, none);
    sibling_.assign(units, none);
    for (std::size_t i = 0; i < units; ++i) {  // to find children at once, and not by trying 256 labels
      const std::uint32_t contents = word(i + 1);
      if (contents >> 31 != 0) continue;
      std::uint32_t& first = first_child_[i ^ (contents & 0xFFu)];
      sibling_[i] = std::exchange(first, static_cast<std::uint32_t>(i));
    }
  }

  /// The most values on a walk from `unit` down, its own included. Goes through shared branches once.
  int values_below(std::size_t unit, int depth) {
    if (depth > most_depth) fail("that goes round in circles");
    if (values_[unit] >= 0) return values_[unit];
    const std::uint32_t contents = word(unit + 1);
    const std::size_t children = unit ^ (std::size_t{contents >> 10} << ((contents & 0x200u) >> 6));
    if ((children | 0xFF) >= values_.size()) fail("with a link out of bounds");
    int values = 0;
    for (std::uint32_t child = first_child_[children]; child != none; child = sibling_[child])
      values = std::max(values, values_below(child, depth + 1));
    if ((contents & 0x100u) != 0) {
      if ((word(children + 1) & 0x7FFFFFFFu) >= texts_.size()) fail("with a text out of bounds");
      ++values;
    }
    return values_[unit] = values;
  }

  /// The i-th 32-bit word of the table, little endian; unit i is word i + 1.
  [[nodiscard]] std::uint32_t word(std::size_t i) const {
    std::uint32_t value = 0;
    for (std::size_t k = 0; k < 4; ++k) value |= std::uint32_t{static_cast<unsigned char>(table_[4 * i + k])} << (8 * k);
    return value;
  }

  [[noreturn]] static void fail(const char* what) { throw FormatError("has a normalization table ", what); }

  std::string_view table_, texts_;
  std::vector<int> values_;                           // below each unit, -1 for one that no walk has reached yet
  std::vector<std::uint32_t> first_child_, sibling_;  // by the place of child 0; by unit
};

/// Throws FormatError if more pieces than SentencePiece has room for are prefixes of one another.
inline void check_user_pieces(std::vector<std::string_view> pieces) {
  constexpr std::size_t most = 64;
  std::sort(pieces.begin(), pieces.end());
  std::vector<std::string_view> nested;  // each a prefix of the next
  for (const std::string_view piece : pieces) {
    while (!nested.empty() && piece.substr(0, nested.back().size()) != nested.back()) nested.pop_back();
    nested.push_back(piece);
    if (nested.size() > most) throw FormatError("has too many user-defined pieces that begin alike");
  }
}

/// Throws FormatError, with a message that lacks a subject, if `bytes` are not a complete SentencePiece model.
inline void check_sentencepiece_model(std::string_view bytes) {
  // Numbers of the fields in sentencepiece_model.proto.
  constexpr std::uint32_t pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5;
  constexpr std::uint32_t table = 2, piece_text = 1, piece_type = 3, user_defined = 4;
  if (bytes.empty()) throw FormatError("is empty, expected a SentencePiece model");
  bool has_pieces = false, has_trainer = false, has_normalizer = false;
  std::vector<std::string_view> user_pieces;
  for (ProtoFields field(bytes); field.next();) {
    has_trainer |= field.is_bytes(trainer);
    has_normalizer |= field.is_bytes(normalizer);
    if (field.is_bytes(pieces)) {
      has_pieces = true;
      std::string_view text;
      bool is_user_defined = false;
      for (ProtoFields inner(field.bytes()); inner.next();) {
        if (inner.is_bytes(piece_text)) text = inner.bytes();
        if (inner.is_integer(piece_type)) is_user_defined = inner.integer() == user_defined;
      }
      if (is_user_defined) user_pieces.push_back(text);
    } else if (field.is_bytes(normalizer) || field.is_bytes(denormalizer)) {
      for (ProtoFields inner(field.bytes()); inner.next();)
        if (inner.is_bytes(table)) NormalizationTable::check(inner.bytes());
    }
  }
  check_user_pieces(std::move(user_pieces));
  if (!has_pieces) throw FormatError("has no pieces, expected a SentencePiece model");
  if (!has_trainer || !has_normalizer) throw FormatError("is cut off: its pieces are there, what follows them is not");
}

}  // namespace attend::detail
