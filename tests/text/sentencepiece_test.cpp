#include "attend/text/sentencepiece.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/random.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"
#include "text/shared_data.hpp"

using namespace attend;
using namespace attend::text;

namespace {

/// Some sixty pairs, each word in many of them.
Corpus small_corpus() {
  Corpus corpus;
  const std::vector<SentencePair> nouns = {{"cat", "gato"}, {"dog", "perro"}, {"horse", "caballo"}, {"bird", "pájaro"}};
  const std::vector<SentencePair> verbs = {{"eats", "come"}, {"sleeps", "duerme"}, {"runs", "corre"}, {"waits", "espera"}};
  const std::vector<SentencePair> places = {
      {"here", "aquí"}, {"in the house", "en la casa"}, {"by the river", "junto al río"}, {"every day", "todos los días"}};
  for (const auto& noun : nouns)
    for (const auto& verb : verbs)
      for (const auto& place : places)
        corpus.pairs.push_back({"The " + noun.source + ' ' + verb.source + ' ' + place.source + '.',
                                "El " + noun.target + ' ' + verb.target + ' ' + place.target + '.'});
  return corpus;
}

const SentencePiece& small_model() {
  static const SentencePiece model = SentencePiece::train(small_corpus(), {.vocabulary = 120});
  return model;
}

using Tokens = std::vector<token_t>;

}  // namespace

TEST_CASE("sentencepiece: what it was trained on comes back, on both sides, with either model") {
  const Corpus corpus = small_corpus();
  for (const auto kind : {SentencePieceModel::unigram, SentencePieceModel::bpe}) {
    const SentencePiece model = SentencePiece::train(corpus, {.vocabulary = 120, .model = kind});
    CHECK(model.size() > 40);
    CHECK(model.size() <= 120);
    for (const SentencePair& pair : corpus) {
      CHECK(model.decode(model.encode(pair.source)) == pair.source);
      CHECK(model.decode(model.encode(pair.target)) == pair.target);
    }
    const Tokens tokens = model.encode(corpus[0].source);
    CHECK(tokens.size() < corpus[0].source.size());
    CHECK(std::none_of(tokens.begin(), tokens.end(), [](token_t token) { return token < 4; }));
    const auto pieces = model.pieces(corpus[0].source);
    REQUIRE(pieces.size() == tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      CHECK(model.piece(tokens[i]) == pieces[i]);
      CHECK(model.token(pieces[i]) == tokens[i]);
    }
  }
}

TEST_CASE("sentencepiece: marks") {
  const SentencePiece& model = small_model();
  CHECK(model.pad() == SentencePiece::pad_id);
  CHECK(model.bos() == SentencePiece::bos_id);
  CHECK(model.eos() == SentencePiece::eos_id);
  CHECK(model.unk() == SentencePiece::unk_id);
  CHECK(model.piece(0) == "<pad>");
  CHECK(model.piece(2) == "</s>");
  CHECK(model.token("no such piece") == model.unk());
  Tokens tokens = model.encode("The cat runs.");
  tokens.insert(tokens.begin(), model.bos());
  tokens.insert(tokens.end(), {model.eos(), model.pad(), model.pad()});
  CHECK(model.decode(tokens) == "The cat runs.");
  CHECK(model.decode(Tokens{model.bos(), model.eos()}).empty());
  CHECK(model.decode(Tokens{}).empty());
  CHECK(model.encode("").empty());
  CHECK(model.encode("   ").empty());
  // Marks that a user types are text.
  const Tokens typed = model.encode("</s>");
  CHECK(std::find(typed.begin(), typed.end(), model.eos()) == typed.end());
}

TEST_CASE("sentencepiece: unknown characters become <unk>, or bytes on request") {
  const Tokens tokens = small_model().encode("cat 😀");
  CHECK(std::count(tokens.begin(), tokens.end(), small_model().unk()) == 1);
  const SentencePiece bytes = SentencePiece::train(small_corpus(), {.vocabulary = 400, .byte_fallback = true});
  CHECK(bytes.size() > 260);
  CHECK(bytes.decode(bytes.encode("The 猫 sleeps 😀.")) == "The 猫 sleeps 😀.");
}

