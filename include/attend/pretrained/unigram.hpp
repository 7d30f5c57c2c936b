#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/types.hpp"
#include "attend/pretrained/bpe.hpp"
#include "attend/pretrained/piece_table.hpp"
#include "attend/text/utf8.hpp"

namespace attend::text {

/// Cuts words into the pieces whose scores (log-probabilities) have the greatest sum (Kudo 2018), as the tokenizers library does:
/// a character without a piece scores 10 less than the worst piece, several in a row make one unknown piece, and of equal sums
/// the one that is found first counts.
class UnigramModel {
 public:
  /// scores: of the pieces by their numbers. `unknown.fuse` is always so here.
  UnigramModel(PieceTable pieces, std::vector<double> scores, UnknownOptions unknown)
      : pieces_(std::move(pieces)), scores_(std::move(scores)), unknown_(unknown) {
    double least = std::numeric_limits<double>::infinity();
    for (const double score : scores_) least = std::min(least, score);
    unknown_score_ = least - 10;
    for (token_t token = 0; token < pieces_.size(); ++token)
      if (!pieces_.piece(token).empty() && pieces_.token(pieces_.piece(token)) == token) sorted_.push_back(token);
    std::sort(sorted_.begin(), sorted_.end(), [&](token_t a, token_t b) { return pieces_.piece(a) < pieces_.piece(b); });
    for (std::size_t i = 0; i < sorted_.size(); ++i) {
      auto& [begin, end] = by_first_byte_[static_cast<unsigned char>(pieces_.piece(sorted_[i]).front())];
      if (begin == end) begin = i;
      end = i + 1;
    }
  }

  [[nodiscard]] const PieceTable& pieces() const { return pieces_; }

  /// Appends the tokens of a word.
  void encode(const std::string& word, std::vector<token_t>& tokens) const {
    struct Best {  // of all ways to cut the word up to some byte
      double score = 0;
      std::size_t begin = std::string::npos;  // of the last piece
      token_t token = -1;
    };
    std::vector<Best> best(word.size() + 1);
    const auto offer = [&](std::size_t begin, std::size_t end, token_t token, double score) {
      const double sum = best[begin].score + score;
      if (best[end].begin == std::string::npos || sum > best[end].score) best[end] = {sum, begin, token};
    };
    for (std::size_t begin = 0; begin < word.size();) {
      const auto character = static_cast<std::size_t>(code_point_at(word, begin).length);
      bool has_character = false;
      for_each_prefix(std::string_view(word).substr(begin), [&](token_t token, std::size_t length) {
        offer(begin, begin + length, token, scores_[static_cast<std::size_t>(token)]);
        has_character = has_character || length == character;
      });
      if (!has_character) offer(begin, begin + character, unknown_.token, unknown_score_);
      begin += character;
    }
    const std::size_t first = tokens.size();
    std::size_t unknown_end = 0;  // of a run of unknown characters, which the way back goes through from its end
    for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
      if (best[end].token != unknown_.token) {
        tokens.push_back(best[end].token);
        continue;
      }
      if (unknown_end == 0) unknown_end = end;
      const std::size_t begin = best[end].begin;
      if (begin > 0 && best[begin].token == unknown_.token) continue;
      add_unknown(word.substr(begin, unknown_end - begin), tokens);
      unknown_end = 0;
    }
    std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
  }

 private:
  /// In reverse order, as all of `encode` comes to it.
  void add_unknown(const std::string& text, std::vector<token_t>& tokens) const {
    const auto has_byte = [&](char byte) { return pieces_.byte_token(byte) >= 0; };
    if (const token_t whole = pieces_.token(text); whole >= 0) return tokens.push_back(whole);
    if (!unknown_.bytes || !std::all_of(text.begin(), text.end(), has_byte)) return tokens.push_back(unknown_.token);
    for (std::size_t i = text.size(); i > 0; --i) tokens.push_back(pieces_.byte_token(text[i - 1]));
  }

  /// visit(token, length) for each piece that `text` begins with, the shortest first.
  template <class Visit>
  void for_each_prefix(std::string_view text, Visit&& visit) const {
    auto [begin, end] = by_first_byte_[static_cast<unsigned char>(text.front())];
    for (std::size_t depth = 1; begin < end; ++depth) {  // pieces from begin to end have the first `depth` bytes of the text
      const std::string& shortest = pieces_.piece(sorted_[begin]);
      if (shortest.size() == depth) {
        visit(sorted_[begin], depth);
        ++begin;
      }
      if (depth == text.size()) return;
      const auto byte = static_cast<unsigned char>(text[depth]);
      const auto byte_of = [&](token_t token) { return static_cast<unsigned char>(pieces_.piece(token)[depth]); };
      const auto from = sorted_.begin() + static_cast<std::ptrdiff_t>(begin),
                 to = sorted_.begin() + static_cast<std::ptrdiff_t>(end);
      const auto low = std::partition_point(from, to, [&](token_t token) { return byte_of(token) < byte; });
      const auto high = std::partition_point(low, to, [&](token_t token) { return byte_of(token) <= byte; });
      begin = static_cast<std::size_t>(low - sorted_.begin()), end = static_cast<std::size_t>(high - sorted_.begin());
    }
  }

  PieceTable pieces_;
  std::vector<double> scores_;
  UnknownOptions unknown_;
  double unknown_score_ = 0;
  std::vector<token_t> sorted_;                                           // by their pieces, byte by byte
  std::array<std::pair<std::size_t, std::size_t>, 256> by_first_byte_{};  // where in sorted_
};

}  // namespace attend::text
