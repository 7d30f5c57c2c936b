#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "attend/translate/shortlist.hpp"
#include "attend/translate/translator.hpp"
#include "catch.hpp"
#include "decode/swapping.hpp"

using namespace attend;
using decode::Translation;
using swapping::SpacedLetters;
using Strings = std::vector<std::string>;
using Tokens = std::vector<token_t>;

namespace {

const nn::Transformer<float>& model() {
  static const auto certain = swapping::model(0.8f);
  return certain;
}
auto translator(const decode::TranslatorOptions& options = {}) { return decode::Translator(model(), SpacedLetters{}, options); }

const Strings sentences{"c a f e", "", "h g f e d", "a b", "d e a f", "b c"};

void check_same(const std::vector<std::vector<Translation>>& a, const std::vector<std::vector<Translation>>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (std::size_t r = 0; r < a[i].size(); ++r) {
      CHECK(a[i][r].text == b[i][r].text);
      CHECK(a[i][r].tokens == b[i][r].tokens);
      CHECK(a[i][r].token_log_probabilities == b[i][r].token_log_probabilities);
      CHECK(a[i][r].score == b[i][r].score);
      CHECK(a[i][r].alignment == b[i][r].alignment);
    }
  }
}

}  // namespace

TEST_CASE("Translator: suppressed tokens, banned words, n-grams and lengths are obeyed") {
  CHECK(translator()("c a f e") == "a c f e");
  for (const index_t beam : {1, 4}) {
    const auto find = [&](const std::string& text, const std::string& what) { return (" " + text + " ").find(" " + what + " "); };
    const auto none = std::string::npos;
    CHECK(find(translator({.beam = beam, .suppressed = {9}})("c a f e"), "f") == none);
    CHECK(find(translator({.beam = beam, .banned = {{6, 9}}})("c a f e"), "c f") == none);
    CHECK(translator({.beam = beam, .banned = {{6, 9}}})("c a g f") == "a c g f");
    CHECK(find(translator({.beam = beam, .banned_text = {"c f", "b"}})("c a f e"), "c f") == none);
    const auto once = translator({.beam = beam, .min_length = 8, .no_repeat_ngram = 1}).translate(sentences);
    for (const auto& list : once) {
      if (list.front().tokens.empty()) continue;
      CHECK(list.front().tokens.size() == 8);
      CHECK(std::set<token_t>(list.front().tokens.begin(), list.front().tokens.end()).size() == 8);
    }
  }
  const auto cut = translator({.max_length = 2}).translate(sentences),
             ended = translator({.max_length = 2, .force_end = true}).translate(sentences);
  CHECK(cut[2].front().tokens.size() == 2);
  CHECK(ended[2].front().finished);
  CHECK(ended[2].front().token_log_probabilities.back() == 0);
  // The unknown token, and marks.
  CHECK(translator({.unknown = decode::Unknown::allow})("b x d") == "? b d");
  const auto known = translator().translate(Strings{"b x d"});
  for (const token_t token : known[0][0].tokens) CHECK(token >= 4);
}

