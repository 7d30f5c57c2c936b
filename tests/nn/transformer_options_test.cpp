#include "attend/nn/transformer_options.hpp"

#include "attend/nn/transformer.hpp"
#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using nn::TransformerOptions;

namespace {

/// The parameters of one layer, counted from the paper's equations.
struct Layer {
  index_t d_model, d_ff;
  [[nodiscard]] index_t attention() const { return 4 * (d_model * d_model + d_model); }
  [[nodiscard]] index_t feed_forward() const { return d_model * d_ff + d_ff + d_ff * d_model + d_model; }
  [[nodiscard]] index_t encoder() const { return attention() + feed_forward() + 2 * 2 * d_model; }
  [[nodiscard]] index_t decoder() const { return 2 * attention() + feed_forward() + 3 * 2 * d_model; }
};

}  // namespace

TEST_CASE("the presets have their published sizes") {
  struct Sizes {
    TransformerOptions options;
    index_t layers, d_model, d_ff, heads;
    double dropout;
  };
  for (const auto& [o, layers, d_model, d_ff, heads, dropout] :
       {Sizes{TransformerOptions::tiny(100), 4, 128, 256, 4, 0.3}, Sizes{TransformerOptions::small(100), 6, 512, 1024, 4, 0.3},
        Sizes{TransformerOptions::base(100), 6, 512, 2048, 8, 0.1},
        Sizes{TransformerOptions::big(100), 6, 1024, 4096, 16, 0.3}}) {
    const auto m = nn::model_options(o);
    for (const auto& stack : {m.encoder, m.decoder}) {
      CHECK(stack.vocabulary == 100);
      CHECK(stack.layers == layers);
      CHECK(stack.d_model == d_model);
      CHECK(stack.d_ff == d_ff);
      CHECK(stack.heads == heads);
      CHECK(stack.dropout.residual == dropout);
      CHECK(stack.dropout.embedding == dropout);
    }
  }
}

TEST_CASE("the presets have as many parameters as counting by hand gives") {
  const index_t v = 300;
  {
    const Layer layer{128, 256};  // two embeddings, a head
    CHECK(layer.encoder() == 132480);
    CHECK(layer.decoder() == 198784);
    CHECK(nn::parameter_count(nn::Transformer<float>(TransformerOptions::tiny(v))) == 4 * (132480 + 198784) + 3 * v * 128 + v);
  }
  auto base = TransformerOptions::base(v);
  {
    const Layer layer{512, 2048};  // one matrix for both embeddings and the head
    CHECK(layer.encoder() == 3152384);
    CHECK(layer.decoder() == 4204032);
    base.layers = 1;
    CHECK(nn::parameter_count(nn::Transformer<float>(base)) == 3152384 + 4204032 + v * 512 + v);
  }
  // The paper's figure for its base model, 65 million, with 37,000 tokens: 6 layers on each side.
  CHECK(6 * (3152384 + 4204032) + 37000 * 512 == Approx(63.1e6).epsilon(0.001));
  auto big = TransformerOptions::big(v);
  {
    const Layer layer{1024, 4096};
    CHECK(layer.encoder() == 12596224);
    CHECK(layer.decoder() == 16796672);
    big.layers = 1;
    CHECK(nn::parameter_count(nn::Transformer<float>(big)) == 12596224 + 16796672 + v * 1024 + v);
  }
  auto small = TransformerOptions::small(v);
  {
    const Layer layer{512, 1024};
    CHECK(layer.encoder() == 2102784);
    small.layers = 1;
    CHECK(nn::parameter_count(nn::Transformer<float>(small)) == 2102784 + layer.decoder() + 3 * v * 512 + v);
  }
}

