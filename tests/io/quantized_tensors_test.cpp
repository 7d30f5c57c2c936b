#include "attend/io/quantized_tensors.hpp"

#include <functional>
#include <limits>

#include "attend/decode/transformer.hpp"
#include "attend/io/average.hpp"
#include "attend/io/model.hpp"
#include "attend/nn/adapters.hpp"
#include "catch.hpp"
#include "maps_privately.hpp"
#include "nn/check.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

nn::Transformer<float> model() {
  nn::Transformer<float> m(nn::TransformerOptions{.vocabulary = 7,
                                                  .d_model = 6,
                                                  .heads = 2,
                                                  .d_ff = 5,
                                                  .layers = 1,
                                                  .max_length = 9,
                                                  .share_embeddings = true,
                                                  .tie_head = true});
  test::randomise(m);
  return m;
}

std::string weights(const fs::path& folder) { return io::read_file(folder / "model.safetensors"); }

/// The rows or the scales of a tensor in a file that is being written anew.
struct Part {
  io::DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

}  // namespace

TEST_CASE("a model saved in 8-bit integers comes back as nn::quantize makes it, and is saved again as it is") {
  const TemporaryFolder folder;
  const auto floats = model(), quantized = model();
  nn::quantize(quantized);
  io::save(folder / "a", floats, {.quantized = true});
  io::save(folder / "b", quantized);
  CHECK(weights(folder / "a") == weights(folder / "b"));
  CHECK(io::read_file(folder / "a" / "config.json") == io::read_file(folder / "b" / "config.json"));
  CHECK_FALSE(nn::is_quantized(floats));
  const auto json = io::read_json(folder / "a" / "config.json");
  CHECK(json.at("quantized") == "int8");
  CHECK(json.at("version") == 6);
  const auto file = io::SafetensorsFile::open(folder / "a" / "model.safetensors");
  CHECK(file.info("encoder.embed_tokens.weight").dtype == io::DType::i8);
  CHECK(file.info("encoder.embed_tokens.weight.scale").shape == Shape{7});
  CHECK(file.info("encoder.layers.0.fc1.bias").dtype == io::DType::f32);

  const std::size_t from = GENERATE(std::size_t{1}, io::MapFrom::never);
  const io::MapFrom scope(from);
  const auto loaded = io::load_model(folder / "a");
  CHECK_FALSE(nn::is_training(loaded));
  for (const auto& p : nn::quantizable_parameters(loaded))
    CHECK(p.value().quantized()->rows.is_mapped() == (maps_privately && from == 1));
  const auto x = nn::state(quantized), y = nn::state(loaded);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(x[i].name);
    const auto *a = x[i].value.quantized(), *b = y[i].value.quantized();
    REQUIRE((a != nullptr) == (b != nullptr));
    if (a != nullptr) CHECK((a->rows.values() == b->rows.values() && a->scales.values() == b->scales.values()));
    else CHECK(x[i].value.values() == y[i].value.values());
  }
  io::save(folder / "c", loaded, {.quantized = true});
  CHECK(weights(folder / "c") == weights(folder / "a"));
}

TEST_CASE("8-bit integers: other numbers are stored as is said, and models of other numbers are saved so too") {
  const TemporaryFolder folder;
  const auto floats = model();
  io::save(folder / "a", floats, {.stored = io::DType::bf16, .quantized = true});
  const auto file = io::SafetensorsFile::open(folder / "a" / "model.safetensors");
  CHECK(file.info("encoder.layers.0.fc1.bias").dtype == io::DType::bf16);
  CHECK(file.info("encoder.layers.0.fc1.weight.scale").dtype == io::DType::f32);
  CHECK(nn::is_quantized(io::load_model(folder / "a")));

  io::save(folder / "floats", floats);
  io::save(folder / "b", io::load_model<double>(folder / "floats"), {.quantized = true});
  io::save(folder / "c", floats, {.quantized = true});
  CHECK(weights(folder / "b") == weights(folder / "c"));
  CHECK_THROWS_AS(io::load_model<double>(folder / "b"), ValueError);
  CHECK_THROWS_WITH(io::load_model<double>(folder / "b"),
                    ContainsSubstring("is of 8-bit integers, which are for float models on the CPU"));
}