TEST_CASE("Translator: every translation begins with the token that comes first, which its prefix follows") {
  const token_t mark = 1;  // SpacedLetters gives it no text
  for (const bool sample : {false, true})
    for (const index_t beam : {1, 3}) {
      decode::TranslatorOptions options{.n_best = beam, .first = mark, .alignments = true, .distributions = true};
      options.sample = sample;
      if (!sample) options.beam = beam;
      const auto t = translator(options);
      const Strings prefixes{"a c", "", "", "c c", "", "b"};
      for (const auto& given : {Strings(), prefixes}) {
        const auto all = t.translate(sentences, 0, given);
        for (std::size_t i = 0; i < sentences.size(); ++i) {
          const Strings own = given.empty() ? Strings() : Strings{given[i]};
          check_same({all[i]}, t.translate(Strings{sentences[i]}, i, own));
          if (sentences[i].empty()) continue;
          for (const auto& translation : all[i]) {
            REQUIRE(translation.tokens.front() == mark);
            CHECK(translation.token_log_probabilities.front() == 0);
            CHECK(translation.distributions.front()[mark] == 0);
            if (!given.empty()) CHECK(translation.text.substr(0, given[i].size()) == given[i]);
            for (const auto& link : translation.alignment) CHECK(2 * link.target < count_of(translation.text));
            if (!translation.finished || std::count(translation.tokens.begin(), translation.tokens.end(), mark) > 1) continue;
            const auto rated = t.score(Strings{sentences[i]}, Strings{translation.text}).front();
            CHECK(rated.tokens == translation.tokens);
            CHECK(rated.log_probability == Approx(translation.log_probability).epsilon(1e-4));
            CHECK(rated.alignment == translation.alignment);
          }
        }
      }
    }
  const auto with = [](decode::TranslatorOptions options) { return options.first = mark, translator(options); };
  const auto ways = with({}).alternatives("c a f e", "a", 3);
  REQUIRE(ways.size() == 3);
  for (const auto& way : ways) {
    CHECK((way.tokens[0] == mark && way.tokens[1] == 4 && way.token_log_probabilities[0] == 0));
    CHECK(way.log_probability == Approx(with({}).score(Strings{"c a f e"}, Strings{way.text}).front().log_probability));
  }
  decode::TranslatorOptions few;
  few.shortlist = [](std::span<const token_t>) { return Tokens{4, 6, 8, 9}; };
  CHECK(with(few).translate(Strings{"c a f e"}).front().front().tokens.front() == mark);
  CHECK(with({.max_length = 1}).translate(Strings{"c a f e"}).front().front().tokens == Tokens{mark});
  CHECK_THROWS_WITH(translator({.first = 99}), "Translator: first has token 99, outside the vocabulary of 12");
  CHECK_THROWS_AS(translator({.first = -2}), ValueError);
  CHECK_THROWS_AS(translator({.first = 2})("a b"), ValueError);
}

TEST_CASE("Translator: a translation begins with its prefix, whatever stands beside it") {
  const Strings prefixes{"a c", "a", "", "c c", "a b c d e f g h a b c d e f g h", ""};
  for (const bool sample : {false, true})
    for (const index_t beam : {1, 3}) {
      decode::TranslatorOptions options{.n_best = beam, .sample = sample};
      if (sample) options.seed = 4;
      else options.beam = beam;
      const auto t = translator(options);
      const auto all = t.translate(sentences, 0, prefixes);
      CHECK(all[1].front().text.empty());
      for (std::size_t i = 0; i < sentences.size(); ++i) {
        if (!sentences[i].empty())
          for (const auto& translation : all[i]) CHECK(translation.text.substr(0, prefixes[i].size()) == prefixes[i]);
        check_same({all[i]}, t.translate(Strings{sentences[i]}, i, Strings{prefixes[i]}));
      }
    }
  CHECK(translator().translate(sentences, 0, prefixes)[0].front().text == "a c f e");
  const auto plain = translator().translate(sentences);
  check_same(translator().translate(sentences, 0, Strings(sentences.size())), plain);
  CHECK_THROWS_WITH(translator().translate(sentences, 0, Strings{"a"}), "Translator: 1 prefixes for 6 sentences");
  CHECK_THROWS_WITH(translator().translate(Strings{"a"}, 4, Strings{std::string(24, 'a')}),
                    "Translator: the prefix of sentence 5 has 24 tokens, the model gives at most 23");
}

