#pragma once

#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "attend/core/types.hpp"

namespace attend::text {

/// What training and translation ask of a tokenizer; a user's own type fits as well as `SentencePiece`.
/// - `encode(text)`: the tokens of a sentence, without begin and end marks;
/// - `decode(tokens)`: their text; begin, end and padding marks among them give no text;
/// - `size()`: tokens are 0 to size() - 1;
/// - `bos()`, `eos()`, `pad()`: the marks for begin, end and padding; -1 for one that the tokenizer does not have. A translation
///   model needs `eos()`.
/// Const member functions are called from several threads at once.
template <class T>
concept Tokenizer = requires(const T& tokenizer, const std::string& text, std::span<const token_t> tokens) {
  { tokenizer.encode(text) } -> std::convertible_to<std::vector<token_t>>;
  { tokenizer.decode(tokens) } -> std::convertible_to<std::string>;
  { tokenizer.size() } -> std::convertible_to<index_t>;
  { tokenizer.bos() } -> std::convertible_to<token_t>;
  { tokenizer.eos() } -> std::convertible_to<token_t>;
  { tokenizer.pad() } -> std::convertible_to<token_t>;
};

}  // namespace attend::text
