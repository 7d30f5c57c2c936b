#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "attend/io/safetensors_writer.hpp"
#include "maps_privately.hpp"
#include "pretrained_data.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using pretrained::Expected;

namespace {

/// What the file of a model calls this parameter, the likeliest name first.
std::vector<std::string> names_in_file(const io::PretrainedModel<double>& m, const std::string& name) {
  if (detail::is_t5_family(m.config.family)) return detail::t5_names(name, m.model.options);
  return detail::bart_names(name, m.model.options);
}

/// A copy of a folder that a test may spoil.
struct Copy {
  TemporaryFolder folder;
  std::filesystem::path path;

  explicit Copy(const std::string& name) : path(folder / "model") { std::filesystem::copy(pretrained::data() / name, path); }
  template <class F>
  void edit(const char* file, F&& change) const {
    auto json = io::read_json(path / file);
    change(json);
    io::write_json(path / file, json);
  }
  /// Writes the weights again but for those that `change(name, tensor)` takes away or alters, and what `more(writer)` adds.
  template <class F, class More>
  void edit_weights(F&& change, More&& more) const {
    io::SafetensorsWriter writer;
    {
      const auto file = io::SafetensorsFile::open(path / "model.safetensors");
      for (const auto& info : file.tensors()) {
        auto tensor = io::read_tensor<float>(file, info.name);
        if (change(info.name, tensor)) io::add_tensor(writer, info.name, tensor);
      }
      more(writer);
    }
    writer.write(path / "again.safetensors");
    std::filesystem::rename(path / "again.safetensors", path / "model.safetensors");
  }
};

std::vector<float> logits(const std::filesystem::path& folder, const std::string& name) {
  const NoGrad no_grad;
  return io::load_pretrained(folder).model(Expected(name).batch()).value().values();
}

const auto keep = [](const std::string&, Tensor<float>&) { return true; };
const auto nothing = [](io::SafetensorsWriter&) {};

}  // namespace

TEST_CASE("pretrained: logits are those of transformers, in a batch and alone") {
  for (const auto& name : pretrained::models()) {
    INFO(name);
    const Expected expected(name);
    const auto m = pretrained::load_model(pretrained::data() / name);
    CHECK_FALSE(nn::is_training(m.model));
    CHECK(m.config.family == expected.file().metadata().at("model_type"));
    const auto wanted = expected.numbers("logits");
    const auto batch = expected.batch();
    const NoGrad no_grad;
    CHECK(pretrained::difference(m.model(batch).value().values(), wanted) < 1e-5);
    std::vector<float> one_by_one;
    for (index_t s = 0; s < batch.target_segments.count(); ++s) {
      const auto &sources = batch.source_segments, &targets = batch.target_segments;
      const nn::Batch<> alone{batch.source.rows(sources.begin(s), sources.length(s)), Segments::ragged({sources.length(s)}),
                              batch.target.rows(targets.begin(s), targets.length(s)), Segments::ragged({targets.length(s)}),
                              batch.labels.rows(targets.begin(s), targets.length(s))};
      const auto rows = m.model(alone).value().values();
      one_by_one.insert(one_by_one.end(), rows.begin(), rows.end());
    }
    CHECK(pretrained::difference(one_by_one, wanted) < 1e-5);
  }
}

TEST_CASE("pretrained: in double, logits, loss and all gradients are those of transformers to 1e-9") {
  for (const auto& name : pretrained::models()) {
    INFO(name);
    const Expected expected(name);
    const auto m = pretrained::load_model<double>(pretrained::data() / name);
    const auto batch = expected.batch();
    CHECK(pretrained::difference(m.model(batch).value().values(), expected.numbers("logits")) < 1e-11);
    const auto loss = m.model.loss(batch);
    CHECK(pretrained::difference(loss.value().values(), expected.numbers("loss")) < 1e-12);
    loss.backward();

    const auto parameters = io::parse_json(expected.file().metadata().at("parameters"), name).get<std::vector<std::string>>();
    const auto wanted = expected.numbers("gradients");  // [parameters, 2]
    std::set<std::string> found;
    for (const auto& t : nn::state(m.model)) {
      if (t.name == "lm_head.bias") continue;  // in transformers no parameter
      INFO(t.name);
      std::size_t at = parameters.size();
      for (const auto& candidate : names_in_file(m, t.name))
        if (at == parameters.size())
          at = static_cast<std::size_t>(std::find(parameters.begin(), parameters.end(), candidate) - parameters.begin());
      REQUIRE(at < parameters.size());
      found.insert(parameters[at]);
      double sum = 0, squares = 0, i = 0;
      for (const double g : t.grad().values()) sum += g * std::cos(++i), squares += g * g;
      // The bias of keys shifts all scores alike: its gradient is zero but for rounding.
      const double allowed = 1e-9 * wanted[2 * at + 1] + 1e-13;
      CHECK(std::abs(sum - wanted[2 * at]) <= allowed);
      CHECK(std::abs(std::sqrt(squares) - wanted[2 * at + 1]) <= allowed);
    }
    CHECK(found.size() == parameters.size());
  }
}