TEST_CASE("Translator::alternatives: the most probable ways on, and all of them together certain") {
  const auto t = translator({.length_penalty = 0});
  const auto best = t.translate(Strings{"c a f e"})[0][0];
  const auto ways = t.alternatives("c a f e", "a c", 20);
  CHECK(ways.size() == 9);  // eight letters and the end
  CHECK(ways.front().text == best.text);
  CHECK(ways.front().log_probability == Approx(best.log_probability).epsilon(1e-5));
  double sum = 0, before = 1;
  for (const auto& way : ways) {
    const auto next = std::exp(static_cast<double>(way.token_log_probabilities[2]));
    CHECK(way.text.substr(0, 3) == "a c");
    CHECK(next <= before);
    before = next, sum += next;
  }
  CHECK(sum <= 1 + 1e-5);
  CHECK(sum == Approx(1).epsilon(0.05));  // but for the marks and the unknown token
  CHECK(std::any_of(ways.begin(), ways.end(), [](const auto& way) { return way.text == "a c" && way.finished; }));
  const auto two = t.alternatives("c a f e", "a c", 2);
  check_same({two}, {{ways[0], ways[1]}});
  CHECK(t.alternatives("c a f e", "", 1).front().text == best.text);
  CHECK(t.alternatives("", "a", 3).size() == 1);
  CHECK_THROWS_AS(t.alternatives("a", "", 0), ValueError);
  CHECK_THROWS_AS(t.alternatives("a", std::string(24, 'a'), 1), ValueError);
  CHECK_THROWS_AS(translator({.split_sentences = true}).alternatives("a\nb", "", 1), ValueError);
}

TEST_CASE("Translator::score: what the search reports for its own output, in float and in int8") {
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const auto t = translator({.n_best = 4, .precision = precision, .alignments = true});
    const auto found = t.translate(sentences);
    const double close = precision == Precision::full ? 1e-4 : 0.02;
    Strings sources, targets;
    std::vector<const Translation*> expected;
    for (std::size_t i = 0; i < sentences.size(); ++i)
      for (const auto& translation : found[i])
        if (!sentences[i].empty() && translation.finished) {
          sources.push_back(sentences[i]), targets.push_back(translation.text);
          expected.push_back(&translation);
        }
    const auto rated = t.score(sources, targets);
    REQUIRE(rated.size() >= 8);
    for (std::size_t i = 0; i < rated.size(); ++i) {
      CHECK(rated[i].text == expected[i]->text);
      CHECK(rated[i].tokens == expected[i]->tokens);
      CHECK(rated[i].alignment == expected[i]->alignment);
      CHECK(rated[i].log_probability == Approx(expected[i]->log_probability).epsilon(close).margin(close));
      CHECK(rated[i].score == Approx(expected[i]->score).epsilon(close).margin(close));
      CHECK(rated[i].token_log_probabilities.size() == expected[i]->token_log_probabilities.size());
      const auto alone = t.score(Strings{sources[i]}, Strings{targets[i]});
      CHECK(alone[0].token_log_probabilities == rated[i].token_log_probabilities);
    }
  }
  CHECK(translator().score(Strings{""}, Strings{""})[0].token_log_probabilities.size() == 1);
  CHECK_THROWS_WITH(translator().score(Strings{"a", "b"}, Strings{"a"}), "score: 1 targets for 2 sources");
  CHECK_THROWS_WITH(translator().score(Strings{"a", "b"}, Strings{"a", std::string(24, 'a')}),
                    "score: target 2 has 25 tokens with the begin token, the model takes 24");
}

TEST_CASE("Translator::align: words that changed places are linked across") {
  const auto t = translator({.unknown = decode::Unknown::replace, .alignments = true});
  CHECK(decode::to_pharaoh(t.align(Strings{"c a f e", "", "h  g f e"}, Strings{"a c f e", "a", "g h f e"})[0]) ==
        "0-1 1-0 2-2 3-3");
  CHECK(t.align(Strings{""}, Strings{"a"})[0].empty());
  const auto found = t.translate(Strings{"h g f e", "b a x d"});
  CHECK(decode::to_pharaoh(found[0][0].alignment) == "0-1 1-0 2-2 3-3");
  // The word that is looked at stands for the unknown one.
  CHECK(found[1][0].text == "a b x d");
  CHECK(translator({.beam = 1, .unknown = decode::Unknown::replace})("b a y! d") == "a b y d");
}

