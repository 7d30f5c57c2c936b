#include "attend/io/safetensors_writer.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "attend/io/safetensors.hpp"
#include "catch.hpp"
#include "limited_file_size.hpp"
#include "safetensors_file.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

template <class T>
void check_round_trip() {
  const TemporaryFolder folder;
  const std::vector<T> values = {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max(), T{0}, T{1}, T{42}, T{3}};
  io::SafetensorsWriter writer;
  writer.add<T>("x", {2, 3}, values);
  writer.write(folder / "file");
  const auto file = io::SafetensorsFile::open(folder / "file");
  REQUIRE(file.info("x").dtype == io::dtype_of<T>());
  REQUIRE(file.info("x").shape == Shape{2, 3});
  REQUIRE(file.read<T>("x") == values);
}

}  // namespace

TEST_CASE("numbers of every type come back as they were") {
  check_round_trip<float>();
  check_round_trip<double>();
  check_round_trip<std::int8_t>();
  check_round_trip<std::uint8_t>();
  check_round_trip<std::int16_t>();
  check_round_trip<std::uint16_t>();
  check_round_trip<std::int32_t>();
  check_round_trip<std::uint32_t>();
  check_round_trip<std::int64_t>();
  check_round_trip<std::uint64_t>();

  const TemporaryFolder folder;
  const std::array<bool, 3> truths = {true, false, true};
  io::SafetensorsWriter writer;
  writer.add<bool>("x", {3}, truths);
  writer.write(folder / "file");
  std::array<bool, 3> back{};
  io::SafetensorsFile::open(folder / "file").read_as<bool>("x", back);
  REQUIRE(back == truths);
}

TEST_CASE("floats can be stored as another type of float") {
  const TemporaryFolder folder;
  std::vector<float> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f - 1000.0f;
  for (const io::DType stored : {io::DType::f16, io::DType::bf16, io::DType::f32, io::DType::f64}) {
    io::SafetensorsWriter writer;
    writer.add<float>("x", {100, 1000}, values, stored);
    writer.write(folder / "file");
    const auto file = io::SafetensorsFile::open(folder / "file");
    REQUIRE(file.info("x").dtype == stored);
    const auto back = file.read<float>("x");
    bool equal = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float expected = stored == io::DType::f16    ? io::decode_f16(io::encode_f16(values[i]))
                             : stored == io::DType::bf16 ? io::decode_bf16(io::encode_bf16(values[i]))
                                                         : values[i];
      equal &= back[i] == expected;
    }
    REQUIRE(equal);
  }
}

TEST_CASE("the file is laid out as the format's own library does it, whatever the order of adding") {
  const TemporaryFolder folder;
  const std::vector<float> a = {1, 2};
  const std::vector<double> d = {3};
  const std::vector<std::uint8_t> u = {4, 5, 6};
  const std::string header = R"({"__metadata__":{"format":"pt","k\"":"é\n"},)"
                             R"("d":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},)"
                             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
                             R"("half":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
                             R"("u":{"dtype":"U8","shape":[3],"data_offsets":[28,31]}})";
  io::SafetensorsWriter writer;
  writer.add<std::uint8_t>("u", {3}, u);
  writer.add<float>("half", {2}, a, io::DType::bf16);
  writer.add<float>("b", {2}, a);
  writer.metadata("k\"", "é\n");
  writer.metadata("format", "tf");
  writer.metadata("format", "pt");
  writer.add<double>("d", {}, d);
  writer.add<float>("a", {2, 1}, a);
  writer.write(folder / "file");
  const std::string bytes = io::read_file(folder / "file");
  const std::size_t length = static_cast<unsigned char>(bytes[0]) + 256 * static_cast<unsigned char>(bytes[1]);
  REQUIRE(length % 8 == 0);
  REQUIRE(bytes.size() == 8 + length + 31);
  const std::string written = bytes.substr(8, length);
  REQUIRE(written.substr(0, header.size()) == header);
  REQUIRE(written.find_first_not_of(' ', header.size()) == std::string::npos);
  REQUIRE(bytes.substr(bytes.size() - 3) == "\4\5\6");
}

TEST_CASE("q, k and v stand one after the other in a file, all else by name") {
  const TemporaryFolder folder;
  io::SafetensorsWriter writer;
  const std::vector<std::string> order = {
      "a.k_projected",   "a.out_proj.weight", "a.q_proj.bias", "a.k_proj.bias", "a.v_proj.bias", "a.q_proj.weight",
      "a.k_proj.weight", "a.v_proj.weight",   "a.unk_proj.b",  "b.k",           "q_proj.b",      "k_proj.b"};
  for (auto name = order.rbegin(); name != order.rend(); ++name) writer.add<float>(*name, {1}, std::vector<float>{1});
  writer.write(folder / "file");
  const auto file = io::SafetensorsFile::open(folder / "file");
  for (std::size_t i = 0; i < order.size(); ++i) {
    INFO(order[i]);
    CHECK(file.info(order[i]).begin == 4 * i);
  }
}

