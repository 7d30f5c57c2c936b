#include "attend/io/safetensors.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "safetensors_file.hpp"
#include "temporary_folder.hpp"
#include "text/shared_data.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A file of two tensors, at offsets that are not aligned.
const std::string small_header =
    R"({"half":{"dtype":"F16","shape":[3],"data_offsets":[1,7]},"byte":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})";
const std::string small_data("\x07\x00\x3c\x00\xc0\xff\x7b", 7);  // 7; 1, -2, 65504

}  // namespace

TEST_CASE("SafetensorsFile reads tensors that are not aligned, in any type that takes them") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "small", safetensors_bytes(small_header, small_data));
  const auto file = io::SafetensorsFile::open(folder / "small");
  REQUIRE(file.path() == folder / "small");
  REQUIRE(file.tensors().size() == 2);
  REQUIRE(file.contains("byte"));
  REQUIRE_FALSE(file.contains("bytes"));
  REQUIRE(file.info("half").shape == Shape{3});
  REQUIRE(file.read<float>("half") == std::vector<float>{1, -2, 65504});
  REQUIRE(file.read<double>("half") == std::vector<double>{1, -2, 65504});
  REQUIRE(file.read<std::int64_t>("byte") == std::vector<std::int64_t>{7});
  std::string raw(6, ' ');
  file.read_bytes("half", std::as_writable_bytes(std::span<char>(raw)));
  REQUIRE(raw == small_data.substr(1));
}

TEST_CASE("SafetensorsFile says what does not fit what was asked for") {
  const TemporaryFolder folder;
  const std::string header =
      R"({"i":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},"f":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  io::write_file_atomically(folder / "small", safetensors_bytes(header, std::string("\x01\0\0\0\xff\xff\xff\xff\0\0\0\0", 12)));
  const auto file = io::SafetensorsFile::open(folder / "small");
  REQUIRE(file.read<std::int8_t>("i") == std::vector<std::int8_t>{1, -1});
  REQUIRE_THROWS_AS(file.read<float>("missing"), FormatError);
  REQUIRE_THROWS_WITH(file.read<float>("missing"), ContainsSubstring("small: has no tensor 'missing' (it has 2)"));
  REQUIRE_THROWS_AS(file.read<std::uint32_t>("i"), FormatError);
  REQUIRE_THROWS_WITH(file.read<std::uint32_t>("i"),
                      ContainsSubstring("tensor 'i' has at 1 a number that does not fit into U32"));
  REQUIRE_THROWS_WITH(file.read<std::int32_t>("f"), ContainsSubstring("tensor 'f' has the dtype F32, expected integers"));
  std::vector<float> three(3);
  REQUIRE_THROWS_AS(file.read_as("i", std::span<float>(three)), ShapeError);
  REQUIRE_THROWS_WITH(file.read_as("i", std::span<float>(three)), ContainsSubstring("has shape [2], expected 3 elements"));
  REQUIRE_THROWS_AS(file.read_bytes("i", std::as_writable_bytes(std::span<float>(three))), ShapeError);
  std::array<bool, 2> truths{};
  REQUIRE_THROWS_WITH(file.read_as("i", std::span<bool>(truths)), ContainsSubstring("expected BOOL"));
}

