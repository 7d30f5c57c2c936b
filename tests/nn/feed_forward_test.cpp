#include "attend/nn/feed_forward.hpp"

#include "check.hpp"

using namespace attend;

TEST_CASE("FeedForward: gradients with each activation") {
  const auto activation = GENERATE(Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh,
                                   Activation::identity);
  const nn::FeedForward<double> feed_forward(3, 5, {.activation = activation});
  test::randomise(feed_forward);
  const auto x = test::random_leaf({4, 3}, 0);
  const auto inner = feed_forward.fc1(x);
  if (activation == Activation::relu)  // differences need every value on one side of the bend
    for (const double v : inner.value().span()) REQUIRE(std::abs(v) > 0.02);
  test::check_gradients(feed_forward, [&] { return feed_forward(x); }, {x});
}

TEST_CASE("FeedForward: dropout between the two layers, in training alone") {
  nn::FeedForward<double> feed_forward(3, 5, {.activation = Activation::gelu, .dropout = 0.4});
  test::randomise(feed_forward);
  const auto x = test::random_leaf({4, 3}, 0);
  const auto run = [&] {
    seed(9);
    return feed_forward(x);
  };
  test::check_gradients(feed_forward, run, {x});
  seed(9);
  const auto by_hand = feed_forward.fc2(dropout(gelu(feed_forward.fc1(x)), 0.4));
  CHECK(test::distance(run().value(), by_hand.value()) == 0);
  nn::set_training(feed_forward, false);
  CHECK(test::distance(run().value(), feed_forward.fc2(gelu(feed_forward.fc1(x))).value()) == 0);
}

TEST_CASE("FeedForward: gated, with dropout and without biases") {
  for (const bool bias : {true, false}) {
    nn::FeedForward<double> gated(3, 5, {.activation = Activation::silu, .dropout = 0.4, .gated = true, .bias = bias});
    test::randomise(gated);
    const auto x = test::random_leaf({4, 3}, 0);
    const auto run = [&] {
      seed(9);
      return gated(x);
    };
    test::check_gradients(gated, run, {x});
    seed(9);
    const auto by_hand = gated.fc2(dropout(mul(silu((*gated.gate_proj)(x)), gated.fc1(x)), 0.4));
    CHECK(test::distance(run().value(), by_hand.value()) < 1e-15);
    nn::set_training(gated, false);
    CHECK(test::distance(run().value(), gated.fc2(mul(silu((*gated.gate_proj)(x)), gated.fc1(x))).value()) < 1e-15);
    CHECK(nn::parameter_count(gated) == (bias ? 3 * 15 + 13 : 3 * 15));
  }
  CHECK(test::names(nn::FeedForward<float>(3, 5, {.gated = true, .bias = false})) ==
        test::Names{"gate_proj.weight", "fc1.weight", "fc2.weight"});
  const nn::FeedForward<double> plain(3, 5, {.activation = Activation::gelu, .bias = false});
  const auto x = test::random_leaf({4, 3}, 0);
  test::check_gradients(plain, [&] { return plain(x); }, {x});
}

TEST_CASE("FeedForward: names, counts and wrong options") {
  CHECK(test::names(nn::FeedForward<float>(3, 5)) == test::Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
  CHECK(nn::parameter_count(nn::FeedForward<float>(3, 5)) == 3 * 5 + 5 + 5 * 3 + 3);
  CHECK_THROWS_AS(nn::FeedForward<float>(3, 0), ValueError);
  CHECK_THROWS_WITH(nn::FeedForward<float>(3, 5, {.dropout = 1}), Catch::Matchers::ContainsSubstring("activation dropout is 1,"));
}
