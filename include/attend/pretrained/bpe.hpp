#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"
#include "attend/pretrained/piece_table.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// What becomes of characters without a piece.
struct UnknownOptions {
  token_t token = -1;  ///< stands for them; -1: they are left out
  bool fuse = false;   ///< one token for several in a row
  bool bytes = false;  ///< the tokens of their bytes instead, if there are all of them
};

/// Byte-pair encoding: the characters of a word are merged pair by pair, the pair with the lowest rank first, until no pair of
/// neighbours has a rank (Sennrich et al. 2016).
class BytePairModel {
 public:
  /// `ignore_merges`: a word that is a piece is that piece, whatever the merges say.
  BytePairModel(PieceTable pieces, const std::vector<std::pair<std::string, std::string>>& merges, UnknownOptions unknown,
                bool ignore_merges, const std::string& where)
      : pieces_(std::move(pieces)), unknown_(unknown), ignore_merges_(ignore_merges) {
    merges_.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto& [left, right] = merges[rank];
      const token_t a = pieces_.token(left), b = pieces_.token(right), both = pieces_.token(left + right);
      if (a < 0 || b < 0 || both < 0)
        throw FormatError(where, ": merges '", detail::printable(left), "' and '", detail::printable(right),
                          "', and has no piece '",
                          detail::printable(a < 0   ? left
                                            : b < 0 ? right
                                                    : left + right),
                          "'");
      merges_[pair(a, b)] = {static_cast<std::uint32_t>(rank), both};
    }
  }

  [[nodiscard]] const PieceTable& pieces() const { return pieces_; }

  /// Appends the tokens of a word.
  void encode(const std::string& word, std::vector<token_t>& tokens) const {
    if (ignore_merges_)
      if (const token_t whole = pieces_.token(word); whole >= 0) return tokens.push_back(whole);
    std::vector<Symbol> symbols = characters(word);
    std::priority_queue<Candidate> queue;
    const auto offer = [&](std::int32_t left, std::int32_t right) {
      if (left < 0 || right < 0) return;
      const auto found = merges_.find(pair(at(symbols, left).token, at(symbols, right).token));
      if (found != merges_.end()) queue.push({found->second.rank, left, found->second.token});
    };
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<std::int32_t>(i), static_cast<std::int32_t>(i + 1));
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = at(symbols, best.left);
      if (left.gone || left.next < 0) continue;
      Symbol& right = at(symbols, left.next);
      const auto found = merges_.find(pair(left.token, right.token));
      if (found == merges_.end() || found->second.token != best.token) continue;  // one of the two has changed since
      left.token = best.token;
      right.gone = true;
      left.next = right.next;
      if (left.next >= 0) at(symbols, left.next).previous = best.left;
      offer(left.previous, best.left);
      offer(best.left, left.next);
    }
    for (const Symbol& symbol : symbols)
      if (!symbol.gone) tokens.push_back(symbol.token);
  }

 private:
  struct Symbol {
    token_t token;
    std::int32_t previous, next;  // -1 at the ends
    bool gone = false;            // merged into one before it
  };
  struct Merge {
    std::uint32_t rank;
    token_t token;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t left;
    token_t token;
    /// The queue gives the greatest first: the lowest rank, and of equal ones the leftmost.
    friend bool operator<(const Candidate& a, const Candidate& b) { return std::tie(a.rank, a.left) > std::tie(b.rank, b.left); }
  };

  static std::uint64_t pair(token_t a, token_t b) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
  }
  static Symbol& at(std::vector<Symbol>& symbols, std::int32_t i) { return symbols[static_cast<std::size_t>(i)]; }

  [[nodiscard]] std::vector<Symbol> characters(const std::string& word) const {
    std::vector<Symbol> symbols;
    bool after_unknown = false;
    const auto add = [&](token_t token) {
      const auto i = static_cast<std::int32_t>(symbols.size());
      if (i > 0) symbols.back().next = i;
      symbols.push_back({.token = token, .previous = i - 1, .next = -1});
    };
    for (std::size_t begin = 0; begin < word.size();) {
      const std::string character = word.substr(begin, static_cast<std::size_t>(code_point_at(word, begin).length));
      begin += character.size();
      if (const token_t token = pieces_.token(character); token >= 0) {
        add(token);
        after_unknown = false;
        continue;
      }
      const auto has_byte = [&](char byte) { return pieces_.byte_token(byte) >= 0; };
      if (unknown_.bytes && std::all_of(character.begin(), character.end(), has_byte)) {
        for (const char byte : character) add(pieces_.byte_token(byte));
        after_unknown = false;
      } else if (unknown_.token >= 0 && !(unknown_.fuse && after_unknown)) {
        add(unknown_.token);
        after_unknown = true;
      }
    }
    return symbols;
  }

  PieceTable pieces_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  UnknownOptions unknown_;
  bool ignore_merges_;
};

}  // namespace attend::text
