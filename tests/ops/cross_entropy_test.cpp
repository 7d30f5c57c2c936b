#include "attend/ops/cross_entropy.hpp"

#include <cmath>

#include "attend/ops/linear.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/softmax.hpp"
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

TEST_CASE("the rows whose logits exist at a time follow from the sizes of the head") {
  const auto rows = [](index_t in, index_t classes) { return kernels::logits_chunk(Cpu{}, 5000, in, classes); };
  CHECK(rows(512, 100) == 1024);
  CHECK(rows(128, 10'000) == 419);  // 16 MB
  CHECK(rows(512, 37'000) == 512);
  CHECK(rows(2048, 32'000) == 1024);
  CHECK(rows(1024, 256'206) == 261);  // 256 MB
  CHECK(rows(1024, 10'000'000) == 64);
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

TEST_CASE("R-Drop: two passes are drawn together by their divergences") {
  const Tensor<token_t> twice({6}, {1, -100, 4, 1, -100, 4});
  const auto x = operation::random({6, 5}), h = operation::random({6, 3}, 1), w = operation::random({5, 3}, 2),
             b = operation::random({5}, 3);
  for (const bool mean : {true, false}) {
    const CrossEntropyOptions how{.smoothing = 0.1, .mean = mean, .r_drop = 3};
    operation::check([&](const auto& in) { return cross_entropy(in[0], operation::beside(in[0], twice), how); }, {x});
    operation::check(
        [&](const auto& in) { return linear_cross_entropy(in[0], in[1], in[2], operation::beside(in[0], twice), how); },
        {h, w, b});
  }

  // The loss from its formula, by operations that know nothing of it.
  const Var<double> logits(x);
  const auto log_p = log_softmax(slice(logits, 0, 0, 3)), log_q = log_softmax(slice(logits, 0, 3, 3));
  double divergence = 0;
  for (index_t i = 0; i < log_p.size(); ++i) {
    if (twice.data()[i / 5] == -100) continue;
    const double p = log_p.value().data()[i], q = log_q.value().data()[i];
    divergence += (std::exp(p) - std::exp(q)) * (p - q);  // KL(p|q) + KL(q|p)
  }
  const double plain = cross_entropy(logits, twice, {.smoothing = 0.1, .mean = false}).item();
  CHECK(cross_entropy(logits, twice, {.smoothing = 0.1, .mean = false, .r_drop = 3}).item() ==
        Approx(plain + 3.0 / 2 * divergence).epsilon(1e-13));

  CHECK_THROWS_WITH(cross_entropy(Var<double>(x), Tensor<token_t>({6}, {1, 2, 3, 1, 2, 4}), {.r_drop = 1}),
                    "cross_entropy: R-Drop takes the same labels for row r and row r + rows / 2");
  CHECK_THROWS_WITH(cross_entropy(Var<double>(operation::random({3, 5})), Tensor<token_t>({3}, {1, 1, 1}), {.r_drop = 1}),
                    "cross_entropy: R-Drop takes two rows for each token, got 3 rows");
  CHECK_THROWS_AS(cross_entropy(logits, twice, {.r_drop = -1}), ValueError);
}

TEST_CASE("R-Drop: many rows come in chunks, each with the rows of the second pass") {
  const index_t rows = 3000, classes = 9000;
  Tensor<token_t> many({rows});
  for (index_t i = 0; i < rows; ++i) many.data()[i] = i % 1500 % 7 == 0 ? -100 : static_cast<token_t>(i % 1500 * 31 % classes);
  const auto input = operation::random<double>({rows, 2}), weight = operation::random<double>({classes, 2}, 1);
  const Var<double> x1(input, true), w1(weight, true), x2(input, true), w2(weight, true);
  const CrossEntropyOptions how{.smoothing = 0.1, .r_drop = 5};
  const auto fused = linear_cross_entropy(x1, w1, many, how), composed = cross_entropy(linear(x2, w2), many, how);
  CHECK(fused.item() == Approx(composed.item()).epsilon(1e-13));
  const NoGrad off;
  CHECK(linear_cross_entropy(x1, w1, many, how).item() == fused.item());
  fused.backward(), composed.backward();
  double worst = 0;
  for (index_t i = 0; i < x1.size(); ++i) worst = std::max(worst, std::abs(x1.grad().data()[i] - x2.grad().data()[i]));
  for (index_t i = 0; i < w1.size(); ++i) worst = std::max(worst, std::abs(w1.grad().data()[i] - w2.grad().data()[i]));
  CHECK(worst < 1e-14);
}

TEST_CASE("cross entropy: where no row counts, the loss is 0 and so are its gradients") {
  const Var<float> x(Tensor<float>(Shape{0, 3}), true), full(Tensor<float>({2, 3}, 1.0f), true);
  for (const double r_drop : {0.0, 1.0})
    for (const Var<float>& rows : {x, full}) {
      const Var<float> w(Tensor<float>({5, 3}, 1.0f), true), b(Tensor<float>({5}, 1.0f), true);
      const Tensor<token_t> ignored({rows.dim(0)}, -100);
      const auto loss = linear_cross_entropy(rows, w, b, ignored, {.r_drop = r_drop});
      CHECK(loss.item() == 0);
      CHECK(loss.requires_grad());
      loss.backward();
      CHECK(w.grad().values() == std::vector<float>(15, 0.0f));
      CHECK(b.grad().values() == std::vector<float>(5, 0.0f));
      const auto plain = cross_entropy(linear(rows, w, b), ignored, {.r_drop = r_drop});
      CHECK(plain.item() == 0);
      plain.backward();
      CHECK(w.grad().values() == std::vector<float>(15, 0.0f));
    }
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