TEST_CASE("sentencepiece: a text that is not UTF-8 is refused with the place") {
  const SentencePiece& model = small_model();
  CHECK_THROWS_AS(model.encode("cat\xFF"), ValueError);
  CHECK_THROWS_WITH(model.encode("caf\xC3\xA9 \xC3("), "SentencePiece::encode: byte 7 is 0xC3, expected UTF-8");
  CHECK_THROWS_WITH(model.pieces("\xED\xA0\x80"), "SentencePiece::encode: byte 1 is 0xED, expected UTF-8");
  CHECK_NOTHROW(model.encode(encode_utf8(decode_utf8("cat\xFF"))));
}

TEST_CASE("sentencepiece: training again gives the same bytes") {
  for (const auto kind : {SentencePieceModel::unigram, SentencePieceModel::bpe}) {
    const SentencePieceOptions options{.vocabulary = 100, .model = kind};
    CHECK(SentencePiece::train(small_corpus(), options).serialized() ==
          SentencePiece::train(small_corpus(), options).serialized());
  }
}

TEST_CASE("sentencepiece: a corpus that gives fewer pieces than asked for") {
  const SentencePiece model = SentencePiece::train(std::vector<std::string>{"Hello world"});
  CHECK(model.size() < 40);
  CHECK(model.decode(model.encode("Hello world")) == "Hello world");
  CHECK(SentencePiece::train(std::vector<std::string>{"a"}).size() >= 5);
  CHECK(SentencePiece::train(std::vector<std::string>{"a"}, {.model = SentencePieceModel::bpe}).size() >= 5);
}

TEST_CASE("sentencepiece: only so many sentences are trained on, spread over all of them") {
  std::vector<std::string> sentences(1000, "aaa");
  std::fill(sentences.begin() + 500, sentences.end(), "bbb");
  const SentencePiece model = SentencePiece::train(sentences, {.vocabulary = 20, .max_sentences = 100});
  CHECK(model.token("a") != model.unk());
  CHECK(model.token("b") != model.unk());
}

TEST_CASE("sentencepiece: normalization") {
  CHECK(small_model().decode(small_model().encode("Ｔｈｅ  ｃａｔ　runs.")) == "The cat runs.");
  const SentencePiece fold = SentencePiece::train(small_corpus(), {.vocabulary = 120, .normalization = "nmt_nfkc_cf"});
  CHECK(fold.decode(fold.encode("THE CAT")) == "the cat");
}

TEST_CASE("sentencepiece: saved and loaded, it is the same") {
  const TemporaryFolder folder;
  small_model().save(folder / "tokenizer.model");
  const SentencePiece loaded = SentencePiece::load(folder / "tokenizer.model");
  CHECK(loaded.serialized() == small_model().serialized());
  CHECK(loaded.encode("The dog waits here.") == small_model().encode("The dog waits here."));
  CHECK_THROWS_AS(small_model().save(folder / "no such folder" / "tokenizer.model"), IoError);
}

TEST_CASE("sentencepiece: options out of range and corpora without text are refused") {
  const Corpus corpus = small_corpus();
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.vocabulary = 4}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.vocabulary = -1}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.vocabulary = index_t{1} << 40}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.character_coverage = 0.5}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.character_coverage = 1.5}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.normalization = "nfd"}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.max_sentences = 0}), ValueError);
  // Fewer pieces than the corpus has characters.
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.vocabulary = 20}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.vocabulary = 20, .model = SentencePieceModel::bpe}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(corpus, {.vocabulary = 200, .byte_fallback = true}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(Corpus{}), ValueError);
  CHECK_THROWS_AS(SentencePiece::train(std::vector<std::string>{"", " ", "\u200B\u00A0", "\uFFFD", "\u2581", "\u2585", "\x01"}),
                  ValueError);
  CHECK_THROWS_AS(SentencePiece::train(std::vector<std::string>{std::string(5000, 'a')}), ValueError);
}

