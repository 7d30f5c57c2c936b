// Targets of tokenizers in folders of the transformers library.

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/pretrained/tokenizer.hpp"
#include "input.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace fuzz {

namespace {

constexpr std::string_view pairs = R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 2, "content": "</s>",
"special": true}, {"id": 9, "content": "<mask>", "special": true, "lstrip": true, "normalized": true}],
"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": false}, {"type": "Replace",
"pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Prepend", "prepend": "a"}]},
"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "prepend_scheme": "first"}]},
"post_processor": {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]},
"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
"model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "merges": ["a b", ["ab", "c"], ["\u2581", "a"]],
"vocab": {"<s>": 0, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "c": 6, "ab": 7, "abc": 8, "\u2581": 10, "\u2581a": 11, "<0xC3>": 12,
"<0xA9>": 13}}})";

constexpr std::string_view scores = R"({"added_tokens": [{"id": 1, "content": "</s>", "special": true}],
"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}, "pre_tokenizer": {"type": "Metaspace"}, "decoder": {"type": "Metaspace"},
"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
"special_tokens": {"</s>": {"id": "</s>", "ids": [1]}}},
"model": {"type": "Unigram", "unk_id": 2, "vocab": [["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["\u2581", -2], ["a", -3], ["ab", -3.5],
["\u2581a", -2.5], ["bc", -4]]}})";

constexpr std::string_view settings = R"({"tokenizer_class": "BartTokenizer", "eos_token": {"content": "</s>"}, "pad_token": null,
"clean_up_tokenization_spaces": true, "additional_special_tokens": ["<x>"], "add_prefix_space": true,
"added_tokens_decoder": {"9": {"content": "<x>", "special": true, "rstrip": true}}})";

constexpr std::string_view languages = R"({"tokenizer_class": "NllbTokenizer", "eos_token": "</s>", "src_lang": "eng_Latn",
"added_tokens_decoder": {"9": {"content": "eng_Latn", "special": true}, "10": {"content": "fra_Latn", "special": true}}})";

/// A file of a folder, and what the folder has besides.
struct Place {
  const char* name;
  std::string_view contents;
  std::vector<std::pair<const char*, std::string_view>> others;
};

const std::vector<Place>& places() {
  constexpr std::string_view vocabulary =
                                 R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "Ġ": 7, "Ġa": 8})",
                             merges = "#version: 0.2\na b\nĠ a\n";
  static const std::vector<Place> all{
      {"tokenizer.json", pairs, {}},
      {"tokenizer.json", scores, {}},
      {"tokenizer_config.json", languages, {{"tokenizer.json", scores}}},
      {"tokenizer_config.json", settings, {{"vocab.json", vocabulary}, {"merges.txt", merges}}},
      {"vocab.json", vocabulary, {{"merges.txt", merges}, {"tokenizer_config.json", settings}}},
      {"merges.txt", merges, {{"vocab.json", vocabulary}, {"tokenizer_config.json", settings}}},
      {"added_tokens.json", R"({"<x>": 9, "y": 10})", {{"tokenizer.json", pairs}}},
  };
  return all;
}

void check(const text::PretrainedTokenizer& tokenizer) {
  expect(!tokenizer.source_end().empty(), "a source ends with something");
  for (const std::string_view line :
       {"", " ", "abc ab  a", "a<mask>b </s>c <x> y", "\xC3\xA9 \xE4\xBD\xA0\xF0\x9F\x91\x8D e\xCC\x81 12 it's",
        "\xE2\x96\x81 a\r\n\t\xC2\xA0", "eng_Latn aaaaaaaaaaaaaaaaaaaaaaaaabababababab"}) {
    auto tokens = tokenizer.encode(line);
    const auto target = tokenizer.encode_target(line);
    tokens.insert(tokens.end(), target.begin(), target.end());
    for (const token_t token : tokens) {
      expect(token >= 0 && token < tokenizer.size(), "a token is within the vocabulary");
      (void)tokenizer.piece(token);
    }
    (void)tokenizer.decode(tokens);
  }
  expect(!answers<ValueError>([&] { (void)tokenizer.encode_target("a\xFF"); }), "what is not UTF-8 is refused");
}

}  // namespace

int pretrained_tokenizer(Bytes bytes) {
  Input input(bytes);
  const Place& place = places()[input.byte() % places().size()];
  const fs::path folder = scratch() / "pretrained";
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [name, contents] : place.others) put(folder / name, contents);
  put(folder / place.name, input.rest());
  answers<FormatError, IoError>([&] { check(text::load_pretrained_tokenizer(folder)); });
  return 0;
}
std::vector<std::string> pretrained_tokenizer_seeds() {
  std::vector<std::string> seeds;
  for (std::size_t i = 0; i < places().size(); ++i) seeds.push_back(static_cast<char>(i) + std::string(places()[i].contents));
  return seeds;
}

}  // namespace fuzz
