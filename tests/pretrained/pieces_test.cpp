#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/pretrained/added_tokens.hpp"
#include "attend/pretrained/bpe.hpp"
#include "attend/pretrained/byte_level.hpp"
#include "attend/pretrained/charsmap.hpp"
#include "attend/pretrained/tokenizer.hpp"
#include "attend/pretrained/tokenizer_json.hpp"
#include "attend/pretrained/unigram.hpp"
#include "attend/text/unicode_classes.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/options.hpp"
#include "attend/translate/translation_system.hpp"
#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

text::PieceTable table(std::vector<std::string> pieces) { return text::PieceTable(std::move(pieces)); }

std::vector<token_t> encode(const text::PieceModel& model, std::string_view part, bool first = true) {
  std::vector<token_t> tokens;
  model.encode(part, first, tokens);
  return tokens;
}

/// The model of a tokenizer.json.
std::shared_ptr<const text::PieceModel> model_of(std::string_view json) {
  return detail::read_tokenizer_json(io::parse_json(json, "test"), "test").model;
}

/// What Translator knows, as far as sources are concerned.
struct System {
  struct Model {
    [[nodiscard]] index_t longest() const { return 100; }
  };
  text::AnyTokenizer tokenizer;
  decode::TranslatorOptions options = {};
  Model model = {};
  [[nodiscard]] index_t source_positions() const { return 100; }
  [[nodiscard]] std::vector<token_t> begun(std::vector<token_t> prefix) const { return prefix; }
};

text::AnyTokenizer load(const char* name) {
  return text::load_pretrained_tokenizer(std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / "../../pretrained/tokenizers" /
                                         name);
}

}  // namespace

