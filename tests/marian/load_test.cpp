#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "maps_privately.hpp"
#include "marian_data.hpp"
#include "models.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The logits of a model for the sentences of its folder.
Tensor<float> logits(const nn::Transformer<float>& model, const marian::Expected& expected) {
  const auto targets = expected.segments("target_lengths");
  std::vector<index_t> lengths = expected.file().read<index_t>("source_lengths");
  lengths.resize(static_cast<std::size_t>(targets.count()));
  const auto sources = Segments::ragged(lengths);
  return marian::logits(model, expected.tokens("source").rows(0, sources.rows()), sources, expected.tokens("target"), targets);
}

/// A copy of a folder that a test may spoil.
struct Copy {
  TemporaryFolder folder;
  std::filesystem::path path;

  explicit Copy(const std::string& name) : path(folder / "model") {
    std::filesystem::copy(marian::folder(name), path);
    std::filesystem::remove(path / "expected.safetensors");
  }
  template <class F>
  void edit(const char* file, F&& change) const {
    auto json = io::read_json(path / file);
    change(json);
    io::write_json(path / file, json);
  }
  /// Copies the weights but for those that `change(name, tensor)` takes away or alters.
  template <class F>
  void edit_weights(F&& change) const {
    const auto file = io::SafetensorsFile::open(marian::folder("swish") / "model.safetensors");
    io::SafetensorsWriter writer;
    for (const auto& info : file.tensors()) {
      auto tensor = io::read_tensor<float>(file, info.name);
      if (change(info.name, tensor)) io::add_tensor(writer, info.name, tensor);
    }
    writer.write(path / "model.safetensors");
  }
};

}  // namespace

TEST_CASE("marian: weights that are mapped are those that are read") {
  const std::string name = GENERATE("swish", "relu_separate", "gelu_odd", "untied", "half");
  const auto load_from = [&](std::size_t from) {
    const io::MapFrom scope(from);
    return load(marian::folder(name)).model;
  };
  const auto here = load_from(1), read = load_from(io::MapFrom::never);
  CHECK(here.decoder.embed_tokens->weight.value().is_mapped() == (maps_privately && name != "half"));
  CHECK_FALSE(read.decoder.embed_tokens->weight.value().is_mapped());
  const auto a = nn::state(here), b = nn::state(read);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(a[i].value.values() == b[i].value.values());
  }
}

TEST_CASE("marian: logits are those of transformers") {
  const std::string name = GENERATE("swish", "relu_separate", "gelu_odd", "untied", "half");
  const marian::Expected expected(name);
  const auto m = load(marian::folder(name));
  const auto wanted = io::read_tensor<float>(expected.file(), "logits"), got = logits(m.model, expected);
  REQUIRE(got.shape() == wanted.shape());
  double worst = 0, largest = 0;
  for (index_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(got.data()[i] - wanted.data()[i])));
    largest = std::max(largest, static_cast<double>(std::abs(wanted.data()[i])));
  }
  INFO(name << ": largest logit " << largest);
  CHECK(worst <= 1e-5 * std::max(1.0, largest));
  CHECK_FALSE(nn::is_training(m.model));
}

TEST_CASE("marian: positions are those of transformers, of even and odd widths") {
  const std::string name = GENERATE("swish", "gelu_odd");
  const marian::Expected expected(name);
  const auto table = io::read_tensor<float>(expected.file(), "positions");
  const auto ours = sinusoid<float>(table.dim(0), table.dim(1), 10000, SinusoidOrder::halves);
  double worst = 0;
  for (index_t i = 0; i < table.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(ours.data()[i] - table.data()[i])));
  CHECK(worst < 1e-6);
}

TEST_CASE("marian: the options of config.json count") {
  const auto swish = load(marian::folder("swish")).model.options;
  CHECK(swish.encoder.activation == Activation::silu);
  CHECK(swish.encoder.scale_embedding);
  CHECK(swish.encoder.positions == nn::PositionKind::sinusoidal_halves);
  CHECK((swish.share_embeddings && swish.tie_head && swish.head_bias));
  const auto separate = load(marian::folder("relu_separate")).model.options;
  CHECK((separate.encoder.layers == 1 && separate.decoder.layers == 2));
  CHECK((separate.encoder.heads == 4 && separate.decoder.heads == 3));
  CHECK((separate.encoder.d_ff == 32 && separate.decoder.d_ff == 20));
  CHECK(separate.encoder.vocabulary != separate.decoder.vocabulary);
  CHECK_FALSE(separate.share_embeddings);
  const auto untied = load(marian::folder("untied")).model.options;
  CHECK_FALSE(untied.tie_head);
  CHECK(untied.decoder.activation == Activation::gelu_tanh);
}

