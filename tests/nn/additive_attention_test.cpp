#include "attend/nn/additive_attention.hpp"

#include "check.hpp"

using namespace attend;

TEST_CASE("AdditiveAttention: gradients, ragged and with padded keys") {
  const nn::AdditiveAttention<double> attention(3, 5, 4);
  test::randomise(attention);
  const auto x = test::random_leaf({6, 3}, 0), keys = test::random_leaf({8, 5}, 1), values = test::random_leaf({8, 2}, 2);
  const auto queries = GENERATE(Segments::ragged({4, 2}), Segments::dense(2, 3));
  const auto sources = GENERATE(Segments::ragged({3, 5}), Segments::dense(2, 4, std::vector<index_t>{3, 0}));
  test::check_gradients(
      attention, [&] { return attention(x, queries, keys, values, sources); }, {x, keys, values}, 40);
}

TEST_CASE("AdditiveAttention: what it looked at adds up to 1, and to 0 where there is nothing to look at") {
  const nn::AdditiveAttention<double> attention(3, 5, 4);
  const auto x = test::random_leaf({6, 3}, 0), keys = test::random_leaf({8, 5}, 1), values = test::random_leaf({8, 2}, 2);
  AttentionWeights<double> weights;
  const auto y = attention(x, Segments::dense(2, 3), keys, values, Segments::dense(2, 4, std::vector<index_t>{3, 0}), &weights);
  const auto w = weights.dense();
  REQUIRE(w.shape() == Shape{2, 1, 3, 4});
  for (index_t i = 0; i < 3; ++i) {
    CHECK(w(0, 0, i, 0) + w(0, 0, i, 1) + w(0, 0, i, 2) == Approx(1));
    CHECK(w(0, 0, i, 3) == 0);
    CHECK(w(1, 0, i, 0) == 0);
    CHECK(y.value()(3 + i, 0) == 0);
  }
}

TEST_CASE("AdditiveAttention: names, counts and wrong shapes") {
  const nn::AdditiveAttention<double> attention(3, 5, 4);
  CHECK(test::names(attention) == test::Names{"q_proj.weight", "k_proj.weight", "score.weight"});
  CHECK(nn::parameter_count(attention) == 3 * 4 + 5 * 4 + 4);
  const auto x = test::random_leaf({6, 3}, 0), keys = test::random_leaf({8, 5}, 1), values = test::random_leaf({8, 2}, 2);
  const auto two = Segments::ragged({4, 2}), one = Segments::ragged({8}), sources = Segments::ragged({3, 5});
  CHECK_THROWS_AS(attention(x, two, keys, values, one), ShapeError);
  CHECK_THROWS_AS(attention(x, sources, keys, values, sources), ShapeError);
  CHECK_THROWS_AS(attention(x, two, values, values, sources), ShapeError);
  CHECK_THROWS_AS(attention(x, two, keys, x, sources), ShapeError);
  CHECK_THROWS_AS(nn::AdditiveAttention<double>(3, 5, 0), ValueError);
}
