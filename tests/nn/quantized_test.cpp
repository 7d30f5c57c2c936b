#include "attend/nn/quantized.hpp"

#include <cmath>
#include <limits>
#include <set>

#include "catch.hpp"
#include "nn/check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::TransformerOptions small() {
  return {
      .vocabulary = 7, .d_model = 6, .heads = 2, .d_ff = 5, .layers = 1, .positions = nn::PositionKind::learned, .max_length = 9};
}

/// The names of what is of 8-bit integers, and of what is not.
std::pair<std::set<std::string>, std::set<std::string>> parts(const nn::Transformer<float>& model) {
  std::pair<std::set<std::string>, std::set<std::string>> all;
  for (const auto& t : nn::state(model)) (t.value.quantized() ? all.first : all.second).insert(t.name);
  return all;
}

}  // namespace

TEST_CASE("quantize: matrices of products, embeddings and the head become 8-bit integers, all else stays") {
  nn::Transformer<float> model(small());
  test::randomise(model);
  const auto names = test::names(model);
  const auto before = model.encoder.layers[0].feed_forward.fc1.weight.value().values();
  CHECK_FALSE(nn::is_quantized(model));
  nn::check_floats("test", model);
  nn::quantize(model);
  CHECK(nn::is_quantized(model));
  CHECK_THROWS_WITH(nn::check_floats("test", model), ContainsSubstring("test: the model is of 8-bit integers"));
  CHECK(test::names(model) == names);
  const auto [quantized, floats] = parts(model);
  CHECK(quantized.size() == 6 + 10 + 3);  // an attention has four matrices, a feed-forward two
  for (const auto& name : floats)
    CHECK(
        (name.ends_with("bias") || name.find("norm") != std::string::npos || name.find("embed_positions") != std::string::npos));
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                           "decoder.layers.0.encoder_attn.k_proj.weight"})
    CHECK(quantized.contains(name));

  const auto* fc1 = model.encoder.layers[0].feed_forward.fc1.weight.value().quantized();
  for (index_t i = 0; i < 5; ++i)
    for (index_t j = 0; j < 6; ++j)
      CHECK(fc1->scales(i) * static_cast<float>(fc1->rows(i, j)) ==
            Approx(before[static_cast<std::size_t>(6 * i + j)]).margin(0.51 * fc1->scales(i)));
}

TEST_CASE("quantize: an embedding that is the head too is one matrix still, tables of relative positions are left alone") {
  auto options = small();
  options.share_embeddings = options.tie_head = true;
  options.positions = nn::PositionKind::relative;
  nn::Transformer<float> model(options);
  nn::quantize(model);
  CHECK(model.encoder.embed_tokens->weight.value().place() == model.output_weight().value().place());
  const auto [quantized, floats] = parts(model);
  CHECK(quantized.size() == 6 + 10 + 1);
  CHECK(floats.contains("encoder.layers.0.self_attn.relative_attention_bias.weight"));
}

TEST_CASE("quantize: refuses what it would spoil and leaves the model as it was; training refuses what it has made") {
  nn::Transformer<float> model(small());
  const auto& fc2 = model.decoder.layers[0].feed_forward.fc2.weight.value();
  const float value = fc2(1, 2);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    fc2(1, 2) = bad;
    CHECK_THROWS_AS(nn::quantize(model), ValueError);
    CHECK_THROWS_WITH(nn::quantize(model), "quantize: decoder.layers.0.fc2.weight has a number that is not finite");
    CHECK_FALSE(nn::is_quantized(model));
  }
  fc2(1, 2) = value;
  nn::Transformer<float> adapted(small());
  nn::add_adapters(adapted, {.rank = 1, .modules = {"fc1"}});
  CHECK_THROWS_WITH(nn::quantize(adapted), ContainsSubstring("quantize: the model has low-rank adapters"));

  nn::quantize(model);
  CHECK_THROWS_WITH(nn::quantize(model), ContainsSubstring("quantize: the model is of 8-bit integers"));
  const auto one = Segments::ragged({1});
  const Tensor<token_t> token({1}, {3});
  CHECK_THROWS_WITH(model.loss({token, one, token, one, token}), ContainsSubstring("is of 8-bit integers"));
  const nn::Transformer<float> other(small());
  CHECK_THROWS_WITH(nn::copy_parameters(model, other), ContainsSubstring("is of 8-bit integers"));
  nn::share_parameters(model, other);
  CHECK(other.output_weight().value().place() == model.output_weight().value().place());
  auto larger = small();
  larger.d_ff = 24;
  CHECK_THROWS_AS(nn::share_parameters(nn::Transformer<float>(larger), other), ShapeError);
  larger.layers = 2;
  CHECK_THROWS_WITH(nn::share_parameters(nn::Transformer<float>(larger), other), ContainsSubstring("share_parameters: "));
}
