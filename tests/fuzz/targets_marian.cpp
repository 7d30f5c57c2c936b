// Targets of Marian's family: its configurations, its tokenizer's files, its folders.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attend/compiled.hpp"
#include "attend/core/random.hpp"
#include "attend/io/file.hpp"
#include "attend/marian.hpp"
#include "attend/marian/tokenizer.hpp"
#include "attend/translate/translator_options.hpp"
#include "input.hpp"
#include "models.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace fuzz {

namespace {

/// A small Marian folder as `save_marian` writes it, and what stands in its files.
class MarianFolder {
 public:
  explicit MarianFolder(const std::string& name) : path_(scratch() / name) {
    const auto pieces = text::SentencePiece::train(
        std::vector<std::string>{"one small house", "two quiet rivers", "no green window", "a bright old stone"},
        {.vocabulary = 40, .normalization = "identity"});
    attend::seed(1);
    const nn::Transformer<float> model({.vocabulary = pieces.size(),
                                        .d_model = 4,
                                        .heads = 2,
                                        .d_ff = 3,
                                        .layers = 1,
                                        .max_length = 6,
                                        .share_embeddings = true,
                                        .tie_head = true});
    io::save_marian(path_, model, pieces);
    for (const auto& entry : fs::directory_iterator(path_))
      files_[entry.path().filename().string()] = io::read_file(entry.path());
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  /// What a file holds; nothing if there is none of that name.
  [[nodiscard]] std::string file(const std::string& name) const {
    const auto found = files_.find(name);
    return found == files_.end() ? std::string() : found->second;
  }
  /// Puts a file of that name in place of the one that was there.
  void replace(const std::string& name, Bytes bytes) const { put(path_ / name, bytes); }
  /// Brings the file back that was there.
  void bring_back(const std::string& name) const {
    if (files_.contains(name)) put(path_ / name, std::string_view(files_.at(name)));
    else fs::remove(path_ / name);
  }

 private:
  fs::path path_;
  std::map<std::string, std::string> files_;
};

const MarianFolder& folder() {
  static const MarianFolder made("marian");
  return made;
}

/// The files that a target puts its input in place of, by the first byte of the input.
constexpr std::array<const char*, 5> tokenizer_files{"vocab.json", "tokenizer_config.json", "special_tokens_map.json",
                                                     "target_vocab.json", "source.spm"};

template <std::size_t N>
std::vector<std::string> seeds_of(const std::array<const char*, N>& names) {
  std::vector<std::string> seeds;
  for (std::size_t i = 0; i < N; ++i)
    if (const auto contents = folder().file(names[i]); !contents.empty()) seeds.push_back(static_cast<char>(i) + contents);
  return seeds;
}

io::MarianConfig some_config() {
  const io::Json json = io::parse_json(folder().file("config.json"), "config.json");
  return io::marian_config_from(json, "config.json");
}

std::optional<io::MarianConfig> config_of_marian(Bytes bytes) {
  std::optional<io::MarianConfig> config;
  answers<FormatError>([&] { config = io::marian_config_from(io::parse_json(text_of(bytes), "config.json"), "config.json"); });
  return config;
}

void check_search(const io::Json& json, const io::MarianConfig& config) {
  answers<FormatError>([&] {
    const auto search = io::pretrained_search_from(json, "generation_config.json", config);
    answers<>([&] {
      decode::detail::check_translator(search);
      // Lengths that the model does not have are cut where they are written.
      if (search.min_length + 3 > config.model.encoder.max_length) return;
      const io::Json written = io::to_json(search, config, {});
      expect(io::to_json(io::pretrained_search_from(written, "again", config), config, {}) == written,
             "a search that is written and read is the same");
    });
  });
}

void check_tokenizer(const text::MarianTokenizer& tokenizer) {
  for (const token_t mark : {tokenizer.eos(), tokenizer.unk(), tokenizer.pad(), tokenizer.bos()})
    expect(mark >= 0 && mark < tokenizer.target_size(), "a mark is within the vocabulary");
  for (const std::string_view line : {"", ">>fra<< one small house", "no . n't ' m \xE2\x96\x81z\xC3\xA9", ">> <<"}) {
    for (const token_t token : tokenizer.encode(line)) {
      expect(token >= 0 && token < tokenizer.size(), "a source token is within the vocabulary");
      (void)tokenizer.piece(token);
    }
    const auto tokens = tokenizer.encode_target(line);
    for (const token_t token : tokens) {
      expect(token >= 0 && token < tokenizer.target_size(), "a target token is within the vocabulary");
      (void)tokenizer.target_piece(token);
    }
    (void)tokenizer.decode(tokens);
  }
  expect(!answers<ValueError>([&] { (void)tokenizer.encode("one \xFF house"); }), "what is not UTF-8 is refused");
  std::vector<token_t> all;
  for (index_t t = 0; t < std::min<index_t>(tokenizer.target_size(), 300); ++t) all.push_back(static_cast<token_t>(t));
  (void)tokenizer.decode(all);
}

}  // namespace

int marian_config(Bytes bytes) {
  const auto config = config_of_marian(bytes);
  if (!config) return 0;
  const io::Json written = io::to_json(*config, io::DType::f32);
  expect(io::to_json(io::marian_config_from(written, "again"), io::DType::f32) == written,
         "a configuration that is written and read is the same");
  // Older models say in the same file how they are searched.
  check_search(io::parse_json(text_of(bytes), "config.json"), *config);
  return 0;
}
std::vector<std::string> marian_config_seeds() {
  io::Json json = io::parse_json(folder().file("config.json"), "config.json");
  json["num_beams"] = 4, json["max_length"] = 512, json["bad_words_ids"] = std::vector<std::vector<token_t>>{{5}};
  return {folder().file("config.json"), json.dump()};
}

int generation_config(Bytes bytes) {
  static const auto config = some_config();
  answers<FormatError>([&] { check_search(io::parse_json(text_of(bytes), "generation_config.json"), config); });
  return 0;
}
std::vector<std::string> generation_config_seeds() {
  return {folder().file("generation_config.json"),
          R"({"num_beams": 6, "num_return_sequences": 2, "length_penalty": 0.5, "early_stopping": "never", "max_new_tokens": 4,
"min_new_tokens": 1, "bad_words_ids": [[3, 4], [5]], "suppress_tokens": [6], "no_repeat_ngram_size": 3,
"renormalize_logits": true, "forced_eos_token_id": 0})",
          R"({"do_sample": true, "temperature": 0.7, "top_k": 10, "top_p": 0.9, "max_length": 5, "min_length": 2})"};
}