TEST_CASE("marian: the file may hold shared weights under other names, and the sinusoids") {
  const marian::Expected expected("swish");
  const auto before = logits(load(marian::folder("swish")).model, expected);
  const Copy copy("swish");
  io::SafetensorsWriter writer;
  const auto file = io::SafetensorsFile::open(marian::folder("swish") / "model.safetensors");
  for (const auto& info : file.tensors()) {
    const auto tensor = io::read_tensor<float>(file, info.name);
    const bool embedding = info.shape == Shape{tensor.dim(0), 16} && tensor.dim(0) > 60;
    if (!embedding) {
      io::add_tensor(writer, info.name, tensor);
      continue;
    }
    for (const char* name : {"lm_head.weight", "model.decoder.embed_tokens.weight"}) io::add_tensor(writer, name, tensor);
  }
  const auto table = io::read_tensor<float>(expected.file(), "positions");
  for (const char* stack : {"encoder", "decoder"})
    if (const auto name = std::string("model.") + stack + ".embed_positions.weight"; !file.contains(name))
      io::add_tensor(writer, name, table);
  writer.write(copy.path / "model.safetensors");
  const auto again = load(copy.path);
  CHECK(again.model.options.decoder.positions == nn::PositionKind::sinusoidal_halves);
  CHECK(logits(again.model, expected).values() == before.values());
}

TEST_CASE("marian: a table of positions that is no sinusoids counts") {
  const marian::Expected expected("swish");
  const Copy copy("swish");
  const auto table = io::read_tensor<float>(expected.file(), "positions");
  table(3, 5) += 0.5f;
  const auto file = io::SafetensorsFile::open(marian::folder("swish") / "model.safetensors");
  io::SafetensorsWriter writer;
  for (const auto& info : file.tensors())
    if (info.name != "model.encoder.embed_positions.weight")
      io::add_tensor(writer, info.name, io::read_tensor<float>(file, info.name));
  io::add_tensor(writer, "model.encoder.embed_positions.weight", table);
  writer.write(copy.path / "model.safetensors");
  const auto model = load(copy.path).model;
  REQUIRE(model.options.encoder.positions == nn::PositionKind::learned);
  CHECK(model.encoder.positions.table.value().values() == table.values());
  CHECK(model.options.decoder.positions == nn::PositionKind::sinusoidal_halves);
}

TEST_CASE("marian: weights in several files") {
  const Copy copy("swish");
  const marian::Expected expected("swish");
  io::Json map;
  {
    const auto file = io::SafetensorsFile::open(copy.path / "model.safetensors");
    io::SafetensorsWriter encoder, rest;
    for (const auto& info : file.tensors()) {
      const bool first = info.name.starts_with("model.encoder.");
      io::add_tensor(first ? encoder : rest, info.name, io::read_tensor<float>(file, info.name));
      map[info.name] = first ? "model-1.safetensors" : "model-2.safetensors";
    }
    encoder.write(copy.path / "model-1.safetensors");
    rest.write(copy.path / "model-2.safetensors");
  }
  io::write_json(copy.path / "model.safetensors.index.json", {{"weight_map", map}});
  const auto whole = logits(load(copy.path).model, expected);
  std::filesystem::remove(copy.path / "model.safetensors");
  CHECK(logits(load(copy.path).model, expected).values() == whole.values());
  std::filesystem::remove(copy.path / "model-2.safetensors");
  CHECK_THROWS_WITH(load(copy.path), ContainsSubstring("files that are missing: model-2.safetensors"));
}

TEST_CASE("marian: all that does not fit stands in one message") {
  const Copy copy("swish");
  copy.edit_weights([](const std::string& name, Tensor<float>& tensor) {
    if (name == "model.decoder.layers.1.fc1.weight") return false;
    if (name == "model.encoder.layers.0.fc1.bias") tensor = Tensor<float>({9}, 0.0f);
    if (name == "final_logits_bias") tensor = Tensor<float>({3}, 0.0f);
    return true;
  });
  copy.edit("vocab.json", [](io::Json& json) { json["▁more"] = 500; });
  copy.edit("config.json", [](io::Json& json) { json["encoder_layers"] = 1; });
  CHECK_THROWS_AS(load(copy.path), FormatError);
  CHECK_THROWS_WITH(load(copy.path), ContainsSubstring("vocab.json has 501 tokens") &&
                                         ContainsSubstring("missing model.decoder.layers.1.fc1.weight") &&
                                         ContainsSubstring("unexpected model.encoder.layers.1.") &&
                                         ContainsSubstring("model.encoder.layers.0.fc1.bias has shape [9], expected [24]") &&
                                         ContainsSubstring("final_logits_bias has shape [3], expected [1, "));
}

