// Targets of files that need no model: JSON, safetensors, what torch.save writes, shortlists, files of pairs, a folder whose
// replacement was interrupted.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/io/folder.hpp"
#include "attend/io/json.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/torch_file.hpp"
#include "attend/optim/schedule.hpp"
#include "attend/train/pair_file.hpp"
#include "attend/translate/shortlist.hpp"
#include "input.hpp"
#include "io/torch_bytes.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace fuzz {

namespace {

/// Reads a tensor as every kind of number. Floats take all there is; integers that do not fit are refused.
void read_every_way(const io::SafetensorsFile& file, const io::TensorInfo& tensor) {
  const auto count = static_cast<std::size_t>(tensor.shape.size());
  const auto doubles = file.read<double>(tensor.name);
  const auto floats = file.read<float>(tensor.name);
  const auto halves = file.read<bfloat16>(tensor.name);
  expect(doubles.size() == count && floats.size() == count && halves.size() == count,
         "a tensor has as many numbers as its shape");
  const bool wide = tensor.dtype == io::DType::i64 || tensor.dtype == io::DType::u64;  // a double has not all their digits
  for (std::size_t i = 0; i < count && !wide; ++i)
    expect(std::isnan(doubles[i]) ? std::isnan(floats[i]) : static_cast<float>(doubles[i]) == floats[i],
           "a number is the same as float and as double, rounded");
  answers<FormatError>([&] { (void)file.read<std::int8_t>(tensor.name); });
  answers<FormatError>([&] { (void)file.read<std::uint64_t>(tensor.name); });
  const auto integers = answers<FormatError>([&] {
    const auto values = file.read<std::int64_t>(tensor.name);
    for (std::size_t i = 0; i < count; ++i)
      expect(static_cast<double>(values[i]) == doubles[i], "an integer is the same as a double, rounded");
  });
  expect(!integers || !io::is_floating(tensor.dtype), "floats are no integers");
  const auto truths = std::make_unique<bool[]>(count);
  const bool has_truths = answers<FormatError>([&] { file.read_as(tensor.name, std::span<bool>(truths.get(), count)); });
  expect(has_truths == (tensor.dtype == io::DType::boolean), "truth values are read from BOOL and from nothing else");
}

std::vector<std::byte> bytes_of(const io::SafetensorsFile& file, const io::TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  file.read_bytes(tensor.name, bytes);
  return bytes;
}

/// Writes what was read and reads it again.
void write_again(const io::SafetensorsFile& file) {
  io::SafetensorsWriter writer;
  for (const auto& [key, value] : file.metadata()) writer.metadata(key, value);
  std::vector<std::vector<std::byte>> contents;
  for (const auto& tensor : file.tensors()) contents.push_back(bytes_of(file, tensor));
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto& tensor = file.tensors()[i];
    writer.add_bytes(tensor.name, tensor.dtype, tensor.shape, contents[i]);
  }
  const fs::path path = scratch() / "again.safetensors";
  writer.write(path);
  const auto again = io::SafetensorsFile::open(path);
  expect(again.metadata() == file.metadata(), "metadata that are written and read are the same");
  expect(again.tensors().size() == file.tensors().size(), "as many tensors are written as were read");
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto &a = file.tensors()[i], &b = again.tensors()[i];
    expect(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && bytes_of(again, b) == contents[i],
           "a tensor that is written and read is the same");
  }
}

/// A shortlist file for two source and four target tokens.
std::string shortlist_file() {
  io::SafetensorsWriter writer;
  writer.metadata("format", "attend shortlist");
  writer.metadata("target_vocabulary", "4");
  writer.add<token_t>("frequent", Shape{2}, std::vector<token_t>{1, 2});
  writer.add<std::int64_t>("begin", Shape{3}, std::vector<std::int64_t>{0, 1, 3});
  writer.add<token_t>("tokens", Shape{3}, std::vector<token_t>{3, 0, 1});
  const fs::path path = scratch() / "seed.safetensors";
  writer.write(path);
  return io::read_file(path);
}

}  // namespace

