#include "attend/adapters.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "attend/nn/freeze.hpp"
#include "nn/check.hpp"
#include "pretrained_data.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using pretrained::Expected;
namespace fs = std::filesystem;

namespace {

/// What PEFT saved, see make_adapters.py.
fs::path adapters() { return pretrained::data() / ".." / "adapters"; }

std::vector<double> logits(const nn::Transformer<double>& model, const std::string& name) {
  const NoGrad no_grad;
  return model(Expected(name).batch()).value().values();
}

const std::vector<std::string> everything{"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"};

io::PretrainedModel<double> with_adapters(const std::string& name, const nn::AdapterOptions& o) {
  auto m = io::load_pretrained<double>(pretrained::data() / name);
  nn::add_adapters(m.model, o);
  for (const auto& t : nn::state(m.model))
    if (t.parameter.requires_grad()) nn::normal(t.value, 0.4);
  return m;
}

/// A folder of adapters that a test may spoil, and a model that they fit.
struct Copy {
  TemporaryFolder folder;
  fs::path path;
  nn::Transformer<double> model;

  explicit Copy(const std::string& name)
      : path(folder / "adapters"), model(io::load_pretrained<double>(pretrained::data() / name).model) {
    fs::copy(adapters() / name, path);
  }
  template <class F>
  void edit(F&& change) const {
    auto json = io::read_json(path / "adapter_config.json");
    change(json);
    io::write_json(path / "adapter_config.json", json);
  }
  /// Writes the tensors again but for those that `change(name, tensor)` takes away or alters.
  template <class F>
  void edit_weights(F&& change) const {
    io::SafetensorsWriter writer;
    {
      const auto file = io::SafetensorsFile::open(path / "adapter_model.safetensors");
      for (const auto& info : file.tensors()) {
        std::string to = info.name;
        auto tensor = io::read_tensor<float>(file, info.name);
        if (change(to, tensor)) io::add_tensor(writer, to, tensor);
      }
    }
    writer.write(path / "again.safetensors");
    fs::rename(path / "again.safetensors", path / "adapter_model.safetensors");
  }
  /// Why the folder is refused; the model must be as it was.
  std::string refusal() {
    const auto before = nn::state(model).size();
    try {
      io::load_adapters(path, model);
    } catch (const FormatError& error) {
      CHECK(nn::state(model).size() == before);
      return error.what();
    }
    return "read";
  }
};

}  // namespace

TEST_CASE("adapters: those of PEFT compute what it does, beside the weights and folded into them") {
  for (const char* name : {"bart_gelu", "m2m_relu", "t5_gated", "umt5_tied"}) {
    INFO(name);
    auto m = io::load_pretrained<double>(pretrained::data() / name);
    const auto without = logits(m.model, name);
    io::load_adapters(adapters() / name, m.model);
    const auto wanted = io::SafetensorsFile::open(adapters() / name / "expected.safetensors").read<double>("logits");
    CHECK(pretrained::difference(without, wanted) > 0.1);
    CHECK(pretrained::difference(logits(m.model, name), wanted) < 1e-10);
    for (const auto& t : nn::state(m.model)) CHECK(t.parameter.requires_grad() == (t.name.find(".lora_") != t.name.npos));
    nn::merge_adapters(m.model);
    CHECK(pretrained::difference(logits(m.model, name), wanted) < 1e-10);
    const TemporaryFolder folder;
    io::save_pretrained(folder / "merged", m, {.stored = io::DType::f64});
    CHECK(pretrained::difference(logits(io::load_pretrained<double>(folder / "merged").model, name), wanted) < 1e-10);
  }
}

