#include "attend/nn/embedding.hpp"

#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("Embedding: rows of the table, times the root of their width where scaled; gradients add up over repeated tokens") {
  const bool scaled = GENERATE(false, true);
  const nn::Embedding<double> embedding(7, 4, {.scaled = scaled});
  const Tensor<token_t> tokens({2, 3}, {0, 6, 2, 2, 2, 5});
  const auto y = embedding(tokens);
  REQUIRE(y.shape() == Shape{2, 3, 4});
  for (index_t j = 0; j < 4; ++j) CHECK(y.value()(0, 1, j) == Approx(embedding.weight.value()(6, j) * (scaled ? 2 : 1)));
  test::check_gradients(
      embedding, [&] { return embedding(tokens); }, {}, 28);
  CHECK(embedding.weight.grad()(1, 0) == 0);  // a token that does not occur
}

TEST_CASE("Embedding: names, counts and initial size") {
  seed(3);
  const nn::Embedding<double> scaled(300, 64, {.scaled = true}), plain(300, 64);
  CHECK(test::names(plain) == test::Names{"weight"});
  CHECK(nn::parameter_count(plain) == 300 * 64);
  const auto mean_square = [](const Var<double>& y) {
    double sum = 0;
    for (const double v : y.value().span()) sum += v * v;
    return sum / static_cast<double>(y.size());
  };
  const Tensor<token_t> tokens({3}, {0, 100, 299});
  CHECK(mean_square(scaled(tokens)) == Approx(1).margin(0.3));
  CHECK(mean_square(plain(tokens)) == Approx(1).margin(0.3));
}

TEST_CASE("Embedding names a token outside its vocabulary") {
  const nn::Embedding<double> embedding(7, 4);
  CHECK_THROWS_AS(embedding(Tensor<token_t>({2}, {0, 7})), IndexError);
  CHECK_THROWS_AS(embedding(Tensor<token_t>({2}, {0, -1})), IndexError);
  CHECK_THROWS_WITH(embedding(Tensor<token_t>({2}, {0, 7})), ContainsSubstring("7"));
  CHECK_THROWS_WITH(nn::Embedding<double>(0, 4), ContainsSubstring("Embedding: vocabulary 0"));
}