TEST_CASE("Translator: an ensemble is between its models, and one model is itself") {
  const auto other = swapping::model(0.4f);
  const Strings sources{"c a f e", "h g f e d"}, targets{"a c f e", "g h f e d"};
  const std::vector<nn::Transformer<float>> both{model(), other}, same{model(), model()};
  const decode::TranslatorOptions options{.alignments = true};
  const auto first = translator(options).score(sources, targets),
             second = decode::Translator(other, SpacedLetters{}, options).score(sources, targets);
  const decode::Translator t(both, SpacedLetters{}, options);
  const auto mean = t.score(sources, targets);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < mean[i].token_log_probabilities.size(); ++k) {
      const auto p = [&](const auto& list) { return std::exp(static_cast<double>(list[i].token_log_probabilities[k])); };
      CHECK(p(mean) == Approx((p(first) + p(second)) / 2).epsilon(1e-5));
    }
  const auto found = t.translate(sources);
  CHECK(found[0][0].text == targets[0]);
  CHECK(found[0][0].log_probability == Approx(mean[0].log_probability).epsilon(1e-4).margin(1e-4));
  const auto twice = decode::Translator(same, SpacedLetters{}, options).translate(sources),
             once = translator(options).translate(sources);
  CHECK(twice[1][0].text == once[1][0].text);
  CHECK(twice[1][0].log_probability == Approx(once[1][0].log_probability).epsilon(1e-4).margin(1e-4));
  attend::seed(1);
  const nn::Transformer<float> narrow(nn::TransformerOptions{.vocabulary = 14, .d_model = 8, .heads = 2, .layers = 1});
  CHECK_THROWS_WITH(decode::Translator(std::vector<nn::Transformer<float>>{model(), narrow}, SpacedLetters{}),
                    "Translator: model 2 has vocabularies of 14 and 14, the first model 12 and 12");
  CHECK_THROWS_AS(decode::Translator(std::vector<nn::Transformer<float>>{}, SpacedLetters{}), ValueError);
}

TEST_CASE("Translator: a shortlist allows its tokens, and probabilities are those given them") {
  const auto only = [](const Tokens& source) {
    Tokens list(source.begin(), source.end() - 1);
    list.push_back(4);
    return list;
  };
  for (const index_t beam : {1, 3}) {
    const auto t =
        translator({.beam = beam, .shortlist = [&](std::span<const token_t> s) { return only(Tokens(s.begin(), s.end())); }});
    const auto all = t.translate(sentences);
    CHECK(all[0].front().text == "a c f e");
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      const auto alone = t.translate(Strings{sentences[i]}, i)[0];
      CHECK(alone.front().tokens == all[i].front().tokens);
      CHECK(alone.front().log_probability == Approx(all[i].front().log_probability).epsilon(1e-4).margin(1e-5));
      const auto source = SpacedLetters{}.encode(sentences[i]);
      for (const token_t token : all[i].front().tokens)
        CHECK((token == 4 || std::count(source.begin(), source.end(), token) > 0));
    }
    CHECK(all[3].front().log_probability > translator({.beam = beam}).translate(sentences)[3].front().log_probability);
  }
  const auto prefixed = translator({.shortlist = [](std::span<const token_t>) {
                          return Tokens{4};
                        }}).translate(Strings{"c a f e"}, 0, Strings{"h g"});
  CHECK(prefixed[0][0].text.substr(0, 3) == "h g");
}