TEST_CASE("pretrained: the options of config.json count") {
  const auto options = [](const char* name) { return io::load_pretrained(pretrained::data() / name).model.options; };
  const auto bart = options("bart_gelu");
  CHECK((bart.encoder.norm_order == nn::NormOrder::post && !bart.encoder.final_norm && bart.encoder.norm_embedding));
  CHECK((bart.encoder.positions == nn::PositionKind::learned && bart.encoder.position.offset == 2));
  CHECK((bart.encoder.layers == 1 && bart.decoder.layers == 2 && bart.encoder.heads == 2 && bart.decoder.heads == 4));
  CHECK((bart.encoder.d_ff == 10 && bart.decoder.d_ff == 6 && bart.encoder.max_length == 20));
  CHECK((bart.tie_head && bart.share_embeddings && bart.head_bias && !bart.encoder.scale_embedding));
  CHECK((bart.encoder.dropout.residual == 0.1 && bart.encoder.dropout.attention == 0 && bart.encoder.dropout.output == 0));
  const auto mbart = options("mbart_untied");
  CHECK((mbart.decoder.norm_order == nn::NormOrder::pre && mbart.decoder.final_norm && mbart.decoder.norm_embedding));
  CHECK((mbart.encoder.activation == Activation::silu && !mbart.tie_head && !mbart.share_embeddings));
  const auto m2m = options("m2m_untied");
  CHECK((m2m.encoder.positions == nn::PositionKind::sinusoidal_halves && m2m.encoder.position.offset == 4));  // pad is 3
  CHECK((!m2m.encoder.norm_embedding && !m2m.head_bias && !m2m.encoder.scale_embedding));
  CHECK(options("m2m_relu").encoder.scale_embedding);
  const auto t5 = options("t5_gated");
  CHECK((t5.encoder.norm.kind == NormKind::rms && t5.encoder.norm.eps == 1e-6 && !t5.encoder.norm.bias && !t5.encoder.bias));
  CHECK((t5.encoder.gated && t5.encoder.activation == Activation::gelu_tanh && !t5.tie_head && !t5.scale_head));
  CHECK((t5.encoder.d_k == 3 && t5.encoder.position.buckets == 8 && t5.encoder.position.max_distance == 12));
  CHECK((t5.encoder.dropout.output == 0.1 && t5.decoder.dropout.activation == 0.1));
  const auto first = options("t5_relu");
  CHECK((!first.encoder.gated && first.encoder.activation == Activation::relu && first.tie_head && first.scale_head));
  CHECK((!options("mt5_gated").tie_head && !options("mt5_tied").scale_head));
  CHECK(options("umt5_tied").encoder.positions == nn::PositionKind::relative_each);
}

TEST_CASE("pretrained: a config.json without keys has the defaults of transformers") {
  const auto read = [](const char* text) { return io::pretrained_config_from(io::parse_json(text, "c.json"), "c.json"); };
  const auto bart = read(R"({"model_type": "bart"})");
  CHECK((bart.model.encoder.vocabulary == 50265 && bart.model.encoder.d_model == 1024 && bart.model.decoder.layers == 12));
  CHECK((bart.begin == 2 && bart.eos == 2 && bart.pad == 1 && bart.force_end));
  CHECK(read(R"({"model_type": "mbart"})").begin == -1);
  const auto m2m = read(R"({"model_type": "m2m_100"})");
  CHECK((m2m.model.encoder.scale_embedding && m2m.model.encoder.activation == Activation::relu && !m2m.force_end));
  CHECK((m2m.model.encoder.dropout.attention == 0.1 && m2m.begin == 2 && m2m.model.encoder.position.offset == 2));
  const auto t5 = read(R"({"model_type": "t5"})");
  CHECK((t5.model.encoder.d_k == 64 && t5.model.encoder.heads == 8 && t5.model.decoder.layers == 6 && t5.bos == 0));
  CHECK((t5.model.scale_head && t5.begin == -1 && t5.eos == 1));
  CHECK(read(R"({"model_type": "mt5"})").model.encoder.gated);
  CHECK(read(R"({"model_type": "umt5", "num_layers": 3})").model.decoder.layers == 3);
  CHECK(read(R"({"model_type": "t5", "hidden_size": 32, "num_attention_heads": 4})").model.encoder.d_model == 32);
}