TEST_CASE("8-bit integers: what needs floats refuses the folder, and a refused save leaves what was there") {
  const TemporaryFolder folder;
  auto floats = model();
  io::save(folder / "a", floats, {.quantized = true});
  CHECK_THROWS_WITH(io::average({folder / "a", folder / "a"}, folder / "mean"), ContainsSubstring("is of 8-bit integers"));
  CHECK_FALSE(fs::exists(folder / "mean" / "config.json"));
  const auto file = io::SafetensorsFile::open(folder / "a" / "model.safetensors");
  CHECK_THROWS_WITH(io::load_state(floats, file),
                    ContainsSubstring("unexpected decoder.layers.0.encoder_attn.k_proj.weight.scale"));

  const nn::Transformer<double> doubles(floats.options);  // whoever says that they may be, they have none
  std::vector<const void*> all;
  for (const auto& p : nn::parameters(doubles)) all.push_back(p.id());
  CHECK_THROWS_WITH(io::load_state(doubles, file, {.quantizable = all}), ContainsSubstring("k_proj.weight.scale"));

  const auto before = weights(folder / "a");
  floats.encoder.layers[0].feed_forward.fc1.weight.value()(0, 0) = std::numeric_limits<float>::infinity();
  CHECK_THROWS_WITH(io::save(folder / "a", floats, {.quantized = true}),
                    ContainsSubstring("encoder.layers.0.fc1.weight has a number that is not finite"));
  CHECK(weights(folder / "a") == before);
}

TEST_CASE("8-bit integers: what is damaged is told in one message") {
  const TemporaryFolder folder;
  const auto good = folder / "good", bad = folder / "bad";
  io::save(good, model(), {.quantized = true});
  io::save(bad, model(), {.quantized = true});
  const std::string name = "encoder.layers.0.fc1.weight", scale = name + ".scale";
  using Parts = std::map<std::string, Part>;
  const auto refuses = [&](const std::function<void(Parts&)>& damage, const std::string& why) {
    const auto file = io::SafetensorsFile::open(good / "model.safetensors");
    Parts parts;
    for (const auto& t : file.tensors()) {
      auto& part = parts[t.name] = {t.dtype, t.shape, std::vector<std::byte>(t.end - t.begin)};
      file.read_bytes(t.name, part.bytes);
    }
    damage(parts);
    io::SafetensorsWriter writer;
    for (const auto& [key, part] : parts)
      writer.add_stream(key, part.dtype, part.shape,
                        [&part = part](io::FileSink& sink) { sink.write(std::span<const std::byte>(part.bytes)); });
    writer.write(bad / "model.safetensors");
    CHECK_THROWS_AS(io::load_model(bad), FormatError);
    CHECK_THROWS_WITH(io::load_model(bad), ContainsSubstring(why));
  };
  const auto set = [](Part& part, auto value) { std::memcpy(part.bytes.data(), &value, sizeof value); };
  refuses([&](Parts& p) { p.erase(name); }, "missing " + name + "; unexpected " + scale);
  refuses([&](Parts& p) { p.erase(scale); }, name + " has the dtype I8, expected " + scale + " beside it");
  refuses([&](Parts& p) { p[name].dtype = io::DType::u8; }, name + " has the dtype U8, expected I8, since there is " + scale);
  refuses([&](Parts& p) { p[name].shape = {6, 5}; }, name + " has shape [6, 5], expected [5, 6]");
  refuses([&](Parts& p) { p[scale].dtype = io::DType::i32; }, scale + " has the dtype I32, expected F32");
  refuses([&](Parts& p) { p[scale].shape = {5, 1}; }, scale + " has shape [5, 1], expected [5]");
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -0.5f})
    refuses([&](Parts& p) { set(p[scale], value); },
            scale + " holds " + std::to_string(value) + ", expected finite numbers from 0 on");
  refuses([&](Parts& p) { set(p[name], std::int8_t{-128}); }, name + " holds -128, expected -127 to 127");
  const std::string k = "encoder.layers.0.self_attn.k_proj.weight";
  const auto to_floats = [](Parts& p, const std::string& tensor) {
    p.erase(tensor + ".scale");
    p[tensor] = {io::DType::f32, p[tensor].shape, std::vector<std::byte>(4 * p[tensor].bytes.size())};
  };
  refuses([&](Parts& p) { to_floats(p, k); },
          "encoder.layers.0.self_attn.q_proj.weight is of I8, and not so what is one matrix with it");
  const std::string bias = "encoder.layers.0.fc1.bias";
  refuses([&](Parts& p) { p[bias + ".scale"] = p[bias], p[bias].dtype = io::DType::i8, p[bias].bytes.resize(5); },
          "unexpected " + bias + ".scale");
  refuses(
      [&](Parts& p) {
        const auto file = io::SafetensorsFile::open(good / "model.safetensors");
        for (const auto& t : file.tensors())
          if (t.dtype == io::DType::i8) to_floats(p, t.name);
      },
      "has no matrix of 8-bit integers, as " + (bad / "config.json").string() + " says");

  fs::remove(bad / "model.safetensors");  // which GCC for Windows does not overwrite
  fs::copy_file(good / "model.safetensors", bad / "model.safetensors");
  auto json = io::read_json(good / "config.json");
  json["quantized"] = "int4";
  io::write_json(bad / "config.json", json);
  CHECK_THROWS_WITH(io::load_model(bad), ContainsSubstring("quantized is \"int4\", expected \"int8\""));
  json.erase("quantized");
  io::write_json(bad / "config.json", json);
  CHECK_THROWS_WITH(io::load_model(bad), ContainsSubstring("unexpected decoder.layers.0.encoder_attn.k_proj.weight.scale"));
}

