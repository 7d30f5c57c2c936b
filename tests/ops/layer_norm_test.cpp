#include "attend/ops/layer_norm.hpp"

#include "attend/ops/arithmetic.hpp"
#include "attend/ops/elementary.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/reduce.hpp"
#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("layer_norm agrees with differences, float with double, in each of its kinds") {
  const Tensor<double> x = operation::random({3, 4, 6});
  for (const bool sample : {false, true}) {
    const auto f = [=](const auto& in) { return layer_norm(in[0], in[1], in[2], {.sample_deviation = sample}); };
    for (const Shape& affine : {Shape{6}, Shape{1}, Shape{4, 6}, Shape{3, 4, 6}}) {
      INFO(affine.text() << (sample ? ", sample deviation" : ""));
      operation::check(f, {x, operation::random(affine, 1), operation::random(affine, 2)});
    }
  }
  operation::check([](const auto& in) { return layer_norm(in[0], in[1], in[2]); },
                   {operation::random({500, 70}), operation::random({70}, 1), operation::random({70}, 2)}, {.entries = 2});
}

TEST_CASE("normalize without a beta is layer_norm with one of zeros, alone and around a residual") {
  for (const Shape& affine : {Shape{6}, Shape{1}, Shape{4, 6}}) {
    INFO(affine.text());
    const std::vector<Tensor<double>> inputs{operation::random({3, 4, 6}), operation::random(affine, 1)};
    const auto bare = [](const auto& in) { return normalize(in[0], {in[1]}); };
    operation::check(bare, inputs);
    const auto with_zeros = [](const auto& in) {
      using V = std::decay_t<decltype(in[0])>;
      return layer_norm(in[0], in[1], V(Tensor<typename V::value_type>(in[1].shape(), 0)));
    };
    const auto got = operation::value_and_gradients<double>(bare, inputs);
    const auto expected = operation::value_and_gradients<double>(with_zeros, inputs);
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k].values() == expected[k].values());
  }
}

TEST_CASE("layer_norm equals its composition from simple operations") {
  for (const bool sample : {false, true}) {
    const std::vector<Tensor<double>> inputs{operation::random({5, 8}), operation::random({8}, 1), operation::random({8}, 2)};
    const auto composed = [=](const auto& in) {
      const auto centred = in[0] - mean(in[0], -1, {.keep = true});
      const auto squares = sum(square(centred), -1, {.keep = true});
      const auto deviation = sample ? attend::sqrt(squares / 7) + 1e-5 : attend::sqrt(squares / 8 + 1e-5);
      return centred / deviation * in[1] + in[2];
    };
    const auto fused = [=](const auto& in) { return layer_norm(in[0], in[1], in[2], {.sample_deviation = sample}); };
    const auto got = operation::value_and_gradients<double>(fused, inputs);
    const auto expected = operation::value_and_gradients<double>(composed, inputs);
    for (std::size_t k = 0; k < got.size(); ++k)
      for (index_t i = 0; i < got[k].size(); ++i) REQUIRE(got[k].data()[i] == Approx(expected[k].data()[i]).margin(1e-12));
  }
}

TEST_CASE("rms_norm agrees with differences, and equals its composition from simple operations") {
  for (const Shape& affine : {Shape{6}, Shape{1}, Shape{4, 6}}) {
    INFO(affine.text());
    const std::vector<Tensor<double>> inputs{operation::random({3, 4, 6}), operation::random(affine, 1)};
    operation::check([](const auto& in) { return rms_norm(in[0], in[1]); }, inputs);
    operation::check(
        [](const auto& in) {
          return normalize(in[0], {in[1], in[2], {.eps = 1e-3}, NormKind::rms});
        },
        {inputs[0], inputs[1], operation::random(affine, 2)});
  }
  const std::vector<Tensor<double>> inputs{operation::random({5, 8}), operation::random({8}, 1)};
  const auto composed = [](const auto& in) {
    return in[0] / attend::sqrt(mean(square(in[0]), -1, {.keep = true}) + 1e-3) * in[1];
  };
  const auto got = operation::value_and_gradients<double>([](const auto& in) { return rms_norm(in[0], in[1], 1e-3); }, inputs);
  const auto expected = operation::value_and_gradients<double>(composed, inputs);
  for (std::size_t k = 0; k < got.size(); ++k)
    for (index_t i = 0; i < got[k].size(); ++i) REQUIRE(got[k].data()[i] == Approx(expected[k].data()[i]).margin(1e-12));
}

TEST_CASE("layer_norm keeps its digits where the mean is large") {
  Tensor<double> x = operation::random({4, 64});
  Tensor<float> shifted({4, 64});
  for (index_t i = 0; i < x.size(); ++i) {
    shifted.data()[i] = static_cast<float>(std::round(x.data()[i] * 16) / 16 + 10000);
    x.data()[i] = static_cast<double>(shifted.data()[i]);
  }
  const auto single =
      layer_norm(Var<float>(shifted), Var<float>(Tensor<float>({64}, 1.0f)), Var<float>(Tensor<float>({64}, 0.0f)));
  const auto exact = layer_norm(Var<double>(x), Var<double>(Tensor<double>({64}, 1.0)), Var<double>(Tensor<double>({64}, 0.0)));
  for (index_t i = 0; i < x.size(); ++i) CHECK(single.data()[i] == Approx(exact.data()[i]).margin(2e-3));
}

TEST_CASE("layer_norm of equal values, of one value and of nothing") {
  const Var<double> gamma(Tensor<double>({3}, 2.0), true), beta(Tensor<double>({3}, 0.5), true);
  for (const bool sample : {false, true}) {
    const Var<double> x(Tensor<double>({2, 3}, 7.0), true);
    const auto y = layer_norm(x, gamma, beta, {.sample_deviation = sample});
    CHECK(y.value().values() == std::vector<double>(6, 0.5));
    y.backward(operation::random({2, 3}));
    for (const double v : x.grad().span()) CHECK(std::isfinite(v));
  }
  const Var<double> one(Tensor<double>({1}, 1.0));
  CHECK(layer_norm(Var<double>(Tensor<double>({2, 1}, 3.0)), one, one).value().values() == std::vector<double>{1, 1});
  CHECK(layer_norm(Var<double>(Tensor<double>({0, 3})), gamma, beta).shape() == Shape{0, 3});
}

TEST_CASE("layer_norm refuses shapes and options that do not fit") {
  const auto ones = [](const Shape& shape) { return Var<float>(Tensor<float>(shape, 1.0f)); };
  const auto x = ones({2, 4});
  CHECK_THROWS_WITH(layer_norm(x, ones({5}), ones({5})), ContainsSubstring("layer_norm: gamma has shape [5]"));
  CHECK_THROWS_WITH(layer_norm(x, ones({4}), ones({3})), "layer_norm: beta has shape [3], expected [4]");
  CHECK_THROWS_AS(layer_norm(ones({}), ones({1}), ones({1})), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, ones({1, 2, 4}), ones({1, 2, 4})), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, ones({4}), ones({4}), {.eps = -1}), ValueError);
  CHECK_THROWS_AS(layer_norm(ones({4, 1}), ones({1}), ones({1}), {.sample_deviation = true}), ValueError);
}