TEST_CASE("adapters: what PEFT's configuration says is what the model has") {
  Copy bart("bart_gelu"), t5("t5_gated"), m2m("m2m_relu");
  io::load_adapters(bart.path, bart.model);
  const auto& o = bart.model.options.adapters;
  CHECK((o.rank == 2 && o.alpha == 6 && o.dropout == 0.1 && !o.rslora));
  CHECK(o.modules == std::vector<std::string>{"fc2", "q_proj", "v_proj"});
  io::load_adapters(t5.path, t5.model);
  CHECK(t5.model.options.adapters.rslora);
  CHECK(t5.model.decoder.layers[0].feed_forward.gate_proj->adapter->scale == Approx(5 / std::sqrt(3.0)));
  // Of a pattern only what it chose is known, by the whole of its name where the last part is others' too.
  io::load_adapters(m2m.path, m2m.model);
  CHECK(m2m.model.options.adapters.modules.front() == "decoder.layers.0.encoder_attn.k_proj");
}

TEST_CASE("adapters: what is saved has the names of its family, and comes back by them or this library's own") {
  for (const auto& name : pretrained::models()) {
    INFO(name);
    const bool narrow = name.find("untied") != name.npos;  // some of the modules that are called alike
    const auto m = with_adapters(name, {.rank = 2,
                                        .alpha = 3.5,
                                        .dropout = 0.25,
                                        .rslora = narrow,
                                        .modules = narrow ? std::vector<std::string>{"encoder.*.q_proj", "fc2"} : everything});
    const TemporaryFolder temporary;
    const char* wanted = std::getenv("ATTEND_PRETRAINED_SAVE");  // for make_adapters.py --check
    const fs::path root = wanted ? fs::path(wanted) : temporary / "adapters";
    for (const auto& family : {m.config.family, std::string()}) {
      const fs::path path = family.empty() ? temporary / "own" : root / name;
      io::save_adapters(path, m.model, {.family = family, .base = name, .stored = io::DType::f64});
      auto again = io::load_pretrained<double>(pretrained::data() / name).model;
      io::load_adapters(path, again);
      CHECK(nn::adapted_modules(again) == nn::adapted_modules(m.model));
      CHECK(pretrained::difference(logits(again, name), logits(m.model, name)) == 0);
      CHECK(again.options.adapters.alpha == 3.5);
      CHECK(again.options.adapters.rslora == narrow);
      CHECK(again.options.adapters.dropout == 0.25);
      io::load_adapters(path, again);  // into the adapters that it now has
      if (family.empty()) continue;
      const auto json = io::read_json(path / "adapter_config.json");
      CHECK(json["peft_type"] == "LORA");
      CHECK(json["base_model_name_or_path"] == name);
      CHECK(json["r"] == 2);
      CHECK(json["lora_alpha"] == 3.5);
      if (!narrow) {
        const bool t5 = detail::is_t5_family(family);
        CHECK(json["target_modules"].front() == (t5 ? "k" : "fc1"));
        const auto file = io::SafetensorsFile::open(path / "adapter_model.safetensors");
        CHECK(file.contains(t5 ? "base_model.model.decoder.block.0.layer.1.EncDecAttention.q.lora_A.weight"
                               : "base_model.model.model.decoder.layers.0.encoder_attn.q_proj.lora_A.weight"));
      }
      io::SafetensorsWriter writer;
      const auto found = logits(m.model, name);
      writer.add<double>("logits", {count_of(found)}, found);
      writer.write(path / "expected.safetensors");
    }
  }
}

TEST_CASE("adapters: a model of one's own has its names, and a model that has none is not saved") {
  const TemporaryFolder folder;
  nn::Linear<float> linear(6, 5), other(6, 5);
  CHECK_THROWS_WITH(io::save_adapters(folder / "a", linear), "save_adapters: the model has no adapters");
  nn::add_adapters(linear, {.rank = 3, .alpha = 9, .modules = {"*"}});
  nn::normal(linear.adapter->b.value(), 1);
  CHECK_THROWS_WITH(io::save_adapters(folder / "a", linear, {.family = "t5"}), ContainsSubstring("is a Transformer"));
  CHECK_THROWS_WITH(io::save_adapters(folder / "a", linear, {.family = "gpt"}), ContainsSubstring("the family is 'gpt'"));
  nn::Transformer<float> turns({.vocabulary = 7, .d_model = 4, .heads = 2, .layers = 1});
  nn::add_adapters(turns, {.rank = 2});
  CHECK_THROWS_WITH(io::save_adapters(folder / "a", turns, {.family = "marian"}), ContainsSubstring("sines and cosines in turn"));
  CHECK_FALSE(fs::exists(folder / "a"));
  io::save_adapters(folder / "a", linear);
  io::load_adapters(folder / "a", other);
  CHECK(other.adapter->scale == 3);
  CHECK(other.adapter->b.value().values() == linear.adapter->b.value().values());
  CHECK(io::SafetensorsFile::open(folder / "a" / "adapter_model.safetensors").contains("base_model.model.lora_A.weight"));
}