TEST_CASE("Translator: on_token hears a translation grow, and may stop it") {
  for (const bool sample : {false, true}) {
    std::map<std::pair<std::size_t, index_t>, Strings> heard;
    std::map<std::pair<std::size_t, index_t>, double> sums;
    decode::TranslatorOptions options{.beam = 1, .n_best = sample ? 2 : 1, .sample = sample, .batch_sentences = 2};
    if (sample) options.seed = 5;
    auto told = options;
    told.on_token = [&](const decode::TranslatedToken& token) {
      heard[{token.sentence, token.sample}].emplace_back(token.text);
      sums[{token.sentence, token.sample}] += token.log_probability;
      return true;
    };
    const auto all = translator(told).translate(sentences, 10);
    check_same(all, translator(options).translate(sentences, 10));
    for (std::size_t i = 0; i < sentences.size(); ++i)
      for (std::size_t r = 0; r < all[i].size() && !sentences[i].empty(); ++r) {
        const auto& texts = heard[{i + 10, static_cast<index_t>(r)}];
        CHECK(texts.size() == all[i][r].token_log_probabilities.size());
        CHECK(texts.back() == all[i][r].text);
        for (std::size_t k = 1; k < texts.size(); ++k) CHECK(texts[k].substr(0, texts[k - 1].size()) == texts[k - 1]);
        CHECK(sums[{i + 10, static_cast<index_t>(r)}] == Approx(all[i][r].log_probability).margin(1e-5));
      }
  }
  const auto stopping =
      translator({.beam = 1, .split_sentences = true, .on_token = [](const auto& token) { return token.text != "a c"; }});
  const auto stopped = stopping.translate(Strings{"c a f e\nh g", "a b\nc d"});
  CHECK(stopped[0][0].text == "a c");
  CHECK_FALSE(stopped[0][0].finished);
  CHECK(stopped[1][0].text == "b a d c");
  CHECK(stopped[1][0].finished);
  // Of two samples one stops in the first part, and has nothing of the second.
  const auto half = [](const decode::TranslatedToken& token) { return token.sample == 1 || token.text.size() < 3; };
  const auto two = translator({.n_best = 2, .sample = true, .seed = 3, .split_sentences = true, .on_token = half})
                       .translate(Strings{"c a f e\nh g f e"});
  CHECK(two[0][0].text.size() == 3);
  CHECK(two[0][0].tokens.size() == 2);
  CHECK(two[0][1].text.size() > 7);
  CHECK_THROWS_WITH(translator({.on_token = [](const auto&) { return true; }}),
                    "Translator: on_token goes with sampling and greedy search, the beam is 4");
}

TEST_CASE("Translator: a text is translated sentence by sentence, and one that is too long in parts, or refused") {
  const Strings three{"c a f e", "h g f e!", "a b"};
  const auto parts = translator({.n_best = 2, .split_sentences = true, .alignments = true});
  const auto single = parts.translate(three);
  const auto whole = parts.translate(Strings{"d", "c a f e\n h g f e!\n\na b\n"})[1];
  REQUIRE(whole.size() == 2);
  CHECK(whole[0].text == "a c f e g h f e b a");
  CHECK(decode::to_pharaoh(whole[0].alignment) == "0-1 1-0 2-2 3-3 4-5 5-4 6-6 7-7 8-9 9-8");
  for (std::size_t r = 0; r < 2; ++r) {
    CHECK(whole[r].log_probability ==
          Approx(single[0][r].log_probability + single[1][r].log_probability + single[2][r].log_probability));
    CHECK(whole[r].score == Approx(single[0][r].score + single[1][r].score + single[2][r].score));
    CHECK(whole[r].token_log_probabilities.size() == whole[r].tokens.size() + 1);
    CHECK(std::count(whole[r].tokens.begin(), whole[r].tokens.end(), 2) == 2);
  }
  const auto prefixed = parts.translate(Strings{"c a f e\na b"}, 0, Strings{"d d"});
  CHECK(prefixed[0][0].text.substr(0, 3) == "d d");

  const std::string endless = std::string(40, 'a') + ", " + std::string(9, 'b');
  const auto splitting = translator({.long_input = decode::LongInput::split});
  std::string expected;
  Strings cut;
  for (const auto part : text::split_to_fit(endless, [](std::string_view s) { return SpacedLetters{}.encode(s).size() <= 23; }))
    cut.emplace_back(part);
  CHECK(cut == Strings{std::string(20, 'a'), std::string(20, 'a') + ",", std::string(9, 'b')});
  for (const auto& part : cut) text::append_sentence(expected, splitting(part));
  CHECK(splitting(endless) == expected);
  CHECK(splitting("c a f e") == "a c f e");
  CHECK_THROWS_WITH(translator()(endless), "Translator: sentence 1 has 50 tokens, the model takes 24; split it");
  CHECK_THROWS_WITH(translator({.split_sentences = true})("a b\n" + endless),
                    "Translator: sentence 1 has 50 tokens, the model takes 24; split it");
}