int json(Bytes bytes) {
  answers<FormatError>([&] {
    const io::Json value = io::parse_json(text_of(bytes), "input.json");
    expect(io::parse_json(value.dump(), "again.json") == value, "JSON that is written and read is the same");
    if (!value.is_object()) return;
    const io::JsonObject object(value, "input.json");
    for (const auto& [key, item] : value.items()) {
      answers<FormatError>([&, key = key] { (void)object.get<bool>(key); });
      answers<FormatError>([&, key = key] { (void)object.get<std::int8_t>(key); });
      answers<FormatError>([&, key = key] { (void)object.get<std::uint64_t>(key); });
      answers<FormatError>([&, key = key] { expect(std::isfinite(object.get<double>(key)), "a number is finite"); });
      answers<FormatError>([&, key = key] { (void)object.get<std::string>(key); });
      answers<FormatError>([&, key = key] { (void)object.get<std::vector<std::vector<index_t>>>(key); });
      answers<FormatError>([&, key = key] { (void)object.object(key).get<std::vector<std::string>>("list", {}); });
    }
  });
  return 0;
}
std::vector<std::string> json_seeds() {
  return {R"({"a": [1, -2.5e3, "text \u00e9\n", null, true], "b": {"list": ["x"]}, "c": 300, "d": [[1, 2], []]})", "[]", "-0.0",
          R"({"big": 18446744073709551615, "small": -9223372036854775808, "e": 1e308})"};
}

int safetensors(Bytes bytes) {
  answers<FormatError, IoError>([&] {
    const auto file = io::SafetensorsFile::open(put(scratch() / "input.safetensors", bytes));
    for (const auto& tensor : file.tensors()) {
      expect(file.contains(tensor.name) && &file.info(tensor.name) == &tensor, "a tensor is found by its name");
      read_every_way(file, tensor);
    }
    write_again(file);
  });
  return 0;
}
std::vector<std::string> safetensors_seeds() {
  io::SafetensorsWriter writer;
  writer.metadata("format", "pt");
  const std::vector<float> values{0.5f, -1.0f, 3.25f, 1e30f};
  for (const auto dtype : {io::DType::f64, io::DType::f32, io::DType::bf16, io::DType::f16})
    writer.add<float>("as " + std::string(io::dtype_name(dtype)), {2, 2}, values, dtype);
  writer.add<std::int64_t>("long", {2}, std::vector<std::int64_t>{-1, std::int64_t{1} << 40});
  writer.add<std::uint8_t>("bytes", {1, 3}, std::vector<std::uint8_t>{0, 1, 255});
  writer.add<std::int16_t>("none", {0, 5}, std::vector<std::int16_t>{});
  const std::vector<std::byte> truths{std::byte{0}, std::byte{1}, std::byte{7}};
  writer.add_bytes("truths", io::DType::boolean, {3}, truths);
  writer.add<double>("scalar", {}, std::vector<double>{2.0});
  const fs::path path = scratch() / "seed.safetensors";
  writer.write(path);
  return {io::read_file(path)};
}

// An archive, or else a pickle: a fuzzer that has to find its way through an archive's numbers seldom gets to the pickle.
int torch_file(Bytes bytes) {
  const bool is_archive = text_of(bytes).starts_with("PK");
  const std::string archive = is_archive ? std::string(text_of(bytes)) : torch_archive(text_of(bytes));
  answers<FormatError, IoError>([&] {
    const auto file = io::TorchFile::open(put(scratch() / "input.bin", archive));
    for (const auto& tensor : file.tensors()) {
      expect(&file.info(tensor.name) == &tensor, "a tensor is found by its name");
      const auto count = static_cast<std::size_t>(tensor.shape.size());
      expect(count <= archive.size(), "a tensor has no more numbers than the file");
      std::vector<double> doubles(count);
      std::vector<float> floats(count);
      file.read_as(tensor.name, std::span<double>(doubles));
      file.read_as(tensor.name, std::span<float>(floats));
      for (std::size_t i = 0; i < count && tensor.dtype != io::DType::i64; ++i)
        expect(std::isnan(doubles[i]) ? std::isnan(floats[i]) : static_cast<float>(doubles[i]) == floats[i],
               "a number is the same as float and as double, rounded");
    }
  });
  if (!is_archive)
    answers<FormatError>([&] {
      for (const auto& tensor : io::parse_pickle(text_of(bytes), "input: "))
        expect(static_cast<std::uint64_t>(tensor.shape.size()) <= tensor.storage_size, "a tensor is no larger than its storage");
    });
  return 0;
}
std::vector<std::string> torch_file_seeds() {
  using namespace std::string_literals;
  const std::string one_number =  // {'x': a tensor of one float, of a storage of one}
      "\x80\x02}X\1\0\0\0xctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"s
      "0X\3\0\0\0cpuK\1tQK\0K\1\x85K\1\x85\x89}tRs."s;
  return {one_number, torch_archive("\x80\x02}.")};
}