TEST_CASE("adapters: settings that are not known are refused by name, all at once") {
  Copy copy("bart_gelu");
  copy.edit([](io::Json& json) {
    json["use_dora"] = true;
    json["rank_pattern"] = {{"fc2", 4}};
    json["modules_to_save"] = {"shared"};
    json["bias"] = "lora_only";
    json["init_lora_weights"] = "pissa";
    json["of_the_future"] = 1;
    json["peft_type"] = "IA3";
    json["lora_dropout"] = "much";
  });
  const auto why = copy.refusal();
  for (const char* part : {"does not fit the model", "peft_type is \"IA3\", expected \"LORA\"", "lora_dropout is \"much\"",
                           "use_dora is true", "rank_pattern is an object", "modules_to_save is an array",
                           "bias is \"lora_only\"", "init_lora_weights is \"pissa\"", "of_the_future is 1"})
    CHECK_THAT(why, ContainsSubstring(part));
  // Those that say nothing of what is computed are not.
  Copy other("bart_gelu");
  other.edit([](io::Json& json) {
    json["task_type"] = "FEATURE_EXTRACTION";
    json["layers_to_transform"] = {0};
    json["init_lora_weights"] = "gaussian";
    json["of_the_future"] = false;
  });
  CHECK(other.refusal() == "read");
}

TEST_CASE("adapters: tensors that do not fit are named, all at once") {
  Copy copy("bart_gelu");
  const std::string layer = "base_model.model.model.encoder.layers.0.";
  copy.edit_weights([&](std::string& name, Tensor<float>& tensor) {
    if (name == layer + "fc2.lora_A.weight") return false;
    if (name == layer + "self_attn.q_proj.lora_B.weight") tensor = Tensor<float>({5, 2}, 0.0f);
    if (name == layer + "self_attn.v_proj.lora_A.weight") name = layer + "self_attn.w_proj.lora_A.weight";
    return true;
  });
  const auto why = copy.refusal();
  CHECK_THAT(why, ContainsSubstring("missing " + layer + "self_attn.v_proj.lora_A.weight, " + layer + "fc2.lora_A.weight"));
  CHECK_THAT(why, ContainsSubstring("unexpected " + layer + "self_attn.w_proj.lora_A.weight"));
  CHECK_THAT(why, ContainsSubstring("mis-shaped: " + layer + "self_attn.q_proj.lora_B.weight has shape [5, 2], expected ["));

  Copy rank("bart_gelu");
  rank.edit([](io::Json& json) { json["r"] = 3; });
  CHECK_THAT(rank.refusal(), ContainsSubstring("q_proj.lora_A.weight has shape [2, "));
  rank.edit([](io::Json& json) { json["r"] = 0; });
  CHECK_THAT(rank.refusal(), ContainsSubstring("r is 0, expected 1 or more"));

  Copy another("bart_gelu");
  another.model = io::load_pretrained<double>(pretrained::data() / "t5_gated").model;
  CHECK_THAT(another.refusal(), ContainsSubstring("mis-shaped: base_model.model.model.encoder"));
  CHECK_THAT(another.refusal(),
             ContainsSubstring("for another family: the adapters have module names of BART's families and Marian"));
  another.edit_weights([](std::string&, Tensor<float>&) { return false; });
  CHECK_THAT(another.refusal(), ContainsSubstring("no module of the model has an adapter there"));

  // Of as many layers and as wide, and yet of another family.
  Copy t5("t5_gated");
  auto like_it = t5.model.options;
  for (auto* stack : {&like_it.encoder, &like_it.decoder})
    stack->positions = nn::PositionKind::sinusoidal_halves, stack->position = {};
  t5.model = nn::Transformer<double>(like_it);
  CHECK_THAT(t5.refusal(), ContainsSubstring("for another family: the adapters have module names of T5's families"));
}