TEST_CASE("marian: a model that is tied in its configuration and not in its weights is refused") {
  const Copy copy("swish");
  const auto file = io::SafetensorsFile::open(marian::folder("swish") / "model.safetensors");
  io::SafetensorsWriter writer;
  for (const auto& info : file.tensors()) io::add_tensor(writer, info.name, io::read_tensor<float>(file, info.name));
  const auto rows = load(copy.path).model.options.decoder.vocabulary;
  io::add_tensor(writer, "lm_head.weight", Tensor<float>({rows, 16}, 0.25f));
  writer.write(copy.path / "model.safetensors");
  CHECK_THROWS_WITH(load(copy.path), ContainsSubstring("not the same: model.") && ContainsSubstring("lm_head.weight"));
}

TEST_CASE("marian: configurations of other models, and broken ones") {
  const auto refused = [](const char* file, const char* key, const io::Json& value, const std::string& text) {
    const Copy copy("swish");
    copy.edit(file, [&](io::Json& json) { json[key] = value; });
    INFO(file << ": " << key);
    CHECK_THROWS_AS(io::load_marian(copy.path), FormatError);
    CHECK_THROWS_WITH(io::load_marian(copy.path), ContainsSubstring(key) && ContainsSubstring(text));
  };
  refused("config.json", "model_type", "bart", "expected \"marian\"");
  refused("config.json", "architectures", {"MarianForCausalLM"}, "MarianMTModel");
  refused("config.json", "normalize_before", true, "expected false");
  refused("config.json", "activation_function", "mish", "expected one of");
  refused("config.json", "d_model", 15, "");
  refused("config.json", "encoder_layers", -1, "expected");
  refused("config.json", "eos_token_id", 5000, "outside the vocabulary");
  refused("config.json", "decoder_start_token_id", -3, "outside the vocabulary");
  refused("config.json", "decoder_vocab_size", 20, "the same");
  refused("generation_config.json", "encoder_repetition_penalty", 1.2, "does not have");
  refused("generation_config.json", "forced_decoder_ids", {{1, 9}}, "does not have");
  refused("generation_config.json", "decoder_start_token_id", 5, "not that of config.json, 83");
  refused("generation_config.json", "suppress_tokens", {7, 0}, "the end token");
  refused("generation_config.json", "suppress_tokens", {5000}, "outside the vocabulary");
  refused("generation_config.json", "forced_bos_token_id", 5000, "outside the vocabulary");
  refused("generation_config.json", "forced_bos_token_id", 0, "an end token");
  refused("generation_config.json", "forced_eos_token_id", 4, "eos_token_id");
  refused("generation_config.json", "bad_words_ids", {{4, 5000}}, "outside the vocabulary");
  refused("generation_config.json", "early_stopping", "sometimes", "never");
  refused("generation_config.json", "num_beams", 0, "expected 1");
  refused("generation_config.json", "num_beams", 9'999'999, "expected 1 to 4096");
  refused("generation_config.json", "encoder_no_repeat_ngram_size", 2, "does not have");
  refused("tokenizer_config.json", "tokenizer_class", "T5Tokenizer", "MarianTokenizer");
  refused("vocab.json", "▁twice", 3, "the same number");
  refused("vocab.json", "▁far", -4, "expected 0");
  refused("vocab.json", "▁far", 16'000'000, "expected 0");  // half a gigabyte

  const Copy other("swish");
  other.edit("config.json", [](io::Json& json) { json["model_type"] = "pegasus"; });
  CHECK_THROWS_WITH(load(other.path),
                    ContainsSubstring("\"pegasus\", expected one of bart, m2m_100, marian, mbart, mt5, t5, umt5, or "
                                      "a model of this library"));

  const Copy gap("swish");
  gap.edit("vocab.json", [](io::Json& json) {
    for (auto piece = json.begin(); piece != json.end(); ++piece)
      if (*piece == 5) return (void)json.erase(piece);
  });
  gap.edit("config.json", [](io::Json& json) { json["decoder_start_token_id"] = 5; });
  CHECK_THROWS_AS(io::load_marian(gap.path), FormatError);
  CHECK_THROWS_WITH(io::load_marian(gap.path), ContainsSubstring("no piece for decoder_start_token_id, 5"));

  const Copy huge("swish");
  huge.edit("config.json", [](io::Json& json) { json["vocab_size"] = json["decoder_vocab_size"] = 1 << 28; });
  CHECK_THROWS_WITH(io::load_marian(huge.path), ContainsSubstring("describes at least"));

  const Copy wide("swish");
  wide.edit("config.json", [](io::Json& json) { json["max_position_embeddings"] = 9'999'999; });
  CHECK_THROWS_WITH(io::load_marian(wide.path), ContainsSubstring("describes 9999999 positions of width 16"));
}

