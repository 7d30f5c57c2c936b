#include "attend/io/tensors.hpp"

#include <string>
#include <vector>

#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("tensors are written and read in any precision") {
  const TemporaryFolder folder;
  const Tensor<float> matrix({2, 2}, {1, -2, 0.5f, 65504}), scalar(Shape{}, 3.0f);
  io::SafetensorsWriter writer;
  io::add_tensor(writer, "matrix", matrix);
  io::add_tensor(writer, "half", matrix, io::DType::f16);
  io::add_tensor(writer, "scalar", scalar, io::DType::f64);
  writer.write(folder / "file");
  const auto file = io::SafetensorsFile::open(folder / "file");
  for (const char* name : {"matrix", "half"}) {
    const auto back = io::read_tensor<double>(file, name);
    REQUIRE(back.shape() == matrix.shape());
    REQUIRE(back.values() == std::vector<double>{1, -2, 0.5, 65504});
  }
  REQUIRE(file.info("half").dtype == io::DType::f16);
  REQUIRE(io::read_tensor<float>(file, "scalar").item() == 3.0f);
  const Tensor<float> place({2, 2}, 0.0f);
  io::read_tensor_into(file, "half", place);
  REQUIRE(place.values() == matrix.values());
}

TEST_CASE("a tensor is written with the elements that it has at that moment, and outlives its handle") {
  const TemporaryFolder folder;
  io::SafetensorsWriter writer;
  {
    const Tensor<double> x({2}, {1, 2});
    io::add_tensor(writer, "x", x);
    x.fill(7);
  }
  writer.write(folder / "file");
  REQUIRE(io::read_tensor<double>(io::SafetensorsFile::open(folder / "file"), "x").values() == std::vector<double>{7, 7});
}

TEST_CASE("tensors of a wrong shape or type are refused") {
  const TemporaryFolder folder;
  const Tensor<float> x({2, 3}, 1.0f);
  io::SafetensorsWriter writer;
  io::add_tensor(writer, "x", x);
  REQUIRE_THROWS_AS(io::add_tensor(writer, "y", x, io::DType::i8), ValueError);
  writer.write(folder / "file");
  const auto file = io::SafetensorsFile::open(folder / "file");
  const Tensor<float> transposed({3, 2}, 0.0f);
  REQUIRE_THROWS_AS(io::read_tensor_into(file, "x", transposed), ShapeError);
  REQUIRE_THROWS_WITH(io::read_tensor_into(file, "x", transposed), ContainsSubstring("'x' has shape [2, 3], expected [3, 2]"));
  REQUIRE_THROWS_AS(io::read_tensor<float>(file, "y"), FormatError);
}
