// translate explain, the program: with a model that was trained for a moment.

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../examples/translate/pages/attention.hpp"
#include "../../examples/translate/pages/markup.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/io/file.hpp"
#include "attend/io/model.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "page.hpp"
#include "program.hpp"

namespace {

using namespace report;
using Catch::Matchers::ContainsSubstring;
using Words = std::vector<std::string>;

const Files files;
const std::string& model() {
  static const std::string folder = [] {
    const auto trained = run(
        {"train",
         "--pairs",
         files.write(
             "pairs.tsv",
             sentences(
                 {{{"I sees", "yo ve"}, {"Ana sees", "Ana ve"}, {"we sees", "nosotros ve"}, {"she sees", "ella ve"}},
                  {{"tea", "t\u00e9"}, {"bread", "pan"}, {"books", "libros"}, {"a cat", "un gato"}, {"a house", "una casa"}}})),
         "--out",
         files("model"),
         "--d-model",
         "16",
         "--heads",
         "2",
         "--encoder-layers",
         "1",
         "--decoder-layers",
         "2",
         "--vocabulary",
         "60",
         "--max-length",
         "40",
         "--validation-size",
         "0",
         "--max-steps",
         "40",
         "--patience",
         "0",
         "--tokens-per-batch",
         "120"});
    if (trained.code != 0) throw std::runtime_error(trained.errors);
    return files("model");
  }();
  return folder;
}

/// The page of a call of the program.
std::string page(Words words) {
  words.insert(words.begin(), "explain");
  for (const std::string& word : {std::string("--model"), model(), std::string("--out"), files("page.html")})
    words.push_back(word);
  const auto outcome = run(words);
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  return attend::io::read_file(files("page.html"));
}

}  // namespace

TEST_CASE("translate explain: shows what the model computes", "[explain]") {
  using namespace attend;
  const std::string sentence = "Ana sees a cat.", target = "Ana ve un gato.";
  const std::string given = page({sentence, "--target", target});
  CHECK(unbalanced(given) == "");

  auto transformer = io::load_model<float>(model() + "/last");
  const auto tokenizer = io::load_tokenizer<text::SentencePiece>(model() + "/last");
  auto source = tokenizer.encode(sentence), outputs = tokenizer.encode(target), inputs = outputs;
  source.push_back(tokenizer.eos());
  outputs.push_back(tokenizer.eos());
  inputs.insert(inputs.begin(), tokenizer.bos());
  const auto looks = translate::look(transformer, source, inputs);
  REQUIRE(looks.encoder.size() == 1);
  REQUIRE(looks.decoder.size() == 2);
  REQUIRE(looks.cross.size() == 2);
  CHECK(count(given, "<image ") == (1 + 2 + 2) * 3);
  const auto same = [&](const std::string& name, const std::vector<AttentionWeights<float>>& layers) {
    for (std::size_t l = 0; l < layers.size(); ++l)
      for (index_t h = 0; h < 2; ++h) {
        const auto expected = layers[l].matrix(0, h);
        const auto drawn = weights_in(given, name + '-' + std::to_string(l + 1) + '-' + std::to_string(h + 1));
        REQUIRE(static_cast<index_t>(drawn.size()) == expected.size());
        for (index_t i = 0; i < expected.size(); ++i)
          CHECK(drawn[static_cast<std::size_t>(i)] == Approx(static_cast<double>(expected.data()[i])).margin(2e-5));
      }
  };
  same("encoder", looks.encoder);
  same("decoder", looks.decoder);
  same("cross", looks.cross);

  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto value = static_cast<double>(looks.log_probabilities(static_cast<index_t>(i), outputs[i]));
    sum += value;
    CHECK(has(given, ": log-probability " + with_minus(value, 4) + ", probability"));
  }
  CHECK(has(given, "log-probability <b>" + with_minus(sum, 4) + "</b>"));
  CHECK(has(given, "What else it thought of"));
  CHECK(count(given, " best\" data-node=") == outputs.size());
}

