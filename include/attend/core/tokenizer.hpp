#pragma once

#include <array>
#include <concepts>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/core/types.hpp"

namespace attend::text {

/// What training and translation ask of a tokenizer; a user's own type fits as well as `SentencePiece`.
/// - `encode(text)`: the tokens of a sentence, without begin and end marks;
/// - `decode(tokens)`: their text; begin, end and padding marks among them give no text;
/// - `size()`: tokens are 0 to size() - 1;
/// - `bos()`, `eos()`, `pad()`: the marks for begin, end and padding; -1 for one that the tokenizer does not have. A translation
///   model needs `eos()`.
///
/// A tokenizer may have more, and the functions below and AnyTokenizer use it if it is there:
/// - `encode_target(text)`, `target_size()`: if targets have other pieces or another vocabulary than sources. `encode`, `size`
///   and `piece` are then of the sources; `decode` and all marks but padding are of the targets;
/// - `unk()`: the mark for what has no token;
/// - `piece(token)`, `target_piece(token)`: what a token looks like;
/// - `save_files(folder)`: writes what a later program needs to have it again; or `save(path)`, if that is one file;
/// - `source_end()`: the tokens that a source ends with, if they are not the end mark alone;
/// - `is_mark(token)`: whether a token that `encode` gives is a mark, such as that of a language, and no part of the text;
/// - `languages()`, `with_languages(from, to)`, `forced_begin()`: the names of the languages that it has tokens for; the
///   tokenizer for sources and targets in two of them, of this or another type; and the token that says the target's, which
///   translations begin with;
/// - `source_language()`, `target_language()`: the names of those that were chosen; empty for none.
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

/// The tokens of a target sentence, without begin and end marks.
template <class T>
[[nodiscard]] std::vector<token_t> encode_target(const T& tokenizer, const std::string& text) {
  if constexpr (requires { tokenizer.encode_target(text); }) return tokenizer.encode_target(text);
  else return tokenizer.encode(text);
}

/// Tokens of targets are 0 to target_size() - 1.
template <class T>
[[nodiscard]] index_t target_size(const T& tokenizer) {
  if constexpr (requires { tokenizer.target_size(); }) return tokenizer.target_size();
  else return tokenizer.size();
}

/// The mark for what has no token; -1 if the tokenizer has none.
template <class T>
[[nodiscard]] token_t unknown_token(const T& tokenizer) {
  if constexpr (requires { tokenizer.unk(); }) return tokenizer.unk();
  else return -1;
}

/// The tokens that a source ends with.
template <class T>
[[nodiscard]] std::vector<token_t> source_end(const T& tokenizer) {
  if constexpr (requires { tokenizer.source_end(); }) return tokenizer.source_end();
  else return {tokenizer.eos()};
}

/// Whether a token of a source is a mark and no part of its text.
template <class T>
[[nodiscard]] bool is_mark(const T& tokenizer, token_t token) {
  if constexpr (requires { tokenizer.is_mark(token); }) return tokenizer.is_mark(token);
  else return token == tokenizer.eos();
}

/// Ends a source.
template <class T>
void add_source_end(const T& tokenizer, std::vector<token_t>& tokens) {
  const std::vector<token_t> end = text::source_end(tokenizer);
  tokens.insert(tokens.end(), end.begin(), end.end());
}

/// The names of the languages that a tokenizer has tokens for; none if languages are no concern of its own.
template <class T>
[[nodiscard]] std::vector<std::string> languages(const T& tokenizer) {
  if constexpr (requires { tokenizer.languages(); }) return tokenizer.languages();
  else return {};
}

/// The language that was chosen for sources; empty if none was.
template <class T>
[[nodiscard]] std::string source_language(const T& tokenizer) {
  if constexpr (requires { tokenizer.source_language(); }) return tokenizer.source_language();
  else return {};
}

/// The same for targets.
template <class T>
[[nodiscard]] std::string target_language(const T& tokenizer) {
  if constexpr (requires { tokenizer.target_language(); }) return tokenizer.target_language();
  else return {};
}

/// The token that translations begin with, since it says their language; -1 if there is none.
template <class T>
[[nodiscard]] token_t forced_begin(const T& tokenizer) {
  if constexpr (requires { tokenizer.forced_begin(); }) return tokenizer.forced_begin();
  else return -1;
}

/// What a token of a source looks like; its text if the tokenizer does not say.
template <class T>
[[nodiscard]] std::string piece(const T& tokenizer, token_t token) {
  if constexpr (requires { tokenizer.piece(token); }) return std::string(tokenizer.piece(token));
  else return tokenizer.decode(std::span<const token_t>(&token, 1));
}

/// The same for a token of a target.
template <class T>
[[nodiscard]] std::string target_piece(const T& tokenizer, token_t token) {
  if constexpr (requires { tokenizer.target_piece(token); }) return std::string(tokenizer.target_piece(token));
  else return text::piece(tokenizer, token);
}

/// The tokens of a target as a model is to give them, but for the end token: first that of its language, if the tokenizer has
/// one.
template <class T>
[[nodiscard]] std::vector<token_t> encode_whole_target(const T& tokenizer, const std::string& text) {
  std::vector<token_t> tokens = text::encode_target(tokenizer, text);
  if (const token_t language = text::forced_begin(tokenizer); language >= 0) tokens.insert(tokens.begin(), language);
  return tokens;
}

/// The file of a tokenizer that is one file, in the folder of its model.
inline constexpr const char* tokenizer_file = "tokenizer.model";

/// All names that a file of some tokenizer may have in the folder of its model; none of them is another file's.
inline constexpr std::array<std::string_view, 13> tokenizer_files = {tokenizer_file,
                                                                     "source.spm",
                                                                     "target.spm",
                                                                     "vocab.json",
                                                                     "target_vocab.json",
                                                                     "tokenizer_config.json",
                                                                     "special_tokens_map.json",
                                                                     "added_tokens.json",
                                                                     "sentencepiece.bpe.model",
                                                                     "spiece.model",
                                                                     "spm.model",
                                                                     "tokenizer.json",
                                                                     "merges.txt"};

/// Writes the tokenizer's files into the folder of its model: by its `save_files(folder)`, or its `save(path)` as
/// `tokenizer.model`. One that has neither writes nothing.
template <class T>
void save_files(const T& tokenizer, const std::filesystem::path& folder) {
  if constexpr (requires { tokenizer.save_files(folder); }) tokenizer.save_files(folder);
  else if constexpr (requires { tokenizer.save(folder); }) tokenizer.save(folder / tokenizer_file);
}

/// Whether `save_files` writes anything.
template <class T>
inline constexpr bool has_files = requires(const T& tokenizer, const std::filesystem::path& path) {
  tokenizer.save_files(path);
}
|| requires(const T& tokenizer, const std::filesystem::path& path) { tokenizer.save(path); };

}  // namespace attend::text
