// translate quantize: a folder in 8-bit integers that translates, and what refuses it.

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "attend/io/file.hpp"
#include "attend/io/safetensors.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "words.hpp"

namespace {

namespace fs = std::filesystem;
using namespace attend;
using Catch::Matchers::ContainsSubstring;

const Files files;
std::string pairs() {
  return files.write("pairs.tsv",
                     sentences({{{"I", "yo"}, {"Ana", "Ana"}, {"we", "nosotros"}, {"she", "ella"}, {"he", "el"}},
                                {{"have tea", "tengo te"}, {"see bread", "veo pan"}, {"read books", "leo libros"}}}));
}
Words train(const std::string& folder, const Words& more) {
  return with(
      {"train", "--pairs", pairs(), "--out", folder, "--tokens-per-batch", "60", "--validation-size", "2", "--warmup", "5"},
      more);
}

/// A model in floats, and one in 8-bit integers.
std::pair<std::string, std::string> models() {
  static const bool made = [] {
    for (const auto& words :
         {train(files("floats"), {"--d-model", "32", "--heads", "2", "--layers", "1", "--vocabulary", "45", "--max-steps", "20"}),
          Words{"quantize", "--model", files("floats"), "--out", files("int8")}})
      if (const auto outcome = run(words); outcome.code != 0) throw std::runtime_error(outcome.errors);
    return true;
  }();
  (void)made;
  return {files("floats"), files("int8")};
}

}  // namespace

TEST_CASE("translate quantize: the folder translates, rates and scores as it is", "[translate]") {
  const auto [floats, int8] = models();
  const auto size = [](const std::string& folder) { return fs::file_size(fs::path(folder) / "model.safetensors"); };
  CHECK(size(int8) < size(floats + "/best") / 2);
  CHECK(io::read_file(fs::path(int8) / "tokenizer.model") == io::read_file(fs::path(floats) / "best" / "tokenizer.model"));
  const std::string sentences = "I have tea.\nAna reads books.\n";
  const auto plain = run({"run", "--model", int8}, sentences);
  CHECK(plain.code == 0);
  CHECK(std::count(plain.output.begin(), plain.output.end(), '\n') == 2);
  CHECK(run({"run", "--model", int8, "--precision", "int8"}, sentences).output == plain.output);
  CHECK(run({"rate", "--model", int8}, "I have tea.\tyo tengo te.\n").code == 0);
  CHECK(run({"explain", "I have tea.", "--model", int8, "--out", files("page.html")}).code == 0);
  CHECK(run({"run", "--model", int8, "--model", floats}, sentences).code == 0);
}

TEST_CASE("translate quantize: of a Marian model, with its tokenizer and its search", "[translate]") {
  const fs::path marian = fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data" / "swish";
  REQUIRE(run({"quantize", "--model", marian.string(), "--out", files("marian")}).code == 0);
  CHECK(io::read_file(files("marian/source.spm")) == io::read_file(marian / "source.spm"));
  CHECK(fs::exists(files("marian/search.json")));
  CHECK(run({"run", "--model", files("marian")}, "I have tea.\n").code == 0);
}

TEST_CASE("translate: what needs floats refuses a folder in 8-bit integers before it works", "[translate]") {
  const auto [floats, int8] = models();
  const std::string why = int8 + " is of 8-bit integers, which are for translation";
  fails(train(files("none"), {"--init", int8, "--max-steps", "2"}),
        "train: " + why + "; expected a model in floats; beside them adapters alone are trained, on the CPU (--adapter-rank)");
  fails({"merge", int8, "--out", files("none")}, "merge: " + why);
  fails({"adapters", int8, "--out", files("none")}, int8 + " has no adapters");
  fails(train(files("none"), {"--init", int8, "--adapter-rank", "2", "--precision", "bf16"}),
        "train: --precision bf16 and the model of " + int8 + ", which is of 8-bit integers, exclude each other");
  fails({"average", int8, int8, "--out", files("none")}, "average: " + why);
  fails({"quantize", "--model", int8, "--out", files("none")}, "quantize: " + why);
  CHECK_FALSE(fs::exists(files("none")));
  fails({"run", "--model", int8, "--precision", "bf16"}, "the precision is bf16, and the model is of 8-bit integers");
  fails({"quantize", "--model", floats, "--out", int8}, "holds a model already");
  fails({"quantize", "--model", floats, "--out", floats}, "is the folder of a training");
  // A folder of the transformers library, whatever its weights are called, keeps its files.
  fs::create_directories(files("hf"));
  files.write("hf/config.json", "{}");
  fails({"quantize", "--model", floats, "--out", files("hf")}, "holds a model already");
  fails({"merge", floats, "--out", files("hf")}, "holds a model already");
  CHECK(io::read_file(files("hf/config.json")) == "{}");
  fails({"quantize", "--model", files("nowhere"), "--out", files("none")}, "is no model");
  fails({"quantize", "--model", floats}, "--out is required", 2);
}

TEST_CASE("translate train --adapter-rank: beside a folder in 8-bit integers, which stays so", "[translate]") {
  const auto [floats, int8] = models();
  const std::string tuned = files("beside int8");
  REQUIRE(run(train(tuned, {"--init", int8, "--adapter-rank", "2", "--max-steps", "4"})).code == 0);
  const auto file = [](const std::string& folder) { return io::SafetensorsFile::open(fs::path(folder) / "model.safetensors"); };
  const std::string name = "encoder.layers.0.fc1.weight";
  const auto before = file(int8), after = file(tuned + "/last");
  CHECK(after.info(name).dtype == io::DType::i8);
  CHECK(after.read<std::int8_t>(name) == before.read<std::int8_t>(name));
  CHECK(run({"run", "--model", tuned}, "I have tea.\n").code == 0);
  CHECK_THAT(run({"train", "--resume", "--out", tuned, "--max-steps", "6"}).errors, ContainsSubstring("going on from step 4"));

  // Folded in they are only into floats.
  fails({"merge", tuned, "--out", files("none")}, "expected a model in floats; `translate adapters` writes adapters");
  fails({"train", "--resume", "--out", tuned, "--precision", "bf16"},
        "train: --precision bf16 and the model of " + tuned + ", which is of 8-bit integers, exclude each other");
  REQUIRE(run({"adapters", tuned, "--out", files("of int8")}).code == 0);
  CHECK(run({"merge", floats, "--adapters", files("of int8"), "--out", files("folded")}).code == 0);
}