TEST_CASE("loaded for int8, what is read becomes 8-bit integers, unless that cannot hold it") {
  const TemporaryFolder folder;
  const auto m = model();
  m.decoder.layers[0].feed_forward.fc1.weight.value().data()[3] = std::numeric_limits<float>::infinity();
  io::save(folder / "m", m, {.stored = io::DType::bf16});
  const io::LoadFor purpose(Precision::int8);
  const auto loaded = io::load_model(folder / "m");
  for (const auto& p : nn::product_parameters(loaded)) {
    const bool finite = p.id() != loaded.decoder.layers[0].feed_forward.fc1.weight.id();
    CHECK((p.value().quantized() != nullptr) == finite);
  }
  CHECK_FALSE(loaded.encoder.embed_tokens->weight.value().quantized());
  CHECK(nn::is_quantized(loaded));
  CHECK_THROWS_WITH(nn::check_floats("train", loaded), ContainsSubstring("of 8-bit integers"));
  CHECK_FALSE(nn::is_quantized(io::load_model<double>(folder / "m")));
}

namespace {

/// The log-probabilities of a first token after a short sentence.
std::vector<float> first_step(const nn::Transformer<float>& m, Precision precision, std::span<const token_t> head = {}) {
  const decode::TransformerModel<float> steps(m, {.precision = precision});
  auto state = steps.begin(Tensor<token_t>({3}, {3, 4, 5}), Segments::ragged({3}), head);
  return steps.step(state, std::vector<token_t>{2}).values();
}

}  // namespace

TEST_CASE("loaded to translate, matrices of a file in bfloat16 stay so, and what is computed is the same") {
  const TemporaryFolder folder;
  io::save(folder / "m", model(), {.stored = io::DType::bf16});
  const auto floats = io::load_model(folder / "m");
  const auto precision = GENERATE(Precision::full, Precision::bf16, Precision::int8);
  const std::size_t from = GENERATE(std::size_t{1}, io::MapFrom::never);
  const io::MapFrom setting(from);
  const io::LoadFor purpose(precision);
  const auto loaded = io::load_model(folder / "m");
  const bool is_mapped = from == 1 && maps_privately, all = is_mapped || precision != Precision::int8;
  for (const auto& p : nn::product_parameters(loaded)) {
    CHECK((p.value().in_bfloat16() != nullptr) == all);
    CHECK((p.value().quantized() != nullptr) == !all);
    if (all) CHECK(p.value().in_bfloat16()->is_mapped() == is_mapped);
  }
  const auto& table = loaded.encoder.embed_tokens->weight.value();
  CHECK((table.in_bfloat16() != nullptr) == all);
  CHECK(loaded.encoder.layers[0].feed_forward.fc1.bias->value().instead() == nullptr);
  CHECK(first_step(loaded, precision) == first_step(floats, precision));
  const std::vector<token_t> head{1, 3, 5};
  CHECK(first_step(loaded, precision, head) == first_step(floats, precision, head));
  if (!all) return;

  CHECK_THROWS_WITH(nn::check_floats("train", loaded),
                    "train: the model is of numbers in bfloat16, which are for translation; expected one in floats");
  CHECK_THROWS_AS(loaded.encoder.embed_tokens->weight.data(), ValueError);
  CHECK_THROWS_WITH(io::load_state(loaded, io::SafetensorsFile::open(folder / "m" / "model.safetensors")),
                    ContainsSubstring("is of numbers in bfloat16, in whose place nothing can be read"));
  io::save(folder / "again", loaded, {.stored = io::DType::bf16});
  CHECK(weights(folder / "again") == weights(folder / "m"));
  io::save(folder / "wide", loaded);
  io::save(folder / "floats", floats);
  CHECK(weights(folder / "wide") == weights(folder / "floats"));
}

