#include "attend/text/tokenize_13a.hpp"

#include <string>

#include "catch.hpp"

using attend::text::tokenize_13a;

// The expected values were computed by sacreBLEU 2.6.0.

TEST_CASE("tokenize_13a: punctuation stands alone") {
  CHECK(tokenize_13a("Hello, world!") == "Hello , world !");
  CHECK(tokenize_13a("(a+b)/c = [d] {e} ~f `g` <h> #i @j $k %l ^m _n |o \\p") ==
        "( a + b ) / c = [ d ] { e } ~ f ` g ` < h > # i @ j $ k % l ^ m _ n | o \\ p");
  CHECK(tokenize_13a("\"quoted\"; don't split: it's one-two") == "\" quoted \" ; don't split : it's one-two");
}

TEST_CASE("tokenize_13a: periods, commas and hyphens by the digits beside them") {
  CHECK(tokenize_13a("1,000.5 or 3.14, and .5 or 5. or a.b") == "1,000.5 or 3.14 , and . 5 or 5 . or a . b");
  CHECK(tokenize_13a("1990-95 is pre-1990, 3-D") == "1990 - 95 is pre-1990 , 3 - D");
  CHECK(tokenize_13a("Wait... what,,no.,.") == "Wait . . . what , , no . , .");
  CHECK(tokenize_13a("U.S.A.") == "U . S . A .");
}

TEST_CASE("tokenize_13a: entities, skipped text and lines that were broken") {
  CHECK(tokenize_13a("&quot;a&quot; &amp; &lt;b&gt; &amp;lt; &apos;") == "\" a \" & < b > < & apos ;");
  CHECK(tokenize_13a("a<skipped>b hy-\nphen new\nline") == "ab hyphen new line");
}

TEST_CASE("tokenize_13a: other scripts pass as they are, but for ASCII marks and white space") {
  CHECK(tokenize_13a("中文,日本。 é.à 😀!\u00A0«x»") == "中文 , 日本。 é . à 😀 ! «x»");
  CHECK(tokenize_13a("٣.٤ 5٣,6") == "٣ . ٤ 5٣ , 6");
  CHECK(tokenize_13a("").empty());
  CHECK(tokenize_13a(" \t ").empty());
  CHECK(tokenize_13a("\xFF.\xC3") == "\xFF . \xC3");  // not UTF-8, and no reason to stop
}
