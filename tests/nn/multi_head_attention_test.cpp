#include "attend/nn/multi_head_attention.hpp"

#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using Attention = nn::MultiHeadAttention<double>;
using Options = nn::MultiHeadAttentionOptions;

namespace {

const Segments ragged = Segments::ragged({3, 1, 4});  // three sentences, eight rows
const Segments sources = Segments::ragged({2, 5, 1});

std::vector<Options> all_options() {
  return {{.d_model = 6, .heads = 2},
          {.d_model = 6, .heads = 1},
          {.d_model = 6, .heads = 2, .bias = false, .out_bias = false},
          {.d_model = 6, .heads = 4, .d_k = 5},
          {.d_model = 6, .heads = 3, .d_k = 2, .d_v = 4},
          {.d_model = 5, .heads = 2, .d_k = 3, .d_v = 1}};
}

}  // namespace

TEST_CASE("MultiHeadAttention: gradients of self-attention, masked or not, of any head widths") {
  for (const auto& o : all_options())
    for (const bool causal : {false, true}) {
      const Attention attention(o);
      test::randomise(attention);
      const auto x = test::random_leaf({8, o.d_model}, 0);
      test::check_gradients(attention, [&] { return attention(x, {.segments = ragged, .causal = causal}); }, {x});
    }
}

TEST_CASE("MultiHeadAttention: gradients of cross-attention, the memory as wide as the model or not") {
  for (auto o : all_options())
    for (const index_t d_memory : {index_t{0}, index_t{7}}) {
      o.d_memory = d_memory;
      const Attention attention(o);
      test::randomise(attention);
      const auto x = test::random_leaf({8, o.d_model}, 0), memory = test::random_leaf({8, d_memory ? d_memory : o.d_model}, 1);
      test::check_gradients(attention,
                            [&] {
                              return attention(x, {.queries = ragged, .memory = {memory, sources}});
                            },
                            {x, memory});
    }
}

TEST_CASE("MultiHeadAttention: gradients where the queries are the memory") {
  const Attention attention({.d_model = 4, .heads = 2});
  test::randomise(attention);
  const auto x = test::random_leaf({8, 4}, 0);
  test::check_gradients(attention, [&] { return attention(x, {.queries = ragged, .memory = {x, ragged}}); }, {x});
  CHECK(test::distance(attention(x, {.queries = ragged, .memory = {x, ragged}}).value(),
                       attention(x, {.segments = ragged}).value()) < 1e-14);
}

TEST_CASE("MultiHeadAttention: gradients with a term added to the scores, and of that term") {
  const Attention attention({.d_model = 4, .heads = 2});
  test::randomise(attention);
  const auto x = test::random_leaf({8, 4}, 0), bias = test::random_leaf({2, 4, 4}, 1);
  test::check_gradients(
      attention, [&] { return attention(x, {.segments = ragged, .causal = true, .bias = bias}); }, {x, bias}, 32);
}

TEST_CASE("MultiHeadAttention: padded keys and sentences without keys have no part in anything") {
  const Attention attention({.d_model = 4, .heads = 2});
  test::randomise(attention);
  const auto x = test::random_leaf({8, 4}, 0);
  const auto padded = Segments::dense(2, 4, std::vector<index_t>{2, 0});
  test::check_gradients(
      attention, [&] { return attention(x, {.segments = padded}); }, {x}, 32);
  const auto y = attention(x, {.segments = padded});
  for (index_t j = 0; j < 4; ++j) CHECK(y.value()(6, j) == attention.out_proj.bias->value()(j));  // zeros but for the bias
}

TEST_CASE("MultiHeadAttention: dropout on the weights is drawn anew for each call, and off in evaluation") {
  Attention attention({.d_model = 4, .heads = 2, .dropout = 0.5});
  test::randomise(attention);
  const auto x = test::random_leaf({8, 4}, 0);
  test::check_gradients(attention,
                        [&] {
                          seed(4);
                          return attention(x, {.segments = ragged});
                        },
                        {x});
  seed(4);
  const auto first = attention(x, {.segments = ragged}), second = attention(x, {.segments = ragged});
  CHECK(test::distance(first.value(), second.value()) > 0.01);
  nn::set_training(attention, false);
  const auto drawn = default_generator().drawn();
  CHECK(test::distance(attention(x, {.segments = ragged}).value(), attention(x, {.segments = ragged}).value()) == 0);
  CHECK(default_generator().drawn() == drawn);
}

