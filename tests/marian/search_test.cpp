#include <cmath>
#include <string>
#include <vector>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "file_search.hpp"
#include "marian_data.hpp"
#include "models.hpp"

using namespace attend;

TEST_CASE("marian: greedy and beam search give the tokens and scores of transformers") {
  const std::string name = GENERATE("swish", "relu_separate", "gelu_odd", "untied", "half");
  const marian::Expected expected(name);
  const auto m = load(marian::folder(name));
  const io::MarianConfig config{
      .model = m.model.options, .eos = m.tokenizer.eos(), .pad = m.tokenizer.pad(), .begin = m.tokenizer.bos()};
  for (int i = 0; expected.file().metadata().contains("search." + std::to_string(i)); ++i) {
    const std::string key = "search." + std::to_string(i), options = expected.file().metadata().at(key);
    INFO(name << " " << options);
    const auto o = io::pretrained_search_from(io::parse_json(options, key), key, config);
    const auto wanted = expected.sequences(key);
    const auto found = file_search::run(m.model, expected.tokens("source"), expected.segments("source_lengths"),
                                        m.tokenizer.bos(), m.tokenizer.eos(), o);
    const auto scores = o.beam > 1 ? expected.file().read<float>(key + ".scores") : std::vector<float>();
    REQUIRE(wanted.size() == found.size() * static_cast<std::size_t>(o.n_best));
    std::size_t at = 0;
    for (const auto& list : found) {
      REQUIRE(static_cast<index_t>(list.size()) == o.n_best);
      for (const auto& h : list) {
        if (!scores.empty()) CHECK(h.score == Approx(scores[at]).epsilon(1e-4));
        CHECK(file_search::whole(h, m.tokenizer.eos(), o) == wanted[at++]);
      }
    }
  }
}

TEST_CASE("marian: renormalized scores are those of transformers") {
  // Of MarianMTModel.generate for "my old house" with these options; without renormalize_logits they are -0.64740, -0.65112,
  // -0.65568.
  const std::vector<double> wanted{-0.6403903, -0.6441149, -0.6612048};
  const auto m = load(marian::folder("swish"));
  auto source = m.tokenizer.encode("my old house");
  source.push_back(m.tokenizer.eos());
  const auto rows = Segments::ragged({static_cast<index_t>(source.size())});
  const Tensor<token_t> tokens({rows.rows()}, std::span<const token_t>(source));
  decode::TransformerModel<float> model(m.model);
  auto state = model.begin(tokens, rows);
  const auto found = decode::beam_search(
      model, state, 1,
      {.bos = 83,
       .eos = 0,
       .max_length = 22,
       .beam = 4,
       .n_best = 3,
       .alpha = 1,
       .normalization = decode::LengthNormalization::marian,
       .stop = decode::Stop::present_length,
       .constraints = {.banned = {{5}, {7, 9}, {11, 4, 6}, {20}, {21}, {22}, {83}}, .force_end = true, .renormalize = true}});
  REQUIRE(found.front().size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found.front()[i].score == Approx(wanted[i]).epsilon(1e-5));
}

TEST_CASE("marian: the search of generation_config.json") {
  const auto m = load(marian::folder("swish"));
  CHECK(m.search.beam == 4);
  CHECK(m.search.length_penalty == 1);
  CHECK(m.search.normalization == decode::LengthNormalization::marian);
  CHECK(m.search.stop == decode::Stop::present_length);
  CHECK(m.search.max_length == 38);  // of 40, without begin and end
  CHECK(m.search.force_end);
  CHECK(m.search.banned == std::vector<std::vector<token_t>>{{m.tokenizer.pad()}});
  CHECK(m.search.unknown == decode::Unknown::allow);
  CHECK_FALSE(m.search.suppress_marks);
  CHECK(m.tokenizer.bos() == m.tokenizer.pad());
}

