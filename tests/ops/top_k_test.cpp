#include "attend/cpu/top_k.hpp"

#include <cmath>

#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"
#include "attend/cpu/softmax.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

template <class T>
struct Top {
  std::vector<T> values;
  std::vector<token_t> indices;
};

template <class T>
Top<T> run(const std::vector<T>& x, index_t rows, index_t width, index_t k) {
  Top<T> top{std::vector<T>(static_cast<std::size_t>(rows * k)), std::vector<token_t>(static_cast<std::size_t>(rows * k))};
  top_k(Cpu{}, rows, width, k, x.data(), top.values.data(), top.indices.data());
  return top;
}

template <class T>
Top<T> by_sorting(const std::vector<T>& x, index_t rows, index_t width, index_t k) {
  Top<T> top;
  for (index_t r = 0; r < rows; ++r) {
    const T* row = x.data() + r * width;
    std::vector<token_t> order(static_cast<std::size_t>(width));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [row](token_t a, token_t b) { return row[a] > row[b]; });
    for (index_t i = 0; i < k; ++i) {
      top.indices.push_back(order[static_cast<std::size_t>(i)]);
      top.values.push_back(row[top.indices.back()]);
    }
  }
  return top;
}

// Few distinct values if `levels` is small, so that equal ones are common.
template <class T>
std::vector<T> random_rows(index_t count, std::uint64_t seed, index_t levels) {
  const Generator::Stream stream{seed, 0};
  std::vector<T> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = -static_cast<T>(std::floor(stream.uniform(i) * static_cast<double>(levels))) / T(16);
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("top_k gives what a stable sort gives", "[top_k]", float, double) {
  std::uint64_t seed = 0;
  for (const index_t width : {1, 2, 15, 16, 17, 63, 64, 65, 300, 1000, 4097, 70001})
    for (const index_t k : {1, 2, 5, 9, 21, 100, 300})
      for (const index_t levels : {1, 3, 1000, 100000000}) {
        if (k > width) continue;
        const index_t rows = width > 5000 ? 1 : 3;
        const auto x = random_rows<TestType>(rows * width, ++seed, levels);
        const auto top = run(x, rows, width, k), expected = by_sorting(x, rows, width, k);
        INFO("width " << width << ", k " << k << ", levels " << levels);
        REQUIRE(top.indices == expected.indices);
        REQUIRE(top.values == expected.values);
      }
}

TEST_CASE("top_k takes minus infinity as the smallest value", "[top_k]") {
  const float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  const auto top = run<float>({low, low, -3, low, high, low}, 1, 6, 4);
  REQUIRE(top.indices == std::vector<token_t>{4, 2, 0, 1});
  REQUIRE(top.values == std::vector<float>{high, -3, low, low});
  REQUIRE(run<float>(std::vector<float>(200, low), 1, 200, 3).indices == std::vector<token_t>{0, 1, 2});
}

TEMPLATE_TEST_CASE("top_k names the place of a NaN", "[top_k]", float, double) {
  for (const index_t column : {0, 15, 16, 63, 64, 129})
    for (const index_t k : {1, 4, 130}) {
      std::vector<TestType> x(2 * 130, TestType(-1));
      x[static_cast<std::size_t>(130 + column)] = -std::numeric_limits<TestType>::quiet_NaN();
      const std::string message = "top_k: row 1 holds NaN in column " + std::to_string(column);
      REQUIRE_THROWS_AS(run(x, 2, 130, k), Error);
      REQUIRE_THROWS_WITH(run(x, 2, 130, k), message);
    }
}

TEST_CASE("top_k refuses a k outside the row", "[top_k]") {
  REQUIRE_THROWS_AS(run<float>({1, 2, 3}, 1, 3, 0), ValueError);
  REQUIRE_THROWS_WITH(run<float>({1, 2, 3}, 1, 3, 4), "top_k: k is 4, expected 1 to the width 3");
}

TEMPLATE_TEST_CASE("top_k_of_logits gives the bits of log_softmax, excluded columns and top_k one after another", "[top_k]",
                   float, double) {
  constexpr auto none = -std::numeric_limits<TestType>::infinity();
  std::uint64_t seed = 0;
  for (const index_t width : {1, 2, 16, 63, 64, 65, 1000, 4097, 70001})
    for (const index_t k : {1, 6, 100, 300})
      for (const index_t levels : {1, 40, 100000000})
        for (const int excluded_columns : {0, 1, 9}) {
          if (k > width) continue;
          const index_t rows = width > 5000 ? 1 : 3;
          auto x = random_rows<TestType>(rows * width, ++seed, levels);
          // Log-softmax takes the last digits off most of these, so that numbers which differ by little come out the same.
          for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] / TestType(16 * levels) + TestType(i % 5) * TestType(1e-8);
          if (rows == 3) std::fill_n(x.begin() + 2 * width, width, none);
          std::vector<token_t> excluded;
          for (int e = 0; e < excluded_columns; ++e) excluded.push_back(static_cast<token_t>(e * e * width / 81));

          auto plain = x;
          log_softmax_forward(Cpu{}, rows, width, plain.data(), plain.data());
          fill_columns(Cpu{}, rows, width, count_of(excluded), excluded.data(), none, plain.data());
          const auto expected = run(plain, rows, width, k);
          Top<TestType> top{expected.values, expected.indices};
          std::fill(top.values.begin(), top.values.end(), TestType(7));
          std::fill(top.indices.begin(), top.indices.end(), -1);
          top_k_of_logits(Cpu{}, {x.data(), rows, width}, excluded, k, top.values.data(), top.indices.data());
          INFO("width " << width << ", k " << k << ", levels " << levels << ", excluded " << excluded_columns);
          REQUIRE(top.indices == expected.indices);
          REQUIRE(top.values == expected.values);
        }
}

TEST_CASE("top_k_of_logits names the place of what has no softmax, and refuses a k outside the row", "[top_k]") {
  std::vector<float> x(2 * 130, -1), values(4);
  std::vector<token_t> columns(4);
  const auto best = [&](index_t k) { top_k_of_logits(Cpu{}, {x.data(), 2, 130}, {}, k, values.data(), columns.data()); };
  REQUIRE_THROWS_WITH(best(131), "top_k_of_logits: k is 131, expected 1 to the width 130");
  REQUIRE_THROWS_AS(best(0), ValueError);
  x[130 + 129] = std::numeric_limits<float>::infinity();
  REQUIRE_THROWS_WITH(best(2), "top_k_of_logits: row 1 holds infinity in column 129");
  for (const std::size_t column : {0, 64, 128}) {
    x[130 + column] = std::numeric_limits<float>::quiet_NaN();
    REQUIRE_THROWS_WITH(best(2), "top_k_of_logits: row 1 holds NaN in column " + std::to_string(column));
    x[130 + column] = -1;
  }
}

TEST_CASE("argmax gives the first column of the largest value", "[top_k]") {
  const std::vector<double> x{1, 7, 7, 2, -5, -5, -5, -9};
  std::vector<double> values(2);
  std::vector<token_t> columns(2);
  argmax(Cpu{}, 2, 4, x.data(), values.data(), columns.data());
  REQUIRE(columns == std::vector<token_t>{1, 0});
  REQUIRE(values == std::vector<double>{7, -5});
}

TEST_CASE("fill_columns writes its columns of every row and nothing else", "[top_k]") {
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  const std::vector<token_t> columns{2, 0};
  fill_columns(Cpu{}, 2, 3, 2, columns.data(), -1.0f, x.data());
  REQUIRE(x == std::vector<float>{-1, 2, -1, -1, 5, -1});
}
