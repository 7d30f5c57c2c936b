#include "attend/text/utf8.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"

using namespace attend::text;
using namespace std::string_literals;

TEST_CASE("utf8: valid text of every length is valid and survives decoding and encoding") {
  const std::u32string points = {0x0,    0x7F,   0x80,    0x7FF,   0x800,    0xD7FF,    0xE000,
                                 0xFFFD, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF, U'\u00E9', U'\u4E2D'};
  const std::string text = encode_utf8(points);
  CHECK(is_utf8(text));
  CHECK(decode_utf8(text) == points);
  CHECK(count_code_points(text) == static_cast<attend::index_t>(points.size()));
  CHECK(encode_utf8(std::u32string{0x24, 0xA3, 0x20AC, 0x10348}) == "\x24\xC2\xA3\xE2\x82\xAC\xF0\x90\x8D\x88");
}

TEST_CASE("utf8: every code point goes there and back") {
  std::string text;
  int wrong = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    text.clear();
    append_utf8(text, c);
    const CodePoint point = code_point_at(text, 0);
    if (!point.valid || point.value != c || static_cast<std::size_t>(point.length) != text.size()) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("utf8: overlong forms, surrogates, large values and stray bytes are found where they stand") {
  const std::vector<std::string> bad = {
      "\x80",
      "\xBF",
      "\xC0\xAF",
      "\xC1\xBF",
      "\xE0\x80\x80",
      "\xE0\x9F\xBF",
      "\xED\xA0\x80",
      "\xED\xBF\xBF",
      "\xF0\x80\x80\x80",
      "\xF0\x8F\xBF\xBF",
      "\xF4\x90\x80\x80",
      "\xF5\x80\x80\x80",
      "\xFF",
      "\xFE",
      "\xC3",
      "\xE2\x82",
      "\xF0\x9F\x98",
      "\xC3\x28",
  };
  for (const std::string& bytes : bad) {
    CAPTURE(bytes);
    CHECK_FALSE(is_utf8(bytes));
    for (const std::size_t before : {0, 1, 7, 8, 9, 20}) CHECK(find_invalid_utf8(std::string(before, 'a') + bytes) == before);
    CHECK(is_utf8(encode_utf8(decode_utf8(bytes))));
  }
  CHECK(find_invalid_utf8("\xC3\xA9\xE9 and more text") == 2);
  CHECK(find_invalid_utf8("") == std::string_view::npos);
}

TEST_CASE("utf8: each longest wrong beginning becomes one replacement character") {
  CHECK(decode_utf8("a\xF1\x80\x80\xE1\x80\xC2"
                    "b\x80"
                    "c\x80\xBF"
                    "d") == U"a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");  // the example of Unicode's section 3.9
  CHECK(decode_utf8("\xED\xA0\x80") == U"\uFFFD\uFFFD\uFFFD");
  CHECK(encode_utf8(std::u32string{0xD800, 0x110000}) == "\uFFFD\uFFFD");
}

TEST_CASE("utf8: white space of Unicode separates words") {
  std::vector<std::string> words;
  for_each_word(" a\u00A0b\u3000\u2028\tc\r\n", [&](std::string_view word) { words.emplace_back(word); });
  CHECK(words == std::vector<std::string>{"a", "b", "c"});
  CHECK(collapse_spaces("\u2003 Wo  ist\t die\u00A0Katze? \x1F") == "Wo ist die Katze?");
  CHECK(collapse_spaces(" \n ").empty());
  CHECK(trim_end(" a b \u3000\n") == " a b");
  CHECK(trim_end(" ").empty());
  CHECK_FALSE(is_space(0x200B));  // of no width, and no white space either
  CHECK(collapse_spaces("\xC2 \xFF") == "\xC2 \xFF");
}