TEST_CASE("marian: every option of a generation_config.json") {
  const io::MarianConfig config{
      .model = nn::model_options({.vocabulary = 50, .d_model = 8, .heads = 2}), .eos = 0, .pad = 49, .begin = 49};
  const auto read = [&](const char* json) {
    return io::pretrained_search_from(io::parse_json(json, "g.json"), "g.json", config);
  };
  const auto plain = read("{}");
  CHECK((plain.beam == 1 && plain.max_length == 0 && !plain.force_end && plain.keep_unfinished && plain.banned.empty()));
  CHECK(read(R"({"early_stopping": true})").stop == decode::Stop::first);
  CHECK(read(R"({"early_stopping": "never"})").stop == decode::Stop::exact);
  CHECK(read(R"({"length_penalty": 0})").length_penalty == 0);
  CHECK(read(R"({"max_length": 20})").max_length == 19);
  CHECK(read(R"({"max_length": 20, "forced_eos_token_id": [0]})").max_length == 18);
  CHECK(read(R"({"max_length": 20, "max_new_tokens": 30, "forced_eos_token_id": 0})").max_length == 29);
  CHECK(read(R"({"min_length": 4})").min_length == 3);
  CHECK(read(R"({"min_new_tokens": 4, "min_length": 9})").min_length == 4);
  CHECK(read(R"({"no_repeat_ngram_size": 3})").no_repeat_ngram == 3);
  CHECK(read(R"({"renormalize_logits": true})").renormalize);
  using Lists = std::vector<std::vector<token_t>>;
  CHECK(read(R"({"bad_words_ids": [[0], [4, 5]], "suppress_tokens": [7]})").banned == Lists{{4, 5}, {7}});
  const auto sampled = read(R"({"do_sample": true, "temperature": 0.5, "top_p": 0.9})");
  CHECK((sampled.sample && sampled.temperature == 0.5 && sampled.top_k == 50 && sampled.top_p == 0.9));
  CHECK(read(R"({"do_sample": true, "min_p": 0.05})").min_p == 0.05);
  CHECK(read(R"({"min_p": 0.05})").min_p == 0);  // of sampling alone
  CHECK(read(R"({"num_beams": 2, "repetition_penalty": 1.3})").repetition_penalty == 1.3);
  const auto diverse = read(R"({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5})");
  CHECK((diverse.beam_groups == 2 && diverse.diversity_penalty == 0.5));
  const auto written = io::to_json(diverse, config, {});
  CHECK((written.at("num_beam_groups") == 2 && written.at("diversity_penalty") == 0.5));
  CHECK_THROWS_AS(read(R"({"num_beams": 4, "num_beam_groups": 3, "diversity_penalty": 0.5})"), FormatError);
  CHECK_THROWS_AS(read(R"({"num_beams": 4, "num_beam_groups": 2})"), FormatError);
  CHECK_THROWS_AS(read(R"({"num_beams": 4, "diversity_penalty": 0.5})"), FormatError);
  CHECK_THROWS_AS(read(R"({"repetition_penalty": 1.3})"), FormatError);  // of logits, where there is no beam
  CHECK_THROWS_AS(read(R"({"do_sample": true, "repetition_penalty": 1.3})"), FormatError);
  const auto ends = read(R"({"eos_token_id": [7, 0, 9], "bad_words_ids": [[7], [7, 3]]})");
  CHECK((ends.end_tokens == std::vector<token_t>{7, 9} && ends.banned == Lists{{7, 3}}));
  CHECK_THROWS_AS(read(R"({"eos_token_id": [7, 9]})"), FormatError);
  CHECK_THROWS_AS(read(R"({"eos_token_id": [0, 50]})"), FormatError);
  for (const char* json : {R"({"do_sample": true, "min_p": 0.05, "eos_token_id": [0, 9]})",
                           R"({"num_beams": 2, "repetition_penalty": 1.3, "eos_token_id": [0, 9]})"}) {
    const auto search = read(json);
    CHECK(io::pretrained_search_obstacles(search).empty());
    const auto again = io::pretrained_search_from(io::to_json(search, config, {}), "g.json", config);
    CHECK((again.min_p == search.min_p && again.repetition_penalty == search.repetition_penalty));
    CHECK(again.end_tokens == search.end_tokens);
  }
  decode::TranslatorOptions own{.beam = 1,
                                .length_penalty = 0,
                                .temperature = 0.5,
                                .force_end = true,
                                .score_forced_end = true,
                                .repetition_penalty = 2,
                                .unknown_penalty = 1};
  own.edit = [](index_t, std::span<const token_t>, std::span<float>) {};
  own.allowed_next = [](index_t, std::span<const token_t>) { return std::vector<token_t>{}; };
  CHECK(io::pretrained_search_obstacles(own).size() == 6);
  CHECK_THROWS_AS(read(R"({"do_sample": true, "num_beams": 4})"), FormatError);
  CHECK_THROWS_AS(read(R"({"do_sample": true, "typical_p": 0.5})"), FormatError);
  CHECK(read(R"({"typical_p": 0.5})").beam == 1);  // of sampling alone
  CHECK_THROWS_AS(read(R"({"max_length": 2, "forced_eos_token_id": 0})"), FormatError);
  CHECK_THROWS_AS(read(R"({"max_length": 8, "min_length": 30})"), FormatError);
  CHECK_THROWS_AS(read(R"({"num_beams": 2, "num_return_sequences": 3})"), FormatError);
}
