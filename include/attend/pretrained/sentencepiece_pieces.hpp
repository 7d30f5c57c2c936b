#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/pretrained/piece_model.hpp"
#include "attend/pretrained/piece_table.hpp"
#include "attend/text/clean_up.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// The pieces of a SentencePiece model under the numbers that a family of models gives them.
class SentencePiecePieces final : public PieceModel {
 public:
  /// How numbers follow from the model's own, and how pieces are joined.
  struct Numbers {
    token_t offset = 0;    ///< is added to the model's numbers: 1 in the vocabularies of fairseq
    token_t unknown = -1;  ///< what stands for the model's unknown mark, which is not moved
    bool plain = false;    ///< pieces are joined as they stand, `▁` for a space, and not by the model
  };

  SentencePiecePieces(SentencePiece model, Numbers numbers) : model_(std::move(model)), numbers_(numbers) {}
  /// With numbers from a vocabulary, as M2M-100 has them.
  SentencePiecePieces(SentencePiece model, PieceTable vocabulary, token_t unknown)
      : model_(std::move(model)), numbers_{.unknown = unknown}, vocabulary_(std::move(vocabulary)) {}

  void encode(std::string_view part, bool, std::vector<token_t>& tokens) const override {
    if (vocabulary_) {
      for (const std::string& piece : model_.pieces(part)) {
        const token_t token = vocabulary_->token(piece);
        tokens.push_back(token < 0 ? numbers_.unknown : token);
      }
    } else {
      for (const token_t token : model_.encode(part))
        tokens.push_back(token == model_.unk() ? numbers_.unknown : token + numbers_.offset);
    }
  }
  [[nodiscard]] std::string join(const std::vector<std::string>& pieces) const override {
    std::string text;
    if (numbers_.plain)
      for (const std::string& piece : pieces) text += piece;
    else text = model_.join(pieces);
    replace_all(text, "\u2581", " ");
    return std::string(trim(text));
  }
  [[nodiscard]] index_t size() const override { return vocabulary_ ? vocabulary_->size() : model_.size() + numbers_.offset; }
  [[nodiscard]] std::string piece(token_t token) const override {
    if (vocabulary_) return vocabulary_->piece(token);
    const token_t own = token - numbers_.offset;
    return own >= 0 && own < model_.size() ? model_.piece(own) : std::string();
  }
  [[nodiscard]] token_t token(const std::string& piece) const override {
    if (vocabulary_) return vocabulary_->token(piece);
    const token_t own = model_.token(piece);
    return own == model_.unk() ? (piece == model_.piece(own) ? numbers_.unknown : -1) : own + numbers_.offset;
  }

 private:
  SentencePiece model_;
  Numbers numbers_;
  std::optional<PieceTable> vocabulary_;
};

}  // namespace attend::text
