#include "attend/marian/tokenizer.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "attend/io/json.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "marian_data.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using text::MarianTokenizer;
using Tokens = std::vector<token_t>;

namespace {

std::string without_end(Tokens tokens, const io::Json& expected) {
  std::string got, wanted;
  for (const token_t t : tokens) got += std::to_string(t) + " ";
  auto all = expected.get<Tokens>();
  REQUIRE_FALSE(all.empty());
  all.pop_back();
  for (const token_t t : all) wanted += std::to_string(t) + " ";
  return got == wanted ? "" : "got " + got + "expected " + wanted;
}

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("MarianTokenizer: tokens and texts are those of transformers") {
  const std::string name = GENERATE("swish", "relu_separate");
  const auto tokenizer = MarianTokenizer::load(marian::folder(name));
  const auto expected = io::read_json(marian::folder(name) / "expected.json");
  for (const auto& c : expected.at("encode")) {
    const auto sentence = c.at("text").get<std::string>();
    INFO(name << ": `" << sentence << "`");
    CHECK(without_end(tokenizer.encode(sentence), c.at("source")) == "");
    CHECK(without_end(tokenizer.encode_target(sentence), c.at("target")) == "");
  }
  for (const auto& c : expected.at("decode"))
    CHECK(tokenizer.decode(c.at("tokens").get<Tokens>()) == c.at("text").get<std::string>());
}

TEST_CASE("MarianTokenizer: marks, sizes and pieces") {
  const auto tokenizer = MarianTokenizer::load(marian::folder("swish"));
  CHECK(tokenizer.eos() == 0);
  CHECK(tokenizer.unk() == 1);
  CHECK(tokenizer.pad() == tokenizer.size() - 1);
  CHECK(tokenizer.bos() == tokenizer.pad());
  CHECK_FALSE(tokenizer.has_two_vocabularies());
  CHECK(tokenizer.piece(0) == "</s>");
  CHECK(tokenizer.with_begin(0).bos() == 0);
  const auto code = tokenizer.encode(">>deu<< house");
  REQUIRE_FALSE(code.empty());
  CHECK(tokenizer.piece(code.front()) == ">>deu<<");
  CHECK_THROWS_WITH(tokenizer.encode(">>deu<< \xFF"), "MarianTokenizer::encode: byte 9 is 0xFF, expected UTF-8");
  CHECK_THROWS_AS(tokenizer.piece(-1), IndexError);
  CHECK_THROWS_AS(tokenizer.decode(Tokens{5000}), IndexError);
  const auto separate = MarianTokenizer::load(marian::folder("relu_separate"));
  CHECK(separate.has_two_vocabularies());
  CHECK(separate.size() != separate.target_size());
}

TEST_CASE("MarianTokenizer: a number without a piece is an unknown token") {
  const auto whole = MarianTokenizer::load(marian::folder("swish"));
  auto list = text::MarianVocabulary::load(marian::folder("swish") / "vocab.json").pieces();
  const Tokens tokens = whole.encode("my old house");
  const token_t gone = tokens[3];
  list[static_cast<std::size_t>(gone)].clear();
  const auto spm = [](const char* file) { return text::SentencePiece::load(marian::folder("swish") / file); };
  const MarianTokenizer tokenizer(spm("source.spm"), spm("target.spm"), text::MarianVocabulary(list));
  Tokens others = tokens;
  std::erase(others, gone);
  REQUIRE(others.size() < tokens.size());
  CHECK(tokenizer.decode(tokens) == tokenizer.decode(others));
  CHECK(tokenizer.piece(gone) == "<unk>");
  CHECK(tokenizer.target_piece(gone) == "<unk>");
  CHECK(tokenizer.encode("my old house")[3] == tokenizer.unk());
}

TEST_CASE("MarianTokenizer: written files give the same tokenizer") {
  const std::string name = GENERATE("swish", "relu_separate");
  const TemporaryFolder folder;
  const auto tokenizer = MarianTokenizer::load(marian::folder(name)).with_begin(0);
  tokenizer.save_files(folder.path());
  const auto again = MarianTokenizer::load(folder.path());
  CHECK(again.bos() == 0);
  CHECK((again.size() == tokenizer.size() && again.target_size() == tokenizer.target_size()));
  const std::string sentence = ">>xxx<< every bright window";
  CHECK(again.encode(sentence) == tokenizer.encode(sentence));
  CHECK(again.encode_target(sentence) == tokenizer.encode_target(sentence));
}

TEST_CASE("MarianTokenizer: other names of marks, and spaces before marks of punctuation") {
  const TemporaryFolder folder;
  for (const char* file : {"source.spm", "target.spm"}) std::filesystem::copy(marian::folder("swish") / file, folder / file);
  write(folder / "vocab.json", R"({"END": 0, "WHAT": 1, "▁a": 2, "▁.": 3, "FILL": 4, "▁n't": 5, "▁'": 6})");
  write(folder / "tokenizer_config.json",
        R"({"eos_token": {"content": "END"}, "unk_token": "WHAT", "pad_token": "FILL", "clean_up_tokenization_spaces": true})");
  const auto tokenizer = MarianTokenizer::load(folder.path());
  CHECK((tokenizer.eos() == 0 && tokenizer.unk() == 1 && tokenizer.pad() == 4));
  CHECK(tokenizer.decode(Tokens{2, 5, 2, 6, 2, 3, 1, 0}) == "an't a'a.");
}

TEST_CASE("MarianTokenizer: files that are no tokenizer") {
  const TemporaryFolder folder;
  const auto fill = [&] {
    for (const char* file : {"source.spm", "target.spm", "vocab.json"})
      std::filesystem::copy(marian::folder("swish") / file, folder / file, std::filesystem::copy_options::overwrite_existing);
  };
  const auto refused = [&](const char* file, const std::string& content, const std::string& text) {
    fill();
    write(folder / file, content);
    INFO(file << ": " << content);
    CHECK_THROWS_AS(MarianTokenizer::load(folder.path()), FormatError);
    CHECK_THROWS_WITH(MarianTokenizer::load(folder.path()), ContainsSubstring(text));
  };
  refused("vocab.json", R"({"</s>": 0, "<unk>": 1})", "has no <pad>");
  refused("vocab.json", "[1, 2]", "expected an object");
  refused("vocab.json", R"({"</s>": "0"})", "expected a whole number");
  refused("vocab.json", R"({"</s>": 99999999})", "expected 0 to");
  refused("vocab.json", R"({"</s>": 0, "": 1})", "without text");
  refused("vocab.json", "{\"\xff\": 0}", "vocab.json");
  fill();
  refused("target.spm", "not a model", "SentencePiece");
  refused("tokenizer_config.json", R"({"sp_model_kwargs": {"enable_sampling": true}})", "enable_sampling");
}

TEST_CASE("AnyTokenizer has what its tokenizer has, and fills in the rest") {
  struct Digits {
    Tokens encode(const std::string& text) const {
      Tokens list;
      for (const char c : text) list.push_back(c - '0');
      return list;
    }
    std::string decode(std::span<const token_t> tokens) const {
      std::string all;
      for (const token_t t : tokens) all += std::to_string(t);
      return all;
    }
    index_t size() const { return 10; }
    token_t bos() const { return -1; }
    token_t eos() const { return 0; }
    token_t pad() const { return -1; }
  };
  const text::AnyTokenizer digits = Digits();
  CHECK(digits.encode("42") == Tokens{4, 2});
  CHECK(digits.encode_target("42") == Tokens{4, 2});
  CHECK((digits.size() == 10 && digits.target_size() == 10));
  CHECK((digits.unk() == -1 && digits.bos() == -1 && digits.eos() == 0 && digits.pad() == -1));
  CHECK(digits.piece(7) == "7");
  CHECK(digits.target_piece(7) == "7");
  CHECK(digits.as<Digits>() != nullptr);
  CHECK(digits.as<MarianTokenizer>() == nullptr);
  const TemporaryFolder folder;
  digits.save_files(folder.path());
  CHECK(std::filesystem::is_empty(folder.path()));

  const auto marian = MarianTokenizer::load(marian::folder("relu_separate"));
  const text::AnyTokenizer any = marian, copy = any;
  CHECK(copy.target_size() == marian.target_size());
  CHECK(copy.unk() == 1);
  CHECK(copy.encode_target("Das") == marian.encode_target("Das"));
  CHECK(copy.target_piece(5) == marian.target_piece(5));
  copy.save_files(folder.path());
  CHECK(std::filesystem::exists(folder / "target_vocab.json"));
  marian.save_files(folder.path());
}
