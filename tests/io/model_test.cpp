#include "attend/io/model.hpp"

#include <fstream>
#include <iterator>

#include "attend/nn/freeze.hpp"
#include "catch.hpp"
#include "nn/check.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

nn::TransformerOptions small() {
  return {.vocabulary = 7, .d_model = 6, .heads = 2, .d_ff = 5, .layers = 1, .dropout = 0.1, .max_length = 9};
}

template <class T>
nn::Transformer<T> random_model(const nn::TransformerOptions& options = small()) {
  nn::Transformer<T> model(options);
  test::randomise(model);
  return model;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// The largest difference of two models' parameters, each relative to the first's size or 1.
template <class A, class B>
double distance(const A& a, const B& b) {
  const auto x = nn::state(a);
  const auto y = nn::state(b);
  REQUIRE(x.size() == y.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    REQUIRE(x[i].name == y[i].name);
    REQUIRE(x[i].value.shape() == y[i].value.shape());
    for (index_t j = 0; j < x[i].value.size(); ++j) {
      const auto p = static_cast<double>(x[i].value.data()[j]), q = static_cast<double>(y[i].value.data()[j]);
      worst = std::max(worst, std::abs(p - q) / std::max(1.0, std::abs(p)));
    }
  }
  return worst;
}

/// A tokenizer as far as saving and loading see one.
struct Words {
  std::string text;
  void save(const fs::path& path) const { write(path, text); }
  static Words load(const fs::path& path) { return {text_of(path)}; }
};

}  // namespace

TEST_CASE("a model comes back from its folder, in each type of stored numbers") {
  const TemporaryFolder folder;
  const auto model = random_model<double>();
  struct Kind {
    io::DType stored;
    double error;
  };
  for (const auto& [stored, error] :
       {Kind{io::DType::f64, 0.0}, Kind{io::DType::f32, 0x1p-24}, Kind{io::DType::f16, 0x1p-10}, Kind{io::DType::bf16, 0x1p-8}}) {
    io::save(folder / "model", model, {.stored = stored});
    const auto file = io::SafetensorsFile::open(folder / "model" / "model.safetensors");
    for (const auto& t : file.tensors()) CHECK(t.dtype == stored);
    CHECK(file.metadata().at("format") == "pt");
    const double far = distance(model, io::load_model<double>(folder / "model"));
    CHECK(far <= error);
    if (error > 0) CHECK(far > 0);
  }
}

TEST_CASE("a model in float comes back bit for bit, in evaluation mode, and does the same") {
  const TemporaryFolder folder;
  auto model = random_model<float>();
  io::save(folder / "model", model);
  const auto loaded = io::load_model(folder / "model");
  CHECK(distance(model, loaded) == 0);
  CHECK_FALSE(nn::is_training(loaded));
  CHECK(loaded.encoder.layers[0].around_self_attn.residual_dropout.p == 0.1);
  CHECK(nn::is_training(model));
  nn::set_training(model, false);
  const nn::Batch<> batch{.source = Tensor<token_t>({3}, {1, 2, 3}),
                          .source_segments = Segments::ragged({2, 1}),
                          .target = Tensor<token_t>({2}, {4, 5}),
                          .target_segments = Segments::ragged({1, 1}),
                          .labels = {}};
  CHECK(test::distance(model(batch).value(), loaded(batch).value()) == 0);
  CHECK(distance(model, io::load_model<double>(folder / "model")) == 0);
}

TEST_CASE("a model with adapters comes back with them, its weights frozen; damaged, it is refused") {
  const TemporaryFolder folder;
  nn::Transformer<float> model(small());
  nn::add_adapters(model, {.rank = 2, .alpha = 3, .modules = {"q_proj", "fc1"}});
  test::randomise(model);
  io::save(folder / "model", model);
  const auto loaded = io::load_model(folder / "model");
  CHECK(distance(model, loaded) == 0);
  CHECK(loaded.options.adapters == model.options.adapters);
  CHECK(nn::adapted_modules(loaded) == nn::adapted_modules(model));
  CHECK(nn::frozen_names(loaded) == nn::frozen_names(model));
  CHECK(nn::parameter_count(loaded) == nn::parameter_count(model));

  const auto config = text_of(folder / "model" / "config.json");
  const auto refuses = [&](const char* key, const io::Json& value, const std::string& why) {
    auto damaged = io::parse_json(config, "config.json");
    damaged["adapters"][key] = value;
    write(folder / "model" / "config.json", damaged.dump());
    CHECK_THROWS_AS(io::load_model(folder / "model"), FormatError);
    CHECK_THROWS_WITH(io::load_model(folder / "model"), ContainsSubstring(why));
  };
  refuses("rank", 3, "lora_A.weight has shape [2, 6], expected [3, 6]");
  refuses("rank", index_t{1} << 40, "rank 1099511627776: narrower than the rank: encoder.layers.0.self_attn.q_proj [6, 6]");
  refuses("modules", {"q_proj"}, "unexpected decoder.layers.0.fc1.lora_A.weight");
  refuses("modules", {"q_proj", "fc1", "fc2"}, "missing encoder.layers.0.fc2.lora_A.weight");
  refuses("modules", {"w_proj"}, "no module is called `w_proj`");
}

