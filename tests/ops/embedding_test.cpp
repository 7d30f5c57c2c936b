#include "attend/ops/embedding.hpp"

#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("embedding takes the rows of its tokens") {
  const Var<float> table(Tensor<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const auto y = embedding(table, Tensor<token_t>({2, 2}, {2, 0, 0, 1}), 10);
  CHECK(y.shape() == Shape{2, 2, 2});
  CHECK(y.value().values() == std::vector<float>{50, 60, 10, 20, 10, 20, 30, 40});
  CHECK(embedding(table, Tensor<token_t>({0})).shape() == Shape{0, 2});
  CHECK(embedding(table, Tensor<token_t>({}, 1)).value().values() == std::vector<float>{3, 4});
}

TEST_CASE("embedding agrees with differences, float with double") {
  const Tensor<token_t> tokens({2, 4}, {1, 6, 1, 0, 3, 1, 6, 6});
  operation::check([=](const auto& in) { return embedding(in[0], operation::beside(in[0], tokens), 2.5); },
                   {operation::random({7, 5})});
}

TEST_CASE("embedding's gradient has the same bits with any number of threads") {
  constexpr index_t n = 3000, width = 200;
  Tensor<token_t> tokens({n});
  for (index_t i = 0; i < n; ++i) tokens(i) = static_cast<token_t>(i * i % 37);
  operation::check([=](const auto& in) { return embedding(in[0], operation::beside(in[0], tokens)); },
                   {operation::random({40, width})}, {.entries = 2});
}

TEST_CASE("embedding adds to a gradient that is there, and leaves unused rows at zero") {
  const Var<double> table(Tensor<double>({3, 2}, 1.0), true);
  const Tensor<token_t> tokens({2}, {2, 2});
  for (int pass = 1; pass <= 2; ++pass) {
    embedding(table, tokens).backward(Tensor<double>({2, 2}, {1, 2, 3, 4}));
    CHECK(table.grad().values() == std::vector<double>{0, 0, 0, 0, 4.0 * pass, 6.0 * pass});
  }
}

TEST_CASE("embedding refuses a token outside the vocabulary before it reads") {
  const Var<float> table(Tensor<float>({3, 2}, 0.0f));
  CHECK_THROWS_AS(embedding(table, Tensor<token_t>({3}, {0, 2, 3})), IndexError);
  CHECK_THROWS_WITH(embedding(table, Tensor<token_t>({2, 2}, {0, 1, 17, 3})),
                    "embedding: token 17 at position 2 is outside the vocabulary of 3");
  CHECK_THROWS_AS(embedding(table, Tensor<token_t>({1}, {-1})), IndexError);
  CHECK_THROWS_WITH(embedding(Var<float>(Tensor<float>({6}, 0.0f)), Tensor<token_t>({1}, {0})),
                    ContainsSubstring("expected [vocabulary, width]"));
}

#if !defined(ATTEND_TEST_CUDA)
TEST_CASE("embedding: of a table of 8-bit rows the floats that these stand for, and no gradient") {
  const QuantizedRows q{Tensor<std::int8_t>({3, 2}, {1, -2, 127, 4, -127, 6}), Tensor<float>({3}, {0.5f, 0.25f, 2})};
  const Var<float> table(Tensor<float>::from_quantized(q), true);
  const auto y = embedding(table, Tensor<token_t>({2, 1}, {2, 0}), 3);
  CHECK(y.shape() == Shape{2, 1, 2});
  CHECK(y.value().values() == std::vector<float>{-762, 36, 1.5f, -3});
  CHECK_FALSE(y.requires_grad());
  CHECK_THROWS_AS(embedding(table, Tensor<token_t>({1}, {3})), IndexError);
}

TEST_CASE("embedding: of a table in bfloat16 the floats that these are, and no gradient") {
  const Tensor<bfloat16> rows({3, 2});
  const std::vector<float> numbers{1, -2, 0.40625f, 1e30f, -3, 5};
  std::transform(numbers.begin(), numbers.end(), rows.data(), [](float x) { return bfloat16(x); });
  const Var<float> table(Tensor<float>::from_bfloat16(rows), true);
  const auto y = embedding(table, Tensor<token_t>({3}, {1, 2, 1}), 4);
  CHECK(y.value().values() ==
        std::vector<float>{1.625f, 4 * float(bfloat16(1e30f)), -12, 20, 1.625f, 4 * float(bfloat16(1e30f))});
  CHECK_FALSE(y.requires_grad());
  CHECK_THROWS_AS(embedding(table, Tensor<token_t>({1}, {3})), IndexError);
}
#endif