TEST_CASE("pretrained: configurations that make no sense are refused by name") {
  const auto refused = [](const char* family, const char* key, const io::Json& value, const std::string& text) {
    io::Json json{{"model_type", family}};
    json[key] = value;
    INFO(family << " " << key);
    CHECK_THROWS_AS(io::pretrained_config_from(json, "config.json"), FormatError);
    CHECK_THROWS_WITH(io::pretrained_config_from(json, "config.json"),
                      ContainsSubstring("config.json") && ContainsSubstring(key) && ContainsSubstring(text));
  };
  refused("pegasus", "model_type", "pegasus", "\"pegasus\", expected one of bart, m2m_100, mbart, mt5, t5, umt5");
  refused("bart", "architectures", {"BartForSequenceClassification"}, "BartForConditionalGeneration");
  refused("t5", "architectures", {"T5EncoderModel"}, "T5ForConditionalGeneration");
  refused("t5", "is_encoder_decoder", false, "expected true");
  refused("bart", "is_decoder", true, "expected false");
  refused("t5", "quantization_config", {{"quant_method", "bitsandbytes"}}, "another library has quantized");
  refused("bart", "tie_encoder_decoder", true, "never share their layers");
  refused("bart", "normalize_before", true, "expected false");
  refused("mbart", "normalize_before", false, "expected true");
  refused("mbart", "add_final_layer_norm", false, "expected true");
  refused("bart", "normalize_embedding", false, "expected true");
  refused("mbart", "static_position_embeddings", true, "expected false");
  refused("bart", "activation_function", "mish", "expected one of");
  refused("m2m_100", "d_model", 15, "expected an even number");
  refused("m2m_100", "d_model", 2, "from 4 on");
  refused("bart", "d_model", 1000, "no multiple of 16 heads");
  refused("bart", "encoder_layers", -1, "expected");
  refused("bart", "dropout", 1.5, "dropout");
  refused("mbart", "decoder_start_token_id", -1, "outside the vocabulary");
  refused("m2m_100", "pad_token_id", 200000, "outside the vocabulary");
  refused("t5", "eos_token_id", {1, 2}, "expected one");
  refused("t5", "feed_forward_proj", "gated-mish", "expected one of");
  refused("t5", "dense_act_fn", "silu", "feed_forward_proj");
  refused("t5", "is_gated_act", true, "feed_forward_proj");
  refused("t5", "d_kv", 0, "expected 1 or more");
  refused("t5", "layer_norm_epsilon", "small", "a number");
  refused("umt5", "num_heads", "six", "a whole number");
}

TEST_CASE("pretrained: all that does not fit stands in one message") {
  for (const char* name : {"mbart_relu", "t5_relu"}) {
    const Copy copy(name);
    const bool t5 = std::string(name) == "t5_relu";
    const std::string absent = t5 ? "decoder.block.1.layer.2.DenseReluDense.wo.weight" : "model.decoder.layers.1.fc1.weight",
                      bent = t5 ? "encoder.final_layer_norm.weight" : "model.encoder.layer_norm.weight";
    copy.edit_weights(
        [&](const std::string& tensor, Tensor<float>& value) {
          if (tensor == bent) value = Tensor<float>({9}, 0.0f);
          return tensor != absent;
        },
        [](io::SafetensorsWriter& writer) { io::add_tensor(writer, "another.weight", Tensor<float>({2}, 0.0f)); });
    CHECK_THROWS_AS(io::load_pretrained(copy.path), FormatError);
    CHECK_THROWS_WITH(io::load_pretrained(copy.path),
                      ContainsSubstring("missing " + absent) && ContainsSubstring("unexpected another.weight") &&
                          ContainsSubstring("mis-shaped: " + bent + " has shape [9], expected [8]"));
  }
  const Copy versions("bart_gelu");  // what transformers passes over
  const auto before = logits(versions.path, "bart_gelu");
  versions.edit_weights([](const std::string&, Tensor<float>&) { return true; },
                        [](io::SafetensorsWriter& writer) {
                          for (const char* name : {"model.encoder.version", "model.decoder.version"})
                            io::add_tensor(writer, name, Tensor<float>({1}, 3.0f));
                        });
  CHECK(logits(versions.path, "bart_gelu") == before);
  const Copy copy("m2m_relu");
  copy.edit("config.json", [](io::Json& json) { json["vocab_size"] = 1 << 28; });
  CHECK_THROWS_WITH(io::load_pretrained(copy.path), ContainsSubstring("describes at least"));
  std::filesystem::rename(copy.path / "model.safetensors", copy.path / "pytorch_model.bin");
  copy.edit("config.json", [](io::Json& json) { json["vocab_size"] = 20; });
  CHECK_THROWS_AS(io::load_pretrained(copy.path), Error);
}