TEST_CASE("SafetensorsFile reads long tensors in pieces, whatever their type") {
  const TemporaryFolder folder;
  std::string data;
  for (int i = 0; i < 100'000; ++i) data += static_cast<char>(i % 256);
  const std::string header = R"({"x":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]}})";
  io::write_file_atomically(folder / "long", safetensors_bytes(header, data));
  const auto values = io::SafetensorsFile::open(folder / "long").read<double>("x");
  bool equal = true;
  for (std::size_t i = 0; i < values.size(); ++i) equal &= values[i] == static_cast<double>(i % 256);
  REQUIRE(equal);
}

TEST_CASE("a file that is not safetensors is refused with its name and what is wrong") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& bytes, const std::string& message) {
    io::write_file_atomically(folder / "bad", bytes);
    REQUIRE_THROWS_AS(io::SafetensorsFile::open(folder / "bad"), FormatError);
    REQUIRE_THROWS_WITH(
        io::SafetensorsFile::open(folder / "bad"),
        Catch::Matchers::StartsWith("safetensors: " + (folder / "bad").string() + ": ") && ContainsSubstring(message));
  };
  check("", "has 0 bytes, expected 8 or more");
  check("1234567", "has 7 bytes");
  check(safetensors_bytes(3, "{}", ""), "gives its header's length as 3 bytes, but has only 2");
  check(safetensors_bytes(100'000'001, "{}", ""), "as 100000001 bytes, expected at most 100000000");
  check(safetensors_bytes(UINT64_MAX, "{}", ""), "as 18446744073709551615 bytes");
  check(safetensors_bytes(UINT64_MAX - 7, "{}", ""), "as 18446744073709551608 bytes");
  check(safetensors_bytes(std::uint64_t{1} << 63, "{}", ""), "as 9223372036854775808 bytes");
  check(safetensors_bytes(0, "", ""), "does not begin with '{'");
  check(safetensors_bytes("\x80\x02}q\x01"), "does not begin with '{'");  // a pickle in a false coat
  check(safetensors_bytes(small_header, small_data.substr(1)), "the file has only 6 bytes of data (truncated?)");
  check(safetensors_bytes(small_header, small_data + "x"), "has 8 bytes of data, expected 7");
  REQUIRE_THROWS_AS(io::SafetensorsFile::open(folder / "missing"), IoError);
  REQUIRE_THROWS_AS(io::SafetensorsFile::open(folder.path()), IoError);
}

TEST_CASE("every shorter piece of a good file is refused") {
  const TemporaryFolder folder;
  const std::string good = safetensors_bytes(small_header, small_data);
  for (std::size_t length = 0; length < good.size(); ++length) {
    std::ofstream(folder / "cut", std::ios::binary) << good.substr(0, length);
    REQUIRE_THROWS_AS(io::SafetensorsFile::open(folder / "cut"), FormatError);
  }
}

TEST_CASE("a file that shrinks after it was opened costs an exception") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "small", safetensors_bytes(small_header, small_data));
  const auto file = io::SafetensorsFile::open(folder / "small");
  std::filesystem::resize_file(folder / "small", 8 + small_header.size() + 3);
  REQUIRE(file.read<int>("byte") == std::vector<int>{7});
  REQUIRE_THROWS_AS(file.read<float>("half"), FormatError);
}

TEST_CASE("real files, whose headers are not aligned, hold the numbers -3 to 2") {
  const struct {
    const char* name;
    io::DType dtype;
  } files[] = {{"B", io::DType::u8},  {"H", io::DType::u16}, {"I", io::DType::u32}, {"b", io::DType::i8}, {"d", io::DType::f64},
               {"e", io::DType::f16}, {"f", io::DType::f32}, {"h", io::DType::i16}, {"i", io::DType::i32}};
  const auto folder = shared_data("safetensors");
  ATTEND_SKIP_WITHOUT(folder)
  const auto overall = io::SafetensorsFile::open(folder / "overall.safetensors");
  REQUIRE(overall.tensors().size() == std::size(files));
  for (const auto& expected : files) {
    INFO(expected.name);
    const auto file = io::SafetensorsFile::open(folder / (std::string(expected.name) + ".safetensors"));
    REQUIRE(file.metadata().at("test") == "a");
    for (const io::SafetensorsFile* source : {&file, &overall}) {
      REQUIRE(source->info(expected.name).dtype == expected.dtype);
      const auto values = source->read<double>(expected.name);
      // Unsigned types hold -3, -2 and -1 modulo their range.
      const bool is_unsigned =
          expected.dtype == io::DType::u8 || expected.dtype == io::DType::u16 || expected.dtype == io::DType::u32;
      const double range = is_unsigned ? static_cast<double>(std::uint64_t{1} << 8 * io::dtype_bytes(expected.dtype)) : 0;
      REQUIRE(values == std::vector<double>{range - 3, range - 2, range - 1, 0, 1, 2});
    }
  }
}
