#include "attend/io/torch_file.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/io/tensors.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"
#include "torch_bytes.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

/// What make_torch_files.py wrote.
std::filesystem::path made(const std::string& name) {
  return std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / "../../io/torch_files" / name;
}

template <class T>
std::vector<T> numbers(const io::TorchFile& file, std::string_view name) {
  std::vector<T> values(static_cast<std::size_t>(file.info(name).shape.size()));
  file.read_as(name, std::span<T>(values));
  return values;
}

std::filesystem::path put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace

TEST_CASE("torch file: every type of number") {
  const auto file = io::TorchFile::open(made("state.bin"));
  CHECK(file.tensors().size() == 20);
  for (const char* name : {"float32", "float16", "bfloat16", "float64"}) {
    CHECK(numbers<float>(file, name) == std::vector<float>{0.5f, -1.25f, 3.0f});
    CHECK(numbers<double>(file, name) == std::vector<double>{0.5, -1.25, 3.0});
  }
  for (const char* name : {"int64", "int32", "int16", "int8"}) {
    CHECK(numbers<std::int64_t>(file, name) == std::vector<std::int64_t>{-3, 0, 100});
    CHECK(numbers<std::int8_t>(file, name) == std::vector<std::int8_t>{-3, 0, 100});
  }
  CHECK(numbers<int>(file, "uint8") == std::vector<int>{0, 200});
  std::array<bool, 3> truths{};
  file.read_as("bool", std::span<bool>(truths));
  CHECK(truths == std::array{true, false, true});
  CHECK(io::read_tensor<float>(file, "scalar").item() == 2.5f);
  CHECK(file.info("none").shape == Shape{0, 5});
  CHECK(numbers<float>(file, "none").empty());
  CHECK(numbers<float>(file, "parameter") == std::vector<float>{1, 2});
  CHECK(file.info("bfloat16").dtype == io::DType::bf16);
}

