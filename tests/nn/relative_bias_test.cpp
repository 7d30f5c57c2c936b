#include "attend/nn/relative_bias.hpp"

#include "attend/nn/stack.hpp"
#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using nn::BucketOptions;

TEST_CASE("relative buckets are those of T5") {
  // From T5Attention._relative_position_bucket of transformers, which agrees at all distances up to 2000 for 310 such settings.
  const std::vector<index_t> distances{-200, -128, -127, -64, -63, -23, -16, -15, -8, -1, 0, 1, 7, 8, 11, 12, 46, 91, 128};
  const auto buckets = [&](const BucketOptions& o) {
    std::vector<index_t> list;
    for (const index_t d : distances) list.push_back(nn::relative_bucket(d, o));
    return list;
  };
  CHECK(buckets({32, 128, false}) ==
        std::vector<index_t>{15, 15, 15, 14, 13, 11, 10, 9, 8, 1, 0, 17, 23, 24, 24, 25, 29, 31, 31});
  CHECK(buckets({32, 128, true}) == std::vector<index_t>{31, 31, 31, 26, 26, 18, 16, 15, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(buckets({6, 20, false}) == std::vector<index_t>{2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 0, 4, 5, 5, 5, 5, 5, 5, 5});
  CHECK(buckets({20, 1000, true}) == std::vector<index_t>{16, 15, 15, 14, 13, 11, 11, 10, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("RelativeBias: by distance and as a matrix it is the same numbers, and both have gradients") {
  for (const bool causal : {false, true}) {
    const nn::RelativeBias<double> bias(2, 9, {6, 20, causal});
    test::randomise(bias);
    CHECK(test::names(bias) == test::Names{"weight"});
    const auto row = bias.by_distance(5).value(), matrix = bias.matrix(4, 5).value();
    CHECK(row.shape() == Shape{2, 9});
    CHECK(matrix.shape() == Shape{2, 4, 5});
    for (index_t h = 0; h < 2; ++h)
      for (index_t i = 0; i < 4; ++i)
        for (index_t j = 0; j < 5; ++j) {
          CHECK(matrix(h, i, j) == row(h, 4 + j - i));
          CHECK(matrix(h, i, j) == bias.table.value()(nn::relative_bucket(j - i, {6, 20, causal}), h));
        }
    test::check_gradients(bias, [&] { return bias.by_distance(7); });
    test::check_gradients(bias, [&] { return bias.matrix(3, 7); });
    CHECK(bias.by_distance(0).shape() == Shape{2, 1});
    CHECK(bias.by_distance(9).shape() == Shape{2, 17});
    CHECK_THROWS_WITH(bias.by_distance(10), ContainsSubstring("a sentence of 10 tokens is longer than the 9 positions"));
    CHECK_THROWS_AS(bias.matrix(3, 10), ShapeError);
  }
}

TEST_CASE("RelativeBias names what makes no sense") {
  CHECK_NOTHROW(nn::RelativeBias<double>(1, 1, {2, 2, true}));
  CHECK_THROWS_WITH(nn::RelativeBias<double>(1, 1, {2, 20, false}), ContainsSubstring("there are 2 buckets of distances"));
  CHECK_THROWS_WITH(nn::RelativeBias<double>(1, 1, {1, 20, true}), ContainsSubstring("expected at least 2"));
  CHECK_THROWS_WITH(nn::RelativeBias<double>(1, 1, {32, 8, false}), ContainsSubstring("max_distance is 8"));
  CHECK_THROWS_AS(nn::RelativeBias<double>(0, 1, {}), ValueError);
  CHECK_THROWS_AS(nn::RelativeBias<double>(1, 0, {}), ValueError);
}

TEST_CASE("relative positions: layers share the first one's table, or have one each, and a mask may stand beside it") {
  nn::StackOptions o{.d_model = 8, .heads = 2, .d_ff = 6, .layers = 2, .positions = nn::PositionKind::relative, .max_length = 6};
  const std::string name = ".self_attn.relative_attention_bias.weight";
  const auto tables = [&](const auto& stack) {
    test::Names list;
    for (const auto& each : test::names(stack))
      if (each.ends_with(name)) list.push_back(each);
    return list;
  };
  const nn::Encoder<double> shared(o);
  CHECK(tables(shared) == test::Names{"layers.0" + name});
  o.positions = nn::PositionKind::relative_each;
  const nn::Encoder<double> each(o);
  CHECK(tables(each) == test::Names{"layers.0" + name, "layers.1" + name});

  const auto segments = Segments::ragged({4, 2});
  const auto x = test::random_leaf({6, 8}, 0);
  for (const auto* encoder : {&shared, &each}) {
    test::randomise(*encoder);
    // A mask of zeros changes nothing; one that hides the last key of each sentence of 4 is as if it were not there.
    const Var<double> nothing(Tensor<double>({4, 4}, 0.0)), wide(Tensor<double>({1, 2, 5, 6}, 0.0));
    const auto plain = (*encoder)(x, segments).value();
    CHECK(test::distance((*encoder)(x, segments, {.self_bias = nothing}).value(), plain) < 1e-13);
    CHECK_THROWS_AS((*encoder)(x, segments, {.self_bias = wide}), ShapeError);  // of one sentence, and there are two
    const Tensor<double> hiding({4, 4}, 0.0);
    for (index_t i = 0; i < 4; ++i) hiding(i, 3) = -1e30;
    const auto hidden = (*encoder)(x, segments, {.self_bias = Var<double>(hiding)}).value();
    const auto shorter = (*encoder)(Var<double>(x.value().rows(0, 3)), Segments::ragged({3})).value();
    CHECK(test::distance(hidden.rows(0, 3), shorter) < 1e-12);
    const auto mask = test::random_leaf({2, 4, 5}, 4);
    test::check_gradients(
        *encoder, [&] { return (*encoder)(x, segments, {.self_bias = mask}); }, {x, mask}, 4);
  }
}
