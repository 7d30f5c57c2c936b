#include <optional>

#include "attend/nn/stack.hpp"
#include "check.hpp"
#include "dropout_places.hpp"
#include "small_stack.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using nn::NormOrder;
using test::dropout_places;
using test::small_stack;
using test::sublayer_by_hand;

namespace {

const Segments ragged = Segments::ragged({3, 1, 4});
const Tensor<token_t> tokens({8}, {1, 2, 3, 4, 0, 2, 2, 5});

/// The encoder written out, operation by operation.
Var<double> by_hand(const nn::Encoder<double>& encoder, const nn::DropoutRates& p) {
  auto x = dropout(encoder.positions((*encoder.embed_tokens)(tokens), ragged), p.embedding);
  for (const auto& layer : encoder.layers) {
    const auto& a = layer.self_attn;
    x = sublayer_by_hand(layer.around_self_attn, p, x, [&](const Var<double>& z) {
      return a.out_proj(
          self_attention(linear(z, a.weight, *a.bias), a.d_k, a.d_v, ragged, {.heads = a.heads, .dropout = p.attention}));
    });
    x = sublayer_by_hand(layer.around_feed_forward, p, x, [&](const Var<double>& z) {
      const auto inner = dropout(gelu(layer.feed_forward.fc1(z)), p.activation);
      return dropout(layer.feed_forward.fc2(inner), p.feed_forward);
    });
    x = dropout(x, p.block);
  }
  return dropout(encoder.layer_norm ? (*encoder.layer_norm)(x) : x, p.output);
}

}  // namespace

TEST_CASE("EncoderLayer: gradients, post-norm and pre-norm, ragged and with padding") {
  const auto order = GENERATE(NormOrder::post, NormOrder::pre);
  const auto segments = GENERATE(Segments::ragged({3, 1, 4}), Segments::dense(2, 4, std::vector<index_t>{4, 2}));
  const nn::EncoderLayer<double> layer(small_stack(order));
  test::randomise(layer);
  const auto x = test::random_leaf({8, 6}, 0);
  test::check_gradients(layer, [&] { return layer(x, segments); }, {x});
}

TEST_CASE("EncoderLayer: a causal one, with a term added to the scores") {
  const nn::EncoderLayer<double> layer(small_stack());
  test::randomise(layer);
  const auto x = test::random_leaf({8, 6}, 0), bias = test::random_leaf({4, 4}, 1);
  test::check_gradients(layer, [&] { return layer(x, ragged, {.self_bias = bias}); }, {x, bias});
}

TEST_CASE("Encoder: gradients with dropout at each place, and the places are where the formulas have them") {
  auto options = small_stack(GENERATE(NormOrder::post, NormOrder::pre));
  options.final_norm = options.norm_order == NormOrder::pre;
  for (const auto& rates : dropout_places()) {
    options.dropout = rates;
    nn::Encoder<double> encoder(options);
    test::randomise(encoder);
    const auto run = [&] {
      seed(8);
      return encoder(tokens, ragged);
    };
    const auto dropped = run();
    seed(8);
    CHECK(test::distance(dropped.value(), by_hand(encoder, rates).value()) < 1e-14);
    test::check_gradients(encoder, run, {}, 6);
    nn::set_training(encoder, false);
    CHECK(test::distance(run().value(), by_hand(encoder, {}).value()) < 1e-14);
  }
}

TEST_CASE("Encoder: gradients with other positions, norms, widths and without biases") {
  auto options = small_stack();
  options.layers = 1;
  options.positions = nn::PositionKind::learned;
  options.norm = {.eps = 1e-6, .sample_deviation = true, .scalar_affine = true};
  options.d_k = 3, options.d_v = 5;
  options.attention_bias = false, options.scale_embedding = false, options.final_norm = true;
  const nn::Encoder<double> encoder(options);
  test::randomise(encoder);
  test::check_gradients(encoder, [&] { return encoder(tokens, ragged); });
}