TEST_CASE("adapters: a model that has some takes the same and no others") {
  Copy copy("bart_gelu");
  nn::add_adapters(copy.model, {.rank = 2, .alpha = 6, .modules = {"q_proj", "v_proj", "fc2"}});
  CHECK(copy.refusal() == "read");
  const auto wanted = io::SafetensorsFile::open(copy.path / "expected.safetensors").read<double>("logits");
  CHECK(pretrained::difference(logits(copy.model, "bart_gelu"), wanted) < 1e-10);
  for (const auto& [rank, alpha, text] :
       {std::tuple{3, 9.0, "expected rank 3, scale 3"}, std::tuple{2, 4.0, "expected rank 2, scale 2"}}) {
    nn::merge_adapters(copy.model);
    nn::add_adapters(copy.model, {.rank = rank, .alpha = alpha, .modules = {"q_proj", "v_proj", "fc2"}});
    CHECK_THAT(copy.refusal(),
               ContainsSubstring("other adapters than the model's: rank 2, scale 3, ") && ContainsSubstring(text));
  }
  nn::merge_adapters(copy.model), nn::add_adapters(copy.model, {.rank = 2, .alpha = 6, .modules = {"q_proj", "k_proj", "fc2"}});
  const auto why = copy.refusal();
  CHECK_THAT(why, ContainsSubstring("missing base_model.model.model.encoder.layers.0.self_attn.k_proj.lora_A.weight"));
  CHECK_THAT(why, ContainsSubstring("unexpected base_model.model.model.decoder.layers.0.encoder_attn.v_proj.lora_A.weight"));
}

TEST_CASE("adapters: adapter_model.bin is read where there is no other") {
  const Copy copy("umt5_tied");
  fs::remove(copy.path / "adapter_model.safetensors");
  auto model = io::load_pretrained<double>(pretrained::data() / "umt5_tied").model;
  io::load_adapters(copy.path, model);
  const auto wanted = io::SafetensorsFile::open(copy.path / "expected.safetensors").read<double>("logits");
  CHECK(pretrained::difference(logits(model, "umt5_tied"), wanted) < 1e-10);
}

TEST_CASE("adapters: a damaged folder is an error and never more") {
  for (const std::string name : {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}) {
    Copy copy("umt5_tied");
    fs::remove(copy.path / (name.ends_with(".bin") ? "adapter_model.safetensors" : "adapter_model.bin"));
    const auto before = logits(copy.model, "umt5_tied");
    const std::string whole = [&] {
      std::ifstream in(copy.path / name, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(in), {});
    }();
    const auto write = [&](const std::string& text) { std::ofstream(copy.path / name, std::ios::binary) << text; };
    index_t refused = 0;
    const auto read = [&] {
      auto model = io::load_pretrained<double>(pretrained::data() / "umt5_tied").model;
      try {
        io::load_adapters(copy.path, model);
      } catch (const Error&) {
        ++refused;
      }
    };
    for (std::size_t length = 0; length < whole.size(); length += 31) write(whole.substr(0, length)), read();
    CHECK(refused > 30);
    for (std::size_t at = 0; at < whole.size(); at += 37) {
      auto spoilt = whole;
      spoilt[at] = static_cast<char>(spoilt[at] ^ 0x55);
      write(spoilt), read();
    }
    fs::remove(copy.path / name);
    CHECK_THROWS_AS(io::load_adapters(copy.path, copy.model), IoError);
    CHECK(logits(copy.model, "umt5_tied") == before);
  }
}
