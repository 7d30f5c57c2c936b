#include <string>
#include <vector>

#include "../marian/file_search.hpp"
#include "pretrained_data.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using pretrained::Expected;

namespace {

/// What this library finds for these sentences with a search that a file describes.
std::vector<std::vector<decode::Hypothesis>> search(const io::PretrainedModel<float>& m, const decode::TranslatorOptions& o,
                                                    const std::vector<std::vector<token_t>>& sources) {
  std::vector<token_t> tokens;
  std::vector<index_t> lengths;
  for (const auto& source : sources) {
    tokens.insert(tokens.end(), source.begin(), source.end());
    lengths.push_back(count_of(source));
  }
  return file_search::run(m.model, Tensor<token_t>({count_of(tokens)}, std::span<const token_t>(tokens)),
                          Segments::ragged(lengths), m.config.begin, m.config.eos, o);
}

}  // namespace

TEST_CASE("pretrained: greedy and beam search give the tokens and scores of transformers, in a batch and alone") {
  for (const auto& name : pretrained::models()) {
    const Expected expected(name);
    const auto m = pretrained::load_model(pretrained::data() / name);
    const auto sources = expected.sequences("source", "source_lengths");
    for (int i = 0; expected.file().metadata().contains("search." + std::to_string(i)); ++i) {
      const std::string key = "search." + std::to_string(i), options = expected.file().metadata().at(key);
      INFO(name << " " << options);
      const auto o = io::pretrained_search_from(io::parse_json(options, key), key, m.config);
      const auto wanted = expected.sequences(key + ".tokens", key + ".lengths");
      const auto scores = o.beam > 1 ? expected.numbers(key + ".scores") : std::vector<double>();
      auto found = search(m, o, sources);
      std::vector<std::vector<decode::Hypothesis>> alone;
      for (const auto& source : sources) alone.push_back(search(m, o, {source}).front());
      for (const auto& lists : {found, alone}) {
        REQUIRE(wanted.size() == lists.size() * static_cast<std::size_t>(o.n_best));
        std::size_t at = 0;
        for (const auto& list : lists) {
          REQUIRE(count_of(list) == o.n_best);
          for (const auto& h : list) {
            if (!scores.empty()) CHECK(h.score == Approx(scores[at]).epsilon(1e-5));
            CHECK(file_search::whole(h, m.config.eos, o) == wanted[at++]);
          }
        }
      }
    }
  }
}

TEST_CASE("pretrained: the search of generation_config.json, and of config.json where there is none") {
  const auto search = [](const char* name) { return io::load_pretrained(pretrained::data() / name).search; };
  const auto mbart = search("mbart_relu");
  CHECK((mbart.beam == 4 && mbart.first == 19 && mbart.force_end && mbart.max_length == 16));
  CHECK(mbart.normalization == decode::LengthNormalization::marian);
  const auto m2m = search("m2m_untied");
  CHECK((m2m.first == -1 && !m2m.force_end && m2m.keep_unfinished && m2m.max_length == 17));
  const auto read = [](const char* family, const char* text) {
    io::Json json = io::parse_json(text, "config.json");
    json["model_type"] = family;
    return io::pretrained_search_from(json, "config.json", io::pretrained_config_from(json, "config.json"));
  };
  CHECK(read("bart", "{}").force_end);
  CHECK_FALSE(read("bart", R"({"forced_eos_token_id": null})").force_end);
  CHECK_FALSE(read("m2m_100", "{}").force_end);
  CHECK(read("m2m_100", R"({"forced_eos_token_id": 2})").force_end);
  CHECK_THROWS_WITH(read("bart", R"({"forced_bos_token_id": 60000})"),
                    ContainsSubstring("forced_bos_token_id is 60000, outside the vocabulary of 50265"));
  CHECK_THROWS_WITH(read("bart", R"({"forced_bos_token_id": 2})"), ContainsSubstring("forced_bos_token_id is 2, an end token"));
  // Of the first BARTs; a generation_config.json says it only if it was made of a model's configuration.
  const std::string generation = R"({"bos_token_id": 7, "force_bos_token_to_be_generated": true)";
  CHECK(read("bart", (generation + "}").c_str()).first == 7);
  CHECK(read("bart", R"({"force_bos_token_to_be_generated": true})").first == 0);
  CHECK(read("bart", R"({"bos_token_id": 7, "force_bos_token_to_be_generated": false})").first == -1);
  CHECK(read("t5", R"({"force_bos_token_to_be_generated": true})").first == -1);
  const auto config = io::pretrained_config_from({{"model_type", "bart"}}, "config.json");
  const auto first = [&](const std::string& text) {
    return io::pretrained_search_from(io::parse_json(text, "g"), "generation_config.json", config).first;
  };
  CHECK(first(generation + R"(, "_from_model_config": true})") == 7);
  CHECK(first(generation + "}") == -1);
  CHECK_THROWS_WITH(read("bart", R"({"bos_token_id": 2, "force_bos_token_to_be_generated": true})"),
                    ContainsSubstring("bos_token_id is 2, an end token"));
  CHECK_THROWS_WITH(read("t5", R"({"begin_suppress_tokens": [4]})"), ContainsSubstring("begin_suppress_tokens"));
}
