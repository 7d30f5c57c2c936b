#include "attend/translate/translator.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "attend/optim/adam.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

/// Letters as tokens: a is 4, b is 5 and so on. A user's own tokenizer is no more than this.
struct Letters {
  [[nodiscard]] std::vector<token_t> encode(std::string_view text) const {
    std::vector<token_t> ids;
    for (const char c : text)
      if (c >= 'a' && c <= 'h') ids.push_back(static_cast<token_t>(4 + c - 'a'));
    return ids;
  }
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t t : tokens)
      if (t >= 4) text += static_cast<char>('a' + t - 4);
    return text;
  }
  [[nodiscard]] index_t size() const { return 12; }
  [[nodiscard]] token_t pad() const { return 0; }
  [[nodiscard]] token_t bos() const { return 1; }
  [[nodiscard]] token_t eos() const { return 2; }
};

nn::Transformer<float> small_model() {
  seed(4);
  return nn::Transformer<float>(nn::TransformerOptions{
      .vocabulary = 12, .d_model = 32, .heads = 2, .d_ff = 32, .layers = 1, .dropout = 0, .max_length = 24});
}

/// One batch of words with the same words reversed as their translations.
nn::Batch<> reversed_words(const std::vector<std::string>& words) {
  const Letters letters;
  std::vector<token_t> source, target, labels;
  std::vector<index_t> lengths;
  for (const auto& word : words) {
    const auto ids = letters.encode(word);
    source.insert(source.end(), ids.begin(), ids.end());
    source.push_back(2);
    target.push_back(1);
    target.insert(target.end(), ids.rbegin(), ids.rend());
    labels.insert(labels.end(), ids.rbegin(), ids.rend());
    labels.push_back(2);
    lengths.push_back(static_cast<index_t>(ids.size()) + 1);
  }
  const auto tensor = [](const std::vector<token_t>& v) {
    return Tensor<token_t>({static_cast<index_t>(v.size())}, std::span<const token_t>(v));
  };
  return {tensor(source), Segments::ragged(lengths), tensor(target), Segments::ragged(lengths), tensor(labels)};
}

}  // namespace

TEST_CASE("a translator sees what training teaches: words backwards") {
  auto model = small_model();
  const decode::Translator greedy(model, Letters{}, {.beam = 1}), beam(model, Letters{}, {.beam = 3, .batch_sentences = 2});
  const std::vector<std::string> words{"abc", "hgfe", "bad", "cafe", "", "face", "deaf"};
  const auto before = greedy(words);
  const auto batch = reversed_words({"abc", "hgfe", "bad", "cafe", "face", "deaf"});
  optim::Adam<float> adam{optim::FlatParameters<float>(nn::parameters(model)), optim::AdamOptions{.learning_rate = 5e-3}};
  for (int i = 0; i < 150; ++i) {
    adam.zero_grad();
    model.loss(batch).backward();
    adam.step();
  }
  const std::vector<std::string> expected{"cba", "efgh", "dab", "efac", "", "ecaf", "faed"};
  CHECK(before != expected);
  CHECK(greedy(words) == expected);
  CHECK(beam(words) == expected);
  CHECK(beam("cafe") == "efac");

  const decode::Translator lists(model, Letters{}, {.beam = 4, .n_best = 3});
  const auto best = lists.translate(words);
  CHECK(best[0].front().text == "cba");
  REQUIRE(best[0].size() == 3);
  CHECK(best[0][0].score >= best[0][1].score);
  CHECK(best[0][1].score >= best[0][2].score);
  CHECK(best[4].front().text.empty());

  const decode::Translator drawn(model, Letters{}, {.n_best = 2, .sample = true, .temperature = 0.1, .seed = 3});
  CHECK(drawn.translate(words)[0].size() == 2);
  CHECK(drawn("abc") == "cba");
}

TEST_CASE("a translator gives back the program's own tokenizer, from copies too") {
  struct Named : Letters {
    std::string name;
  };
  const auto model = small_model();
  auto first = std::make_unique<decode::Translator<Named, float>>(model, Named{{}, "letters of this program"});
  const auto copy = *first, moved = std::move(*first);
  first.reset();
  CHECK(copy.tokenizer().name == "letters of this program");
  CHECK(&copy.tokenizer() == &moved.tokenizer());
}

TEST_CASE("what a translator draws goes by a sentence's number, not by how the text is cut") {
  const auto model = small_model();
  const decode::Translator drawn(model, Letters{}, {.sample = true, .seed = 3});
  const std::vector<std::string> text{"abc", "hgfe", "abc", "abc", "abc"};
  const auto whole = drawn.translate(text);
  for (std::size_t i = 0; i < text.size(); ++i)
    CHECK(drawn.translate(std::vector<std::string>{text[i]}, i).front().front().tokens == whole[i].front().tokens);
  CHECK((whole[0].front().tokens != whole[2].front().tokens || whole[2].front().tokens != whole[3].front().tokens));
}

