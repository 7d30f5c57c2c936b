#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// A token that a text may hold by name, such as `</s>`, `<extra_id_0>` or `fra_Latn`.
struct AddedToken {
  std::string content;
  token_t token = -1;
  bool special = false;     ///< a mark: decoding gives no text for it
  bool lstrip = false;      ///< takes the white space before it along
  bool rstrip = false;      ///< takes the white space after it along
  bool normalized = false;  ///< is looked for in text that is normalized already
};

/// All added tokens of a tokenizer.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Throws ValueError for a token without content, of a number that is negative or huge, or two of one content and other
  /// numbers.
  explicit AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      constexpr token_t most = 1 << 24;
      if (token.token < 0 || token.token >= most)
        throw ValueError("AddedTokens: '", detail::printable(token.content), "' has the number ", token.token, ", expected 0 to ",
                         most - 1);
      if (token.content.empty()) throw ValueError("AddedTokens: token ", token.token, " has no content");
      const auto [there, is_new] = by_content_.emplace(token.content, i);
      if (!is_new && tokens_[there->second].token != token.token)
        throw ValueError("AddedTokens: '", detail::printable(token.content), "' is ", tokens_[there->second].token, " and ",
                         token.token);
      by_token_.emplace(token.token, i);
      if (is_new) by_first_byte_[static_cast<unsigned char>(token.content.front())].push_back(i);
    }
    for (auto& list : by_first_byte_)
      std::sort(list.begin(), list.end(),
                [&](std::size_t a, std::size_t b) { return tokens_[a].content.size() > tokens_[b].content.size(); });
  }

  [[nodiscard]] const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// The added token of that number or content; a null pointer if there is none.
  [[nodiscard]] const AddedToken* find(token_t token) const {
    const auto found = by_token_.find(token);
    return found == by_token_.end() ? nullptr : &tokens_[found->second];
  }
  [[nodiscard]] const AddedToken* find(const std::string& content) const {
    const auto found = by_content_.find(content);
    return found == by_content_.end() ? nullptr : &tokens_[found->second];
  }

  /// Goes through a text from left to right: `part(std::string_view)` for what stands between added tokens, if it is not empty,
  /// `added(token)` for each of them. The first that matches counts, and of those that begin at one place the longest. Looks for
  /// those tokens alone that have that `normalized`.
  template <class Part, class Added>
  void split(std::string_view text, bool normalized, Part&& part, Added&& added) const {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const AddedToken* found = match(text.substr(at), normalized);
      if (found == nullptr) {
        ++at;
        continue;
      }
      std::string_view before = text.substr(begin, at - begin);
      if (found->lstrip) {
        std::size_t end = 0;
        for (std::size_t next = 0; next < before.size();) {
          const CodePoint point = code_point_at(before, next);
          next += static_cast<std::size_t>(point.length);
          if (!is_white_space(point.value)) end = next;
        }
        before = before.substr(0, end);
      }
      if (!before.empty()) part(before);
      added(found->token);
      begin = at += found->content.size();
      if (found->rstrip)
        while (begin < text.size()) {
          const CodePoint point = code_point_at(text, begin);
          if (!is_white_space(point.value)) break;
          begin += static_cast<std::size_t>(point.length);
        }
      at = std::max(at, begin);
    }
    if (begin < text.size()) part(text.substr(begin));
  }

 private:
  [[nodiscard]] const AddedToken* match(std::string_view text, bool normalized) const {
    for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text.front())])
      if (tokens_[i].normalized == normalized && text.starts_with(tokens_[i].content)) return &tokens_[i];
    return nullptr;
  }

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_content_;
  std::unordered_map<token_t, std::size_t> by_token_;
  std::array<std::vector<std::size_t>, 256> by_first_byte_;  // longest first
};

}  // namespace attend::text