TEST_CASE("Translator: every search rates alike, and as given translations are rated") {
  const Strings one{"c a f e"};
  for (const double penalty : {0.0, 0.6, 1.0}) {
    std::vector<double> scores;
    for (const bool sample : {false, true})
      for (const index_t beam : {1, 4}) {
        if (sample && beam > 1) continue;
        decode::TranslatorOptions options{
            .beam = beam, .length_penalty = penalty, .normalization = decode::LengthNormalization::marian, .sample = sample};
        if (sample) options.top_k = 1;
        const auto t = translator(options);
        const auto best = t.translate(one)[0][0];
        CHECK(best.text == "a c f e");
        CHECK(best.score == Approx(best.log_probability / std::pow(5, penalty)).epsilon(1e-6));
        CHECK(t.score(one, Strings{best.text})[0].score == Approx(best.score).epsilon(1e-4));
        scores.push_back(best.score);
      }
    REQUIRE(scores.size() == 3);
    CHECK(scores[0] == Approx(scores[1]).epsilon(1e-6));
    CHECK(scores[0] == Approx(scores[2]).epsilon(1e-6));
  }
}

TEST_CASE("Translator: penalties, a function of one's own, and the forced end, with every search") {
  for (const bool sample : {false, true})
    for (const index_t beam : {1, 4}) {
      if (sample && beam > 1) continue;
      const auto with = [&](decode::TranslatorOptions o) {
        o.beam = beam, o.sample = sample;
        if (sample) o.top_k = 1;
        return translator(o);
      };
      // Of three letters alike, a penalty leaves one: a strong one, for this model is all but certain.
      CHECK(with({})("a a a d") == "a a a d");
      const auto rare = with({.min_length = 4, .max_length = 4, .repetition_penalty = 1e9}).translate(Strings{"a a a d"})[0][0];
      CHECK(std::set<token_t>(rare.tokens.begin(), rare.tokens.end()).size() == 4);
      CHECK(with({.unknown = decode::Unknown::allow})("b x d") == "? b d");
      CHECK(with({.unknown_penalty = 100, .unknown = decode::Unknown::allow})("b x d").find('?') == std::string::npos);

      // The function hears of each sentence by its number, and is not asked about a prefix.
      std::map<index_t, std::set<std::size_t>> heard;
      const auto edited = with({.edit = [&](index_t sentence, std::span<const token_t> tokens, std::span<float> values) {
                            heard[sentence].insert(tokens.size());
                            CHECK(values.size() == 12);
                            if (sentence == 8) values[6] = -std::numeric_limits<float>::infinity();  // c
                          }}).translate(Strings{"c a f e", "c a f e", "a b"}, 7, Strings{"", "", "b"});
      CHECK(edited[0][0].text == "a c f e");
      CHECK(edited[1][0].text.find('c') == std::string::npos);
      CHECK(heard[7].contains(0));
      CHECK_FALSE(heard[9].contains(0));
      CHECK(heard[9].contains(1));

      // A tree of what may be said: d and then e, or f.
      const auto tree = [](index_t, std::span<const token_t> tokens) -> std::optional<Tokens> {
        if (tokens.empty()) return Tokens{7, 9};
        if (tokens.back() == 7) return Tokens{8};
        return Tokens{2};
      };
      const auto said = with({.allowed_next = tree})("c a f e");
      CHECK((said == "d e" || said == "f"));

      const auto cut = with({.max_length = 2, .force_end = true, .score_forced_end = true}).translate(Strings{"h g f e d"});
      CHECK(cut[0][0].finished);
      CHECK(cut[0][0].token_log_probabilities.back() < 0);
      // The letter d, token 7, as the end.
      const auto ended = with({.end_tokens = {7}, .distributions = true}).translate(Strings{"c a d e"})[0][0];
      CHECK(ended.text == "a c");
      CHECK(ended.end_token == 7);
      REQUIRE(ended.distributions.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        REQUIRE(ended.distributions[i].size() == 12);
        const token_t token = i < 2 ? ended.tokens[i] : ended.end_token;
        CHECK(ended.distributions[i][static_cast<std::size_t>(token)] == ended.token_log_probabilities[i]);
      }
    }
  const auto ways = translator({.end_tokens = {7},
                                .edit = [](index_t, std::span<const token_t>, std::span<float> values) { values[9] = 0; },
                                .distributions = true})
                        .alternatives("c a d e", "a c", 20);
  CHECK(ways.front().tokens[2] == 9);  // the most probable one now
  CHECK(std::count_if(ways.begin(), ways.end(), [](const auto& way) { return way.tokens.size() == 2; }) == 2);
  for (const auto& way : ways) CHECK(way.distributions.size() == way.token_log_probabilities.size());
  // Parts of a sentence have the end tokens that ended them, and the distributions of all.
  const auto parts =
      translator({.end_tokens = {7}, .split_sentences = true, .distributions = true}).translate(Strings{"c a d e\na b"})[0][0];
  CHECK(parts.tokens == Tokens{4, 6, 7, 5, 4});
  CHECK(parts.end_token == 2);
  CHECK(parts.distributions.size() == 6);
}