TEST_CASE("translate explain: a model with room for more tokens than its vocabulary has", "[explain]") {
  using namespace attend;
  const std::filesystem::path folder = files("short");
  std::filesystem::copy(std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data" / "swish", folder);
  const auto edit = [&](const char* name, auto&& change) {
    auto json = io::read_json(folder / name);
    change(json);
    io::write_json(folder / name, json);
  };
  edit("vocab.json", [](io::Json& json) {
    auto fewer = io::Json::object();
    for (const auto& [piece, token] : json.items())
      if (token < 30) fewer[piece] = token;
    fewer["<pad>"] = 30;
    json = fewer;
  });
  for (const char* name : {"config.json", "generation_config.json"})
    edit(name, [](io::Json& json) { json["decoder_start_token_id"] = json["pad_token_id"] = 30; });
  const auto outcome =
      run({"explain", "my old house", "--target", "stone", "--model", folder.string(), "--out", files("short.html")});
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  CHECK(has(io::read_file(files("short.html")), "&lt;unused&gt;"));
}

TEST_CASE("translate explain: shows the search that `translate run` makes", "[explain]") {
  const std::string sentence = "she sees books.";
  const auto lists = run({"run", "--model", model(), "--beam", "3", "--n-best", "3"}, sentence + "\n");
  const std::string searched = page({sentence, "--beam", "3", "--n-best", "3"});
  CHECK(unbalanced(searched) == "");
  std::size_t at = 0;
  for (std::size_t line = 0; line < lists.output.size(); line = lists.output.find('\n', line) + 1) {
    const std::string score = between(lists.output, "\t", "\t", line), text = between(lists.output, score + "\t", "\n", line);
    CHECK(has(searched, "score <b>" + with_minus(std::stod(score), 4) + "</b>"));
    CHECK(has(searched, "<span dir=\"auto\">" + escaped(text) + "</span>"));
    ++at;
  }
  CHECK(at == count(searched, "<li class=\"card\">"));
  CHECK(count(searched, "class=\"rank\"") == at);
  CHECK(has(searched, "How it searched"));
  CHECK(has(searched, "beam of 3"));
  for (const Words& search : {Words{"--beam", "1"}, Words{"--sample"}}) {
    Words words = search;
    words.push_back(sentence);
    const std::string other = page(words);
    CHECK(has(other, "What else it thought of"));
    CHECK(count(other, "<li class=\"card\">") == 1);
    CHECK(unbalanced(other) == "");
  }
  CHECK(has(page({sentence, "--max-tokens", "1"}), "not finished"));
  CHECK(unbalanced(page({"\uFFFD( <b>&", "--target", ""})) == "");
}

TEST_CASE("translate explain: search and attention are computed in the precision that is asked for", "[explain]") {
  using namespace attend;
  const std::string sentence = "she sees books.", target = "ella ve libros.";
  const auto found = run({"run", "--model", model(), "--n-best", "4", "--precision", "int8"}, sentence + "\n");
  const std::string score = between(found.output, "\t", "\t"), searched = page({sentence, "--precision", "int8"});
  CHECK(has(searched, "score <b>" + with_minus(std::stod(score), 4) + "</b>"));
  CHECK(has(searched, "cpu, int8"));
  CHECK_FALSE(has(page({sentence}), "cpu, "));

  const auto transformer = io::load_model<float>(model() + "/last");
  const auto tokenizer = io::load_tokenizer<text::SentencePiece>(model() + "/last");
  auto source = tokenizer.encode(sentence), outputs = tokenizer.encode(target), inputs = outputs;
  source.push_back(tokenizer.eos()), outputs.push_back(tokenizer.eos());
  inputs.insert(inputs.begin(), tokenizer.bos());
  const auto sum = [&](Precision precision) {
    return decode::TransformerModel<float>(transformer, precision).evaluate([&](nn::Transformer<float> m) {
      const auto looks = translate::look(m, source, inputs);
      double total = 0;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        total += static_cast<double>(looks.log_probabilities(static_cast<index_t>(i), outputs[i]));
      return "log-probability <b>" + with_minus(total, 4) + "</b>";
    });
  };
  CHECK(sum(Precision::full) != sum(Precision::int8));
  CHECK(has(page({sentence, "--target", target}), sum(Precision::full)));
  CHECK(has(page({sentence, "--target", target, "--precision", "int8"}), sum(Precision::int8)));
}

TEST_CASE("translate explain: what cannot be done ends with one line that names it", "[explain]") {
  const auto fails = [](Words words, int code, const std::string& message) {
    words.insert(words.begin(), "explain");
    const auto outcome = run(words);
    INFO(outcome.errors);
    CHECK(outcome.code == code);
    CHECK(outcome.complaints() == 1);
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
    CHECK_FALSE(std::filesystem::exists(files("none.html")));
  };
  const std::string out = files("none.html");
  std::string endless = "I";
  for (int i = 0; i < 100; ++i) endless += " see";
  fails({"hello"}, 2, "--model is required");
  fails({"--model", model()}, 2, "sentence is required");
  fails({"hello", "--model", files("nowhere"), "--out", out}, 1, files("nowhere"));
#if !defined(_WIN32)  // whose command lines are not made of bytes
  fails({"see \xff", "--model", model(), "--out", out}, 1, "encode: byte 5 is 0xFF, expected UTF-8");
#endif
  fails({"", "--model", model(), "--out", out}, 1, "explain: the sentence is empty");
  fails({" ", "--model", model(), "--out", out}, 1, "explain: the sentence is empty");
  fails({endless, "--model", model(), "--out", out}, 1, "explain: the sentence has ");
  fails({"tea", "--target", endless, "--model", model(), "--out", out}, 1, "explain: the translation has ");
  fails({"tea", "--model", model(), "--out", files("no") + "/page.html"}, 1, "No such file");
  fails({"tea", "--model", model(), "--out", files.path()}, 1, "is a folder");
  fails({"tea", "--model", model(), "--out", out, "--n-best", "9"}, 1, "n_best is 9");
  fails({"tea", "--model", model(), "--out", out, "--precision", "tf32"}, 1, "--precision tf32 is for a GPU: add --device cuda");
  fails({"tea", "--model", model(), "--out", out, "--device", "cuda", "--precision", "int8"}, 1,
        "--precision int8 is for the CPU");
  fails({"tea", "--model", model(), "--out", out, "--device", "tpu"}, 2, "--device");
}
