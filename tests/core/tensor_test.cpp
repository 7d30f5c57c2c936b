#include "attend/core/tensor.hpp"

#include <limits>

#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a tensor holds its values row by row") {
  const Tensor<float> x({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.rank() == 2);
  CHECK(x.size() == 6);
  CHECK(x.dim(-1) == 3);
  CHECK(x(1, 0) == 4);
  CHECK(x.span()[5] == 6);
  CHECK(x.values() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % memory_alignment == 0);
  x(0, 2) = 9;
  CHECK(x.values()[2] == 9);
  CHECK(Tensor<double>({2, 2}, 1.5).values() == std::vector<double>(4, 1.5));
}

TEST_CASE("copies are handles, clones are not") {
  const Tensor<float> x({3}, {1, 2, 3});
  CHECK(x.unique());
  const Tensor<float> handle = x, copy = x.clone();
  CHECK_FALSE(x.unique());
  x(0) = 7;
  CHECK(handle(0) == 7);
  CHECK(copy(0) == 1);
  CHECK(copy.unique());
}

TEST_CASE("reshape and rows look into the same storage") {
  const Tensor<float> x({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto y = x.reshape({2, 2, 2});
  CHECK(y(1, 0, 1) == 5);
  CHECK(y.data() == x.data());
  const auto part = x.rows(1, 2);
  CHECK(part.shape() == Shape{2, 2});
  CHECK(part.values() == std::vector<float>{2, 3, 4, 5});
  CHECK(part.data() == x.data() + 2);
  CHECK(x.rows(4, 0).size() == 0);
  CHECK_THROWS_AS(x.reshape({7}), ShapeError);
  CHECK_THROWS_AS(x.rows(3, 2), IndexError);
  CHECK_THROWS_AS(x.rows(-1, 2), IndexError);
  CHECK_THROWS_AS(x.rows(1, std::numeric_limits<index_t>::max()), IndexError);
  CHECK_THROWS_AS(Tensor<float>({}, 1.0f).rows(0, 1), IndexError);
}

TEST_CASE("a view keeps its storage alive") {
  Tensor<float> view;
  {
    const Tensor<float> x({100, 10}, 3.0f);
    view = x.rows(50, 1);
  }
  CHECK(view.values() == std::vector<float>(10, 3.0f));
}

TEST_CASE("fill and assign write in place") {
  const Tensor<float> x({3}, 0.0f);
  x.fill(2);
  CHECK(x.values() == std::vector<float>{2, 2, 2});
  x.assign(Tensor<float>({3}, {1, 2, 3}));
  CHECK(x(2) == 3);
  x.assign(x);
  CHECK(x(2) == 3);
  CHECK_THROWS_AS(x.assign(Tensor<float>({1, 3})), ShapeError);
}

TEST_CASE("a tensor without elements, and one without a shape") {
  const Tensor<float> none, empty({0, 5}), scalar({}, 4.0f);
  CHECK(none.empty());
  CHECK(none.shape() == Shape{0});
  CHECK(empty.clone().shape() == Shape{0, 5});
  CHECK(empty.values().empty());
  CHECK(scalar.item() == 4);
  CHECK(scalar() == 4);
  CHECK_THROWS_AS(empty.item(), ShapeError);
  CHECK_THROWS_AS((Tensor<float>({2}, 0.0f).item()), ShapeError);
}

TEST_CASE("a tensor refuses indices, values and sizes that do not fit") {
  const Tensor<float> x({2, 3}, 0.0f);
  CHECK_THROWS_AS(x(2, 0), IndexError);
  CHECK_THROWS_AS(x(0, -1), IndexError);
  CHECK_THROWS_AS(x(0), IndexError);
  CHECK_THROWS_AS(x(0, 0, 0), IndexError);
  CHECK_THROWS_AS((Tensor<float>({2}, {1, 2, 3})), ShapeError);
  CHECK_THROWS_WITH((Tensor<float>({2}, {1, 2, 3})), ContainsSubstring("3 values for shape [2]"));
  CHECK_THROWS_AS(Tensor<double>({std::numeric_limits<index_t>::max() / 4}), ShapeError);
  CHECK_THROWS_AS(Tensor<double>({index_t{1} << 58}), Error);  // more than any machine has: refused, not a crash
}

TEST_CASE("a tensor of 8-bit rows has a shape, rows of its own, and no elements to read or write") {
  const QuantizedRows q{Tensor<std::int8_t>({3, 2}, {1, 2, 3, 4, 5, 6}), Tensor<float>({3}, {0.5f, 1, 2})};
  const auto x = Tensor<float>::from_quantized(q);
  CHECK(x.shape() == Shape{3, 2});
  CHECK_FALSE(x.empty());
  CHECK(x.unique());
  REQUIRE(x.quantized() != nullptr);
  CHECK(x.quantized()->rows.data() == q.rows.data());
  CHECK(x.place() == q.rows.data());
  CHECK(Tensor<float>({2}, 1.0f).quantized() == nullptr);

  const auto part = x.rows(1, 2);
  CHECK(part.shape() == Shape{2, 2});
  CHECK(part.quantized()->rows.values() == std::vector<std::int8_t>{3, 4, 5, 6});
  CHECK(part.quantized()->scales.values() == std::vector<float>{1, 2});
  CHECK(part.place() == q.rows.data() + 2);
  const Tensor<float> handle = x, plain({3, 2}, 0.0f);
  CHECK_FALSE(x.unique());
  CHECK(handle.place() == x.place());
  CHECK(x.reshape({3, 2}).place() == x.place());
  CHECK(x.to<Cpu>().place() == x.place());
  CHECK_THROWS_AS(x.rows(2, 2), IndexError);

  const std::string refusal =
      "tensor: the matrix [3, 2] is of 8-bit integers, which are for translation, or for adapters to learn beside, on the CPU; "
      "all else needs the model in floats";
  CHECK_THROWS_AS(x.data(), ValueError);
  CHECK_THROWS_WITH(x.data(), refusal);
  CHECK_THROWS_WITH(x.span(), refusal);
  CHECK_THROWS_WITH(x(0, 0), refusal);
  CHECK_THROWS_WITH(x.values(), refusal);
  CHECK_THROWS_WITH(x.clone(), refusal);
  CHECK_THROWS_WITH(x.fill(0), refusal);
  CHECK_THROWS_WITH(x.assign(plain), refusal);
  CHECK_THROWS_WITH(plain.assign(x), refusal);
  CHECK_THROWS_WITH(x.assign(x), refusal);
  CHECK_THROWS_WITH(x.reshape({6}), refusal);
  CHECK_THROWS_WITH(x.rows(0, 1).rows(0, 1).item(), ContainsSubstring("[1, 2]"));
  CHECK_THROWS_WITH(Tensor<float>::from_quantized({q.rows, Tensor<float>({2}, 1.0f)}), ContainsSubstring("scales has shape [2]"));
  CHECK_THROWS_WITH(Tensor<float>::from_quantized({Tensor<std::int8_t>({3}), q.scales}),
                    ContainsSubstring("8-bit rows have shape [3]"));
}

TEST_CASE("a tensor of rows in bfloat16 has a shape, rows of its own, and no elements to read or write") {
  const Tensor<bfloat16> numbers({3, 2});
  for (index_t i = 0; i < 6; ++i) numbers.data()[i] = bfloat16(i);
  const auto x = Tensor<float>::from_bfloat16(numbers);
  CHECK(x.shape() == Shape{3, 2});
  CHECK(x.unique());
  REQUIRE(x.in_bfloat16() != nullptr);
  CHECK(x.quantized() == nullptr);
  CHECK(x.instead() == std::string("numbers in bfloat16"));
  CHECK(x.place() == numbers.data());
  const Tensor<float> floats({2}, 1.0f);
  CHECK(floats.in_bfloat16() == nullptr);
  CHECK(floats.instead() == nullptr);

  const auto part = x.rows(1, 2);
  CHECK(part.shape() == Shape{2, 2});
  CHECK(part.in_bfloat16()->shape() == Shape{2, 2});
  CHECK(part.place() == numbers.data() + 2);
  const Tensor<float> handle = x;
  CHECK_FALSE(x.unique());
  CHECK(x.reshape({3, 2}).place() == x.place());
  CHECK(x.to<Cpu>().place() == x.place());
  CHECK_THROWS_AS(x.rows(2, 2), IndexError);

  const std::string refusal =
      "tensor: the matrix [3, 2] is of numbers in bfloat16, which are for translation, or for adapters to learn beside, on the "
      "CPU; all else needs the model in floats";
  CHECK_THROWS_AS(x.data(), ValueError);
  CHECK_THROWS_WITH(x.values(), refusal);
  CHECK_THROWS_WITH(x.fill(0), refusal);
  CHECK_THROWS_WITH(x.reshape({6}), refusal);
  CHECK_THROWS_WITH(Tensor<float>::from_bfloat16(Tensor<bfloat16>({3})),
                    "tensor: rows in bfloat16 have shape [3], expected [rows, width]");
}