TEST_CASE("Translator: required phrases and diverse beams") {
  decode::TranslatorOptions options{.beam = 8, .n_best = 3, .required = [](std::string_view source) {
                                      return source == "a b" ? Strings{} : Strings{"h g", "b"};
                                    }};
  const Strings sources{"c a f e", "a b"};
  const auto found = translator(options).translate(sources);
  for (const auto& t : found[0]) {
    CHECK(t.finished);
    CHECK(t.text.find("h g") != std::string::npos);
    CHECK(t.text.find('b') != std::string::npos);
  }
  CHECK(found[1][0].text == "b a");
  // A shortlist does not keep them out, and what stands in a prefix is there.
  options.shortlist = [](std::span<const token_t>) { return Tokens{4, 6, 9, 8}; };
  const auto prefixed = translator(options).translate(Strings{"c a f e"}, 0, Strings{"h g"})[0][0];
  CHECK(prefixed.text.substr(0, 3) == "h g");
  CHECK(prefixed.text.find("h g", 3) == std::string::npos);
  CHECK(prefixed.text.find('b') != std::string::npos);
  for (const auto& way : translator(options).alternatives("c a f e", "a", 20)) CHECK(way.text.find("h g") != std::string::npos);
  const auto ways = translator(options).alternatives("c a f e", "", 20);  // h, b, g are not on the list itself
  for (const char* first : {"h", "b"})
    CHECK(std::any_of(ways.begin(), ways.end(), [&](const auto& way) { return way.text.starts_with(first); }));
  options.required = [](std::string_view) { return Strings{"a", "?"}; };
  CHECK_THROWS_WITH(translator(options)("c a f e"), "Translator: required has '?', which has no tokens");
  options.required = [](std::string_view) { return Strings{"a x"}; };
  for (const auto unknown : {decode::Unknown::suppress, decode::Unknown::allow}) {
    options.unknown = unknown;
    CHECK_THROWS_WITH(translator(options)("c a f e"),
                      "Translator: required has 'a x', which has a character or word that the tokenizer does not know");
  }
  options.max_length = 2;
  options.required = [](std::string_view) { return Strings{"a b c"}; };
  CHECK_THROWS_WITH(translator(options)("c a f e"),
                    "Translator: required has 'a b c', which has 3 tokens, and the translation 2 at most");
  options.required = [](std::string_view) { return Strings{"a\xff"}; };
  CHECK_THROWS_AS(translator(options)("c a f e"), ValueError);

  std::set<std::string> texts;
  for (const auto& t : translator({.beam = 4, .n_best = 4, .beam_groups = 4, .diversity_penalty = 60}).translate(sources)[0])
    texts.insert(t.text.substr(0, 1));
  CHECK(texts.size() == 4);
  const auto required = [](std::string_view) { return Strings{"a"}; };
  CHECK_THROWS_WITH(translator({.beam = 1, .required = required}), "Translator: required goes with beam search");
  CHECK_THROWS_AS(translator({.sample = true, .required = required}), ValueError);
  CHECK_THROWS_AS(translator({.beam = 1, .beam_groups = 2, .diversity_penalty = 1}), ValueError);
  CHECK_THROWS_WITH(translator({.beam_groups = 3, .diversity_penalty = 1}),
                    "Translator: beam_groups is 3, expected a divisor of the beam, 4");
  CHECK_THROWS_AS(translator({.diversity_penalty = 1}), ValueError);
  CHECK_THROWS_AS(translator({.beam_groups = 2, .diversity_penalty = 1, .required = required}), ValueError);
}

