#include "attend/io/load_parameters.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "attend/io/model.hpp"
#include "attend/io/torch_file.hpp"
#include "attend/io/weight_files.hpp"
#include "attend/nn/linear.hpp"
#include "attend/nn/multi_head_attention.hpp"
#include "attend/ops/packed_weights.hpp"
#include "attend/optim/adam.hpp"
#include "catch.hpp"
#include "maps_privately.hpp"
#include "nn/check.hpp"
#include "safetensors_file.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

nn::Transformer<float> random_model(index_t vocabulary = 11) {
  nn::Transformer<float> model({.vocabulary = vocabulary, .d_model = 16, .heads = 2, .d_ff = 12, .layers = 1, .max_length = 9});
  test::randomise(model);
  return model;
}

/// A parameter of any name.
struct OneTensor {
  using value_type = float;
  using device_type = Cpu;
  std::string name;
  Var<float> value;
  template <class F>
  void fields(F&& field) {
    field(name, value);
  }
};

template <class M>
std::vector<float> values_of(const M& model) {
  std::vector<float> all;
  for (const auto& t : nn::state(model)) {
    const auto values = t.value.values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

template <class M>
index_t count_mapped(const M& model) {
  const auto all = nn::parameters(model);
  return std::count_if(all.begin(), all.end(), [](const auto& p) { return p.value().is_mapped(); });
}

/// A layer whose weight is the file's.
nn::Linear<float> mapped_layer(const fs::path& path, index_t out, index_t in) {
  auto layer = nn::without_initial_values<nn::Linear<float>>(in, out, nn::LinearOptions{.bias = false});
  const io::MapFrom all(1);
  io::load_state(layer, io::SafetensorsFile::open(path), {.map = true});
  return layer;
}

void write_layer(const fs::path& path, const Tensor<float>& weight) {
  io::SafetensorsWriter writer;
  io::add_tensor(writer, "weight", weight);
  writer.write(path);
}

Tensor<float> random(const Shape& shape) {
  const Tensor<float> x(shape);
  nn::normal(x, 1);
  return x;
}

}  // namespace

TEST_CASE("load: large matrices are those of the file, with the values that reading gives") {
  const TemporaryFolder folder;
  const auto model = random_model(2000);
  io::save(folder.path(), model);
  const auto loaded = io::load_model<float>(folder.path());
  CHECK(loaded.encoder.embed_tokens->weight.value().is_mapped() == maps_privately);
  CHECK_FALSE(loaded.encoder.layers[0].feed_forward.fc1.weight.value().is_mapped());  // 768 bytes
  CHECK(values_of(loaded) == values_of(model));

  const io::MapFrom none(io::MapFrom::never);
  const auto read = io::load_model<float>(folder.path());
  CHECK(count_mapped(read) == 0);
  CHECK(values_of(read) == values_of(model));
}

TEST_CASE("load: what is written to a mapped model stays in the program") {
  const TemporaryFolder folder;
  io::save(folder.path(), random_model());
  const std::string bytes = text_of(folder / "model.safetensors");
  const io::MapFrom all(1);
  const auto loaded = io::load_model<float>(folder.path()), other = io::load_model<float>(folder.path());
  CHECK((count_mapped(loaded) > 10) == maps_privately);
  const auto before = values_of(loaded);
  for (const auto& t : nn::state(loaded))
    for (float& x : t.value.span()) x += 1;
  CHECK(text_of(folder / "model.safetensors") == bytes);
  CHECK(values_of(other) == before);
  CHECK(values_of(io::load_model<float>(folder.path())) == before);
  for (std::size_t i = 0; i < before.size(); ++i) REQUIRE(values_of(loaded)[i] == before[i] + 1);
}

TEST_CASE("load: a mapped model outlives its file, and may be saved over it") {
  const TemporaryFolder folder;
  io::save(folder.path(), random_model());
  const io::MapFrom all(1);
  const auto loaded = io::load_model<float>(folder.path());
  const auto before = values_of(loaded);
  loaded.encoder.embed_tokens->weight.value()(3, 5) = 42;
  auto changed = values_of(loaded);
  REQUIRE(changed != before);
  for (int i = 0; i < 2; ++i) {
    io::save(folder.path(), loaded);
    CHECK(values_of(loaded) == changed);
    CHECK(values_of(io::load_model<float>(folder.path())) == changed);
  }
  fs::remove(folder / "model.safetensors");
  CHECK(values_of(loaded) == changed);
}

TEST_CASE("load: a mapped model trains, and leaves the file alone") {
  const TemporaryFolder folder;
  io::save(folder.path(), random_model());
  const std::string bytes = text_of(folder / "model.safetensors");
  const auto step = [&] {
    const auto loaded = io::load_model<float>(folder.path());
    optim::Adam<float> adam(nn::parameters(loaded), {});
    for (const auto& p : nn::parameters(loaded)) p.grad().fill(0.5f);
    adam.step(0.1);
    CHECK(count_mapped(loaded) == 0);
    return values_of(loaded);
  };
  const io::MapFrom never(io::MapFrom::never);
  const auto wanted = step();
  const io::MapFrom all(1);
  CHECK(step() == wanted);
  CHECK(text_of(folder / "model.safetensors") == bytes);
}

TEST_CASE("load: numbers of another type, and those that are not aligned, are read") {
  const TemporaryFolder folder;
  const auto model = random_model();
  const io::MapFrom all(1);
  io::save(folder.path(), model, {.stored = io::DType::f64});
  const auto wide = io::load_model<float>(folder.path());
  CHECK(count_mapped(wide) == 0);
  CHECK(values_of(wide) == values_of(model));
  CHECK((count_mapped(io::load_model<double>(folder.path())) > 10) == maps_privately);

  const std::vector<float> numbers{1, 2, 3, 4};
  const std::string data(reinterpret_cast<const char*>(numbers.data()), 16);
  std::string header = R"({"weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  for (int spaces = 0; spaces < 8; ++spaces, header += ' ') {
    std::ofstream(folder / "layer", std::ios::binary) << safetensors_bytes(header, data);
    const auto layer = mapped_layer(folder / "layer", 2, 2);
    CHECK(layer.weight.value().values() == numbers);
    CHECK(layer.weight.value().is_mapped() == (maps_privately && header.size() % 4 == 0));
  }
}

TEST_CASE("load: q, k and v are mapped where the file has them one after the other") {
  const TemporaryFolder folder;
  const nn::MultiHeadAttentionOptions options{.d_model = 4, .heads = 2, .bias = false, .out_bias = false};
  const auto qkv = random({12, 4}), out = random({4, 4});
  const auto load_from = [&](const std::vector<std::pair<std::string, Tensor<float>>>& tensors) {
    io::SafetensorsWriter writer;
    for (const auto& [name, value] : tensors) io::add_tensor(writer, name, value);
    io::add_tensor(writer, "out_proj.weight", out);
    writer.write(folder / "file");
    const io::MapFrom all(1);
    const auto attention = nn::without_initial_values<nn::MultiHeadAttention<float>>(options);
    io::load_state(attention, io::SafetensorsFile::open(folder / "file"), {.map = true});
    return attention.weight.value();
  };
  const auto packed = load_from({{"in_proj_weight", qkv}});
  CHECK(packed.is_mapped() == maps_privately);
  CHECK(packed.values() == qkv.values());

  // Head by head: q, k and v of the first head, then of the second.
  const Tensor<float> by_head({12, 4});
  for (index_t head = 0; head < 2; ++head)
    for (index_t part = 0; part < 3; ++part) by_head.rows(head * 6 + part * 2, 2).assign(qkv.rows(part * 4 + head * 2, 2));
  const auto gathered = load_from({{"qkv_proj.weight", by_head}});
  CHECK_FALSE(gathered.is_mapped());
  CHECK(gathered.values() == qkv.values());

  // The writer puts them so.
  const auto apart =
      load_from({{"k_proj.weight", qkv.rows(4, 4)}, {"v_proj.weight", qkv.rows(8, 4)}, {"q_proj.weight", qkv.rows(0, 4)}});
  CHECK(apart.is_mapped() == maps_privately);
  CHECK(apart.values() == qkv.values());

  // By their names alone, as other programs write them.
  const auto bytes = [](const Tensor<float>& x) { return std::string(reinterpret_cast<const char*>(x.data()), 64); };
  std::ofstream(folder / "theirs", std::ios::binary) << safetensors_bytes(
      R"({"k_proj.weight":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]},"out_proj.weight":{"dtype":"F32","shape":[4,4],)"
      R"("data_offsets":[64,128]},"q_proj.weight":{"dtype":"F32","shape":[4,4],"data_offsets":[128,192]},)"
      R"("v_proj.weight":{"dtype":"F32","shape":[4,4],"data_offsets":[192,256]}}  )",
      bytes(qkv.rows(4, 4)) + bytes(out) + bytes(qkv.rows(0, 4)) + bytes(qkv.rows(8, 4)));
  const io::MapFrom all(1);
  const auto theirs = nn::without_initial_values<nn::MultiHeadAttention<float>>(options);
  io::load_state(theirs, io::SafetensorsFile::open(folder / "theirs"), {.map = true});
  CHECK_FALSE(theirs.weight.value().is_mapped());
  CHECK(theirs.weight.value().values() == qkv.values());
  CHECK(theirs.out_proj.weight.value().values() == out.values());
}

TEST_CASE("load: without `map` values are read to where they were, and a file that does not fit changes nothing") {
  const TemporaryFolder folder;
  const auto weight = random({30, 40});
  write_layer(folder / "layer", weight);
  const io::MapFrom all(1);
  const nn::Linear<float> layer(40, 30, {.bias = false}), wrong(40, 31, {.bias = false}), biased(40, 30);
  const auto view = layer.weight.value();
  const auto file = io::SafetensorsFile::open(folder / "layer");
  io::load_state(layer, file);
  CHECK(view.values() == weight.values());
  CHECK_FALSE(layer.weight.value().is_mapped());
  for (const auto* each : {&wrong, &biased}) {
    const auto before = each->weight.value();
    const auto values = before.values();
    CHECK_THROWS_AS(io::load_state(*each, file, {.map = true}), FormatError);
    CHECK(each->weight.value().data() == before.data());
    CHECK(before.values() == values);
  }
}

TEST_CASE("load: names that may be absent keep the values that they had") {
  const TemporaryFolder folder;
  const auto weight = random({30, 40});
  write_layer(folder / "layer", weight);
  const io::MapFrom all(1);
  const auto layer = nn::without_initial_values<nn::Linear<float>>(40, 30);
  io::load_state(layer, io::SafetensorsFile::open(folder / "layer"), {.absent = {"bias"}, .map = true});
  CHECK(layer.weight.value().is_mapped() == maps_privately);
  CHECK(layer.bias->value().values() == std::vector<float>(30, 0));
}

TEST_CASE("load: parts of tensors are the numbers from there on, turned ones too") {
  const auto file = io::TorchFile::open(fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / "../../io/torch_files/state.bin");
  for (const auto& info : file.tensors()) {
    if (!io::is_floating(info.dtype)) continue;
    const auto whole = io::read_tensor<double>(file, info.name).values();
    for (index_t first = 0; first <= count_of(whole); ++first)
      for (index_t count = 0; count <= count_of(whole) - first; ++count) {
        std::vector<double> part(static_cast<std::size_t>(count));
        file.read_part(info.name, first, std::span(part));
        REQUIRE(part == std::vector<double>(whole.begin() + first, whole.begin() + first + count));
      }
    std::vector<double> more(whole.size() + 1), one(1);
    CHECK_THROWS_AS(file.read_part(info.name, 0, std::span(more)), ShapeError);
    CHECK_THROWS_AS(file.read_part(info.name, -1, std::span(one)), ShapeError);
    CHECK_THROWS_AS(file.read_part(info.name, count_of(whole), std::span(one)), ShapeError);
  }
}

TEST_CASE("load: files of torch.save are mapped too, in one part or several, but for tensors that are turned") {
  const fs::path made = fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / "../../io/torch_files";
  const auto parameter = [](const auto& file, const std::string& name) {
    const OneTensor model{name, Var<float>(Tensor<float>(file.info(name).shape, 0.0f), true)};
    const io::MapFrom all(1);
    io::load_state(model, file, {.ignored = {"*"}, .map = true});
    CHECK(model.value.value().values() == io::read_tensor<float>(file, name).values());
    return model.value.value();
  };
  const auto file = io::TorchFile::open(made / "state.bin");
  CHECK(parameter(file, "float32").is_mapped() == maps_privately);
  CHECK_FALSE(parameter(file, "turned").is_mapped());
  CHECK_FALSE(parameter(file, "float16").is_mapped());
  CHECK_FALSE(parameter(file, "none").is_mapped());  // no numbers at all
  const auto parts = io::WeightFiles::open(io::FolderReader(made / "sharded"));
  for (const char* name : {"a", "b", "c"})
    CHECK(parameter(parts, name).is_mapped() == (maps_privately && parts.info(name).dtype == io::DType::f32));
}

#if !defined(_WIN32)
TEST_CASE("map_privately: no more than the file has") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file", std::ios::binary) << std::string(10000, 'x') << "end";
  const io::InputFile file(folder / "file");
  const auto memory = io::map_privately(file, 9999, 4);
  REQUIRE(memory.data != nullptr);
  CHECK(std::string(static_cast<const char*>(memory.data), memory.size) == "xend");
  CHECK(io::map_privately(file, 10000, 4).data == nullptr);
  CHECK(io::map_privately(file, 10004, 0).data == nullptr);
  CHECK(io::map_privately(file, 1, static_cast<std::size_t>(-1)).data == nullptr);
}
#endif

