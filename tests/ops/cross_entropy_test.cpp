#include "attend/ops/cross_entropy.hpp"

#include <cmath>

#include "attend/ops/linear.hpp"
#include "operation.hpp"

using namespace attend;

namespace {

const Tensor<token_t> labels({4}, {1, -100, 4, 0});

}  // namespace

TEST_CASE("cross_entropy agrees with differences, float with double") {
  for (const double smoothing : {0.0, 0.1})
    for (const bool mean : {true, false})
      operation::check(
          [&](const auto& in) {
            return cross_entropy(in[0], operation::beside(in[0], labels), {.smoothing = smoothing, .mean = mean});
          },
          {operation::random({4, 5})});
}

TEST_CASE("linear_cross_entropy agrees with differences, and with its composition, in one chunk and in several") {
  const auto x = operation::random({4, 3}), w = operation::random({5, 3}, 1), b = operation::random({5}, 2);
  for (const double smoothing : {0.0, 0.1})
    operation::check(
        [&](const auto& in) {
          return linear_cross_entropy(in[0], in[1], in[2], operation::beside(in[0], labels), {.smoothing = smoothing});
        },
        {x, w, b});
  operation::check(
      [&](const auto& in) { return linear_cross_entropy(in[0], in[1], operation::beside(in[0], labels), {.mean = false}); },
      {x, w});

  const index_t rows = 1500, classes = 9000;  // several chunks
  Tensor<token_t> many({rows});
  for (index_t i = 0; i < rows; ++i) many.data()[i] = i % 7 == 0 ? -100 : static_cast<token_t>(i * 31 % classes);
  const auto input = operation::random<double>({rows, 2}), weight = operation::random<double>({classes, 2}, 1);
  const Var<double> x1(input, true), w1(weight, true), x2(input, true), w2(weight, true);
  const auto fused = linear_cross_entropy(x1, w1, many, {.smoothing = 0.1}),
             composed = cross_entropy(linear(x2, w2), many, {.smoothing = 0.1});
  CHECK(fused.item() == Approx(composed.item()).epsilon(1e-13));
  fused.backward(), composed.backward();
  double worst = 0;
  for (index_t i = 0; i < x1.size(); ++i) worst = std::max(worst, std::abs(x1.grad().data()[i] - x2.grad().data()[i]));
  for (index_t i = 0; i < w1.size(); ++i) worst = std::max(worst, std::abs(w1.grad().data()[i] - w2.grad().data()[i]));
  CHECK(worst < 1e-14);
}

TEST_CASE("cross_entropy without any label that counts is 0, and so are its gradients") {
  const Var<float> x(operation::random<float>({2, 3}), true);
  const auto loss = cross_entropy(x, Tensor<token_t>({2}, {-100, -100}));
  CHECK(loss.item() == 0.0f);
  loss.backward();
  for (const float g : x.grad().span()) CHECK(g == 0.0f);
}

TEST_CASE("cross_entropy of huge logits is finite") {
  const Var<float> x(Tensor<float>({1, 2}, {1e5f, -1e5f}), true);
  const auto loss = cross_entropy(x, Tensor<token_t>({1}, {1}));
  CHECK(loss.item() == Approx(2e5f));
  loss.backward();
  CHECK(x.grad().values() == std::vector<float>{1.0f, -1.0f});
}

TEST_CASE("cross_entropy names what does not fit") {
  const Var<float> x(Tensor<float>({2, 3}, 0.0f)), w(Tensor<float>({5, 3}, 0.0f));
  const auto call = [&](std::initializer_list<token_t> l, const CrossEntropyOptions& o = {}) {
    return cross_entropy(x, Tensor<token_t>({static_cast<index_t>(l.size())}, l), o);
  };
  CHECK_THROWS_WITH(call({0, 3}), "cross_entropy: label 3 at position 1 is outside [0, 3)");
  CHECK_THROWS_WITH(call({0, -1}), "cross_entropy: label -1 at position 1 is outside [0, 3)");
  CHECK_THROWS_AS(call({0}), ShapeError);
  CHECK_THROWS_AS(call({0, 1}, {.smoothing = 1}), ValueError);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, Tensor<token_t>({2}, {0, 5})), IndexError);
}
