#include "attend/cpu/packed_matrix.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/cpu/bf16.hpp"
#include "attend/cpu/int8.hpp"
#include "catch.hpp"
#include "with_threads.hpp"

using namespace attend;

namespace {

struct Product {
  index_t m, n, k;
  std::vector<float> a, b, bias;
  Product(index_t rows, index_t columns, index_t depth) : m(rows), n(columns), k(depth) {
    fill(a, m * k, 0), fill(b, n * k, 1), fill(bias, n, 2);
  }
  static void fill(std::vector<float>& x, index_t n, std::uint64_t stream) {
    const Generator::Stream random{11, stream};
    for (index_t i = 0; i < n; ++i) x.push_back(static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
  }
  [[nodiscard]] kernels::Matrix<const float> left() const { return {a.data(), m, k}; }
  [[nodiscard]] kernels::Matrix<const float> right() const { return kernels::stored(true, b.data(), k, n); }  // as weights are
};

const std::vector<Product>& products() {
  static const std::vector<Product> all{{1, 500, 128}, {2, 33, 70},    {3, 77, 1030},  {5, 1, 600},
                                        {14, 64, 32},  {29, 300, 513}, {150, 200, 64}, {17, 1100, 520}};
  return all;
}

template <class F>
void with_threads(F&& f) {
  for (const int count : {1, 3}) {
    const WithThreads set(count);
    f();
  }
}

}  // namespace

TEST_CASE("PackedMatrix: the bits of a product that packs for itself, with any number of threads") {
  for (const auto& p : products()) {
    std::vector<float> expected(static_cast<std::size_t>(p.m * p.n));
    const kernels::Matrix<float> result{expected.data(), p.m, p.n};
    cpu::multiply(cpu::Product<float>(p.left(), p.right(), p.bias.data(), result), false);
    with_threads([&] {
      INFO(p.m << " x " << p.n << " x " << p.k);
      std::vector<float> y(expected.size());
      const cpu::PackedMatrix<float> matrix(p.right());
      matrix.multiply(p.left(), p.bias.data(), {y.data(), p.m, p.n});
      CHECK(y == expected);
    });
  }
}

TEST_CASE("Int8Matrix: near the product, exactly the sum of its own integers, the same in any batch and with any threads") {
  for (const auto& p : products()) {
    INFO(p.m << " x " << p.n << " x " << p.k);
    const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
    std::vector<std::int8_t> qa(p.a.size()), qb(p.b.size());
    std::vector<float> sa(at(p.m)), sb(at(p.n)), y(at(p.m * p.n));
    for (index_t i = 0; i < p.m; ++i) sa[at(i)] = cpu::quantize_row(p.k, p.a.data() + i * p.k, qa.data() + i * p.k);
    for (index_t j = 0; j < p.n; ++j) sb[at(j)] = cpu::quantize_row(p.k, p.b.data() + j * p.k, qb.data() + j * p.k);
    const cpu::Int8Matrix matrix(p.right());
    matrix.multiply(p.left(), p.bias.data(), {y.data(), p.m, p.n});
    double error = 0, size = 0;
    for (index_t i = 0; i < p.m; ++i)
      for (index_t j = 0; j < p.n; ++j) {
        std::int32_t sum = 0;
        double exact = 0;
        for (index_t l = 0; l < p.k; ++l) {
          sum += qa[at(i * p.k + l)] * qb[at(j * p.k + l)];
          exact += static_cast<double>(p.a[at(i * p.k + l)]) * static_cast<double>(p.b[at(j * p.k + l)]);
        }
        const float expected = static_cast<float>(sum) * (sa[at(i)] * sb[at(j)]) + p.bias[at(j)];
        CHECK(y[at(i * p.n + j)] == Approx(expected).epsilon(1e-6).margin(1e-6));
        const double got = static_cast<double>(y[at(i * p.n + j)] - p.bias[at(j)]);
        error += (got - exact) * (got - exact), size += exact * exact;
      }
    CHECK(std::sqrt(error / size) < 0.05);
    with_threads([&] {
      std::vector<float> again(y.size()), row(at(p.n));
      matrix.multiply(p.left(), p.bias.data(), {again.data(), p.m, p.n});
      CHECK(again == y);
      const index_t last = p.m - 1;
      matrix.multiply({p.a.data() + last * p.k, 1, p.k}, p.bias.data(), {row.data(), 1, p.n});
      CHECK(std::equal(row.begin(), row.end(), y.begin() + last * p.n));
    });
  }
}

TEST_CASE("Int8Matrix: rows of zeros and the largest numbers there are stay what they are") {
  const std::vector<float> b{1, -1, 127, 0, 0, 0, 64, -127, 3};  // [n = 3, k = 3]
  const cpu::Int8Matrix matrix(kernels::stored(true, b.data(), 3, 3));
  const std::vector<float> x{0, 0, 0, 127, -127, 127};
  std::vector<float> y(6, 5.0f);
  matrix.multiply({x.data(), 2, 3}, nullptr, {y.data(), 2, 3});
  CHECK(y[0] == 0);
  CHECK(y[1] == 0);
  CHECK(y[3] == Approx(127.0 * 129));
  CHECK(y[4] == 0);
  CHECK(y[5] == Approx(127.0 * (64 + 127 + 3)));
  CHECK_THROWS_WITH(cpu::Int8Matrix(kernels::stored(true, b.data(), 65537, 0)),
                    "Int8Matrix: sums of 65537 products, at most 65536 fit into 32 bits");
}

TEST_CASE("packed matrices: sums of nothing are the bias") {
  const std::vector<float> bias{1, 2, 3};
  for (const auto& packed :
       {kernels::pack_matrix<float>(Cpu{}, {bias.data(), 0, 3}), kernels::pack_bf16<float>(Cpu{}, {bias.data(), 0, 3})}) {
    std::vector<float> y(6, 7.0f);
    packed->multiply({bias.data(), 2, 0}, bias.data(), {y.data(), 2, 3});
    CHECK(y == std::vector<float>{1, 2, 3, 1, 2, 3});
  }
}

TEST_CASE("packing tells an observer of all columns, in order and in parts, and packs the same") {
  struct Seen final : kernels::PackingObserver {
    void columns_read(index_t first, index_t last) override {
      CHECK(first == until);  // where the part before ended
      CHECK(last > first);
      until = last, ++parts;
    }
    index_t until = 0, parts = 0;
  };
  const Product p(2, 1000, 10000);  // some 40 MB
  const auto right = p.right();
  std::vector<std::int8_t> bytes(p.b.size());
  std::vector<float> scales(static_cast<std::size_t>(p.n));
  kernels::quantize_rows(Cpu{}, right.transpose(), bytes.data(), scales.data());
  const kernels::Int8Rows<float> rows{bytes.data(), scales.data(), p.n, p.k};
  const auto check = [&](const char* what, auto&& pack) {
    INFO(what);
    Seen seen;
    std::vector<float> plain(static_cast<std::size_t>(p.m * p.n)), observed(plain.size());
    pack(nullptr)->multiply(p.left(), p.bias.data(), {plain.data(), p.m, p.n});
    pack(&seen)->multiply(p.left(), p.bias.data(), {observed.data(), p.m, p.n});
    CHECK(observed == plain);
    CHECK(seen.until == p.n);
    CHECK(seen.parts > 1);
  };
  using Observer = kernels::PackingObserver*;
  check("float", [&](Observer o) { return kernels::pack_matrix<float>(Cpu{}, right, o); });
  check("bf16", [&](Observer o) { return kernels::pack_bf16<float>(Cpu{}, right, o); });
  check("int8", [&](Observer o) { return kernels::pack_int8<float>(Cpu{}, right, o); });
  check("rows of int8", [&](Observer o) { return kernels::pack_int8(Cpu{}, rows, o); });
}