TEST_CASE("torch file: tensors that share a storage or are not contiguous") {
  const auto file = io::TorchFile::open(made("state.bin"));
  CHECK(numbers<float>(file, "table") == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(numbers<float>(file, "same") == numbers<float>(file, "table"));
  CHECK(file.info("turned").shape == Shape{4, 3});
  const std::vector<float> turned{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
  CHECK(numbers<float>(file, "turned") == turned);
  CHECK(numbers<float>(file, "half turned") == turned);
  CHECK(numbers<float>(file, "row") == std::vector<float>{4, 5, 6, 7});
  CHECK(numbers<double>(file, "column") == std::vector<double>{2, 6, 10});
  CHECK(file.info("cube").shape == Shape{3, 2, 2});  // cube[k][i][j] = 12 i + 8 j + k + 1
  CHECK(numbers<float>(file, "cube") == std::vector<float>{1, 9, 13, 21, 2, 10, 14, 22, 3, 11, 15, 23});
}

TEST_CASE("torch file: what cannot be read as asked is refused") {
  const auto file = io::TorchFile::open(made("state.bin"));
  std::vector<float> two(2);
  std::vector<std::int32_t> twelve(12);
  std::vector<std::int8_t> bytes(2);
  CHECK_THROWS_WITH(file.read_as("float32", std::span(two)), ContainsSubstring("tensor 'float32' has shape [3], expected 2"));
  CHECK_THROWS_WITH(file.read_as("turned", std::span(twelve)), ContainsSubstring("has the dtype F32, expected integers"));
  CHECK_THROWS_WITH(file.read_as("uint8", std::span(bytes)), ContainsSubstring("has at 1 a number that does not fit into I8"));
  CHECK_THROWS_WITH(file.info("beta"), ContainsSubstring("has no tensor 'beta' (it has 20)"));
}

TEST_CASE("torch file: other things that torch saves are refused by name") {
  const auto refused = [](const char* name, const char* message) {
    CHECK_THROWS_AS(io::TorchFile::open(made(name)), FormatError);
    CHECK_THROWS_WITH(io::TorchFile::open(made(name)), ContainsSubstring("torch file: ") && ContainsSubstring(message));
  };
  refused("legacy.bin", "before release 1.6");
  refused("protocol.bin", "is of protocol 4, expected 2");
  refused("nested.bin", "has a whole number for 'epoch', expected a tensor");
  refused("module.bin", "needs torch.nn.modules.activation.ReLU");
  refused("list.bin", "holds a list, expected a dict of tensors");
  refused("sparse.bin", "needs torch._utils._rebuild_sparse_tensor");
  refused("repeated.bin", "of shape [1000] that does not lie within its storage of 1 numbers");
  refused("../make_torch_files.py", "is no zip archive");
}

TEST_CASE("torch file: pickles that would call something or go astray are refused") {
  const TemporaryFolder folder;
  const auto refused = [&](std::string_view pickle, const char* message) {
    CHECK_THROWS_WITH(io::TorchFile::open(put(folder / "x.bin", torch_archive(pickle))), ContainsSubstring(message));
  };
  using namespace std::string_view_literals;
  CHECK(io::TorchFile::open(put(folder / "x.bin", torch_archive("\x80\x02}."))).tensors().empty());
  refused(
      "\x80\x02"
      "cos\nsystem\nX\x02\0\0\0ls\x85R."sv,
      "needs os.system");
  refused("\x80\x02ibuiltins\neval\n."sv, "has the instruction 0x69");
  refused("\x80\x02"sv, "is cut off");
  refused("\x80\x02}X\xff\xff\xff\xff"sv, "is cut off");
  refused("\x80\x02."sv, "ends with 0 objects");
  refused("\x80\x02}R."sv, "has a dict for the arguments of a call");
  refused("\x80\x02}s."sv, "takes an object that is not there");
  refused("\x80\x02u."sv, "takes a mark that is not there");
  refused("\x80\x02h\x05."sv, "goes back to an object that it has not had");
  refused("\x80\x02}(K\x01u."sv, "has a key without a value");
  refused("\x80\x02}K\x01K\x02s."sv, "for the name of a tensor, expected a string");
  refused("\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\1."sv, "has a number of 9 bytes");
  refused("\x80\x02}q\0(X\1\0\0\0xh\0u."sv, "has a dict for 'x', expected a tensor");  // a dict in itself
}

TEST_CASE("torch file: a tensor lies within its storage, and the storage within the file") {
  const TemporaryFolder folder;
  const auto whole = io::read_file(made("state.bin"));
  // 'table' is the storage of 12 floats whose rows are 4 apart: sizes (K\x03 K\x04), strides (K\x04 K\x01).
  const std::string sizes = "K\x03K\x04\x86", storage = "K\x0ctq";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string bytes = whole;
    const auto at = bytes.find(from);
    REQUIRE(at != bytes.npos);
    return put(folder / "x.bin", bytes.replace(at, from.size(), to));
  };
  CHECK_THROWS_WITH(io::TorchFile::open(changed(sizes, "K\x04K\x04\x86")), ContainsSubstring("does not lie within its storage"));
  CHECK_THROWS_WITH(io::TorchFile::open(changed(sizes, "K\x03K\xff\x86")), ContainsSubstring("does not lie within its storage"));
  CHECK_THROWS_WITH(io::TorchFile::open(changed(storage, "K\x0dtq")), ContainsSubstring("expected 13 numbers of 4 bytes"));
  CHECK_THROWS_WITH(io::TorchFile::open(changed("little", "bigbig")), ContainsSubstring("byte order"));
  for (std::size_t size = 0; size < whole.size(); size += 61)
    CHECK_THROWS_AS(io::TorchFile::open(put(folder / "x.bin", whole.substr(0, size))), Error);
}

TEST_CASE("torch file: an archive whose directory is in zip64") {
  std::string bytes = io::read_file(made("state.bin"));
  const std::size_t end = bytes.rfind("PK\x05\x06");
  const std::size_t entries = io::TorchFile::open(made("state.bin")).tensors().size();
  const std::string count = bytes.substr(end + 10, 2), size = bytes.substr(end + 12, 4), begin = bytes.substr(end + 16, 4);
  const std::string wide = "PK\x06\x06" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + count + little(0, 6) +
                           count + little(0, 6) + size + little(0, 4) + begin + little(0, 4);
  const std::string locator = "PK\x06\x07" + little(0, 4) + little(end, 8) + little(1, 4);
  bytes = bytes.substr(0, end) + wide + locator + "PK\x05\x06" + little(0, 4) + std::string(12, '\xff') + little(0, 2);
  const TemporaryFolder folder;
  const auto file = io::TorchFile::open(put(folder / "x.bin", bytes));
  CHECK(file.tensors().size() == entries);
  CHECK(numbers<float>(file, "row") == std::vector<float>{4, 5, 6, 7});
}

TEST_CASE("torch file: any bytes are read or refused") {
  const TemporaryFolder folder;
  const auto whole = io::read_file(made("state.bin"));
  const std::size_t pickle = whole.find("\x80\x02"), pickle_end = whole.find("PK", pickle), end = whole.rfind("PK\x05\x06");
  const std::size_t directory = whole.find("PK\x01\x02");
  const auto path = put(folder / "x.bin", whole);
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  int taken = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t at = round % 3 != 0   ? pickle + below(pickle_end - pickle)
                             : round % 2 != 0 ? directory + below(bytes.size() - directory)
                                              : std::min(end + below(22), bytes.size() - 1);
      bytes[at] = static_cast<char>(below(4) == 0 ? 0xff : below(256));
    }
    try {
      std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;  // in place, which is fast
      const auto file = io::TorchFile::open(path);
      for (const auto& tensor : file.tensors()) (void)numbers<float>(file, tensor.name);
      ++taken;
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(taken > 100);
  CHECK(refused > 1000);
}
