#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"
#include "attend/io/json.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// Pieces by their numbers and numbers by their pieces. Not every number needs to have a piece.
class PieceTable {
 public:
  PieceTable() = default;
  /// Throws FormatError, which begins with `where`, for a number that is negative, far beyond the count of pieces, or given
  /// twice.
  PieceTable(std::vector<std::pair<std::string, token_t>> pieces, const std::string& where) {
    const auto most = static_cast<token_t>(std::min<std::size_t>(4 * pieces.size() + (1 << 16), 1 << 24));
    tokens_.reserve(pieces.size());
    for (auto& [piece, token] : pieces) {
      if (token < 0 || token >= most)
        throw FormatError(where, ": '", detail::printable(piece), "' has the number ", token, ", expected 0 to ", most - 1);
      if (static_cast<std::size_t>(token) >= pieces_.size()) pieces_.resize(static_cast<std::size_t>(token) + 1);
      if (!tokens_.emplace(piece, token).second) throw FormatError(where, ": has '", detail::printable(piece), "' twice");
      std::string& place = pieces_[static_cast<std::size_t>(token)];
      if (!place.empty())
        throw FormatError(where, ": '", detail::printable(place), "' and '", detail::printable(piece), "' have the same number ",
                          token);
      place = std::move(piece);
    }
  }

  /// By their numbers. Of equal pieces the last is found.
  explicit PieceTable(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) tokens_[pieces_[i]] = static_cast<token_t>(i);
  }

  [[nodiscard]] index_t size() const { return count_of(pieces_); }
  [[nodiscard]] const std::string& piece(token_t token) const { return pieces_[static_cast<std::size_t>(token)]; }
  /// -1 if there is no such piece.
  [[nodiscard]] token_t token(const std::string& piece) const {
    const auto found = tokens_.find(piece);
    return found == tokens_.end() ? -1 : found->second;
  }
  /// The token of a byte by itself, `<0xE3>`; -1 if there is none.
  [[nodiscard]] token_t byte_token(char byte) const { return token("<0x" + hexadecimal(byte) + ">"); }

 private:
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, token_t> tokens_;
};

}  // namespace attend::text

namespace attend::detail {

/// The pieces and numbers of an object.
inline text::PieceTable piece_table(const io::JsonObject& json) {
  std::vector<std::pair<std::string, token_t>> pieces;
  for (const auto& item : json.json().items()) pieces.emplace_back(item.key(), json.get<token_t>(item.key()));
  return text::PieceTable(std::move(pieces), json.name());
}

}  // namespace attend::detail
