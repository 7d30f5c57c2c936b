#include "attend/text/lowercase.hpp"

#include <string>

#include "catch.hpp"

using attend::text::lowercase;

TEST_CASE("lowercase: letters of many scripts, and nothing else") {
  CHECK(lowercase("The QUICK Fox, No. 7!") == "the quick fox, no. 7!");
  CHECK(lowercase("ÄÖÜ ẞ ÉÀ Ñ Ā Ł Ő Ÿ Ǆ ǅ") == "äöü ß éà ñ ā ł ő ÿ ǆ ǆ");
  CHECK(lowercase("МОСКВА Ћ Ѡ") == "москва ћ ѡ");
  CHECK(lowercase("Ⅷ Ⓐ Ａ 𐐀 Ა Ꭰ") == "ⅷ ⓐ ａ 𐐨 ა ꭰ");
  CHECK(lowercase("中文 😀 ß é ı") == "中文 😀 ß é ı");
  CHECK(lowercase("").empty());
}

TEST_CASE("lowercase: a dotted capital I becomes two code points") { CHECK(lowercase("İZMİR") == "i\u0307zmi\u0307r"); }

TEST_CASE("lowercase: a capital sigma at the end of a word") {
  CHECK(lowercase("ΟΔΟΣ ΣΟΦΟΣ") == "οδος σοφος");
  CHECK(lowercase("Σ ΑΣ. ΑΣ'Α ΑΣ1") == "σ ας. ασ'α ας1");  // an apostrophe does not end a word
  CHECK(lowercase("ΑΣ\u0301") == "ας\u0301");
}

TEST_CASE("lowercase: what is not UTF-8 is replaced") {
  CHECK(lowercase("A\xFF"
                  "B") == "a\uFFFDb");
}
