#include "attend/ops/positions.hpp"

#include <cmath>
#include <string>

#include "attend/autograd/gradcheck.hpp"
#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

Var<double> random_leaf(const Shape& shape, std::uint64_t stream) {
  const Generator::Stream random{7, stream};
  const Tensor<double> x(shape);
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = random.normal(static_cast<std::uint64_t>(i));
  return Var<double>(x, true);
}

/// M_k: each pair of columns turns by k times its own frequency. An odd width's last column has no partner to turn with, and
/// keeps zeros.
Tensor<double> shift_matrix(index_t k, index_t width, double base) {
  const Tensor<double> m({width, width}, 0.0);
  for (index_t j = 0; j + 1 < width; j += 2) {
    const double angle = static_cast<double>(k) / std::pow(base, static_cast<double>(j) / static_cast<double>(width));
    m(j, j) = m(j + 1, j + 1) = std::cos(angle);
    m(j, j + 1) = std::sin(angle);
    m(j + 1, j) = -std::sin(angle);
  }
  return m;
}

}  // namespace

TEST_CASE("sinusoid: PE(pos + k) is one linear map of PE(pos), whatever pos") {
  const index_t width = GENERATE(1, 2, 7, 16, 33, 128), k = GENERATE(0, 1, 5, 40);
  const double base = GENERATE(10000.0, 1000.0, 1e8);
  const index_t length = 60, pairs = width / 2 * 2;
  const auto pe = sinusoid<double>(length + k, width, base), m = shift_matrix(k, width, base);
  double worst = 0;
  for (index_t pos = 0; pos < length; ++pos)
    for (index_t i = 0; i < pairs; ++i) {
      double mapped = 0;
      for (index_t j = 0; j < width; ++j) mapped += m(i, j) * pe(pos, j);
      worst = std::max(worst, std::abs(mapped - pe(pos + k, i)));
    }
  CHECK(worst < 1e-12);
  if (width % 2 == 1) {  // the sine alone: its values k before and k after still fix one another
    const index_t last = width - 1;
    const double turn =
        2 * std::cos(static_cast<double>(k) / std::pow(base, static_cast<double>(last) / static_cast<double>(width)));
    for (index_t pos = k; pos < length; ++pos)
      worst = std::max(worst, std::abs(pe(pos + k, last) + pe(pos - k, last) - turn * pe(pos, last)));
    CHECK(worst < 1e-12);
  }
}

TEST_CASE("sinusoid begins with sines 0 and cosines 1, and distant rows differ") {
  const auto pe = sinusoid<float>(3, 5);
  CHECK(pe.shape() == Shape{3, 5});
  CHECK(Tensor<float>(pe.rows(0, 1)).values() == std::vector<float>{0, 1, 0, 1, 0});
  CHECK(pe(2, 0) == Approx(std::sin(2.0)));
  CHECK(sinusoid<float>(0, 4).size() == 0);
}

TEST_CASE("sinusoid in halves has the columns of the interleaved table, sines first") {
  const auto halves = sinusoid<double>(7, 6, 1000, SinusoidOrder::halves),
             odd = sinusoid<double>(7, 5, 1000, SinusoidOrder::halves);
  const auto pe = sinusoid<double>(7, 6, 1000), odd_pe = sinusoid<double>(7, 5, 1000);
  const std::vector<index_t> columns{0, 2, 4, 1, 3, 5}, odd_columns{0, 2, 4, 1, 3};
  for (index_t pos = 0; pos < 7; ++pos) {
    for (index_t i = 0; i < 6; ++i) CHECK(halves(pos, i) == pe(pos, columns[static_cast<std::size_t>(i)]));
    for (index_t i = 0; i < 5; ++i) CHECK(odd(pos, i) == odd_pe(pos, odd_columns[static_cast<std::size_t>(i)]));
  }
  CHECK(halves(3, 1) == Approx(std::sin(3 / std::pow(1000, 2.0 / 6))));
  CHECK(halves(3, 4) == Approx(std::cos(3 / std::pow(1000, 2.0 / 6))));
}

TEST_CASE("sinusoid refuses sizes and bases that make no sense") {
  CHECK_THROWS_AS(sinusoid<float>(-1, 4), ValueError);
  CHECK_THROWS_AS(sinusoid<float>(4, 0), ValueError);
  CHECK_THROWS_WITH(sinusoid<float>(4, 4, 0), ContainsSubstring("base"));
}

TEST_CASE("add_positions counts from 0 in every sentence, and its gradient is right") {
  const auto segments = GENERATE(Segments::ragged({3, 0, 1, 4}), Segments::dense(2, 4, std::vector<index_t>{4, 2}));
  const auto x = random_leaf({8, 3}, 0), table = random_leaf({5, 3}, 1);
  const auto y = add_positions(x, table, segments);
  for (index_t s = 0; s < segments.count(); ++s)
    for (index_t i = 0; i < segments.length(s); ++i)
      for (index_t j = 0; j < 3; ++j) {
        const index_t row = segments.begin(s) + i;
        CHECK(y.value()(row, j) == x.value()(row, j) + table.value()(i, j));
      }
  const auto result = gradcheck([&] { return add_positions(x, table, segments); }, {x, table});
  INFO(result.message);
  CHECK(result);
  CHECK(table.grad()(4, 0) == 0);  // no sentence reaches so far
}

TEST_CASE("add_positions takes leading dimensions as rows") {
  const auto x = random_leaf({2, 4, 3}, 0), table = random_leaf({4, 3}, 1);
  const auto y = add_positions(x, table, Segments::dense(2, 4));
  CHECK(y.shape() == Shape{2, 4, 3});
  CHECK(y.value()(1, 2, 0) == x.value()(1, 2, 0) + table.value()(2, 0));
}

TEST_CASE("add_positions names what does not fit") {
  const auto x = random_leaf({8, 3}, 0);
  CHECK_THROWS_WITH(add_positions(x, random_leaf({5, 4}, 1), Segments::ragged({8})), ContainsSubstring("table has shape [5, 4]"));
  CHECK_THROWS_WITH(add_positions(x, random_leaf({5, 3}, 1), Segments::ragged({8})),
                    ContainsSubstring("a sentence of 8 tokens is longer than the 5 positions"));
  CHECK_THROWS_WITH(add_positions(x, random_leaf({8, 3}, 1), Segments::ragged({7})),
                    ContainsSubstring("x has 8 rows, expected 7"));
  CHECK_THROWS_AS(add_positions(x, random_leaf({8, 3}, 1), Segments::ragged({7})), ShapeError);
}