TEST_CASE("loaded to translate in bfloat16, what has to be read is rounded, embeddings and a head that is one are not") {
  const TemporaryFolder folder;
  io::save(folder / "m", model());
  const auto floats = io::load_model(folder / "m");
  const io::MapFrom none(io::MapFrom::never);
  const io::LoadFor purpose(Precision::bf16);
  const auto loaded = io::load_model(folder / "m");
  for (const auto& p : nn::product_parameters(loaded)) CHECK(p.value().in_bfloat16());
  CHECK_FALSE(loaded.encoder.embed_tokens->weight.value().instead());
  CHECK(first_step(loaded, Precision::bf16) == first_step(floats, Precision::bf16));
  CHECK_FALSE(io::load_model<double>(folder / "m").encoder.layers[0].feed_forward.fc1.weight.value().instead());
}

TEST_CASE("loaded to translate, a model with adapters computes what its floats do, and the adapters stay in floats") {
  const TemporaryFolder folder;
  auto adapted = model();
  nn::add_adapters(adapted, {.rank = 2});
  for (const auto& a : nn::adaptables(adapted))
    if (a.adapter) a.adapter->b.value().fill(0.5f);
  const auto stored = GENERATE(io::DType::f32, io::DType::bf16);
  const auto precision = GENERATE(Precision::full, Precision::bf16, Precision::int8);
  INFO(io::dtype_name(stored) << ' ' << name_of(precision));
  io::save(folder / "m", adapted, {.stored = stored});
  const auto floats = io::load_model(folder / "m");
  const io::MapFrom none(io::MapFrom::never);
  const io::LoadFor purpose(precision);
  const auto loaded = io::load_model(folder / "m");
  index_t held = 0;
  for (const auto& t : nn::named_tensors(loaded)) {
    const bool adapter = t.name.find(".lora_") != t.name.npos;
    held += t.value.instead() != nullptr;
    if (adapter) CHECK(t.value.instead() == nullptr);
  }
  CHECK((held > 0) == (stored == io::DType::bf16 || precision != Precision::full));
  CHECK(first_step(loaded, precision) == first_step(floats, precision));
  CHECK(first_step(loaded, precision) != first_step(model(), precision));
}

