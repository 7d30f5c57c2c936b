// Targets of the other families of transformers: their configurations, their folders.

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "attend/adapters.hpp"
#include "attend/compiled.hpp"
#include "attend/core/random.hpp"
#include "attend/io/file.hpp"
#include "attend/nn/freeze.hpp"
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

constexpr std::size_t families = 6;

const Folder& folder(std::size_t family) {
  static const std::array<Folder, families> made{Folder("m2m_100"), Folder("t5"),    Folder("bart"),
                                                 Folder("mt5"),     Folder("mbart"), Folder("umt5")};
  return made[family];
}

std::optional<io::PretrainedConfig> config_of(Bytes bytes) {
  std::optional<io::PretrainedConfig> config;
  answers<FormatError>(
      [&] { config = io::pretrained_config_from(io::parse_json(text_of(bytes), "config.json"), "config.json"); });
  return config;
}

constexpr std::array<const char*, 2> adapter_files{"adapter_config.json", "adapter_model.safetensors"};

/// A small model without adapters, and what stands in a folder of some for it.
struct Adapters {
  nn::Transformer<float> model{[] {
    nn::TransformerOptions o{.vocabulary = 7, .d_model = 4, .heads = 2, .d_ff = 3, .layers = 1, .max_length = 6};
    o.gated = true;
    o.positions = nn::PositionKind::learned;
    return o;
  }()};
  fs::path path = scratch() / "adapters";
  std::array<std::string, 2> files;

  explicit Adapters(const char* family) {
    nn::Transformer<float> other(model.options);
    nn::add_adapters(other, {.rank = 2, .modules = {"q_proj", "fc1", "gate_proj"}});
    io::save_adapters(path, other, {.family = family});
    for (std::size_t i = 0; i < files.size(); ++i) files[i] = io::read_file(path / adapter_files[i]);
  }
};

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
  // The lowest bit and the highest three say which family, those between which file.
  const std::size_t which = input.byte(), file = which / 2 % 16 % model_files.size();
  const Folder& good = folder(which % 2 + 2 * (which / 32 % (families / 2)));
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
  for (std::size_t family = 0; family < families; ++family)
    for (std::size_t file = 0; file < model_files.size(); ++file)
      seeds.push_back(static_cast<char>(family % 2 + 2 * file + 32 * (family / 2)) + folder(family).files[file]);
  return seeds;
}

int adapters(Bytes bytes) {
  static const Adapters good("t5");
  Input input(bytes);
  const std::size_t file = input.byte() % adapter_files.size();
  put(good.path / adapter_files[file], input.rest());
  auto model = nn::Transformer<float>(good.model.options);
  const auto names = nn::state(model).size();
  if (answers<FormatError, IoError>([&] { io::load_adapters(good.path, model); })) {
    const auto folder = scratch() / "adapters again";
    io::save_adapters(folder, model, {.family = "bart"});
    auto again = nn::Transformer<float>(good.model.options);
    io::load_adapters(folder, again);
    expect(nn::adapted_modules(again) == nn::adapted_modules(model), "adapters that are written and read are the same");
    expect(again.options.adapters == model.options.adapters, "and so is what is said of them");
    nn::merge_adapters(again);
    expect(nn::state(again).size() == names, "merged, they are gone");
  } else {
    expect(nn::state(model).size() == names && nn::frozen_names(model).empty(),
           "a model that is refused adapters stays as it was");
  }
  put(good.path / adapter_files[file], std::string_view(good.files[file]));
  return 0;
}
std::vector<std::string> adapters_seeds() {
  std::vector<std::string> seeds;
  for (const char* family : {"", "bart", "t5"}) {
    const Adapters some(family);
    for (std::size_t i = 0; i < adapter_files.size(); ++i) seeds.push_back(static_cast<char>(i) + some.files[i]);
  }
  return seeds;
}

}  // namespace fuzz