TEST_CASE("Translator: what the search would pass over is refused") {
  const std::string sampling = ", and sampling is not asked for";
  CHECK_THROWS_WITH(translator({.beam = 1, .temperature = 0.3}),
                    Catch::Matchers::ContainsSubstring("temperature is 0.3") &&
                        Catch::Matchers::ContainsSubstring("greedy search knows nothing"));
  CHECK(translator({.beam = 3, .temperature = 0.3})("c a f e") == "a c f e");
  CHECK_THROWS_AS(translator({.min_p = 0.1}), ValueError);
  CHECK_THROWS_AS(translator({.sample = true, .min_p = 1.5}), ValueError);
  CHECK_THROWS_AS(translator({.temperature = -1}), ValueError);
  CHECK_THROWS_AS(translator({.score_forced_end = true}), ValueError);
  CHECK_THROWS_AS(translator({.unknown_penalty = 1}), ValueError);
  CHECK_THROWS_AS(translator({.repetition_penalty = 0}), ValueError);
  CHECK_THROWS_WITH(translator({.end_tokens = {12}}), "Translator: end_tokens has token 12, outside the vocabulary of 12");
  CHECK_THROWS_WITH(translator({.top_k = 3}), "Translator: top_k is 3" + sampling);
  CHECK_THROWS_AS(translator({.top_p = 0.5}), ValueError);
  CHECK_THROWS_AS(translator({.seed = 5}), ValueError);
  CHECK_THROWS_WITH(translator({.beam = 4, .sample = true}),
                    "Translator: beam is 4, and sampling is asked for, which keeps no beam");
  CHECK(translator({.sample = true}).options().beam == 4);  // which nobody asked for
  CHECK_NOTHROW(translator({.beam = 1, .sample = true, .temperature = 0.3, .top_k = 3, .top_p = 0.5, .seed = 5}));
}

TEST_CASE("Translator: options that do not fit are named") {
  CHECK_THROWS_WITH(translator({.coverage_penalty = -1}), Catch::Matchers::ContainsSubstring("coverage_penalty is -1"));
  CHECK_THROWS_WITH(translator({.beam = 1, .coverage_penalty = 0.2}),
                    Catch::Matchers::ContainsSubstring("coverage_penalty goes with beam search, the beam is 1"));
  CHECK_THROWS_WITH(translator({.no_repeat_ngram = -1}), "Translator: no_repeat_ngram is -1, expected 0 or more");
  CHECK_THROWS_WITH(translator({.suppressed = {12}}), "Translator: suppressed has token 12, outside the vocabulary of 12");
  CHECK_THROWS_WITH(translator({.banned = {{4, -1}}}), "Translator: banned has token -1, outside the vocabulary of 12");
  CHECK_THROWS_WITH(translator({.banned = {{}}}), "Translator: banned has an empty sequence");
  CHECK_THROWS_WITH(translator({.banned_text = {"a", "?"}}), "Translator: banned_text has '?', which has no tokens");
  CHECK_THROWS_WITH(translator({.alignment_layer = -2}), "Translator: alignment_layer is -2, expected -1 or more");
  CHECK_THROWS_WITH(translator({.alignment_layer = 1}), "Translator: alignment_layer is 1, the decoder has 1 layers");
}
