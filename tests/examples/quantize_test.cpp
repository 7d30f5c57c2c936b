// translate quantize: a folder in 8-bit integers that translates, and what refuses it.

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "attend/io/file.hpp"
#include "attend/io/safetensors.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"
#include "words.hpp"

namespace {

namespace fs = std::filesystem;
using namespace attend;
using Catch::Matchers::ContainsSubstring;

const fs::path& files() {
  static const TemporaryFolder folder;
  return folder.path();
}
std::string out(const std::string& name) { return (files() / name).string(); }
std::string pairs() {
  std::string tsv;
  for (const char* who : {"I\tyo", "Ana\tAna", "we\tnosotros", "she\tella", "he\tel"})
    for (const char* what : {" have tea.\t tengo te.", " see bread.\t veo pan.", " read books.\t leo libros."}) {
      const std::string a = who, b = what;
      tsv += a.substr(0, a.find('\t')) + b.substr(0, b.find('\t')) + "\t" + a.substr(a.find('\t') + 1) +
             b.substr(b.find('\t') + 1) + "\n";
    }
  io::write_file_atomically(files() / "pairs.tsv", tsv);
  return out("pairs.tsv");
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
         {train(out("floats"), {"--d-model", "32", "--heads", "2", "--layers", "1", "--vocabulary", "45", "--max-steps", "20"}),
          Words{"quantize", "--model", out("floats"), "--out", out("int8")}})
      if (const auto outcome = run(words); outcome.code != 0) throw std::runtime_error(outcome.errors);
    return true;
  }();
  (void)made;
  return {out("floats"), out("int8")};
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
  CHECK(run({"explain", "I have tea.", "--model", int8, "--out", out("page.html")}).code == 0);
  CHECK(run({"run", "--model", int8, "--model", floats}, sentences).code == 0);
}

TEST_CASE("translate quantize: of a Marian model, with its tokenizer and its search", "[translate]") {
  const fs::path marian = fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data" / "swish";
  REQUIRE(run({"quantize", "--model", marian.string(), "--out", out("marian")}).code == 0);
  CHECK(io::read_file(fs::path(out("marian")) / "source.spm") == io::read_file(marian / "source.spm"));
  CHECK(fs::exists(fs::path(out("marian")) / "search.json"));
  CHECK(run({"run", "--model", out("marian")}, "I have tea.\n").code == 0);
}

TEST_CASE("translate: what needs floats refuses a folder in 8-bit integers before it works", "[translate]") {
  const auto [floats, int8] = models();
  const std::string why = int8 + " is of 8-bit integers, which are for translation";
  fails(train(out("none"), {"--init", int8, "--max-steps", "2"}), "train: " + why);
  fails({"merge", int8, "--out", out("none")}, "merge: " + why);
  fails({"adapters", int8, "--out", out("none")}, "adapters: " + why);
  fails({"average", int8, int8, "--out", out("none")}, "average: " + why);
  fails({"quantize", "--model", int8, "--out", out("none")}, "quantize: " + why);
  CHECK_FALSE(fs::exists(out("none")));
  fails({"run", "--model", int8, "--precision", "bf16"}, "the precision is bf16, and the model is of 8-bit integers");
  fails({"quantize", "--model", floats, "--out", int8}, "holds a model already");
  fails({"quantize", "--model", floats, "--out", floats}, "is the folder of a training");
  // A folder of the transformers library, whatever its weights are called, keeps its files.
  fs::create_directories(out("hf"));
  io::write_file_atomically(fs::path(out("hf")) / "config.json", "{}");
  fails({"quantize", "--model", floats, "--out", out("hf")}, "holds a model already");
  fails({"merge", floats, "--out", out("hf")}, "holds a model already");
  CHECK(io::read_file(fs::path(out("hf")) / "config.json") == "{}");
  fails({"quantize", "--model", out("nowhere"), "--out", out("none")}, "is no model");
  fails({"quantize", "--model", floats}, "--out is required", 2);
}
