#include "attend/ops/residual.hpp"

#include "attend/ops/arithmetic.hpp"
#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The same values and gradients, in double.
template <class F, class G>
void check_equal(const F& fused, const G& composed, const std::vector<Tensor<double>>& inputs) {
  const auto got = operation::value_and_gradients<double>(fused, inputs);
  const auto expected = operation::value_and_gradients<double>(composed, inputs);
  for (std::size_t k = 0; k < got.size(); ++k)
    for (index_t i = 0; i < got[k].size(); ++i) REQUIRE(got[k].data()[i] == Approx(expected[k].data()[i]).margin(1e-12));
}

}  // namespace

TEST_CASE("add_dropout equals dropout and add, and agrees with differences") {
  for (const double p : {0.0, 0.3}) {
    const auto fused = [=](const auto& in) {
      Generator generator(4);
      return add_dropout(in[0], in[1], p, generator);
    };
    const auto composed = [=](const auto& in) {
      Generator generator(4);
      return add(in[0], dropout(in[1], p, generator));
    };
    for (const Shape& shape : {Shape{3, 7}, Shape{120, 130}, Shape{0, 5}}) {
      const std::vector<Tensor<double>> inputs{operation::random(shape), operation::random(shape, 1)};
      check_equal(fused, composed, inputs);
      if (shape[0] > 0) operation::check(fused, inputs, {.entries = 4});
    }
  }
}

TEST_CASE("add_dropout_norm equals dropout, add and layer_norm, and agrees with differences") {
  for (const double p : {0.0, 0.3})
    for (const bool sample : {false, true}) {
      const LayerNormOptions options{.eps = 1e-4, .sample_deviation = sample};
      const auto fused = [=](const auto& in) {
        Generator generator(4);
        return add_dropout_norm(in[0], in[1], p, {in[2], in[3], options}, generator);
      };
      const auto composed = [=](const auto& in) {
        Generator generator(4);
        return layer_norm(add(in[0], dropout(in[1], p, generator)), in[2], in[3], options);
      };
      for (const Shape& shape : {Shape{2, 3, 7}, Shape{150, 130}})
        for (const Shape& affine : {Shape{shape[-1]}, Shape{1}}) {
          const std::vector<Tensor<double>> inputs{operation::random(shape), operation::random(shape, 1),
                                                   operation::random(affine, 2), operation::random(affine, 3)};
          check_equal(fused, composed, inputs);
          operation::check(fused, inputs, {.entries = 4});
        }
    }
}

TEST_CASE("add_dropout_norm of one value in both roles, and of values that want no gradient") {
  const std::vector<Tensor<double>> inputs{operation::random({5, 6}), operation::random({6}, 1), operation::random({6}, 2)};
  for (const double p : {0.0, 0.5}) {
    const auto with = [&](bool fused) {
      return [=](const auto& in) {
        Generator generator(4);
        if (fused) return add_dropout_norm(in[0], in[0], p, {in[1], in[2]}, generator);
        return layer_norm(add(in[0], dropout(in[0], p, generator)), in[1], in[2]);
      };
    };
    check_equal(with(true), with(false), inputs);
  }
  const Var<double> x(inputs[0]), gamma(inputs[1], true), beta(inputs[2]);
  add_dropout_norm(x, x, 0.5, {gamma, beta}).backward(Tensor<double>({5, 6}, 1.0));
  CHECK(gamma.grad().size() == 6);
  CHECK(beta.grad().empty());
  CHECK(x.grad().empty());
}

TEST_CASE("add_dropout_and_norm equals add_dropout and layer_norm bit by bit, and agrees with differences") {
  for (const double p : {0.0, 0.3})
    for (const int read : {0, 1, 2}) {  // the sum, the norm, both
      const auto with = [=](bool fused) {
        return [=](const auto& in) {
          using V = std::decay_t<decltype(in[0])>;
          Generator generator(4);
          const auto both = [&]() -> SumAndNorm<typename V::value_type, typename V::device_type> {
            if (fused) return add_dropout_and_norm(in[0], in[1], p, {in[2], in[3], {.eps = 1e-4}}, generator);
            const auto sum = add_dropout(in[0], in[1], p, generator);
            return {sum, layer_norm(sum, in[2], in[3], {.eps = 1e-4})};
          }();
          if (read == 0) return both.sum;
          if (read == 1) return both.norm;
          return both.sum * both.norm + dropout(both.sum, 0.5, generator);
        };
      };
      for (const Shape& shape : {Shape{2, 3, 7}, Shape{150, 130}, Shape{0, 5}}) {
        const std::vector<Tensor<double>> inputs{operation::random(shape), operation::random(shape, 1),
                                                 operation::random({shape[-1]}, 2), operation::random({shape[-1]}, 3)};
        const auto got = operation::value_and_gradients<double>(with(true), inputs);
        const auto expected = operation::value_and_gradients<double>(with(false), inputs);
        REQUIRE(got.size() == expected.size());
        for (std::size_t k = 0; k < got.size(); ++k) REQUIRE(got[k].values() == expected[k].values());
        if (shape[0] > 0 && read == 2) operation::check(with(true), inputs, {.entries = 4});
      }
    }
}

