#include "attend/ops/products.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "attend/core/bfloat16.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/feed_forward.hpp"
#include "attend/ops/linear.hpp"
#include "attend/ops/matmul.hpp"
#include "operation.hpp"

using namespace attend;

namespace {

Tensor<float> random(const Shape& shape, std::uint64_t stream) { return operation::random<float>(shape, stream); }

Tensor<float> rounded(const Tensor<float>& x) {
  const auto y = x.clone();
  for (index_t i = 0; i < y.size(); ++i) y.data()[i] = bfloat16(y.data()[i]);
  return y;
}

/// The largest difference, relative to the largest number.
double distance(const Tensor<float>& x, const Tensor<float>& y) {
  REQUIRE(x.shape() == y.shape());
  double off = 0, largest = 0;
  for (index_t i = 0; i < x.size(); ++i) {
    off = std::max(off, std::abs(static_cast<double>(x.data()[i]) - y.data()[i]));
    largest = std::max(largest, std::abs(static_cast<double>(y.data()[i])));
  }
  return off / largest;
}

using Function = std::function<Var<float>(const std::vector<Var<float>>&)>;

/// The value and all gradients for this dy. The backward pass runs outside of the precision's scope.
std::vector<Tensor<float>> results(Precision precision, const Function& f, const std::vector<Tensor<float>>& inputs,
                                   const Tensor<float>& dy) {
  std::vector<Var<float>> leaves;
  for (const auto& x : inputs) leaves.emplace_back(x.clone(), true);
  const auto y = [&] {
    const MatmulPrecision scope(precision);
    return f(leaves);
  }();
  std::vector<Tensor<float>> all{y.value()};
  y.backward(dy);
  for (const auto& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

/// Holds f in bf16 to f of rounded inputs and gradients in float, which gives the same sums, and not to f of the others.
void check_rounds(const Function& f, const std::vector<Tensor<float>>& inputs, const Shape& shape) {
  const auto dy = random(shape, 9);
  std::vector<Tensor<float>> round;
  for (const auto& x : inputs) round.push_back(rounded(x));
  const auto found = results(Precision::bf16, f, inputs, dy), expected = results(Precision::full, f, round, rounded(dy)),
             plain = results(Precision::full, f, inputs, dy);
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("result " << i);
    CHECK(distance(found[i], expected[i]) < 2e-6);
    CHECK(distance(found[i], plain[i]) > 1e-4);
    CHECK(distance(found[i], plain[i]) < 1e-2);
  }
}

}  // namespace

TEST_CASE("MatmulPrecision: linear and matmul round what they multiply, in both directions") {
  check_rounds([](const auto& in) { return linear(in[0], in[1]); }, {random({33, 70}, 0), random({41, 70}, 1)}, {33, 41});
  check_rounds([](const auto& in) { return matmul(in[0], in[1]); }, {random({3, 9, 70}, 0), random({3, 70, 21}, 1)}, {3, 9, 21});
  check_rounds([](const auto& in) { return matmul(in[0], in[1], {.transpose_a = true}); },
               {random({2, 70, 9}, 0), random({70, 21}, 1)}, {2, 9, 21});
  check_rounds([](const auto& in) { return matmul(in[0], in[1], {.transpose_b = true}); },
               {random({2, 9, 70}, 0), random({21, 70}, 1)}, {2, 9, 21});
}

TEST_CASE("MatmulPrecision: biases and their gradients are not rounded") {
  const std::vector<Tensor<float>> inputs{random({5, 7}, 0), random({3, 7}, 1), random({3}, 2)};
  const Function f = [](const auto& in) { return linear(in[0], in[1], in[2]); };
  const auto dy = random({5, 3}, 3);
  const auto bf16 = results(Precision::bf16, f, inputs, dy), full = results(Precision::full, f, inputs, dy);
  CHECK(bf16[3].values() == full[3].values());
  CHECK(bf16[2].values() != full[2].values());
  const auto zeros = Tensor<float>({5, 7}, 0.0f);
  CHECK(results(Precision::bf16, f, {zeros, inputs[1], inputs[2]}, dy)[0](0, 1) == inputs[2].data()[1]);
}

TEST_CASE("MatmulPrecision: feed_forward and linear_cross_entropy are close to float's, not equal, with any number of threads") {
  const Tensor<token_t> labels({40}, 3);
  for (index_t i = 0; i < 40; ++i) labels.data()[i] = static_cast<token_t>(i * 5 % 90);
  const auto both = [&](const auto& in) {
    return linear_cross_entropy(feed_forward(in[0], in[1], in[2], in[3], in[4], Activation::gelu), in[5], in[6], labels,
                                {.smoothing = 0.1});
  };
  std::vector<Tensor<float>> inputs{random({40, 32}, 0), random({64, 32}, 1), random({64}, 2), random({32, 64}, 3),
                                    random({32}, 4),     random({90, 32}, 5), random({90}, 6)};
  for (auto& x : inputs) x = (Var<float>(x) * 0.2f).value();
  const Tensor<float> dy({1}, 1.0f);
  const auto full = results(Precision::full, both, inputs, dy), bf16 = results(Precision::bf16, both, inputs, dy);
  for (std::size_t i = 0; i < full.size(); ++i) {
    INFO("result " << i);
    CHECK(distance(bf16[i], full[i]) > 1e-6);
    CHECK(distance(bf16[i], full[i]) < 3e-2);
  }
  for (const int count : {1, 2, 3}) {
    const WithThreads threads(count);
    const auto again = results(Precision::bf16, both, inputs, dy);
    for (std::size_t i = 0; i < full.size(); ++i) CHECK(again[i].values() == bf16[i].values());
  }
}

TEST_CASE("MatmulPrecision: a scope ends, holds for its thread alone, and refuses what it cannot be") {
  CHECK(matmul_precision() == Precision::full);
  {
    const MatmulPrecision outer(Precision::bf16);
    {
      const MatmulPrecision inner(Precision::full);
      CHECK(matmul_precision() == Precision::full);
    }
    CHECK(matmul_precision() == Precision::bf16);
    std::thread([] { CHECK(matmul_precision() == Precision::full); }).join();
    const Var<double> x(Tensor<double>({2, 3}, 1.0)), w(Tensor<double>({4, 3}, 1.0));
    const std::string refused =
        "the precision of products is bf16, which is for floats on the CPU; on a GPU bfloat16 is a type of model";
    CHECK_THROWS_WITH(linear(x, w), "linear: " + refused);
    CHECK_THROWS_WITH(matmul(x, w, {.transpose_b = true}), "matmul: " + refused);
    CHECK_THROWS_WITH(linear_cross_entropy(x, w, Tensor<token_t>({2}, 0)), "linear_cross_entropy: " + refused);
#if defined(ATTEND_TEST_CUDA)
    const Var<float, Cuda> there(Tensor<float>({2, 3}, 1.0f).to<Cuda>());
    CHECK_THROWS_WITH(linear(there, there), "linear: " + refused);
#endif
  }
  CHECK(matmul_precision() == Precision::full);
  CHECK_THROWS_WITH(MatmulPrecision(Precision::int8), "MatmulPrecision: precision is int8, expected full or bf16");
}
