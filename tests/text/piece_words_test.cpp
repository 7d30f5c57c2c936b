#include "attend/text/piece_words.hpp"

#include "catch.hpp"

using namespace attend;
using text::WordRange;
using Strings = std::vector<std::string>;
using Ranges = std::vector<WordRange>;

namespace {

/// Pieces with `_` written for the mark of a space.
Strings marked(Strings pieces) {
  for (auto& piece : pieces)
    for (std::size_t at; (at = piece.find('_')) != piece.npos;) piece.replace(at, 1, "\xE2\x96\x81");
  return pieces;
}

Ranges words(const Strings& pieces, std::string_view text) {
  return text::piece_words(pieces, text, [](std::string_view) -> Strings { throw std::logic_error("not asked for"); });
}

}  // namespace

TEST_CASE("piece_words: pieces that mark their spaces") {
  CHECK(words(marked({"_I", "_see", "_t", "ea", "."}), "I see tea.") == Ranges{{0, 0}, {1, 1}, {2, 2}, {2, 2}, {2, 2}});
  CHECK(words(marked({"_", "<unk>", "_is", "_"}), "? is") == Ranges{{0, 0}, {0, 0}, {1, 1}, {0, -1}});
  CHECK(words(marked({"_of_the", "_", "_end"}), " of  the end") == Ranges{{0, 1}, {2, 2}, {2, 2}});
}

TEST_CASE("piece_words: other pieces are found in the text, or counted") {
  CHECK(words({"ab", "c", "d", "ef"}, "abc def") == Ranges{{0, 0}, {0, 0}, {1, 1}, {1, 1}});
  CHECK(words({"a", "bc", "", "d"}, "ab cd") == Ranges{{0, 0}, {0, 1}, {0, -1}, {1, 1}});
  CHECK(words({"I", "see"}, "you see") == Ranges{{0, 0}, {1, 1}});
  CHECK(words({"I"}, "I see") == Ranges{{0, 0}});
  CHECK(words({}, "") == Ranges{});
}

TEST_CASE("piece_words: words that normalisation took away or made two") {
  const auto alone = [](std::string_view word) {
    return marked(word == "x" ? Strings{} : word == "cd" ? Strings{"_c", "_d"} : Strings{"_ab"});
  };
  CHECK(text::piece_words(marked({"_ab", "_ab"}), "ab x ab", alone) == Ranges{{0, 0}, {2, 2}});
  CHECK(text::piece_words(marked({"_c", "_d", "_ab"}), "cd ab", alone) == Ranges{{0, 0}, {0, 0}, {1, 1}});
  // Never beyond the words there are.
  CHECK(text::piece_words(marked({"_ab", "_c", "_d"}), "ab", alone) == Ranges{{0, 0}, {0, 0}, {0, 0}});
  CHECK(text::piece_words(marked({"_ab"}), "", alone) == Ranges{{0, 0}});
}