TEST_CASE("MultiHeadAttention: the weights are a distribution over the keys that a query sees") {
  const Attention attention({.d_model = 4, .heads = 2});
  test::randomise(attention);
  AttentionWeights<double> weights;
  (void)attention(test::random_leaf({8, 4}, 0), {.segments = ragged, .causal = true, .weights = &weights});
  REQUIRE(weights.sentences() == 3);
  REQUIRE(weights.heads() == 2);
  const auto matrix = weights.matrix(2, 1);
  REQUIRE(matrix.shape() == Shape{4, 4});
  for (index_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (index_t j = 0; j < 4; ++j) sum += matrix(i, j);
    CHECK(sum == Approx(1));
    for (index_t j = i + 1; j < 4; ++j) CHECK(matrix(i, j) == 0);
  }
  CHECK(weights.dense().shape() == Shape{3, 2, 4, 4});
}

TEST_CASE("MultiHeadAttention: names and counts") {
  const test::Names all{"q_proj.weight", "q_proj.bias", "k_proj.weight",   "k_proj.bias",
                        "v_proj.weight", "v_proj.bias", "out_proj.weight", "out_proj.bias"};
  const Attention own({.d_model = 6, .heads = 2, .d_k = 5, .d_v = 4});
  CHECK(test::names(own) == all);
  CHECK(nn::parameter_count(own) == (2 * 10 + 8) * 7 + 6 * 9);
  CHECK(nn::parameters(own).size() == 4);  // q, k and v are one matrix and one bias
  const Attention apart({.d_model = 6, .heads = 2, .d_memory = 9});
  CHECK(test::names(apart) == all);
  CHECK(nn::parameter_count(apart) == 6 * 7 + 12 * 10 + 6 * 7);
  CHECK(test::names(Attention({.d_model = 6, .heads = 2, .bias = false, .out_bias = false})) ==
        test::Names{"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"});
  // What a checkpoint calls k_proj are rows of the packed matrix, and writing to them changes the module.
  const auto k = nn::state(own)[2];
  CHECK(k.value.shape() == Shape{10, 6});
  k.value.fill(3);
  CHECK(own.weight.value()(9, 0) != 3);
  CHECK(own.weight.value()(10, 0) == 3);
  CHECK(own.weight.value()(19, 5) == 3);
  CHECK(own.weight.value()(20, 0) != 3);
}

TEST_CASE("MultiHeadAttention: q, k and v each begin within Xavier's bound of all three as one matrix, or of each by itself") {
  seed(2);
  for (const bool apart : {false, true}) {
    const Attention attention(
        {.d_model = 24, .heads = 4, .initial = {apart ? nn::Initialisation::xavier : nn::Initialisation::residual_scaled}});
    const double bound = std::sqrt(apart ? 6.0 / 48 : 6.0 / 96);
    double largest = 0;
    for (const double w : attention.weight.value().span()) largest = std::max(largest, std::abs(w));
    CHECK(largest <= bound);
    CHECK(largest > 0.95 * bound);
  }
}

TEST_CASE("MultiHeadAttention names what does not fit") {
  CHECK_THROWS_WITH(Attention({.d_model = 6, .heads = 4}), ContainsSubstring("d_model 6 is no multiple of 4 heads; give d_k"));
  CHECK_THROWS_AS(Attention({.d_model = 6, .heads = 0}), ValueError);
  CHECK_THROWS_AS(Attention({.d_model = 0, .heads = 2}), ValueError);
  CHECK_THROWS_AS(Attention({.d_model = 6, .heads = 2, .d_k = -3}), ValueError);
  CHECK_THROWS_AS(Attention({.d_model = 6, .heads = 2, .d_v = -3}), ValueError);
  CHECK_THROWS_AS(Attention({.d_model = 6, .heads = 2, .d_memory = -3}), ValueError);
  CHECK_THROWS_WITH(Attention({.d_model = 6, .heads = 2, .dropout = 1.5}), ContainsSubstring("attention dropout is 1.5"));
  const Attention attention({.d_model = 6, .heads = 2}), with_memory({.d_model = 6, .heads = 2, .d_memory = 3});
  const auto x = test::random_leaf({8, 6}, 0);
  CHECK_THROWS_AS(attention(test::random_leaf({8, 5}, 0), {.segments = ragged}), ShapeError);
  CHECK_THROWS_WITH(attention(x, {.segments = Segments::ragged({7})}), ContainsSubstring("8 rows, expected 7"));
  CHECK_THROWS_AS(attention(x, {.queries = ragged, .memory = {x, Segments::ragged({8})}}),
                  ShapeError);  // another number of sentences
  CHECK_THROWS_WITH(with_memory(x, {.segments = ragged}), ContainsSubstring("a memory of width 3; pass it"));
  CHECK_THROWS_AS(with_memory(x, {.queries = ragged, .memory = {x, ragged}}), ShapeError);
  CHECK_THROWS_WITH(attention(x, {.segments = ragged, .bias = test::random_leaf({3, 4}, 1)}),
                    ContainsSubstring("bias has shape [3, 4]"));
}