TEST_CASE("sentencepiece: tokens outside the vocabulary are refused") {
  const SentencePiece& model = small_model();
  const auto size = static_cast<token_t>(model.size());
  CHECK_THROWS_AS(model.decode(Tokens{5, size}), IndexError);
  CHECK_THROWS_AS(model.decode(Tokens{-1}), IndexError);
  CHECK_THROWS_AS(model.piece(size), IndexError);
  CHECK_THROWS_AS(model.piece(-1), IndexError);
  CHECK_THROWS_WITH(model.decode(Tokens{5, 1000}),
                    "SentencePiece::decode: token 1000 at position 1, expected 0 to " + std::to_string(size - 1));
}

TEST_CASE("sentencepiece: files that are no model") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(SentencePiece::load(folder / "missing"), IoError);
  CHECK_THROWS_AS(SentencePiece::load(folder / ""), IoError);
  CHECK_THROWS_WITH(SentencePiece::load(folder.write("empty", "")),
                    "SentencePiece: " + (folder / "empty").string() + " is empty, expected a SentencePiece model");
  CHECK_THROWS_AS(SentencePiece::load(folder.write("text", "This is a text file, and no model.\n")), FormatError);
  CHECK_THROWS_AS(SentencePiece::load(folder.write("json", "{\"model\": {\"type\": \"BPE\"}}")), FormatError);
  const std::string bytes = small_model().serialized();
  for (std::size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 500)
    CHECK_THROWS_AS(SentencePiece::from_serialized(std::string_view(bytes).substr(0, length)), FormatError);
}

TEST_CASE("sentencepiece: damaged models are refused or work, and never crash") {
  const std::string bytes = small_model().serialized();
  Generator generator(11);
  const auto random = generator.next();
  auto draw = [&, drawn = std::uint64_t{0}](std::uint64_t below) mutable { return random.below(drawn++, below); };
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes;
    for (std::uint64_t edits = 1 + draw(4); edits > 0; --edits) {
      // The pieces and their types stand at the head; nearly all of the rest is the normalization table.
      const std::uint64_t span = std::min<std::uint64_t>(bytes.size(), round % 2 == 0 ? 3000 : bytes.size());
      const std::uint64_t at = draw(span);
      damaged[at] = static_cast<char>(draw(256));
    }
    try {
      const SentencePiece model = SentencePiece::from_serialized(damaged);
      const Tokens tokens = model.encode("The cat eats in the house. ¿Ｑué? \uFFFD");
      (void)model.decode(tokens);
    } catch (const FormatError&) {
      ++refused;
    } catch (const Error&) {
    }
  }
  CHECK(refused > 30);
}

TEST_CASE("sentencepiece: a model from elsewhere") {
  const auto path = shared_data("sentencepiece/test_model.model"), text = shared_data("sentencepiece/botchan.txt");
  ATTEND_SKIP_WITHOUT(path);
  ATTEND_SKIP_WITHOUT(text);
  const SentencePiece model = SentencePiece::load(path);
  CHECK(model.size() == 1000);
  CHECK(model.unk() == 0);
  CHECK(model.bos() == 1);
  CHECK(model.eos() == 2);
  CHECK(model.pad() == -1);
  int compared = 0, changed = 0;
  const std::vector<std::string> lines = read_lines(text);
  for (std::size_t i = 0; i < lines.size() && i < 500; ++i) {
    const Tokens tokens = model.encode(lines[i]);
    if (std::find(tokens.begin(), tokens.end(), model.unk()) != tokens.end()) continue;  // some digits have no piece
    ++compared;
    changed += model.decode(tokens) != collapse_spaces(lines[i]);
  }
  CHECK(compared > 400);
  CHECK(changed == 0);
}