int shortlist(Bytes bytes) {
  answers<FormatError, IoError>([&] {
    const auto list = decode::Shortlist::load(put(scratch() / "shortlist.safetensors", bytes));
    const index_t sources = std::min<index_t>(list.source_vocabulary(), 1000);
    std::vector<token_t> sentence(static_cast<std::size_t>(sources));
    std::iota(sentence.begin(), sentence.end(), token_t{0});
    const auto allowed = list.allowed(sentence);
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      expect(allowed[i] >= 0 && allowed[i] < list.target_vocabulary(), "a token of a shortlist is in its vocabulary");
      expect(i == 0 || allowed[i - 1] < allowed[i], "the tokens of a shortlist rise");
    }
    sentence = {static_cast<token_t>(std::min<index_t>(list.source_vocabulary(), 1 << 30))};
    expect(!answers<IndexError>([&] { (void)list.allowed(sentence); }), "a token outside the vocabulary is refused");
  });
  return 0;
}
std::vector<std::string> shortlist_seeds() { return {shortlist_file()}; }

int pair_file(Bytes bytes) {
  answers<FormatError, IoError>([&] {
    const auto pairs = train::open_pairs(put(scratch() / "pairs.safetensors", bytes));
    token_t sum = 0;
    for (index_t i = 0; i < std::min<index_t>(pairs.size(), 1000); ++i)
      for (const auto& side : {pairs.source(i), pairs.target(i)})
        for (const token_t token : side) sum ^= token;
    expect(count_of(pairs.targets().begin) == pairs.size() + 1 && (sum == 0 || pairs.size() > 0), "each source has a target");
  });
  return 0;
}
std::vector<std::string> pair_file_seeds() {
  train::EncodedPairs pairs;
  pairs.add(std::vector<token_t>{5, 6, 7}, std::vector<token_t>{1});
  pairs.add(std::vector<token_t>{}, std::vector<token_t>{2, 3});
  const fs::path path = scratch() / "seed.safetensors";
  train::save_pairs(path, pairs);
  return {io::read_file(path)};
}

int schedule(Bytes bytes) {
  answers<ValueError>([&] {
    const auto parsed = optim::Schedule::parse(text_of(bytes));
    expect(optim::Schedule::parse(parsed.text()) == parsed, "a schedule that is written and read is the same");
    const auto& o = parsed.options();
    if (o.learning_rate > 1e100 || o.final_rate > 1e100 || o.factor > 1e100) return;
    if ((o.kind == optim::ScheduleKind::linear || o.kind == optim::ScheduleKind::cosine) && o.steps == 0) return;  // open
    for (const index_t step : {index_t{1}, index_t{2}, index_t{1000}, std::max<index_t>(o.warmup, 1),
                               std::max<index_t>(o.steps, 1), std::numeric_limits<index_t>::max()}) {
      const double rate = parsed.at(step);
      expect(rate >= 0 && std::isfinite(rate), "a learning rate is a number from 0 on");
      for (const double done : {0.0, 0.3, 1.0})
        expect(parsed.at(step, done) >= 0 && std::isfinite(parsed.at(step, done)), "a learning rate is a number from 0 on");
    }
  });
  return 0;
}
std::vector<std::string> schedule_seeds() {
  return {"linear:learning_rate=0.001,warmup=100,steps=1000", "cosine:final_rate=1e-05,steps=9",
          "noam:factor=2,d_model=64,warmup=4000", "inverse_sqrt", "constant:learning_rate=0"};
}

// The list of names that an interrupted replacement takes away comes with a folder from elsewhere, and reading such a folder
// finishes what it says: within that folder, and nowhere else.
int pending_folder(Bytes bytes) {
  const fs::path around = scratch() / "around", folder = around / "model", pending = folder / ".attend-pending";
  fs::create_directories(pending);
  fs::create_directories(folder / "inside");
  for (const auto& path : {around / "outside", folder / "model.safetensors", folder / "inside" / "file", pending / "config.json"})
    put(path, "x");
  put(pending / ".attend-remove", bytes);
  answers<IoError>([&] {
    const io::FolderReader reader(folder);
    const bool listed = text_of(bytes).find("config.json") != std::string_view::npos;
    expect(listed || reader.contains("config.json"), "a new file is there");
  });
  expect(fs::exists(around / "outside") && fs::exists(folder / "inside" / "file"), "nothing outside a folder is taken away");
  fs::remove_all(around);
  return 0;
}
std::vector<std::string> pending_folder_seeds() {
  return {"model.safetensors\ntokenizer.model\n", "../outside\ninside/file\ninside\n.\n..\n", "model.safetensors"};
}

}  // namespace fuzz