TEST_CASE("marian: files that are missing") {
  for (const char* file : {"source.spm", "target.spm", "vocab.json", "config.json"}) {
    const Copy copy("swish");
    std::filesystem::remove(copy.path / file);
    CHECK_THROWS_WITH(io::load_marian(copy.path), ContainsSubstring(std::string("has no ") + file));
  }
  const Copy copy("relu_separate");
  std::filesystem::remove(copy.path / "target_vocab.json");
  CHECK_THROWS_WITH(io::load_marian(copy.path), ContainsSubstring("has no target_vocab.json"));
  std::filesystem::remove(copy.path / "model.safetensors");
  CHECK_THROWS_WITH(load(copy.path), ContainsSubstring("has no weights, expected model.safetensors or pytorch_model.bin"));
  const Copy bare("swish");  // transformers needs neither of these
  std::filesystem::remove(bare.path / "tokenizer_config.json");
  std::filesystem::remove(bare.path / "generation_config.json");
  const auto m = load(bare.path);
  CHECK(m.search.beam == 1);
  CHECK(m.search.force_end);
}

TEST_CASE("marian: a folder as the opus-mt family has them") {
  const Copy copy("swish");
  const auto whole = [&](const char* json) { return io::parse_json(json, "test"); };
  // All keys of such a file; many are of earlier releases of transformers and mean nothing any more.
  io::Json config =
      whole(R"({"_num_labels": 3, "activation_dropout": 0.0, "activation_function": "swish", "add_bias_logits": false,
    "add_final_layer_norm": false, "architectures": ["MarianMTModel"], "attention_dropout": 0.0, "bad_words_ids": [[83]],
    "bos_token_id": 0, "classif_dropout": 0.0, "classifier_dropout": 0.0, "d_model": 16, "decoder_attention_heads": 2,
    "decoder_ffn_dim": 24, "decoder_layerdrop": 0.0, "decoder_layers": 2, "decoder_start_token_id": 83, "decoder_vocab_size": 84,
    "dropout": 0.1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24, "encoder_layerdrop": 0.0, "encoder_layers": 2,
    "eos_token_id": 0, "extra_pos_embeddings": 84, "forced_eos_token_id": 0, "id2label": {"0": "LABEL_0"}, "init_std": 0.02,
    "is_encoder_decoder": true, "label2id": {"LABEL_0": 0}, "max_length": 64, "max_position_embeddings": 64,
    "model_type": "marian", "normalize_before": false, "normalize_embedding": false, "num_beams": 4, "num_hidden_layers": 2,
    "pad_token_id": 83, "scale_embedding": true, "share_encoder_decoder_embeddings": true, "static_position_embeddings": true,
    "torch_dtype": "float16", "transformers_version": "4.22.0.dev0", "use_cache": true, "vocab_size": 84})");
  io::write_json(copy.path / "config.json", config);
  std::filesystem::remove(copy.path / "generation_config.json");
  io::write_json(copy.path / "tokenizer_config.json", whole(R"({"target_lang": "deu", "source_lang": "eng"})"));
  const auto old = load(copy.path);
  CHECK((old.search.beam == 4 && old.search.max_length == 62 && old.search.force_end));
  CHECK(old.search.banned == std::vector<std::vector<token_t>>{{83}});
  const marian::Expected expected("swish");
  CHECK(logits(old.model, expected).values() == logits(load(marian::folder("swish")).model, expected).values());
}

TEST_CASE("marian: the generation_config.json of the opus-mt family") {
  const Copy copy("swish");
  copy.edit("generation_config.json", [](io::Json& json) { json["renormalize_logits"] = true, json["bos_token_id"] = 0; });
  const auto search = load(copy.path).search;
  CHECK((search.beam == 4 && search.renormalize && search.force_end));
}

TEST_CASE("load: a folder of this library, of a run, and none") {
  const auto m = load(marian::folder("swish"));
  const TemporaryFolder folder;
  io::save(folder / "run" / "last", m.model, m.tokenizer);
  const auto again = load(folder / "run");
  CHECK(again.tokenizer.as<text::MarianTokenizer>() != nullptr);
  CHECK(again.tokenizer.bos() == m.tokenizer.bos());
  CHECK(again.tokenizer.encode("my old house") == m.tokenizer.encode("my old house"));
  const marian::Expected expected("swish");
  CHECK(logits(again.model, expected).values() == logits(m.model, expected).values());
  CHECK_THROWS_AS(load(folder / "nothing"), IoError);
  CHECK_THROWS_AS(load(folder.path()), IoError);
}