TEST_CASE("Encoder: vectors in the place of tokens") {
  auto options = small_stack();
  options.vocabulary = 0;
  const nn::Encoder<double> encoder(options);
  test::randomise(encoder);
  const auto x = test::random_leaf({8, 6}, 0);
  test::check_gradients(
      encoder, [&] { return encoder(x, ragged); }, {x}, 8);
  CHECK_THROWS_WITH(encoder(tokens, ragged), ContainsSubstring("built without a vocabulary"));
}

TEST_CASE("Encoder: attention weights of every layer, and a mask of any shape") {
  const nn::Encoder<double> encoder(small_stack());
  std::vector<AttentionWeights<double>> weights;
  Tensor<double> mask({4, 4}, 0.0);  // nobody looks at the first token but itself
  for (index_t i = 1; i < 4; ++i) mask(i, 0) = -std::numeric_limits<double>::infinity();
  (void)encoder(tokens, ragged, {.self_bias = Var<double>(mask), .self_weights = &weights});
  REQUIRE(weights.size() == 2);
  for (const auto& w : weights) {
    CHECK(w.heads() == 2);
    CHECK(w.matrix(2, 0)(0, 0) > 0);
    CHECK(w.matrix(2, 0)(3, 0) == 0);
    CHECK(w.matrix(2, 0)(3, 1) > 0);
  }
}

TEST_CASE("Encoder: names and counts") {
  auto options = small_stack();
  options.final_norm = true;
  const nn::Encoder<float> encoder(options);
  test::Names expected{"embed_tokens.weight"};
  for (const std::string layer : {"layers.0.", "layers.1."})
    for (const char* name :
         {"self_attn.q_proj.weight", "self_attn.q_proj.bias", "self_attn.k_proj.weight", "self_attn.k_proj.bias",
          "self_attn.v_proj.weight", "self_attn.v_proj.bias", "self_attn.out_proj.weight", "self_attn.out_proj.bias",
          "self_attn_layer_norm.weight", "self_attn_layer_norm.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
          "final_layer_norm.weight", "final_layer_norm.bias"})
      expected.push_back(layer + name);
  expected.insert(expected.end(), {"layer_norm.weight", "layer_norm.bias"});
  CHECK(test::names(encoder) == expected);
  CHECK(nn::parameter_count(encoder) == 6 * 6 + 2 * (4 * (6 * 6 + 6) + (6 * 5 + 5) + (5 * 6 + 6) + 2 * 12) + 12);
  options.positions = nn::PositionKind::learned;
  CHECK(test::names(nn::Encoder<float>(options))[1] == "embed_positions.weight");
}

TEST_CASE("Encoder: set_training reaches each of the eight places") {
  auto options = small_stack();
  options.dropout = dropout_places().back();
  nn::Encoder<double> encoder(options);
  int places = 0;
  nn::for_each_field("", encoder, [&](const std::string&, auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, nn::Dropout>) {
      CHECK(leaf.p > 0);
      CHECK(leaf.training);
      ++places;
    }
  });
  // Embedding and output; in each layer attention, activation, feed-forward, block, and residual and norm around both sublayers.
  CHECK(places == 2 + 2 * (1 + 1 + 1 + 1 + 2 * 2));
  const nn::EvaluationScope evaluation(encoder);
  CHECK_FALSE(nn::is_training(encoder));
}