TEST_CASE("empty files, empty tensors and scalars are files too") {
  const TemporaryFolder folder;
  io::SafetensorsWriter().write(folder / "empty");
  REQUIRE(io::SafetensorsFile::open(folder / "empty").tensors().empty());
  io::SafetensorsWriter writer;
  const std::vector<float> one = {5};
  writer.add<float>("scalar", {}, one);
  writer.add<float>("none", {3, 0}, std::vector<float>());
  writer.add<float>("none as halves", {0}, std::vector<float>(), io::DType::f16);
  writer.write(folder / "file");
  const auto file = io::SafetensorsFile::open(folder / "file");
  REQUIRE(file.read<float>("scalar") == one);
  REQUIRE(file.info("none").shape == Shape{3, 0});
  REQUIRE(file.read<float>("none").empty());
  REQUIRE(file.read<float>("none as halves").empty());
}

TEST_CASE("bytes and streams are written as they come, and must be as many as the shape says") {
  const TemporaryFolder folder;
  const std::string bytes = "abcdefgh";
  io::SafetensorsWriter writer;
  writer.add_bytes("bytes", io::DType::f16, {2, 2}, std::as_bytes(std::span<const char>(bytes)));
  writer.add_stream("stream", io::DType::u8, {8}, [&](io::FileSink& sink) {
    sink.write(bytes.substr(0, 3));
    sink.write(bytes.substr(3));
  });
  writer.write(folder / "file");
  std::string back(8, ' ');
  const auto file = io::SafetensorsFile::open(folder / "file");
  for (const char* name : {"bytes", "stream"}) {
    file.read_bytes(name, std::as_writable_bytes(std::span<char>(back)));
    REQUIRE(back == bytes);
  }
  writer.add_stream("short", io::DType::u8, {3}, [](io::FileSink& sink) { sink.write("ab"); });
  REQUIRE_THROWS_AS(writer.write(folder / "file"), ValueError);
  REQUIRE_THROWS_WITH(writer.write(folder / "file"), ContainsSubstring("\"short\" gave 2 bytes, expected 3"));
  REQUIRE(io::SafetensorsFile::open(folder / "file").tensors().size() == 2);
}

TEST_CASE("the writer keeps vectors that nobody else does") {
  const TemporaryFolder folder;
  io::SafetensorsWriter writer;
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    writer.add<float>("x" + n, {1000}, std::vector<float>(1000, static_cast<float>(i)));
    writer.add<double>("y" + n, {1000}, std::vector<double>(1000, i), io::DType::bf16);
    writer.add<std::int32_t>("z" + n, {2}, {i, -i});
  }
  writer.write(folder / "file");
  const auto file = io::SafetensorsFile::open(folder / "file");
  REQUIRE(file.read<float>("x1") == std::vector<float>(1000, 1));
  REQUIRE(file.read<float>("y2") == std::vector<float>(1000, 2));
  REQUIRE(file.read<std::int32_t>("z2") == std::vector<std::int32_t>{2, -2});
}

TEST_CASE("the writer refuses what would make no good file") {
  const std::vector<float> values = {1, 2, 3};
  io::SafetensorsWriter writer;
  writer.add<float>("x", {3}, values);
  REQUIRE_THROWS_AS(writer.add<float>("x", {3}, values), ValueError);
  REQUIRE_THROWS_WITH(writer.add<float>("x", {3}, values), ContainsSubstring("'x' was added twice"));
  REQUIRE_THROWS_AS(writer.add<float>("y", {4}, values), ShapeError);
  REQUIRE_THROWS_WITH(writer.add<float>("y", {4}, values), ContainsSubstring("got 3 values, expected shape [4]"));
  REQUIRE_THROWS_AS(writer.add_bytes("y", io::DType::f64, {1}, std::as_bytes(std::span<const float>(values))), ShapeError);
  REQUIRE_THROWS_AS(writer.add_stream("y", io::DType::f64, {index_t{1} << 61}, [](io::FileSink&) {}), ShapeError);
  REQUIRE_THROWS_AS(writer.add<float>("y", {3}, values, io::DType::i32), ValueError);
  REQUIRE_THROWS_AS(writer.add<float>("__metadata__", {3}, values), ValueError);
  REQUIRE_THROWS_AS(writer.add<float>("\xff", {3}, values), ValueError);
  REQUIRE_THROWS_AS(writer.metadata("key", "\xff"), ValueError);
}

#if !defined(_WIN32)
TEST_CASE("a disk that fills up while saving costs the new file, not the old one") {
  const TemporaryFolder folder;
  const std::vector<float> good = {1, 2, 3}, large(1 << 20);
  io::SafetensorsWriter().write(folder / "other");
  io::SafetensorsWriter first, second;
  first.add<float>("x", {3}, good);
  first.write(folder / "file");
  second.add<float>("x", {1 << 20}, large);
  {
    const LimitedFileSize limit(1 << 16);
    REQUIRE_THROWS_AS(second.write(folder / "file"), IoError);
    REQUIRE_THROWS_WITH(second.write(folder / "file"), ContainsSubstring((folder / "file").string()));
  }
  REQUIRE(io::SafetensorsFile::open(folder / "file").read<float>("x") == good);
  second.write(folder / "file");
  REQUIRE(io::SafetensorsFile::open(folder / "file").read<float>("x") == large);
}
#endif
