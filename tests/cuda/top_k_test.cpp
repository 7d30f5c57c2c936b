#include "attend/cpu/top_k.hpp"

#include "attend/cuda/search/top_k.cuh"
#include "rows.hpp"

using namespace attend;

namespace {

/// Few distinct values if `levels` is small, so that equal ones are common.
template <class T>
Tensor<Wide<T>> some_rows(index_t rows, index_t width, std::uint64_t seed, double levels) {
  const Tensor<Wide<T>> x({rows, width});
  const Generator::Stream stream{seed, 0};
  for (index_t i = 0; i < x.size(); ++i)
    x.data()[i] = -static_cast<Wide<T>>(static_cast<T>(std::floor(stream.uniform(static_cast<std::uint64_t>(i)) * levels) / 16));
  return x;
}

/// Why the device's top_k of x is not the processor's; empty if it is.
template <class T>
std::string differs(const Tensor<Wide<T>>& x, index_t k, index_t offset) {
  const index_t rows = x.dim(0), width = x.dim(1);
  const Tensor<Wide<T>> values({rows, k});
  const Tensor<token_t> indices({rows, k});
  top_k(Cpu{}, rows, width, k, x.data(), values.data(), indices.data());
  const Tensor<T, Cuda> got_values({rows, k});
  const Tensor<token_t, Cuda> got_indices({rows, k});
  top_k(Cuda{}, rows, width, k, device::upload<T>(x, offset).data(), got_values.data(), got_indices.data());
  if (const std::string why = device::difference(got_values, values, 0); !why.empty()) return why;
  return device::difference(got_indices, indices, 0);
}

/// What waiting for the device throws.
std::string complaint() {
  try {
    cuda::synchronize();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: top_k is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  struct Case {
    index_t rows, width, k;
  };
  std::uint64_t seed = 0;
  for (const Case c : std::initializer_list<Case>{{2, 1, 1},
                                                  {3, 2, 2},
                                                  {2, 15, 15},
                                                  {3, 63, 5},
                                                  {2, 65, 32},
                                                  {2, 65, 33},
                                                  {2, 300, 300},
                                                  {66, 520, 2},
                                                  {2, 4097, 9},
                                                  {1, 4097, 100},
                                                  {1, 1300, 1300},
                                                  {1, 20001, 7},
                                                  {1, 20001, 40}})
    for (const double levels : {1.0, 3.0, 1e8}) {
      const index_t offset = static_cast<index_t>(++seed % 2);
      INFO(c.rows << " rows of " << c.width << ", k " << c.k << ", levels " << levels << ", offset " << offset);
      REQUIRE(differs<TestType>(some_rows<TestType>(c.rows, c.width, seed, levels), c.k, offset) == "");
    }
}

TEMPLATE_TEST_CASE("cuda: top_k takes infinities and zeros of both signs", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using W = Wide<TestType>;
  const W low = -std::numeric_limits<W>::infinity(), high = -low;
  const Tensor<W> x({1, 8}, {low, W(-0.0), -3, low, 0, high, low, 2});
  for (index_t k = 1; k <= 8; ++k) REQUIRE(differs<TestType>(x, k, 0) == "");
  const Tensor<W> nothing({1, 700}, low), wide({1, 700}, low);
  wide.data()[699] = high, wide.data()[3] = W(-0.0), wide.data()[2] = 0, wide.data()[600] = 1;
  for (const index_t k : {5, 40}) {
    REQUIRE(differs<TestType>(nothing, k, 0) == "");
    REQUIRE(differs<TestType>(wide, k, 0) == "");
  }
}

TEMPLATE_TEST_CASE("cuda: top_k names the place of a NaN", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const index_t width = 1030;
  for (const index_t column : {9, 1029})
    for (const index_t k : {4, 40})
      for (const int sign : {1, -1}) {
        if ((sign == 1) == (k == 4)) continue;  // to save time
        const Tensor<Wide<T>> x({2, width}, Wide<T>(-1));
        x(1, column) = std::copysign(std::numeric_limits<Wide<T>>::quiet_NaN(), static_cast<Wide<T>>(sign));
        const Tensor<T, Cuda> values({2, k});
        const Tensor<token_t, Cuda> indices({2, k});
        top_k(Cuda{}, 2, width, k, device::upload<T>(x).data(), values.data(), indices.data());
        REQUIRE(complaint() == "top_k: row 1 holds NaN in column " + std::to_string(column));
        for (const token_t i : indices.values()) REQUIRE((i >= 0 && i < width));
      }
}

TEST_CASE("cuda: top_k refuses a k outside the row, and no rows are none", "[cuda]") {
  if (!device::present()) return;
  const Tensor<float, Cuda> x({1, 3}, 1.0f), values({1, 4});
  const Tensor<token_t, Cuda> indices({1, 4});
  REQUIRE_THROWS_AS(top_k(Cuda{}, 1, 3, 0, x.data(), values.data(), indices.data()), ValueError);
  REQUIRE_THROWS_WITH(top_k(Cuda{}, 1, 3, 4, x.data(), values.data(), indices.data()),
                      "top_k: k is 4, expected 1 to the width 3");
  top_k(Cuda{}, 0, 3, 1, x.data(), values.data(), indices.data());
  cuda::synchronize();
}

TEST_CASE("cuda: argmax gives the first column of the largest value", "[cuda]") {
  if (!device::present()) return;
  const auto x = device::upload<double>(Tensor<double>({2, 4}, {1, 7, 7, 2, -5, -5, -5, -9}));
  const Tensor<double, Cuda> values({2});
  const Tensor<token_t, Cuda> columns({2});
  argmax(Cuda{}, 2, 4, x.data(), values.data(), columns.data());
  REQUIRE(columns.values() == std::vector<token_t>{1, 0});
  REQUIRE(values.values() == std::vector<double>{7, -5});
}

TEST_CASE("cuda: fill_columns writes its columns of every row and nothing else", "[cuda]") {
  if (!device::present()) return;
  const auto x = device::random<float>({3, 200}, 1), expected = x.clone();
  std::vector<token_t> columns;
  for (token_t c = 199; c >= 50; c -= 2) columns.push_back(c);  // more than a kernel is told at a time
  const auto y = device::upload<float>(x);
  const auto count = static_cast<index_t>(columns.size());
  fill_columns(Cpu{}, 3, 200, count, columns.data(), -1.0f, expected.data());
  fill_columns(Cuda{}, 3, 200, count, columns.data(), -1, y.data());
  REQUIRE(device::difference(y, expected, 0) == "");
  fill_columns(Cuda{}, 3, 200, 0, columns.data(), 5, y.data());
  fill_columns(Cuda{}, 0, 200, count, columns.data(), 5, y.data());
  REQUIRE(device::difference(y, expected, 0) == "");
}