TEST_CASE("add_dropout_norm and add_dropout_and_norm take a norm without a beta") {
  const std::vector<Tensor<double>> inputs{operation::random({5, 6}), operation::random({5, 6}, 1), operation::random({6}, 2)};
  const auto norm = [](const auto& in) {
    Generator generator(4);
    return add_dropout_norm(in[0], in[1], 0.3, {in[2]}, generator);
  };
  const auto both = [](const auto& in) {
    Generator generator(4);
    const auto pair = add_dropout_and_norm(in[0], in[1], 0.3, {in[2]}, generator);
    return pair.sum * pair.norm;
  };
  const auto composed = [](const auto& in) {
    Generator generator(4);
    return normalize(add_dropout(in[0], in[1], 0.3, generator), {in[2]});
  };
  check_equal(norm, composed, inputs);
  operation::check(norm, inputs);
  operation::check(both, inputs);
}

TEST_CASE("add_dropout_and_norm of one value in both roles, and of values that want no gradient") {
  const auto numbers = operation::random({5, 6});
  const Var<double> gamma(operation::random({6}, 1), true), beta(operation::random({6}, 2));
  for (const double p : {0.0, 0.5}) {
    const Var<double> x(numbers, true), z(numbers, true);
    Generator one(4), other(4);
    const auto both = add_dropout_and_norm(x, x, p, {gamma, beta}, one);
    (both.sum * both.norm).backward(Tensor<double>({5, 6}, 1.0));
    const auto sum = add_dropout(z, z, p, other);
    (sum * layer_norm(sum, gamma, beta)).backward(Tensor<double>({5, 6}, 1.0));
    for (index_t i = 0; i < 30; ++i) REQUIRE(x.grad().data()[i] == Approx(z.grad().data()[i]).margin(1e-12));
  }
  const Var<double> x(numbers), branch(numbers, true), late(operation::random({6}, 1), true);
  const auto frozen = add_dropout_and_norm(x, x, 0.5, {late, beta});
  CHECK_FALSE(frozen.sum.requires_grad());
  (frozen.sum * frozen.norm).backward(Tensor<double>({5, 6}, 1.0));
  CHECK(late.grad().size() == 6);
  CHECK(x.grad().empty());
  const auto half = add_dropout_and_norm(x, branch, 0.5, {beta, beta});
  (half.sum * half.norm).backward(Tensor<double>({5, 6}, 1.0));
  CHECK(branch.grad().size() == 30);
  CHECK(x.grad().empty());
}

TEST_CASE("residual operations name what does not fit") {
  const Var<float> x(Tensor<float>({2, 3}, 1.0f)), y(Tensor<float>({3, 2}, 1.0f)), gamma(Tensor<float>({3}, 1.0f)),
      wrong(Tensor<float>({4}, 1.0f));
  CHECK_THROWS_WITH(add_dropout(x, y, 0), ContainsSubstring("add_dropout: branch has shape [3, 2], expected [2, 3]"));
  CHECK_THROWS_WITH(add_dropout_norm(x, y, 0, {gamma, gamma}), ContainsSubstring("add_dropout_norm: branch has shape [3, 2]"));
  CHECK_THROWS_WITH(add_dropout_norm(x, x, 0, {wrong, wrong}), ContainsSubstring("add_dropout_norm: gamma has shape [4]"));
  CHECK_THROWS_WITH(add_dropout_and_norm(x, y, 0, {gamma, gamma}),
                    ContainsSubstring("add_dropout_and_norm: branch has shape [3, 2]"));
  CHECK_THROWS_WITH(add_dropout_and_norm(x, x, 0, {wrong, wrong}),
                    ContainsSubstring("add_dropout_and_norm: gamma has shape [4]"));
  CHECK_THROWS_AS(add_dropout(x, x, 1), ValueError);
  CHECK_THROWS_AS(add_dropout_norm(x, x, -0.1, {gamma, gamma}), ValueError);
}