TEST_CASE("byte pairs: the lowest rank is merged first, and of equal ones the leftmost") {
  const std::vector<std::pair<std::string, std::string>> merges{{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}};
  const auto tokens = [&](const std::string& word, text::UnknownOptions unknown = {}, bool ignore = false) {
    const text::BytePairModel model(table({"a", "b", "c", "ab", "bc", "aa", "aaa", "?", "abcabc", "<0xC3>", "<0xA9>"}), merges,
                                    unknown, ignore, "test");
    std::vector<token_t> list;
    model.encode(word, list);
    return list;
  };
  using Tokens = std::vector<token_t>;
  CHECK(tokens("abc") == Tokens{0, 4});
  CHECK(tokens("ab") == Tokens{3});
  CHECK(tokens("aaaa") == Tokens{5, 5});
  CHECK(tokens("aaaaa") == Tokens{5, 6});
  CHECK(tokens("") == Tokens{});
  CHECK(tokens("abcabc") == Tokens{0, 4, 0, 4});
  CHECK(tokens("abcabc", {}, true) == Tokens{8});
  CHECK(tokens("axyb") == Tokens{3});  // left out, as the tokenizers library does without unk_token
  CHECK(tokens("axyb", {.token = 7}) == Tokens{0, 7, 7, 1});
  CHECK(tokens("axyb", {.token = 7, .fuse = true}) == Tokens{0, 7, 1});
  CHECK(tokens("aéx", {.token = 7, .fuse = true, .bytes = true}) == Tokens{0, 9, 10, 7});
  CHECK_THROWS_WITH(text::BytePairModel(table({"a"}), {{"a", "b"}}, {}, false, "file"),
                    ContainsSubstring("file: merges 'a' and 'b'"));
  CHECK(tokens(std::string(100'000, 'a')).size() == 50'000);  // in n log n steps
}

TEST_CASE("unigram: the best sum of scores counts, and of equal ones the first that is found") {
  const text::UnigramModel model(table({"?", "a", "b", "ab", "bc", "c", "abc", "<0xC3>", "<0xA9>"}),
                                 {0, -1, -1, -1.5, -1, -1, -9, 0, 0}, {.token = 0, .fuse = true, .bytes = true});
  const auto tokens = [&](const std::string& word) {
    std::vector<token_t> list;
    model.encode(word, list);
    return list;
  };
  using Tokens = std::vector<token_t>;
  CHECK(tokens("ab") == Tokens{3});
  CHECK(tokens("abc") == Tokens{1, 4});
  CHECK(tokens("axxyb") == Tokens{1, 0, 2});
  CHECK(tokens("é") == Tokens{7, 8});
  CHECK(tokens("xé") == Tokens{0});
  CHECK(tokens("") == Tokens{});
}

TEST_CASE("byte level: words as GPT-2 cuts them") {
  using Words = std::vector<std::string_view>;
  CHECK(text::byte_level_words("Hello  world, it's 12 o'clock") ==
        Words{"Hello", " ", " world", ",", " it", "'s", " 12", " o", "'", "clock"});
  CHECK(text::byte_level_words("a\n\n b") == Words{"a", "\n\n", " b"});
  CHECK(text::byte_level_words("a \nb") == Words{"a", " ", "\n", "b"});
  CHECK(text::byte_level_words("  ") == Words{"  "});
  CHECK(text::byte_level_words(" ") == Words{" "});
  CHECK(text::byte_level_words("we'll!?'") == Words{"we", "'ll", "!?'"});
  CHECK(text::byte_level_words("é日本12ⅷ ²x") == Words{"é日本", "12ⅷ", " ²", "x"});
  CHECK(text::bytes_as_characters(" é\n") == "ĠÃ©Ċ");
  CHECK(text::characters_as_bytes({"ĠÃ", "©"}) == " é");
  CHECK(text::characters_as_bytes({"Ã", "日"}) == "\uFFFD日");
}

TEST_CASE("classes of characters") {
  for (const char32_t c : {U'a', U'Z', U'é', U'日', U'ß', U'ª', U'א'}) CHECK(text::is_letter(c));
  for (const char32_t c : {U'1', U'_', U' ', U'\u0301', U'²', char32_t{0x10FFFF}}) CHECK_FALSE(text::is_letter(c));
  for (const char32_t c : {U'0', U'²', U'Ⅷ', U'٣', U'½'}) CHECK(text::is_number(c));
  for (const char32_t c : {U'a', U'/', U':', U'一'}) CHECK_FALSE(text::is_number(c));
  CHECK(text::joins_cluster(U'\u0301'));
  CHECK(text::joins_cluster(U'\u200D'));
  CHECK_FALSE(text::joins_cluster(U'a'));
}

TEST_CASE("added tokens: the first and longest counts, with the white space that it takes along") {
  const text::AddedTokens tokens({{.content = "<a>", .token = 1},
                                  {.content = "<a><b>", .token = 2, .lstrip = true},
                                  {.content = "xx", .token = 3, .rstrip = true},
                                  {.content = "n", .token = 4, .normalized = true}});
  const auto split = [&](std::string_view text, bool normalized = false) {
    std::string all;
    tokens.split(
        text, normalized, [&](std::string_view part) { all += "[" + std::string(part) + "]"; },
        [&](token_t token) { all += std::to_string(token); });
    return all;
  };
  CHECK(split("p<a>q") == "[p]1[q]");
  CHECK(split("p \t<a><b> q") == "[p]2[ q]");
  CHECK(split("xxx  \u3000y") == "3[x  \u3000y]");
  CHECK(split("xx  \u3000<a><b>") == "32");
  CHECK(split("n") == "[n]");
  CHECK(split("anb<a>", true) == "[a]4[b<a>]");
  CHECK(split("") == "");
  CHECK_THROWS_AS(text::AddedTokens({{.content = "a", .token = 1}, {.content = "a", .token = 2}}), ValueError);
  CHECK_THROWS_AS(text::AddedTokens({{.content = "", .token = 1}}), ValueError);
}

TEST_CASE("tokenizer.json: steps that the families' small files do not have") {
  const std::string vocabulary = R"("model": {"type": "BPE", "unk_token": "?", "byte_fallback": true, "merges": [],
    "vocab": {"?": 0, "▁": 1, "a": 2, "b": 3, "<0xC3>": 4, "<0xA9>": 5}}})";
  using Tokens = std::vector<token_t>;
  const auto first =
      model_of(R"({"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"}, "decoder": {"type": "Sequence",
    "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},)" +
               vocabulary);
  CHECK(encode(*first, "a b") == Tokens{1, 2, 1, 3});
  CHECK(encode(*first, "a", false) == Tokens{2});
  CHECK(encode(*first, "é") == Tokens{1, 4, 5});
  CHECK(first->join({"▁", "a", "<0xC3>", "<0xA9>", "▁", "b"}) == "aé b");
  CHECK(first->join({"<0xC3>", "a", "<0xZ3>"}) == "\uFFFDa<0xZ3>");
  const auto steps =
      model_of(R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip"}, {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": "x"}, "content": "b"}]},)" +
               vocabulary);
  CHECK(encode(*steps, "  ax ") == Tokens{1, 2, 3});
  CHECK(encode(*steps, "  ").empty());
  CHECK(steps->join({"a", "b"}) == "a b");
  const auto old = model_of(R"({"pre_tokenizer": {"type": "Metaspace", "add_prefix_space": false}, "model": {"unk_id": 0,
    "vocab": [["?", 0], ["a", -1], ["▁", -1]]}})");
  CHECK(encode(*old, "a a") == Tokens{1, 2, 1});
}

TEST_CASE("pretrained tokenizer: languages reach training, and the ends of sources the translator") {
  const auto nllb = load("nllb").with_languages("eng_Latn", "fra_Latn");
  struct Pair {
    std::string source, target;
  };
  const std::vector<Pair> corpus{{"the house", "a river"}};
  const auto pairs = train::encode_pairs(corpus, nllb);
  CHECK(pairs.source(0).front() == nllb.encode("a").front());
  CHECK(pairs.target(0).front() == nllb.forced_begin());
  CHECK(count_of(pairs.target(0)) == count_of(nllb.encode_target("a river")) + 1);

  const auto mbart = load("mbart").with_languages("ro_RO", "en_XX");
  const std::vector<std::string> sentences{"the house"};
  const auto cut = decode::detail::cut_sentences(System{mbart}, sentences, 0, {});
  auto expected = mbart.encode("the house");
  expected.push_back(mbart.eos());
  expected.push_back(mbart.as<text::PretrainedTokenizer>()->token("ro_RO"));
  REQUIRE(cut.parts.size() == 1);
  CHECK(cut.parts[0].tokens == expected);
  CHECK_NOTHROW(train::check_fits(0, nllb.as<text::PretrainedTokenizer>()->with_begin(2), 5));
  CHECK_NOTHROW(train::check_fits(0, mbart, 5));
  CHECK(text::is_mark(nllb, nllb.encode("a").front()));
  CHECK_FALSE(text::is_mark(nllb, nllb.encode("a").back()));
}