TEST_CASE("loaded to train adapters in bfloat16, what products multiply by is rounded even where its floats could be mapped") {
  const TemporaryFolder folder;
  io::save(folder / "m", model());
  const auto floats = io::load_model(folder / "m");
  const io::MapFrom all(1);
  CHECK(io::LoadFor::use() == io::Use::translation);
  const auto in_bfloat16 = [](const auto& m) {
    const auto list = nn::product_parameters(m);
    return std::count_if(list.begin(), list.end(), [](const auto& p) { return p.value().in_bfloat16() != nullptr; });
  };
  {
    const io::LoadFor purpose(Precision::full, io::Use::adapters);
    CHECK(io::LoadFor::use() == io::Use::adapters);
    CHECK(io::LoadFor::current() == Precision::full);
    CHECK(in_bfloat16(io::load_model(folder / "m")) == 0);
  }
  CHECK_THROWS_WITH(io::LoadFor(Precision::int8, io::Use::adapters), ContainsSubstring("expected full or bf16"));
  CHECK_FALSE(io::LoadFor::current());
  const io::LoadFor purpose(Precision::bf16, io::Use::adapters);
  CHECK(io::LoadFor::current() == Precision::bf16);
  const auto loaded = io::load_model(folder / "m");
  CHECK(in_bfloat16(loaded) == count_of(nn::product_parameters(loaded)));
  CHECK_FALSE(loaded.encoder.embed_tokens->weight.value().instead());
  CHECK(first_step(loaded, Precision::bf16) == first_step(floats, Precision::bf16));

  // Saved as it is held, it is so again, and smaller; in floats if that is asked for.
  io::save(folder / "held", loaded, {.stored = {}});
  io::save(folder / "wide", loaded);
  CHECK(std::filesystem::file_size(folder / "held" / "model.safetensors") <
        std::filesystem::file_size(folder / "wide" / "model.safetensors"));
  const io::LoadFor again(Precision::full);
  CHECK(in_bfloat16(io::load_model(folder / "held")) == count_of(nn::product_parameters(loaded)));
  CHECK(in_bfloat16(io::load_model(folder / "wide")) == 0);
}

TEST_CASE("a model that was left in bfloat16 becomes 8-bit integers as its floats do, in memory and in a file") {
  const TemporaryFolder folder;
  io::save(folder / "m", model(), {.stored = io::DType::bf16});
  const auto floats = io::load_model(folder / "m");
  io::save(folder / "of floats", floats, {.quantized = true});
  const io::LoadFor purpose(Precision::full);
  const auto loaded = io::load_model(folder / "m");
  io::save(folder / "of bfloat16", loaded, {.quantized = true});
  CHECK(weights(folder / "of bfloat16") == weights(folder / "of floats"));
  nn::quantize(loaded);
  nn::quantize(floats);
  CHECK(nn::is_quantized(loaded));
  CHECK(first_step(loaded, Precision::full) == first_step(floats, Precision::full));
}

TEST_CASE("loaded to translate, a matrix that the file has in two types, or in part, is what it is without") {
  const TemporaryFolder folder;
  const auto from = model();
  const auto file = [&](const std::string& name, auto&& stored) {  // of a tensor, or nothing for one that is left out
    io::SafetensorsWriter writer;
    for (const auto& t : nn::state(from))
      if (const std::optional<io::DType> type = stored(t.name.ends_with("k_proj.weight")))
        io::add_tensor(writer, t.name, t.value, *type);
    writer.write(folder / name);
    return io::SafetensorsFile::open(folder / name);
  };
  const auto two = file("two", [](bool k) { return k ? io::DType::f32 : io::DType::bf16; });
  const auto other = file("other", [](bool k) { return k ? io::DType::bf16 : io::DType::f32; });
  const auto some = file("some", [](bool k) { return k ? std::nullopt : std::optional(io::DType::bf16); });
  const io::LoadOptions options{.absent = {"*k_proj.weight"}, .map = true};
  const io::MapFrom setting(GENERATE(std::size_t{1}, io::MapFrom::never));
  for (const auto* stored : {&two, &other, &some})
    for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
      INFO(stored->path() << ' ' << name_of(precision));
      const auto floats = model(), loaded = model();
      io::load_state(floats, *stored, options);
      const io::LoadFor purpose(precision);
      io::load_state(loaded, *stored, options);
      CHECK(first_step(loaded, precision) == first_step(floats, precision));
    }
}

TEST_CASE("loaded to translate in bfloat16, doubles are rounded to float first, as they are without") {
  const TemporaryFolder folder;
  nn::Transformer<double> doubles(model().options);
  const auto& weight = doubles.encoder.layers[0].feed_forward.fc1.weight.value();
  for (index_t i = 0; i < weight.size(); ++i) weight.data()[i] = (i * 7 % 5 < 2 ? -1 : 1) * (1 + 0x1p-8 + 1e-12);
  io::save(folder / "m", doubles, {.stored = io::DType::f64});
  const auto floats = io::load_model(folder / "m");
  const io::LoadFor purpose(Precision::bf16);
  CHECK(first_step(io::load_model(folder / "m"), Precision::bf16) == first_step(floats, Precision::bf16));
}