TEST_CASE("Translator::alternatives: none that the options forbid") {
  const auto model = small_model();
  const auto next = [&](const decode::TranslatorOptions& o, const char* prefix) {
    std::vector<token_t> tokens;  // that come after the prefix; 2: the end
    for (const auto& way : decode::Translator(model, Letters{}, o).alternatives("abc", prefix, 20)) {
      const std::size_t length = std::string_view(prefix).size();
      tokens.push_back(way.tokens.size() > length ? way.tokens[length] : 2);
    }
    std::sort(tokens.begin(), tokens.end());
    return tokens;
  };
  using Tokens = std::vector<token_t>;
  CHECK(next({}, "ab") == Tokens{2, 3, 4, 5, 6, 7, 8, 9, 10, 11});  // token 3 is none of the marks
  CHECK(next({.suppressed = {2, 3}}, "ab") == Tokens{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(next({.banned = {{6}, {5, 7}, {4, 8}}}, "ab") == Tokens{2, 3, 4, 5, 8, 9, 10, 11});
  CHECK(next({.banned_text = {"bc", "bd"}}, "ab") == Tokens{2, 3, 4, 5, 8, 9, 10, 11});
  CHECK(next({.no_repeat_ngram = 1}, "ab") == Tokens{2, 3, 6, 7, 8, 9, 10, 11});
  CHECK(next({.no_repeat_ngram = 2}, "aba") == Tokens{2, 3, 4, 6, 7, 8, 9, 10, 11});
  CHECK(next({.min_length = 3}, "ab") == Tokens{3, 4, 5, 6, 7, 8, 9, 10, 11});
  decode::TranslatorOptions few;
  few.shortlist = [](std::span<const token_t>) { return Tokens{9, 5, 5}; };
  CHECK(next(few, "ab") == Tokens{2, 5, 9});
  few.shortlist = [](std::span<const token_t>) { return Tokens{}; };
  CHECK(next(few, "ab").size() == 10);
  few.shortlist = [](std::span<const token_t>) { return Tokens{12}; };
  CHECK_THROWS_AS(next(few, "ab"), IndexError);
  CHECK_THROWS_WITH(decode::Translator(model, Letters{}).alternatives(std::string(24, 'a'), "", 2, 6),
                    "Translator: sentence 7 has 25 tokens, the model takes 24; split it");
}

TEST_CASE("Translator: a ratio without bound leaves the model's own limit") {
  const auto model = small_model();
  const auto translate = [&](double ratio) {
    return decode::Translator(model, Letters{}, {.beam = 1, .max_ratio = ratio, .suppressed = {2}})
        .translate(std::vector<std::string>{"abc"});
  };
  for (const double ratio : {1e3, 1e30, std::numeric_limits<double>::infinity()})
    CHECK(translate(ratio)[0][0].tokens.size() == 23);
  CHECK(translate(1.3)[0][0].tokens.size() == 16);  // of 4 tokens, the end counted
}

TEST_CASE("a translator names options that do not fit, and sentences that are too long") {
  const auto model = small_model();
  const auto make = [&](const decode::TranslatorOptions& o) { return decode::Translator(model, Letters{}, o); };
  CHECK_THROWS_WITH(make({.beam = 0}), "Translator: beam is 0, expected 1 or more");
  CHECK_THROWS_AS(make({.beam = 2, .n_best = 3}), ValueError);
  CHECK_THROWS_AS(make({.batch_sentences = 0}), ValueError);
  CHECK_THROWS_AS(make({.max_ratio = 0}), ValueError);
  CHECK_THROWS_AS(make({.sample = true, .temperature = 0}), ValueError);
  CHECK_THROWS_WITH(make({.min_length = 6, .max_length = 5}), "Translator: min_length is 6, max_length 5");
  CHECK_THROWS_WITH(make({.min_length = 24}), "Translator: min_length is 24, the model gives at most 23 tokens");
  CHECK_THROWS_WITH(make({.length_penalty = std::numeric_limits<double>::quiet_NaN()}),
                    "Translator: length_penalty is nan, expected a finite number");
  CHECK_THROWS_WITH(make({})(std::string(24, 'a')), "Translator: sentence 1 has 25 tokens, the model takes 24; split it");
  const std::vector<std::string> two{"abc", std::string(24, 'a')};
  CHECK_THROWS_WITH(make({}).translate(two, 600), "Translator: sentence 602 has 25 tokens, the model takes 24; split it");
  seed(4);
  const nn::Transformer<float> narrow(nn::TransformerOptions{.vocabulary = 11, .d_model = 8, .heads = 2, .layers = 1});
  CHECK_THROWS_AS(decode::Translator(narrow, Letters{}), ValueError);
}

TEST_CASE("Translator: a sentence's translation and its score have the same bits in any batch, in float and in int8") {
  seed(4);
  const nn::Transformer<float> model(nn::TransformerOptions{
      .vocabulary = 12, .d_model = 32, .heads = 2, .d_ff = 48, .layers = 2, .dropout = 0, .max_length = 40});
  const std::vector<std::string> words{"abc", "hgfedcba", "d", "aaaaaaaa", "bca", "cabd", "abcabcabc", "ef", "gh", "fg", "hhhh"};
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8})
    for (const index_t beam : {1, 3}) {
      const decode::Translator one(model, Letters{}, {.beam = beam, .batch_sentences = 1, .precision = precision});
      const decode::Translator all(model, Letters{}, {.beam = beam, .batch_sentences = 32, .precision = precision});
      const auto expected = one.translate(words), got = all.translate(words);
      for (std::size_t i = 0; i < words.size(); ++i) {
        INFO(words[i] << ", beam " << beam);
        CHECK(got[i].front().tokens == expected[i].front().tokens);
        CHECK(got[i].front().log_probability == expected[i].front().log_probability);
      }
    }
}
