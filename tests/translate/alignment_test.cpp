#include "attend/translate/alignment.hpp"

#include "attend/translate/translation_parts.hpp"
#include "attend/translate/unknown_words.hpp"
#include "catch.hpp"

using namespace attend;
using decode::Alignment;
using decode::Translation;
using text::WordRange;
using Strings = std::vector<std::string>;
using Tokens = std::vector<token_t>;
using Ranges = std::vector<WordRange>;

TEST_CASE("align_words: links of tokens become links of words, each once") {
  const Tensor<float> weights({4, 3}, std::vector<float>{0.2f, 0.3f, 0.5f, 0.4f, 0.4f, 0.2f, 0.1f, 0.2f, 0.7f, 0, 0, 1});
  const auto all = decode::best_sources(weights, 3), two = decode::best_sources(weights, 2);
  CHECK(all == std::vector<index_t>{2, 0, 2, 2});
  CHECK(two == std::vector<index_t>{1, 0, 1, 0});
  const std::vector<WordRange> source{{0, 0}, {0, 0}, {1, 2}}, target{{0, 0}, {1, 1}, {0, 0}};
  CHECK(decode::align_words(all, source, target) == Alignment{{0, 1}, {1, 0}, {2, 0}});
  CHECK(decode::align_words(two, source, target) == Alignment{{0, 0}, {0, 1}});
  CHECK(decode::align_words(all, Ranges{{0, -1}, {0, -1}, {3, 3}}, Ranges{{0, -1}, {0, 0}, {5, 5}}) == Alignment{{3, 5}});
  CHECK(decode::to_pharaoh({{0, 1}, {12, 0}}) == "0-1 12-0");
  CHECK(decode::to_pharaoh({}).empty());
}

TEST_CASE("parts_of: when a sentence is split, and where") {
  const std::string text = "One two. Three, four five! Six";
  const auto parts = [&](decode::LongInput long_input, bool split, std::size_t most) {
    Strings all;
    for (const auto part : decode::detail::parts_of(text, {.long_input = long_input, .split_sentences = split},
                                                    [&](std::string_view s) { return s.size() <= most; }))
      all.emplace_back(part);
    return all;
  };
  using decode::LongInput;
  const Strings sentences{"One two.", "Three, four five!", "Six"};
  CHECK(parts(LongInput::refuse, false, 5) == Strings{text});
  CHECK(parts(LongInput::split, false, 30) == Strings{text});
  CHECK(parts(LongInput::split, false, 29) == sentences);
  CHECK(parts(LongInput::split, true, 30) == sentences);
  CHECK(parts(LongInput::refuse, true, 5) == sentences);
  CHECK(parts(LongInput::split, false, 10) == Strings{"One two.", "Three,", "four five!", "Six"});

  const auto word = [&](std::size_t at) { return decode::detail::first_word_of(text, std::string_view(text).substr(at)); };
  CHECK(word(0) == 0);
  CHECK(word(2) == 0);  // within the first word
  CHECK(word(4) == 1);
  CHECK(word(9) == 2);
}

TEST_CASE("join_parts: texts, tokens, scores and alignments of parts are put together") {
  const auto part = [](std::string text, Tokens tokens, float value, bool finished, Alignment alignment) {
    Translation t{
        .text = std::move(text), .score = value, .log_probability = 2 * value, .tokens = std::move(tokens), .finished = finished};
    t.token_log_probabilities.assign(t.tokens.size() + (finished ? 1 : 0), value);
    t.alignment = std::move(alignment);
    return t;
  };
  const auto joined = decode::detail::join_parts(
      {{part("a b", {7, 8}, -1, true, {{1, 0}, {0, 1}}), part("a", {7}, -2, false, {})}, {part("c", {9}, -4, true, {{0, 0}})}},
      {0, 2}, 2);
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].text == "a b c");
  CHECK(joined[0].tokens == Tokens{7, 8, 2, 9});
  CHECK(joined[0].token_log_probabilities == std::vector<float>{-1, -1, -1, -4, -4});
  CHECK(joined[0].score == -5);
  CHECK(joined[0].log_probability == -10);
  CHECK(joined[0].finished);
  CHECK(joined[0].alignment == Alignment{{0, 1}, {1, 0}, {2, 2}});
  CHECK(joined[1].tokens == Tokens{7, 9});  // no end where the first part was cut off
  CHECK(joined[1].token_log_probabilities == std::vector<float>{-2, -4, -4});

  // After Chinese there is no space, and so no new word.
  const std::string zh = "\xE5\xA5\xBD\xE3\x80\x82";
  const auto wide =
      decode::detail::join_parts({{part(zh, {7}, 0, true, {{0, 0}})}, {part(zh, {8}, 0, true, {{0, 0}})}}, {0, 0}, 2);
  CHECK(wide[0].text == zh + zh);
  CHECK(wide[0].alignment == Alignment{{0, 0}});
  CHECK(decode::detail::join_parts({}, {}, 2)[0].text.empty());
}

TEST_CASE("replace_unknown_words: the word that is looked at, without its marks, and with its spaces") {
  const Strings pieces{"<unk>", "\u2581the", "\u2581", ".", "\u2581(", "\u2581is", "s"};
  const auto decode = [&](std::span<const token_t> tokens) {
    std::string text;
    for (const token_t t : tokens) text += pieces[static_cast<std::size_t>(t)];
    for (std::size_t at; (at = text.find("\u2581")) != text.npos;) text.replace(at, 3, " ");
    return text.substr(text.starts_with(" ") ? 1 : 0);
  };
  const auto replaced = [&](const std::string& source, const Tokens& tokens, const std::vector<index_t>& best) {
    std::vector<WordRange> words;
    for (index_t i = 0; i < 4; ++i) words.push_back({i, i == 3 ? 2 : i});
    Translation t{.text = "as it was", .tokens = tokens};
    Strings names;
    for (const token_t token : tokens) names.push_back(pieces[static_cast<std::size_t>(token)]);
    decode::detail::replace_unknown_words(source, 0, best, words, t, names, decode);
    if (t.text != "as it was") {
      const auto ranges = text::piece_words(names, t.text, [](std::string_view) { return Strings{}; });
      CHECK(ranges.back().last + 1 == text::count_words(t.text));
    }
    return t.text;
  };
  CHECK(replaced("\"Kyiv,\" x", {0, 3}, {0, 0}) == "Kyiv.");
  CHECK(replaced("a Kyiv x", {1, 0, 5}, {0, 1, 0}) == "the Kyiv is");
  CHECK(replaced("a Kyiv x", {1, 2, 0, 5}, {0, 0, 1, 0}) == "the Kyiv is");
  CHECK(replaced("a Kyiv x", {4, 0, 6, 3}, {0, 1, 0, 0}) == "(Kyivs.");
  CHECK(replaced("a Kyiv x", {0, 0}, {2, 1}) == "x Kyiv");
  CHECK(replaced("... x", {0, 5}, {0, 0}) == "... is");
  CHECK(replaced("a b c", {1, 5}, {0, 0}) == "as it was");
  CHECK(replaced("a b c", {0}, {3}) == "as it was");  // of a token that belongs to no word
}