TEST_CASE("model_options: what is given apart goes to its side, all else to both") {
  const auto m = nn::model_options({.vocabulary = 7,
                                    .target_vocabulary = 9,
                                    .d_model = 12,
                                    .heads = 4,
                                    .d_k = 5,
                                    .d_v = 6,
                                    .layers = 3,
                                    .encoder_layers = 0,
                                    .decoder_heads = 2,
                                    .encoder_d_ff = 11,
                                    .dropout = 0.25,
                                    .attention_dropout = 0.125,
                                    .activation_dropout = 0.5,
                                    .activation = Activation::silu,
                                    .norm_order = nn::NormOrder::pre,
                                    .norm = {.eps = 1e-3},
                                    .final_norm = true,
                                    .attention_bias = false,
                                    .scale_embedding = false,
                                    .positions = nn::PositionKind::learned,
                                    .position_base = 77,
                                    .max_length = 13,
                                    .tie_head = true,
                                    .head_bias = false,
                                    .output = nn::Output::probabilities,
                                    .initialisation = nn::Initialisation::fairseq});
  CHECK(m.encoder.vocabulary == 7);
  CHECK(m.decoder.vocabulary == 9);
  CHECK(m.encoder.layers == 0);
  CHECK(m.decoder.layers == 3);
  CHECK(m.encoder.heads == 4);
  CHECK(m.decoder.heads == 2);
  CHECK(m.encoder.d_ff == 11);
  CHECK(m.decoder.d_ff == 48);
  for (const auto& s : {m.encoder, m.decoder}) {
    CHECK(s.d_model == 12);
    CHECK(s.d_k == 5);
    CHECK(s.d_v == 6);
    CHECK(s.dropout.embedding == 0.25);
    CHECK(s.dropout.residual == 0.25);
    CHECK(s.dropout.attention == 0.125);
    CHECK(s.dropout.activation == 0.5);
    CHECK(s.activation == Activation::silu);
    CHECK(s.norm_order == nn::NormOrder::pre);
    CHECK(s.norm.eps == 1e-3);
    CHECK(s.final_norm);
    CHECK_FALSE(s.attention_bias);
    CHECK_FALSE(s.scale_embedding);
    CHECK(s.positions == nn::PositionKind::learned);
    CHECK(s.position_base == 77);
    CHECK(s.max_length == 13);
    CHECK(s.initialisation == nn::Initialisation::fairseq);
  }
  CHECK(m.tie_head);
  CHECK_FALSE(m.head_bias);
  CHECK_FALSE(m.share_embeddings);
  CHECK(m.output == nn::Output::probabilities);
}

TEST_CASE("a model whose parts do not fit together is refused by name") {
  const auto refuses = [](auto change, const std::string& why) {
    nn::ModelOptions o = nn::model_options({.vocabulary = 10, .d_model = 8, .heads = 2, .layers = 1});
    change(o);
    CHECK_THROWS_AS(nn::check(o), ValueError);
    CHECK_THROWS_WITH(nn::Transformer<float>(o), ContainsSubstring(why));
  };
  refuses([](auto& o) { o.encoder.vocabulary = 0; }, "Transformer: vocabularies are 0 and 10");
  refuses([](auto& o) { o.decoder.cross_attentions = 2; }, "one cross-attention");
  refuses([](auto& o) { o.encoder.d_model = 6; }, "the encoder's d_model is 6, the decoder attends to 8");
  refuses([](auto& o) { o.decoder.d_memory = 6; }, "the encoder's d_model is 8, the decoder attends to 6");
  refuses([](auto& o) { o.share_embeddings = true, o.decoder.vocabulary = 11; }, "a shared embedding needs equal vocabularies");
  refuses([](auto& o) { o.encoder.heads = 0; }, "Transformer encoder: heads is 0");
  refuses([](auto& o) { o.decoder.d_ff = -1; }, "Transformer decoder: d_ff is -1");
  CHECK_THROWS_WITH(nn::Transformer<float>(TransformerOptions{.d_model = 8}), ContainsSubstring("vocabularies are 0 and 0"));
  CHECK_THROWS_WITH(nn::Transformer<float>(TransformerOptions{.vocabulary = 5, .d_model = 8, .dropout = 1.5}),
                    ContainsSubstring("dropout.embedding is 1.5"));
}