#if !defined(_WIN32)
TEST_CASE("Tensor::mapped: as many bytes as the shape needs, at a multiple of the type") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file", std::ios::binary) << std::string(64, '\0');
  const io::InputFile file(folder / "file");
  CHECK(Tensor<float>::mapped({2, 4}, io::map_privately(file, 32, 32)).values() == std::vector<float>(8, 0));
  CHECK_THROWS_WITH(Tensor<float>::mapped({2, 4}, io::map_privately(file, 32, 28)),
                    ContainsSubstring("got 28 mapped bytes for shape [2, 4] of 4 bytes each"));
  CHECK_THROWS_AS(Tensor<float>::mapped({2, 4}, io::map_privately(file, 30, 32)), ValueError);
  CHECK_FALSE(Tensor<float>({2}).is_mapped());
}
#endif

#if !defined(_WIN32)
TEST_CASE("PackedWeights: a mapped matrix gives the same products, and is seen to change, whether its pages are there or not") {
  const TemporaryFolder folder;
  const auto weight = random({70, 300}), x = random({3, 300});
  write_layer(folder / "layer", weight);
  const NoGrad no_grad;
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const auto layer = mapped_layer(folder / "layer", 70, 300);
    const auto& w = layer.weight;
    REQUIRE(w.value().is_mapped());
    const PackedWeights<float> packed(precision);
    const auto is_new = [&] {  // as if it were packed now, from memory of its own
      const PackedWeights<float> fresh(precision);
      packed.refresh();
      const auto got = linear(Var<float>(x), w, {}, &packed).value().values();
      return got == linear(Var<float>(x), Var<float>(w.value().clone()), {}, &fresh).value().values();
    };
    REQUIRE(is_new());
    CHECK(w.value().values() == weight.values());
    for (float& value : w.value().span()) value -= 0.25f;  // all of it
    CHECK(is_new());
    for (float& value : w.value().span()) value += 0.5f;  // once more: its pages are the program's now, and stay
    CHECK(is_new());
    CHECK(w.value()(69, 299) == weight(69, 299) - 0.25f + 0.5f);
  }
}
#endif