TEST_CASE("shared parameters are stored once and shared again when loaded") {
  const TemporaryFolder folder;
  auto options = small();
  options.share_embeddings = options.tie_head = true;
  const auto model = random_model<float>(options);
  io::save(folder / "model", model);
  const auto file = io::SafetensorsFile::open(folder / "model" / "model.safetensors");
  CHECK(file.contains("encoder.embed_tokens.weight"));
  CHECK_FALSE(file.contains("decoder.embed_tokens.weight"));
  CHECK_FALSE(file.contains("lm_head.weight"));
  const auto loaded = io::load_model(folder / "model");
  CHECK(loaded.output_weight().id() == loaded.encoder.embed_tokens->weight.id());
  CHECK(distance(model, loaded) == 0);
}

TEST_CASE("a model with its tokenizer, and one without") {
  const TemporaryFolder folder;
  const auto model = random_model<float>();
  io::save(folder / "with", model, Words{"the words"});
  CHECK(io::load_tokenizer<Words>(folder / "with").text == "the words");
  io::save(folder / "without", model);
  CHECK_THROWS_AS(io::load_tokenizer<Words>(folder / "without"), IoError);
  CHECK_THROWS_WITH(io::load_tokenizer<Words>(folder / "without"), ContainsSubstring("has no tokenizer.model"));
}

TEST_CASE("saving again replaces all files; what fails to save leaves the model that was there") {
  const TemporaryFolder folder;
  io::save(folder / "model", random_model<float>());
  auto other_options = small();
  other_options.d_ff = 8;
  const auto other = random_model<float>(other_options);
  io::save(folder / "model", other);
  CHECK(distance(other, io::load_model(folder / "model")) == 0);
  struct Broken {
    void save(const fs::path&) const { throw IoError("write: the disk is full"); }
  };
  CHECK_THROWS_AS(io::save(folder / "model", random_model<float>(), Broken{}), IoError);
  CHECK(distance(other, io::load_model(folder / "model")) == 0);
  CHECK_THROWS_AS(io::save(folder / "model", other, {.stored = io::DType::i64}), ValueError);
  CHECK(distance(other, io::load_model(folder / "model")) == 0);
}

TEST_CASE("what else a folder is to have is written with the model, or nothing is") {
  const TemporaryFolder folder;
  const auto model = random_model<float>();
  const auto write = [](const fs::path& staging) { io::write_file_atomically(staging / io::search_file, "{}"); };
  io::save(folder / "model", model, Words{"the words"}, {.more = write});
  CHECK(io::read_file(folder / "model/search.json") == "{}");
  io::save(folder / "alone", model, {.more = write});
  CHECK(fs::exists(folder / "alone/search.json"));
  io::save(folder / "model", model, Words{"others"});
  CHECK_FALSE(fs::exists(folder / "model/search.json"));  // it was of the model before
  io::save(folder / "model", model, Words{"the words"}, {.more = write});
  const auto fail = [](const fs::path&) { throw IoError("write: the disk is full"); };
  CHECK_THROWS_AS(io::save(folder / "model", model, Words{"others"}, {.more = fail}), IoError);
  CHECK(io::load_tokenizer<Words>(folder / "model").text == "the words");
  CHECK(fs::exists(folder / "model/search.json"));
}

TEST_CASE("a folder that is missing, or misses a file") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(io::load_model(folder / "nothing"), IoError);
  CHECK_THROWS_WITH(io::load_model(folder / "nothing"), ContainsSubstring("nothing"));
  CHECK_THROWS_WITH(io::load_model(folder.path()), ContainsSubstring("has no config.json"));
  io::save(folder / "model", random_model<float>());
  fs::remove(folder / "model" / "model.safetensors");
  CHECK_THROWS_AS(io::load_model(folder / "model"), IoError);
  CHECK_THROWS_WITH(io::load_model(folder / "model"), ContainsSubstring("has no model.safetensors"));
}