int marian_tokenizer(Bytes bytes) {
  Input input(bytes);
  const std::string name = tokenizer_files[input.byte() % tokenizer_files.size()];
  folder().replace(name, input.rest());
  answers<FormatError, IoError>([&] { check_tokenizer(text::MarianTokenizer::load(folder().path())); });
  folder().bring_back(name);
  return 0;
}
std::vector<std::string> marian_tokenizer_seeds() { return seeds_of(tokenizer_files); }

int marian_model(Bytes bytes) {
  Input input(bytes);
  const std::size_t which = input.byte() % model_files.size();
  if (which == 0)
    if (const auto config = config_of_marian(input.rest()); config && is_large(config->model)) return 0;
  folder().replace(model_files[which], input.rest());
  answers<FormatError, IoError>([&] {
    const auto loaded = io::load_marian<float>(folder().path());
    answers<>([&] { decode::detail::check_translator(loaded.search); });
    const NoGrad no_grad;
    const Tensor<token_t> token({1}, token_t{0});
    const auto one = Segments::ragged({1});
    (void)loaded.model({token, one, token, one, token});
  });
  folder().bring_back(model_files[which]);
  return 0;
}
std::vector<std::string> marian_model_seeds() { return seeds_of(model_files); }

}  // namespace fuzz
