#include "attend/translate/translator.hpp"
#include "catch.hpp"
#include "decode/swapping.hpp"

using namespace attend;
using swapping::SpacedLetters;
using Strings = std::vector<std::string>;

TEST_CASE("a translator refuses text that is not UTF-8, and says which and where") {
  const auto model = swapping::model(0.8f);
  const decode::Translator translator(model, SpacedLetters{});
  const Strings sentences{"c a", "b \xC3\xA9 \xFF"}, good{"c a", "b"};
  CHECK_THROWS_AS(translator(sentences), ValueError);
  CHECK_THROWS_WITH(translator(sentences), "Translator: sentence 2: byte 6 is 0xFF, expected UTF-8");
  CHECK_THROWS_WITH(translator.translate(sentences, 10), "Translator: sentence 12: byte 6 is 0xFF, expected UTF-8");
  CHECK_THROWS_WITH(translator.translate(good, 0, Strings{"", "\x80"}),
                    "Translator: the prefix of sentence 2: byte 1 is 0x80, expected UTF-8");
  CHECK_THROWS_WITH(translator.alternatives("a\xC3", "", 2), "Translator: sentence 1: byte 2 is 0xC3, expected UTF-8");
  CHECK_THROWS_WITH(translator.alternatives("a", "\xF5", 2),
                    "Translator: the prefix of sentence 1: byte 1 is 0xF5, expected UTF-8");
  CHECK_THROWS_WITH(translator.score(sentences, good), "score: source 2: byte 6 is 0xFF, expected UTF-8");
  CHECK_THROWS_WITH(translator.score(good, sentences, 3), "score: target 5: byte 6 is 0xFF, expected UTF-8");
  CHECK_THROWS_WITH(translator.align(good, sentences), "score: target 2: byte 6 is 0xFF, expected UTF-8");
  CHECK_THROWS_WITH(decode::Translator(model, SpacedLetters{}, {.banned_text = {"a", "b\xFF"}}),
                    "Translator: banned_text: byte 2 is 0xFF, expected UTF-8");
  CHECK(translator("b \u00E9 \u4E2D") == translator("b"));  // of no letter that this tokenizer knows
}
