#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"

namespace attend::text {

/// How many letters of two names differ (Levenshtein); those after the shorter name count less, so that `en` is near `en_XX`.
inline std::size_t name_distance(std::string_view a, std::string_view b) {
  if (a.size() > 64) a = a.substr(0, 64);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return 4 * row.back() - (b.starts_with(a) ? 3 * (b.size() - a.size()) : 0);
}

/// The names that look most like `name` first.
inline std::vector<std::string> nearest_first(const std::string& name, std::vector<std::string> names) {
  std::vector<std::pair<std::size_t, std::string>> by_distance;
  for (std::string& other : names) by_distance.emplace_back(name_distance(name, other), std::move(other));
  std::stable_sort(by_distance.begin(), by_distance.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(by_distance.begin(), by_distance.end(), names.begin(), [](auto& entry) { return std::move(entry.second); });
  return names;
}

/// The languages that a tokenizer has tokens for, by the names that its makers gave them: `eng_Latn`, `en_XX`, `en`.
class LanguageTokens {
 public:
  /// A language that is there already keeps its token.
  void add(const std::string& name, token_t token) {
    if (tokens_.emplace(name, token).second) names_.push_back(name);
  }

  /// In the order in which they were added.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool contains(const std::string& name) const { return tokens_.contains(name); }
  /// How a text says a language in MADLAD-400.
  [[nodiscard]] static std::string said(const std::string& name) { return "<2" + name + ">"; }
  /// The language that a piece says so; empty if it says none.
  [[nodiscard]] static std::string said_by(std::string_view piece) {
    const bool says = piece.size() > 3 && piece.starts_with("<2") && piece.ends_with('>');
    return says ? std::string(piece.substr(2, piece.size() - 3)) : std::string();
  }
  /// The language of a token; empty if it is that of none.
  [[nodiscard]] std::string name(token_t token) const {
    const auto found =
        std::find_if(tokens_.begin(), tokens_.end(), [&](const auto& language) { return language.second == token; });
    return found == tokens_.end() ? std::string() : found->first;
  }
  /// The token of a language. Throws ValueError, which begins with `operation` and names those that look most like it.
  [[nodiscard]] token_t token(const char* operation, const std::string& name) const {
    const auto found = tokens_.find(name);
    if (found != tokens_.end()) return found->second;
    check_value(!names_.empty(), operation, "the tokenizer has no languages, asked for '", detail::printable(name), "'");
    const auto sorted = nearest_first(name, names_);
    constexpr std::size_t shown = 5;
    std::string nearest;
    for (std::size_t i = 0; i < std::min(shown, sorted.size()); ++i)
      nearest += (i == 0 ? "" : ", ") + detail::printable(sorted[i]);
    throw ValueError(operation, ": there is no language '", detail::printable(name), "' among ", names_.size(),
                     (names_.size() <= shown ? ": " : ", of which the nearest are "), nearest);
  }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, token_t> tokens_;
};

}  // namespace attend::text