#if defined(__linux__)
TEST_CASE("PageTable: pages that were written to are known, and are kept") {
  const TemporaryFolder folder;
  const std::string bytes(1 << 20, 'x');
  std::ofstream(folder / "file", std::ios::binary) << bytes;
  const auto memory = io::map_privately(io::InputFile(folder / "file"), 1000, 1'000'000);
  auto* const at = static_cast<char*>(memory.data);
  detail::PageTable pages;
  if (!pages.written(at, memory.size)) return;  // a system that does not say
  CHECK(pages.written(at, memory.size) == false);
  CHECK(std::count(at, at + memory.size, 'x') == 1'000'000);
  CHECK(pages.written(at, memory.size) == false);  // reading is not writing
  CHECK(pages.release(at, memory.size));
  CHECK(std::count(at, at + memory.size, 'x') == 1'000'000);
  at[500'000] = 'y';
  CHECK(pages.written(at, memory.size) == true);
  CHECK(pages.written(at, 400'000) == false);
  CHECK(pages.written(at + 600'000, 400'000) == false);
  CHECK_FALSE(pages.release(at, memory.size));
  CHECK(at[500'000] == 'y');
  CHECK(pages.release(at + 600'000, 400'000));
  CHECK(pages.written(at, 0) == false);
  CHECK_FALSE(pages.release(at, 1000));       // which have no page of their own
  const std::vector<char> own(100'000, 'z');  // memory that is no file's
  CHECK_FALSE(pages.release(own.data(), own.size()));
  CHECK(own.back() == 'z');
}
#endif
