#include <filesystem>
#include <string>
#include <vector>

#include "attend/load.hpp"
#include "attend/translate/translator.hpp"
#include "make_folder.hpp"
#include "pretrained_data.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using pretrained::make;

TEST_CASE("pretrained: a folder with its tokenizer translates, and begins with the language of the target") {
  const TemporaryFolder folder;
  make(folder / "nllb", "m2m_100", "nllb");
  const auto m = load(folder / "nllb");
  CHECK((m.search.beam == 2 && m.tokenizer.bos() == m.tokenizer.eos()));
  const auto names = m.tokenizer.languages();
  REQUIRE(names.size() >= 2);
  for (const auto& to : {names.front(), names.back()}) {
    const auto tokenizer = m.tokenizer.with_languages(names.front(), to);
    const decode::Translator translate(m.model, tokenizer, m.search);
    const auto one = translate.translate(std::vector<std::string>{"the green house"}).front().front();
    REQUIRE_FALSE(one.tokens.empty());
    CHECK(one.tokens.front() == tokenizer.forced_begin());
    CHECK(one.text.find(to) == std::string::npos);
  }
  auto search = m.search;
  search.first = 5;  // where the tokenizer knows no target's language
  const auto one = decode::Translator(m.model, load_tokenizer(folder / "nllb"), search)
                       .translate(std::vector<std::string>{"the green house"})
                       .front()
                       .front();
  CHECK(one.tokens.front() == (m.tokenizer.forced_begin() >= 0 ? m.tokenizer.forced_begin() : 5));

  // Saved as a model of this library, as training does.
  const auto chosen = m.tokenizer.with_languages(names.front(), names.back());
  io::save(folder / "own", m.model, chosen);
  const auto own = load(folder / "own");
  CHECK(own.tokenizer.bos() == m.tokenizer.bos());
  CHECK(decode::Translator(own.model, own.tokenizer, m.search)("the green house") ==
        decode::Translator(m.model, chosen, m.search)("the green house"));

  // Another tokenizer in its place leaves none of its files behind.
  const auto pieces = text::load_pretrained_tokenizer(pretrained::data() / ".." / "tokenizers" / "t5");
  io::save(folder / "own",
           nn::Transformer<float>({.vocabulary = pieces.size(), .d_model = 8, .heads = 2, .d_ff = 6, .layers = 1}), pieces);
  CHECK(load(folder / "own").tokenizer.encode("the green house") == pieces.encode("the green house"));
  CHECK_FALSE(std::filesystem::exists(folder / "own/sentencepiece.bpe.model"));

  make(folder / "t5", "t5", "t5", {{"decoder_start_token_id", 0}});
  const auto t5 = load(folder / "t5");
  CHECK((t5.tokenizer.bos() == 0 && t5.tokenizer.eos() == 1));
  CHECK_FALSE(decode::Translator(t5.model, t5.tokenizer, t5.search)("the green house") == "the green house");
}

TEST_CASE("pretrained: in mBART of 25 languages the target's language stands before a translation, and no second time in it") {
  const TemporaryFolder folder;
  const auto pieces = text::load_pretrained_tokenizer(pretrained::data() / ".." / "tokenizers" / "mbart");
  const token_t ro = pieces.token("ro_RO"), en = pieces.token("en_XX");
  make(folder / "to_ro", "mbart", "mbart", {{"decoder_start_token_id", ro}});
  make(folder / "to_en", "mbart", "mbart", {{"decoder_start_token_id", en}});  // the same weights
  const std::vector<std::string> sentences{"the green house"};
  const auto translated = [&](const TranslationModel<>& m, const text::AnyTokenizer& tokenizer) {
    const auto one = decode::Translator(m.model, tokenizer, m.search).translate(sentences).front().front();
    return std::pair(one.tokens, one.log_probability);
  };
  const auto to_ro = load(folder / "to_ro"), to_en = load(folder / "to_en");
  CHECK((to_ro.tokenizer.bos() == ro && to_en.tokenizer.bos() == en));
  CHECK(to_ro.tokenizer.as<text::PretrainedTokenizer>()->target_language() == "ro_RO");
  REQUIRE(translated(to_ro, to_ro.tokenizer) != translated(to_en, to_en.tokenizer));
  // The language that is chosen is what the configuration would have said.
  CHECK(translated(to_ro, to_ro.tokenizer.with_languages("en_XX", "ro_RO")) == translated(to_ro, to_ro.tokenizer));
  CHECK(translated(to_ro, to_ro.tokenizer.with_languages("en_XX", "en_XX")) == translated(to_en, to_en.tokenizer));
  CHECK(load_tokenizer(folder / "to_ro").bos() == ro);
}

TEST_CASE("pretrained: a tokenizer that does not go with its model is refused") {
  const TemporaryFolder folder;
  make(folder / "small", "m2m_100", "nllb", {{"vocab_size", 20}});
  CHECK_THROWS_AS(load(folder / "small"), FormatError);
  CHECK_THROWS_WITH(load(folder / "small"), ContainsSubstring("tokens, config.json says 20"));
  make(folder / "end", "m2m_100", "nllb", {{"eos_token_id", 5}});
  CHECK_THROWS_WITH(load(folder / "end"), ContainsSubstring("the end token is 2 in the tokenizer and 5 as eos_token_id"));
}