TEST_CASE("a damaged config.json is named, whatever the damage") {
  const TemporaryFolder folder;
  io::save(folder / "model", random_model<float>());
  const auto path = folder / "model" / "config.json";
  const std::string good = text_of(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  for (const auto& text : {std::string(), std::string("{"), std::string("[]"), good.substr(0, good.size() / 2),
                           std::string("\xff\xfe"), with("\"heads\": 2", "\"heads\": 5"), with("\"heads\": 2", "\"heads\": null"),
                           with("\"residual\": 0.1", "\"residual\": 7")}) {
    write(path, text);
    INFO(text);
    CHECK_THROWS_AS(io::load_model(folder / "model"), FormatError);
    CHECK_THROWS_WITH(io::load_model(folder / "model"), ContainsSubstring("config.json"));
  }
  write(path, good);
  CHECK_NOTHROW(io::load_model(folder / "model"));
}

TEST_CASE("a config that describes another model than the weights, a huge one too") {
  const TemporaryFolder folder;
  io::save(folder / "model", random_model<float>());
  const auto path = folder / "model" / "config.json";
  const auto good = io::read_json(path);
  const std::string largest = std::to_string(index_t{1} << 28);
  const auto change = [&](const char* at, index_t value) {
    auto json = good;
    json[io::Json::json_pointer(at)] = value;
    io::write_json(path, json);
    INFO(at << " " << value);
    CHECK_THROWS_AS(io::load_model(folder / "model"), FormatError);
  };
  for (const std::string stack : {"/encoder", "/decoder"}) {
    for (const char* size :
         {"/vocabulary", "/d_model", "/heads", "/d_k", "/d_v", "/d_ff", "/layers", "/max_length", "/d_memory"}) {
      if (stack + size == "/encoder/d_memory") continue;  // an encoder has no memory
      change((stack + size).c_str(), index_t{1} << 28);
    }
    for (const char* size : {"/d_ff", "/layers", "/d_k"}) change((stack + size).c_str(), 4);
  }
  auto json = good;  // every size at its bound: products of them would overflow
  for (const char* stack : {"encoder", "decoder"})
    for (const char* size : {"vocabulary", "d_model", "heads", "d_k", "d_v", "d_ff", "layers"})
      json[stack][size] = index_t{1} << 28;
  io::write_json(path, json);
  CHECK_THROWS_WITH(io::load_model(folder / "model"), ContainsSubstring("describes at least"));
  // Layers whose numbers are few, and what they are made of is not.
  json = good;
  json["encoder"]["layers"] = 4000;
  io::write_json(path, json);
  CHECK_THROWS_WITH(io::load_model(folder / "model"), ContainsSubstring("describes 4001 layers"));
}

TEST_CASE("weights that do not fit the config are all named") {
  const TemporaryFolder folder;
  const auto model = random_model<float>();
  io::save(folder / "model", model);
  io::SafetensorsWriter writer;
  for (const auto& t : nn::state(model)) {
    if (t.name == "decoder.layers.0.fc1.bias" || t.name == "lm_head.weight") continue;
    if (t.name == "encoder.layers.0.fc1.bias") io::add_tensor(writer, t.name, Tensor<float>({9}, 0.0f));
    else io::add_tensor(writer, t.name, t.value);
  }
  io::add_tensor(writer, "lm_head.wieght", Tensor<float>({100, 100}, 0.0f));
  writer.write(folder / "model" / "model.safetensors");
  try {
    (void)io::load_model(folder / "model");
    FAIL("it was loaded");
  } catch (const FormatError& e) {
    const std::string what = e.what();
    INFO(what);
    for (const char* part : {"model.safetensors", "missing decoder.layers.0.fc1.bias, lm_head.weight",
                             "unexpected lm_head.wieght", "encoder.layers.0.fc1.bias has shape [9], expected [5]"})
      CHECK(what.find(part) != std::string::npos);
  }
}

TEST_CASE("damaged weights are named") {
  const TemporaryFolder folder;
  io::save(folder / "model", random_model<float>());
  const auto path = folder / "model" / "model.safetensors";
  const std::string good = text_of(path);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{100}, good.size() - 1}) {
    write(path, good.substr(0, size));
    CHECK_THROWS_AS(io::load_model(folder / "model"), FormatError);
    CHECK_THROWS_WITH(io::load_model(folder / "model"), ContainsSubstring("model.safetensors"));
  }
}
