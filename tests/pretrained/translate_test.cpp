#include <filesystem>
#include <string>
#include <vector>

#include "attend/load.hpp"
#include "attend/train/fit.hpp"
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

TEST_CASE("pretrained: a model whose sources end with their language learns from such sources") {
  const TemporaryFolder folder;
  make(folder / "mbart", "mbart", "mbart", {{"dropout", 0.0}, {"attention_dropout", 0.0}, {"activation_dropout", 0.0}});
  make(folder / "nllb", "m2m_100", "nllb_legacy", {{"dropout", 0.0}, {"attention_dropout", 0.0}, {"activation_dropout", 0.0}});
  text::Corpus corpus;
  corpus.pairs = {{"the green house", "a river"}, {"a river", "the house"}};
  for (const char* name : {"mbart", "nllb"}) {
    INFO(name);
    auto m = load(folder / name);
    const auto languages = m.tokenizer.languages();
    const auto tokenizer = m.tokenizer.with_languages(languages.front(), languages.back());
    const auto end = tokenizer.source_end();
    REQUIRE(end.size() == 2);
    // What the first step's loss is of, without the trainer.
    std::vector<token_t> source, target, labels;
    std::vector<index_t> source_lengths, target_lengths;
    for (const auto& pair : corpus) {
      auto from = tokenizer.encode(pair.source);
      from.insert(from.end(), end.begin(), end.end());
      const auto to = text::encode_whole_target(tokenizer, pair.target);
      source.insert(source.end(), from.begin(), from.end());
      target.push_back(tokenizer.bos()), target.insert(target.end(), to.begin(), to.end());
      labels.insert(labels.end(), to.begin(), to.end()), labels.push_back(tokenizer.eos());
      source_lengths.push_back(count_of(from)), target_lengths.push_back(count_of(to) + 1);
    }
    const auto as_tensor = [](const std::vector<token_t>& x) { return Tensor<token_t>({count_of(x)}, std::span(x)); };
    const double loss = m.model
                            .loss({.source = as_tensor(source),
                                   .source_segments = Segments::ragged(source_lengths),
                                   .target = as_tensor(target),
                                   .target_segments = Segments::ragged(target_lengths),
                                   .labels = as_tensor(labels)})
                            .value()(0);
    train::FitOptions o;
    o.max_steps = 1, o.curve_every = 1, o.label_smoothing = 0, o.output = folder / "run", o.overwrite = true;
    o.progress.mode = train::ProgressMode::off;
    CHECK(train::fit(m.model, corpus, tokenizer, o).curve.front().loss == Approx(loss).epsilon(1e-5));
    // A run with sources in another language is another run.
    o.overwrite = false, o.resume = true, o.max_steps = 2;
    CHECK_THROWS_WITH(train::fit(m.model, corpus, tokenizer.with_languages(languages.back(), languages.back()), o),
                      ContainsSubstring("source_end"));
    CHECK_NOTHROW(train::fit(m.model, corpus, tokenizer, o));
  }
}

TEST_CASE("pretrained: how a folder would have it searched goes along into a model folder of this library") {
  const TemporaryFolder folder;
  make(folder / "bart", "bart", "bart", {}, pretrained::unusual_generation(0).c_str());
  const auto m = load(folder / "bart");
  REQUIRE((m.search.beam == 3 && m.search.first == 0 && m.search.banned.size() == 2 && m.search.force_end));
  CHECK(decode::search_to_json(load_search(folder / "bart")) == decode::search_to_json(m.search));
  // In training targets begin as translations are made to.
  const auto learning = tokenizer_for_training(m.tokenizer, m.search);
  CHECK(text::encode_whole_target(learning, "the house").front() == 0);
  CHECK(text::encode_whole_target(m.tokenizer, "the house").front() != 0);
  io::save(folder / "own", m.model, learning);
  decode::save_search(folder / "own", m.search);
  const auto own = load(folder / "own");
  CHECK(decode::search_to_json(own.search) == decode::search_to_json(m.search));
  CHECK(decode::search_to_json(load_search(folder / "own")) == decode::search_to_json(m.search));
  CHECK(own.tokenizer.forced_begin() == 0);
  const std::vector<std::string> sentences{"the green house"};
  const auto tokens = [&](const TranslationModel<>& from) {
    return decode::Translator(from.model, from.tokenizer, from.search).translate(sentences).front().front().tokens;
  };
  CHECK(tokens(own) == tokens(m));
  CHECK(tokens(own).front() == 0);
  CHECK(tokens(own) != tokens({own.model, own.tokenizer, {}}));
  // Tokens are those of this model.
  io::Json json = io::read_json(folder / "own/search.json");
  json["banned"] = io::Json::array({{m.model.options.decoder.vocabulary}});
  io::write_json(folder / "own/search.json", json);
  CHECK_THROWS_AS(load(folder / "own"), FormatError);
  CHECK_THROWS_WITH(load(folder / "own"), ContainsSubstring("search.json: banned has the token"));
  // Another model in its place is searched in its own way, and a folder of before in the usual one.
  io::save(folder / "own", m.model, learning);
  CHECK_FALSE(std::filesystem::exists(folder / "own/search.json"));
  CHECK(decode::search_to_json(load(folder / "own").search) == decode::search_to_json({}));
  decode::save_search(folder / "own", m.search);
  io::save(folder / "own", m.model);
  CHECK_FALSE(std::filesystem::exists(folder / "own/search.json"));

  const auto nllb = text::load_pretrained_tokenizer(pretrained::tokenizers() / "nllb");
  const auto french = nllb.with_languages("eng_Latn", "fra_Latn");
  CHECK(tokenizer_for_training(french, m.search).forced_begin() == french.forced_begin());
  const auto first = nllb.with_first(5);
  CHECK((nllb.forced_begin() == -1 && first.forced_begin() == 5));
  CHECK(first.with_languages("eng_Latn", "fra_Latn").forced_begin() == french.forced_begin());
  CHECK_THROWS_WITH(nllb.with_first(1'000'000), ContainsSubstring("with_first: token"));
}