TEST_CASE("pretrained: shared weights may stand in the file more than once, and must be the same where they are tied") {
  const auto again = [](const Copy& copy, const char* from, const char* to, float change) {
    Tensor<float> values;
    copy.edit_weights(
        [&](const std::string& tensor, Tensor<float>& value) {
          if (tensor == from) values = value.clone();
          return true;
        },
        [&](io::SafetensorsWriter& writer) {
          values.data()[3] += change;
          io::add_tensor(writer, to, values);
        });
  };
  const Copy bart("bart_gelu");
  const auto before = logits(bart.path, "bart_gelu");
  again(bart, "model.shared.weight", "lm_head.weight", 0);
  again(bart, "model.shared.weight", "model.decoder.embed_tokens.weight", 0);
  CHECK(logits(bart.path, "bart_gelu") == before);
  const Copy other("bart_gelu");
  again(other, "model.shared.weight", "lm_head.weight", 1);
  CHECK_THROWS_WITH(io::load_pretrained(other.path),
                    ContainsSubstring("tied in config.json, but not the same: model.shared.weight and lm_head.weight"));

  const Copy t5("t5_relu");  // here the file decides
  again(t5, "shared.weight", "encoder.embed_tokens.weight", 0);
  again(t5, "shared.weight", "lm_head.weight", 0);
  again(t5, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", 1);
  CHECK(io::load_pretrained(t5.path).model.options.tie_head);
  const Copy headed("t5_relu");
  again(headed, "shared.weight", "lm_head.weight", 1);
  const auto model = io::load_pretrained(headed.path).model;
  CHECK((!model.options.tie_head && model.options.scale_head));
}

TEST_CASE("pretrained: weights that are mapped are those that are read") {
  const auto load = [](const std::string& name, std::size_t from) {
    const io::MapFrom scope(from);
    auto model = io::load_pretrained(pretrained::data() / name).model;
    std::vector<float> values;
    index_t mapped = 0;
    for (const auto& t : nn::state(model)) {
      const auto more = t.value.values();
      values.insert(values.end(), more.begin(), more.end());
    }
    for (const auto& p : nn::parameters(model)) mapped += p.value().is_mapped() ? 1 : 0;
    return std::pair(values, mapped);
  };
  index_t mapped = 0;
  for (const auto& name : pretrained::models()) {
    INFO(name);
    const auto here = load(name, 1), read = load(name, io::MapFrom::never);
    CHECK(here.first == read.first);
    CHECK(read.second == 0);
    mapped += here.second;
  }
  CHECK((mapped > 50) == maps_privately);  // files of other types of numbers cannot be
}

TEST_CASE("pretrained: a model that was saved without its head has no prefix") {
  const Copy copy("m2m_relu");
  io::SafetensorsWriter writer;
  {
    const auto file = io::SafetensorsFile::open(copy.path / "model.safetensors");
    for (const auto& info : file.tensors())
      io::add_tensor(writer, info.name.substr(std::string("model.").size()), io::read_tensor<float>(file, info.name));
    io::add_tensor(writer, "encoder.embed_positions.weights", Tensor<float>({22, 8}, 0.0f));  // of earlier releases
  }
  writer.write(copy.path / "again.safetensors");
  std::filesystem::rename(copy.path / "again.safetensors", copy.path / "model.safetensors");
  copy.edit("config.json", [](io::Json& json) { json["architectures"] = {"M2M100Model"}; });
  CHECK(logits(copy.path, "m2m_relu") == logits(pretrained::data() / "m2m_relu", "m2m_relu"));
}
