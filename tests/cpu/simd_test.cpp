#include "attend/cpu/simd.hpp"

#include <cmath>
#include <vector>

#include "../catch.hpp"

using namespace attend;

TEMPLATE_TEST_CASE("simd: square roots are the standard library's", "[simd]", float, double) {
  using T = TestType;
  for (int first = 0; first < 2000; first += cpu::width<T>) {
    T x[cpu::width<T>], y[cpu::width<T>];
    for (int l = 0; l < cpu::width<T>; ++l) x[l] = static_cast<T>(first + l) / T(37);
    cpu::store<T>(y, cpu::sqrt<T>(cpu::load<T>(x)));
    for (int l = 0; l < cpu::width<T>; ++l) REQUIRE(y[l] == std::sqrt(x[l]));
  }
}

TEMPLATE_TEST_CASE("simd: four_sums gives each vector's own sum", "[simd]", float, double) {
  using T = TestType;
  cpu::Vector<T> v[4];
  T expected[4] = {}, sums[4];
  for (int i = 0; i < 4; ++i) {
    T x[cpu::width<T>];
    for (int l = 0; l < cpu::width<T>; ++l) x[l] = static_cast<T>(1 + l * l + 1000 * i), expected[i] += x[l];
    v[i] = cpu::load<T>(x);
  }
  cpu::four_sums<T>(v, sums);
  for (int i = 0; i < 4; ++i) CHECK(sums[i] == expected[i]);  // whole numbers: exact
}

TEMPLATE_TEST_CASE("simd: part of a vector is read and written, and no more", "[simd]", float, double) {
  using T = TestType;
  constexpr int W = cpu::width<T>;
  for (int count = 0; count < W; ++count) {
    std::vector<T> from(static_cast<std::size_t>(count), T(3)), to(W, T(-1));  // its end is where a sanitizer watches
    const cpu::Vector<T> v = cpu::load_part<T>(from.data(), count);
    for (int l = 0; l < W; ++l) REQUIRE(v[l] == (l < count ? T(3) : T(0)));
    cpu::store_part<T>(to.data(), v + T(1), count);
    for (int l = 0; l < W; ++l) REQUIRE(to[static_cast<std::size_t>(l)] == (l < count ? T(4) : T(-1)));
  }
}

TEMPLATE_TEST_CASE("simd: squares are turned, in registers and as they are loaded", "[simd]", float, double) {
  using T = TestType;
  constexpr int W = cpu::width<T>, before = 3;
  std::vector<std::vector<T>> x(W, std::vector<T>(before + W));  // each ends where a sanitizer watches
  const T* rows[W];
  cpu::Vector<T> in_registers[W], loaded[W];
  for (int i = 0; i < W; ++i) {
    const auto at = static_cast<std::size_t>(i);
    for (int j = 0; j < W; ++j) x[at][static_cast<std::size_t>(before + j)] = static_cast<T>(100 * i + j);
    rows[i] = x[at].data();
    in_registers[i] = cpu::load<T>(rows[i] + before);
  }
  cpu::transpose<T>(in_registers);
  cpu::load_turned<T>(rows, before, loaded);
  for (int i = 0; i < W; ++i)
    for (int j = 0; j < W; ++j) {
      INFO("row " << i << ", column " << j);
      REQUIRE(in_registers[i][j] == static_cast<T>(100 * j + i));
      REQUIRE(loaded[i][j] == static_cast<T>(100 * j + i));
    }
}
