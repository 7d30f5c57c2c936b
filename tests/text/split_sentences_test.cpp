#include "attend/text/split_sentences.hpp"

#include <string>
#include <vector>

#include "catch.hpp"

using namespace attend;

namespace {

std::vector<std::string> sentences(std::string_view text) {
  std::vector<std::string> all;
  for (const auto sentence : text::split_sentences(text)) all.emplace_back(sentence);
  return all;
}

using Strings = std::vector<std::string>;

std::string u8s(std::u8string_view text) { return {text.begin(), text.end()}; }

}  // namespace

TEST_CASE("split_sentences: marks with a space after them") {
  CHECK(sentences("") == Strings{});
  CHECK(sentences(" \n\t ") == Strings{});
  CHECK(sentences("no mark at all") == Strings{"no mark at all"});
  CHECK(sentences("One. Two! Three? Four\xE2\x80\xA6 Five") == Strings{"One.", "Two!", "Three?", "Four\xE2\x80\xA6", "Five"});
  CHECK(sentences("  Really?!  Yes... It is.  ") == Strings{"Really?!", "Yes...", "It is."});
  CHECK(sentences("first line\nsecond line\r\n\nthird") == Strings{"first line", "second line", "third"});
  CHECK(sentences("\xC2\xBFQu\xC3\xA9? \xC2\xA1Nada!") == Strings{"\xC2\xBFQu\xC3\xA9?", "\xC2\xA1Nada!"});
  CHECK(sentences("So it goes... and on. \xC3\x84rger droht. \xC3\xA4hnlich") ==
        Strings{"So it goes... and on.", "\xC3\x84rger droht. \xC3\xA4hnlich"});
}

TEST_CASE("split_sentences: quotes and brackets stay with their sentence") {
  CHECK(sentences("\"Stop!\" He ran. (It was late.) Night fell.") ==
        Strings{"\"Stop!\"", "He ran.", "(It was late.)", "Night fell."});
  CHECK(sentences("\"Stop!\" he said.") == Strings{"\"Stop!\" he said."});
  CHECK(sentences("He left. \"Why?\" she asked.") == Strings{"He left.", "\"Why?\" she asked."});
  CHECK(sentences("\xE2\x80\x9EHalt!\xE2\x80\x9C Er lief.") == Strings{"\xE2\x80\x9EHalt!\xE2\x80\x9C", "Er lief."});
}

TEST_CASE("split_sentences: French quotes with spaces, German ones about, Chinese ones that open") {
  CHECK(sentences(u8s(u8"« Quoi ? » dit-il. « Rien ! » Il part.")) ==
        Strings{u8s(u8"« Quoi ? » dit-il."), u8s(u8"« Rien ! »"), "Il part."});
  CHECK(sentences(u8s(u8"« Quoi\u00A0?\u00A0», dit-il.")) == Strings{u8s(u8"« Quoi\u00A0?\u00A0», dit-il.")});
  CHECK(sentences(u8s(u8"Er ging. »Nichts.« Danach kam er.")) == Strings{"Er ging.", u8s(u8"»Nichts.« Danach kam er.")});
  CHECK(sentences(u8s(u8"我不知道！“真的吗？”她问。")) == Strings{u8s(u8"我不知道！"), u8s(u8"“真的吗？”"), u8s(u8"她问。")});
}

TEST_CASE("split_sentences: numbers, initials and abbreviations are no ends") {
  for (const char* whole : {"It costs 3.50 euros.", "Version 2.1.4 is out.", "Dr. Who met Mrs. Smith.", "J. S. Bach lived here.",
                            "Use it, e.g. In winter.", "Am 3. Oktober war es.", "See www.Example.Com now.", "The U.S. Army came.",
                            "El Sr. Garc\xC3\xAD"
                            "a vino.",
                            "Vive en EE. UU. desde 1990.", "P\xC3\xA1g. 5", "1. Introduction", "Jan. 5 was cold."})
    CHECK(sentences(whole) == Strings{whole});
  CHECK(sentences("It was 1999. Then came 2000. End.") == Strings{"It was 1999.", "Then came 2000.", "End."});
  CHECK(sentences("It is over. Dr. Who left.") == Strings{"It is over.", "Dr. Who left."});
}

TEST_CASE("split_sentences: scripts without spaces, and bytes that are no text") {
  const std::string zh = "\xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82", ja = "\xE3\x80\x8C\xE3\x81\x84\xEF\xBC\x81\xE3\x80\x8D";
  CHECK(sentences(zh + ja + zh) == Strings{zh, ja, zh});
  const std::string hindi = "\xE0\xA4\xB9\xE0\xA4\xBE\xE0\xA5\xA4";
  CHECK(sentences(hindi + " " + hindi) == Strings{hindi, hindi});
  CHECK(sentences("a\xFF. B\xC3") == Strings{"a\xFF.", "B\xC3"});
  CHECK(sentences(std::string("A\0. B.", 6)) == Strings{std::string("A\0.", 3), "B."});
}

TEST_CASE("split_sentences: nothing but white space is ever lost") {
  const std::string text = "\"One.\" two. Three!' 'Four? (5. six.)\xE3\x80\x82Seven...\nE.g. 8!!! \xE2\x80\x9C";
  std::string kept, all;
  for (const auto sentence : text::split_sentences(text))
    text::for_each_word(sentence, [&](std::string_view word) { kept += word; });
  text::for_each_word(text, [&](std::string_view word) { all += word; });
  CHECK(kept == all);
}

TEST_CASE("split_to_fit: halves at clause marks, then spaces, then characters") {
  const auto parts = [](std::string_view text, std::size_t most) {
    Strings all;
    for (const auto part : text::split_to_fit(text, [=](std::string_view s) { return s.size() <= most; })) all.emplace_back(part);
    return all;
  };
  CHECK(parts("short enough", 20) == Strings{"short enough"});
  CHECK(parts("one two three, four five six seven", 22) == Strings{"one two three,", "four five six seven"});
  CHECK(parts("a, then only spaces are left here", 22) == Strings{"a, then only spaces", "are left here"});
  CHECK(parts("abcdefghij", 4) == Strings{"ab", "cde", "fg", "hij"});
  CHECK(parts("\xE4\xBD\xA0\xE5\xA5\xBD", 3) == Strings{"\xE4\xBD\xA0", "\xE5\xA5\xBD"});
  CHECK(parts("\xE4\xBD\xA0", 2) == Strings{"\xE4\xBD\xA0"});  // fits nowhere, and is not cut
  CHECK(parts("", 0) == Strings{});
  CHECK(parts(std::string(100'000, 'x'), 1).size() == 100'000);
}

TEST_CASE("append_sentence: a space, or none after Chinese and Japanese") {
  std::string text;
  for (const char* next : {"", "Yes.", "", "\xE5\xA5\xBD\xE3\x80\x82", "\xE5\xA5\xBD", "No."}) text::append_sentence(text, next);
  CHECK(text == "Yes. \xE5\xA5\xBD\xE3\x80\x82\xE5\xA5\xBDNo.");
}
