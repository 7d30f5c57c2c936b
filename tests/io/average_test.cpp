#include "attend/io/average.hpp"

#include "attend/io/model.hpp"
#include "attend/io/tensors.hpp"
#include "catch.hpp"
#include "limited_file_size.hpp"
#include "nn/check.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A model folder of a few numbers; `text` is its tokenizer.
struct Written {
  std::string config = R"({"model_type": "toy", "sizes": {"heads": 2}, "_note": "a"})", text = "pieces";
  std::vector<double> weight{1, 2}, bias{0.5};
  io::DType stored = io::DType::f32;
  std::string bias_name = "bias";

  std::filesystem::path to(const std::filesystem::path& folder) const {
    io::write_folder_atomically(folder, [&](const std::filesystem::path& staging) {
      io::write_file_atomically(staging / "config.json", config);
      if (!text.empty()) io::write_file_atomically(staging / "tokenizer.model", text);
      io::SafetensorsWriter writer;
      writer.metadata("format", "pt");
      const Shape shape{static_cast<index_t>(weight.size())};
      io::add_tensor(writer, "weight", Tensor<double>(shape, std::span<const double>(weight)), stored);
      io::add_tensor(writer, bias_name, Tensor<double>({1}, std::span<const double>(bias)), stored);
      writer.write(staging / "model.safetensors");
    });
    return folder;
  }
};

}  // namespace

TEST_CASE("average: the mean of the weights, all else as the first has it") {
  const TemporaryFolder folder;
  const auto a = Written{}.to(folder / "a");
  const auto b = Written{.config = R"({"_note": "b", "sizes": {"heads": 2}, "model_type": "toy"})",
                         .weight = {4, 2},
                         .bias = {0.25},
                         .stored = io::DType::f16}
                     .to(folder / "b");
  const auto c = Written{.weight = {1, 5}}.to(folder / "c");
  io::write_file_atomically(a / "training.safetensors", "no part of the model");
  io::average({a, b, c}, folder / "mean");
  {
    const auto file = io::SafetensorsFile::open(folder / "mean" / "model.safetensors");
    CHECK(file.read<double>("weight") == std::vector<double>{2, 3});
    CHECK(file.read<double>("bias") == std::vector<double>{static_cast<float>(1.25 / 3)});
    CHECK(file.info("weight").dtype == io::DType::f32);
    CHECK(file.metadata().at("format") == "pt");
  }
  CHECK(io::read_file(folder / "mean" / "config.json") == Written{}.config);
  CHECK(io::read_file(folder / "mean" / "tokenizer.model") == "pieces");
  CHECK_FALSE(std::filesystem::exists(folder / "mean" / "training.safetensors"));

  // Sums are exact where those of floats would lose the last term.
  const auto large = Written{.weight = {0x1p24, 1}}.to(folder / "large"), small = Written{.weight = {1, 1}}.to(folder / "small"),
             minus = Written{.weight = {-0x1p24, 1}}.to(folder / "minus");
  io::average({large, small, minus, small}, folder / "mean");
  CHECK(io::SafetensorsFile::open(folder / "mean" / "model.safetensors").read<double>("weight") == std::vector<double>{0.5, 1});
  io::average({b}, folder / "one");  // of a single model: itself
  CHECK(io::read_file(folder / "one" / "model.safetensors") == io::read_file(b / "model.safetensors"));
}

TEST_CASE("average: models that are not alike are refused with all that differs") {
  const TemporaryFolder folder;
  const auto a = Written{}.to(folder / "a"), mean = folder / "mean";
  const auto refuses = [&](const Written& other, const std::string& message) {
    std::filesystem::remove_all(folder / "b");
    const auto b = other.to(folder / "b");
    CHECK_THROWS_AS(io::average({a, b}, mean), ValueError);
    CHECK_THROWS_WITH(io::average({a, b}, mean), ContainsSubstring("in " + b.string() + " " + message));
    CHECK_FALSE(std::filesystem::exists(mean));
  };
  refuses({.config = R"({"model_type": "toy", "sizes": {"heads": 4}, "extra": 1})"},
          "config.json: sizes.heads is 4, expected 2, config.json: extra is 1, expected null");
  refuses({.text = "other pieces"}, "tokenizer.model is another");
  refuses({.text = ""}, "tokenizer.model is missing");
  refuses({.weight = {1, 2, 3}}, "weight has shape [3], expected [2]");
  refuses({.bias_name = "gain"}, "bias is missing, gain is unexpected");
  CHECK_THROWS_WITH(io::average({a, a}, a), ContainsSubstring("is one of the models to average"));
  CHECK_THROWS_AS(io::average({}, mean), ValueError);
  CHECK_THROWS_AS(io::average({a, folder / "nowhere"}, mean), IoError);
  io::write_file_atomically(folder / "b" / "config.json", "{");
  CHECK_THROWS_AS(io::average({a, folder / "b"}, mean), FormatError);
}

#if !defined(_WIN32)
TEST_CASE("average: of two Transformers; a disk that is full costs nothing") {
  const TemporaryFolder folder;
  const nn::TransformerOptions options{.vocabulary = 7, .d_model = 4, .heads = 2, .layers = 1, .max_length = 5};
  const nn::Transformer<float> a(options), b(options);
  io::save(folder / "a", a), io::save(folder / "b", b);
  io::save(folder / "mean", b);
  const auto before = io::read_file(folder / "mean" / "model.safetensors");
  {
    const LimitedFileSize full(1000);
    CHECK_THROWS_AS(io::average({folder / "a", folder / "b"}, folder / "mean"), IoError);
  }
  CHECK(io::read_file(folder / "mean" / "model.safetensors") == before);
  io::average({folder / "a", folder / "b"}, folder / "mean");
  const auto mean = io::load_model<float>(folder / "mean");
  const auto x = nn::state(a), y = nn::state(b), z = nn::state(mean);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (index_t k = 0; k < x[i].value.size(); ++k)
      REQUIRE(z[i].value.data()[k] == static_cast<float>((static_cast<double>(x[i].value.data()[k]) + y[i].value.data()[k]) / 2));
}
#endif

TEST_CASE("average: a folder that somebody else writes into is refused") {
  const TemporaryFolder folder;
  const auto a = Written{}.to(folder / "a"), b = Written{.weight = {4, 2}}.to(folder / "b");
  {
    const io::FolderLock lock(folder / "mean");
    CHECK_THROWS_WITH(io::average({a, b}, folder / "mean"), ContainsSubstring("is in use"));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "mean"));
  io::average({a, b}, folder / "mean");
  CHECK_FALSE(std::filesystem::exists(folder / "mean" / ".attend-lock"));
}
