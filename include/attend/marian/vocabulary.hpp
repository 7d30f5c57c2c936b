#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"
#include "attend/io/json.hpp"

namespace attend::text {

/// Pieces and their tokens as a Marian model's `vocab.json` has them: an object of pieces with their numbers. Not every number
/// needs to have a piece.
class MarianVocabulary {
 public:
  /// `pieces` by token; a token with an empty string has none. Throws ValueError for a piece that stands there twice.
  explicit MarianVocabulary(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      if (!pieces_[i].empty() && !tokens_.emplace(pieces_[i], static_cast<token_t>(i)).second)
        throw ValueError("MarianVocabulary: the piece '", detail::printable(pieces_[i]), "' stands there twice");
  }
  /// Throws IoError if the file cannot be read, FormatError if it is no vocabulary.
  static MarianVocabulary load(const std::filesystem::path& path) {
    const io::Json json = io::read_json(path);
    const io::JsonObject object(json, path.string());
    // A damaged number must not ask for much more memory than the pieces of the file need.
    const auto most = static_cast<token_t>(std::min<std::size_t>(4 * json.size() + (1 << 16), 1 << 24));
    std::vector<std::string> pieces;
    for (const auto& [piece, number] : json.items()) {
      const auto token = object.get<token_t>(piece);
      if (token < 0 || token >= most)
        throw FormatError(path.string(), ": '", detail::printable(piece), "' has the number ", token, ", expected 0 to ",
                          most - 1);
      if (piece.empty()) throw FormatError(path.string(), ": has a piece without text");
      if (static_cast<std::size_t>(token) >= pieces.size()) pieces.resize(static_cast<std::size_t>(token) + 1);
      std::string& place = nth(pieces, token);
      if (!place.empty())
        throw FormatError(path.string(), ": '", detail::printable(place), "' and '", detail::printable(piece),
                          "' have the same number ", token);
      place = piece;
    }
    return MarianVocabulary(std::move(pieces));
  }
  /// Writes such a file. Throws IoError, ValueError if a piece is not UTF-8.
  void save(const std::filesystem::path& path) const {
    io::Json json = io::Json::object();
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      if (!pieces_[i].empty()) json[pieces_[i]] = i;
    io::write_json(path, json);
  }

  /// Tokens are 0 to size() - 1.
  [[nodiscard]] index_t size() const { return count_of(pieces_); }
  /// The token of a piece; -1 if there is none.
  [[nodiscard]] token_t token(const std::string& piece) const {
    const auto found = tokens_.find(piece);
    return found == tokens_.end() ? -1 : found->second;
  }
  /// Whether a token has a piece.
  [[nodiscard]] bool has_piece(token_t token) const { return token >= 0 && token < size() && !nth(pieces_, token).empty(); }
  /// The piece of a token. Throws IndexError if it has none.
  [[nodiscard]] const std::string& piece(token_t token) const {
    if (!has_piece(token)) throw IndexError("MarianTokenizer: token ", token, " is not in the vocabulary of ", size());
    return nth(pieces_, token);
  }
  [[nodiscard]] const std::vector<std::string>& pieces() const { return pieces_; }

 private:
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, token_t> tokens_;
};

}  // namespace attend::text