TEST_CASE("Encoder names what does not fit") {
  const auto refuses = [](auto change, const std::string& why) {
    auto options = small_stack();
    change(options);
    CHECK_THROWS_AS(nn::Encoder<float>(options), ValueError);
    CHECK_THROWS_WITH(nn::Encoder<float>(options), ContainsSubstring(why));
  };
  refuses([](auto& o) { o.d_model = 0; }, "Encoder: d_model is 0, expected 1 to 268435456");
  refuses([](auto& o) { o.heads = -1; }, "heads is -1");
  refuses([](auto& o) { o.d_ff = 0; }, "d_ff is 0");
  refuses([](auto& o) { o.max_length = 0; }, "max_length is 0");
  refuses([](auto& o) { o.layers = -1; }, "layers is -1");
  refuses([](auto& o) { o.vocabulary = -5; }, "vocabulary is -5");
  refuses([](auto& o) { o.heads = 4; }, "d_model 6 is no multiple of 4 heads");
  refuses([](auto& o) { o.d_k = -2; }, "d_k is -2");
  refuses([](auto& o) { o.d_v = -2; }, "d_v is -2");
  refuses([](auto& o) { o.d_ff = index_t{1} << 40; }, "d_ff is 1099511627776");
  refuses([](auto& o) { o.position_base = 0; }, "base");
  refuses([](auto& o) { o.norm.eps = -1; }, "eps is -1");
  refuses([](auto& o) { o.dropout.embedding = 1; }, "dropout.embedding is 1,");
  refuses([](auto& o) { o.dropout.attention = -0.5; }, "dropout.attention is -0.5");
  refuses([](auto& o) { o.dropout.activation = 2; }, "dropout.activation is 2,");
  refuses([](auto& o) { o.dropout.feed_forward = 2; }, "dropout.feed_forward is 2,");
  refuses([](auto& o) { o.dropout.residual = 2; }, "dropout.residual is 2,");
  refuses([](auto& o) { o.dropout.norm = 2; }, "dropout.norm is 2,");
  refuses([](auto& o) { o.dropout.block = std::nan(""); }, "dropout.block is nan");

  const nn::Encoder<double> encoder(small_stack());
  CHECK_THROWS_AS(encoder(Tensor<token_t>({8}, 6), ragged), IndexError);
  CHECK_THROWS_WITH(encoder(Tensor<token_t>({8}, 6), ragged), ContainsSubstring("token 6 at position 0"));
  CHECK_THROWS_AS(encoder(tokens, Segments::ragged({8})), ShapeError);
  CHECK_THROWS_WITH(encoder(tokens, Segments::ragged({2, 6})),
                    ContainsSubstring("a sentence of 6 tokens is longer than the 5 positions of the model"));
  CHECK_THROWS_WITH(encoder(tokens, Segments::ragged({3})), ContainsSubstring("tokens has 8 rows, expected 3"));
  CHECK_THROWS_AS(encoder(test::random_leaf({8, 5}, 0), ragged), ShapeError);
}

TEST_CASE("Encoder: its tokens see the whole sentence, and with causal none after them") {
  for (const auto causal : {std::optional<bool>(), std::optional<bool>(false), std::optional<bool>(true)}) {
    auto options = small_stack();
    if (causal) options.causal = *causal;
    nn::Encoder<double> encoder(options);
    nn::set_training(encoder, false);
    CHECK(encoder.options.causal == (causal.value_or(false) ? 1 : 0));
    CHECK(encoder.options.cross_attentions == 0);
    auto others = tokens.clone();
    others(7) = 0;  // the last of the third sentence
    const auto before = encoder(tokens, ragged).value(), after = encoder(others, ragged).value();
    const bool same = test::distance(before.rows(4, 3), after.rows(4, 3)) == 0;
    CHECK(same == causal.value_or(false));
    CHECK(test::distance(before.rows(7, 1), after.rows(7, 1)) > 0);
    const nn::EncoderLayer<double> layer(options);
    CHECK(layer.causal == causal.value_or(false));
  }
}

TEST_CASE("Encoder refuses what only a decoder has") {
  auto options = small_stack();
  options.cross_attentions = 1;
  CHECK_THROWS_WITH(nn::Encoder<double>(options), "Encoder: cross_attentions is 1, and an encoder has none");
  options.cross_attentions = 0, options.d_memory = 6;
  CHECK_THROWS_WITH(nn::Encoder<double>(options), "Encoder: d_memory is 6, and an encoder attends to nothing but its sentences");
  options.d_memory = 0, options.causal = -2;
  CHECK_THROWS_AS(nn::Encoder<double>(options), ValueError);
}
