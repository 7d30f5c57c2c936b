#include "attend/cpu/gemm.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

std::vector<float> numbers(index_t n, std::uint64_t stream) {
  std::vector<float> x(static_cast<std::size_t>(n));
  const Generator::Stream random{9, stream};
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

std::vector<float> product(bool ta, bool tb, index_t m, index_t n, index_t k, const std::vector<float>& a,
                           const std::vector<float>& b) {
  std::vector<float> c(static_cast<std::size_t>(m * n), 7.0f);
  gemm(Cpu{}, ta, tb, m, n, k, 1.0f, a.data(), ta ? m : k, b.data(), tb ? k : n, 0.0f, c.data(), n);
  return c;
}

struct Size {
  index_t m, n, k;
};

}  // namespace

TEST_CASE("gemm: the sum of products, each way of storing, any number of threads the same bits") {
  const int before = threads();
  for (const auto& [m, n, k] : {Size{3, 5, 7}, Size{129, 129, 129}, Size{5, 2048, 512}, Size{161, 97, 300}, Size{1, 500, 100},
                                Size{97, 1, 400}, Size{300, 49, 33}, Size{65, 193, 64}, Size{2, 2, 20000}}) {
    const auto a = numbers(m * k, 0), b = numbers(k * n, 1);
    for (int way = 0; way < 4; ++way) {
      const bool ta = way & 1, tb = way & 2;
      set_threads(1);
      const auto one = product(ta, tb, m, n, k, a, b);
      for (const index_t i : {index_t{0}, m / 2, m - 1})
        for (const index_t j : {index_t{0}, n / 3, n - 1}) {
          double sum = 0;
          for (index_t l = 0; l < k; ++l)
            sum += static_cast<double>(a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)]) *
                   static_cast<double>(b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)]);
          CHECK(one[static_cast<std::size_t>(i * n + j)] == Approx(sum).margin(1e-5 * std::sqrt(static_cast<double>(k)) * 10));
        }
      for (const int count : {2, 3, 5}) {
        set_threads(count);
        INFO(m << " x " << n << " x " << k << ", way " << way << ", " << count << " threads");
        CHECK(product(ta, tb, m, n, k, a, b) == one);
      }
    }
  }
  set_threads(before);
}
