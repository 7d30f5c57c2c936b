#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/core/types.hpp"

namespace attend::text {

/// How text becomes pieces and pieces text, for tokenizers of the `transformers` library: what is left to do once the tokens that
/// stand in a text by name (added tokens) are found.
class PieceModel {
 public:
  PieceModel() = default;
  PieceModel(const PieceModel&) = delete;
  PieceModel& operator=(const PieceModel&) = delete;
  virtual ~PieceModel() = default;

  /// Appends the tokens of a part of a text, which is UTF-8. `first`: whether the text begins with it.
  virtual void encode(std::string_view part, bool first, std::vector<token_t>& tokens) const = 0;
  /// The text of pieces.
  [[nodiscard]] virtual std::string join(const std::vector<std::string>& pieces) const = 0;
  /// Tokens are 0 to size() - 1; added tokens may come after them.
  [[nodiscard]] virtual index_t size() const = 0;
  /// The piece of one of these tokens; empty for a number without a piece.
  [[nodiscard]] virtual std::string piece(token_t token) const = 0;
  /// The token of a piece; -1 if there is none.
  [[nodiscard]] virtual token_t token(const std::string& piece) const = 0;
  /// A piece as people read it, with `▁` for a space.
  [[nodiscard]] virtual std::string shown(const std::string& piece) const { return piece; }
  /// Whether `join` takes added tokens that are no marks too, and does not have them stand by themselves between spaces.
  [[nodiscard]] virtual bool joins_added() const { return false; }
};

}  // namespace attend::text
