#include "attend/core/random.hpp"

#include <cmath>

#include "catch.hpp"

using namespace attend;

// The known answers that come with Random123, the authors' own implementation.
TEST_CASE("Philox gives the published words") {
  CHECK(philox(0, 0, 0) == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const auto ones = ~std::uint64_t{0};
  CHECK(philox(ones, ones, ones) == std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0'a4093822, 0x03707344'13198a2e, 0x85a308d3'243f6a88) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("element i gets word i % 4 of counter i / 4") {
  const Generator::Stream stream{11, 22};
  for (std::uint64_t i = 0; i < 40; ++i) CHECK(stream.word(i) == philox(11, 22, i / 4)[i % 4]);
}

TEST_CASE("uniform and normal numbers have their moments") {
  const Generator::Stream stream{3, 4};
  constexpr int n = 200000;
  double uniform = 0, square = 0, normal = 0, normal_square = 0, fourth = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = stream.uniform(i), z = stream.normal(i);
    REQUIRE((u >= 0 && u < 1));
    REQUIRE(std::isfinite(z));
    uniform += u, square += u * u, normal += z, normal_square += z * z, fourth += z * z * z * z;
  }
  CHECK(uniform / n == Approx(0.5).margin(0.003));
  CHECK(square / n == Approx(1.0 / 3).margin(0.003));
  CHECK(normal / n == Approx(0).margin(0.01));
  CHECK(normal_square / n == Approx(1).margin(0.02));
  CHECK(fourth / n == Approx(3).margin(0.1));
}

TEST_CASE("whole numbers below n are all met, none beyond") {
  const Generator::Stream stream{3, 5};
  std::array<int, 7> counts{};
  for (std::uint64_t i = 0; i < 7000; ++i) ++counts.at(stream.below(i, 7));
  for (const int count : counts) CHECK(count == Approx(1000).margin(150));
  CHECK(stream.below(0, 1) == 0);
}

TEST_CASE("a generator draws a new stream each time, and can go back") {
  Generator generator(9);
  const auto first = generator.next(), second = generator.next();
  CHECK(first.stream != second.stream);
  CHECK(first.word(0) != second.word(0));
  CHECK(generator.drawn() == 2);
  generator.restore(9, 1);
  CHECK(generator.next().word(5) == second.word(5));
  Generator other(10);
  CHECK(other.next().word(0) != first.word(0));
  seed(42);
  const auto word = default_generator().next().word(0);
  seed(42);
  CHECK(default_generator().next().word(0) == word);
}