TEST_CASE("pretrained: a tokenizer that does not go with its model is refused") {
  const TemporaryFolder folder;
  make(folder / "small", "m2m_100", "nllb", {{"vocab_size", 20}});
  CHECK_THROWS_AS(load(folder / "small"), FormatError);
  CHECK_THROWS_WITH(load(folder / "small"), ContainsSubstring("tokens, config.json says 20"));
  make(folder / "end", "m2m_100", "nllb", {{"eos_token_id", 5}});
  CHECK_THROWS_WITH(load(folder / "end"), ContainsSubstring("the end token is 2 in the tokenizer and 5 as eos_token_id"));
  // With weights of which a part is missing, both are said.
  std::filesystem::remove(folder / "small" / "model.safetensors");
  folder.write("small/model.safetensors.index.json", R"({"weight_map": {"model.shared.weight": "part.safetensors"}})");
  CHECK_THROWS_AS(load(folder / "small"), FormatError);
  CHECK_THROWS_WITH(load(folder / "small"),
                    ContainsSubstring("files that are missing: part.safetensors; and the tokenizer has ") &&
                        ContainsSubstring("tokens, config.json says 20"));
}

TEST_CASE("pretrained: a model that was trained on becomes one of its family again") {
  const TemporaryFolder folder;
  make(folder / "nllb", "m2m_100", "nllb");
  auto m = load(folder / "nllb");
  m.tokenizer = m.tokenizer.with_languages("eng_Latn", "fra_Latn");
  for (const auto& p : nn::parameters(m.model)) p.value().data()[0] += 1;
  io::save(folder / "tuned", m.model, m.tokenizer, {.more = [&](const auto& to) { decode::save_search(to, m.search); }});
  const auto tuned = load(folder / "tuned");
  io::save_pretrained(folder / "again", tuned, io::pretrained_config(folder / "nllb"));
  CHECK(pretrained_family(folder / "again") == "m2m_100");
  const auto again = load(folder / "again");
  CHECK(io::to_json(again.model.options) == io::to_json(m.model.options));
  CHECK((again.search.beam == 2 && again.search.first == m.tokenizer.forced_begin()));
  CHECK((again.tokenizer.target_language() == "fra_Latn" && again.tokenizer.bos() == m.tokenizer.bos()));
  const auto values = nn::parameters(m.model), read = nn::parameters(again.model);
  REQUIRE(values.size() == read.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i].value().values() == read[i].value().values());
  // What only another family can be is refused.
  make(folder / "t5", "t5", "t5", {{"decoder_start_token_id", 0}});
  CHECK_THROWS_WITH(io::save_pretrained(folder / "none", tuned, io::pretrained_config(folder / "t5")),
                    ContainsSubstring("the tokenizer's end token is 2, that of the configuration"));
  auto marked = io::pretrained_config(folder / "t5");
  marked.eos = 2, marked.pad = 1;
  CHECK_THROWS_WITH(io::save_pretrained(folder / "none", tuned, marked),
                    ContainsSubstring("this cannot be a model of the family t5: "));
  marked.pad = 3;
  CHECK_THROWS_WITH(io::save_pretrained(folder / "none", tuned, marked), ContainsSubstring("the tokenizer's padding token is 1"));
  CHECK_FALSE(std::filesystem::exists(folder / "none"));
}
