// Targets of the other families of transformers: their configurations, their folders.

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "attend/compiled.hpp"
#include "attend/core/random.hpp"
#include "attend/io/file.hpp"
#include "attend/pretrained.hpp"
#include "input.hpp"
#include "models.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace fuzz {

namespace {

/// A small model of a family, and what stands in its files.
struct Folder {
  fs::path path;
  std::array<std::string, 3> files;

  explicit Folder(const char* family) : path(scratch() / family) {
    io::Json json{{"model_type", family}, {"vocab_size", 7}, {"d_model", 4}, {"decoder_start_token_id", 2}};
    for (const char* key : {"encoder_layers", "decoder_layers", "num_layers"}) json[key] = 1;
    for (const char* key : {"encoder_attention_heads", "decoder_attention_heads", "num_heads", "d_kv"}) json[key] = 2;
    for (const char* key : {"encoder_ffn_dim", "decoder_ffn_dim", "d_ff"}) json[key] = 3;
    json["max_position_embeddings"] = 6;
    const auto config = io::pretrained_config_from(json, "config.json");
    attend::seed(1);
    io::save_pretrained(
        path, io::PretrainedModel<float>{
                  nn::Transformer<float>(config.model), config, {.normalization = decode::LengthNormalization::marian}});
    for (std::size_t i = 0; i < files.size(); ++i) files[i] = io::read_file(path / model_files[i]);
  }
};

const Folder& folder(std::size_t which) {
  static const std::array<Folder, 2> made{Folder("m2m_100"), Folder("t5")};
  return made[which];
}

std::optional<io::PretrainedConfig> config_of(Bytes bytes) {
  std::optional<io::PretrainedConfig> config;
  answers<FormatError>(
      [&] { config = io::pretrained_config_from(io::parse_json(text_of(bytes), "config.json"), "config.json"); });
  return config;
}

}  // namespace

int pretrained_config(Bytes bytes) {
  const auto config = config_of(bytes);
  if (!config) return 0;
  const auto write = [](const io::PretrainedConfig& c) {
    return detail::pretrained_config_json(c.model, c, c.force_end, io::DType::f32);
  };
  const auto again = io::pretrained_config_from(write(*config), "again");
  expect(write(again) == write(*config), "a configuration that is written and read is the same");
  expect(io::to_json(again.model) == io::to_json(config->model), "and so is what a model is built from");
  answers<FormatError>([&] {
    const auto search = io::pretrained_search_from(io::parse_json(text_of(bytes), "config.json"), "config.json", *config);
    answers<>([&] { decode::detail::check_translator(search); });
  });
  return 0;
}
std::vector<std::string> pretrained_config_seeds() {
  auto json = io::parse_json(folder(0).files[0], "config.json");
  json["num_beams"] = 4, json["forced_bos_token_id"] = 3, json["max_length"] = 9;
  return {json.dump(), folder(1).files[0]};
}

int pretrained_model(Bytes bytes) {
  Input input(bytes);
  const std::size_t which = input.byte(), file = which / 2 % model_files.size();
  const Folder& good = folder(which % 2);
  if (file == 0)
    if (const auto config = config_of(input.rest()); config && is_large(config->model)) return 0;
  put(good.path / model_files[file], input.rest());
  answers<FormatError, IoError>([&] {
    const auto loaded = io::load_pretrained<float>(good.path);
    answers<>([&] { decode::detail::check_translator(loaded.search); });
    const NoGrad no_grad;
    const Tensor<token_t> token({1}, token_t{0});
    const auto one = Segments::ragged({1});
    (void)loaded.model({token, one, token, one, token});
  });
  put(good.path / model_files[file], std::string_view(good.files[file]));
  return 0;
}
std::vector<std::string> pretrained_model_seeds() {
  std::vector<std::string> seeds;
  for (std::size_t which = 0; which < 2 * model_files.size(); ++which)
    seeds.push_back(static_cast<char>(which) + folder(which % 2).files[which / 2]);
  return seeds;
}

}  // namespace fuzz
