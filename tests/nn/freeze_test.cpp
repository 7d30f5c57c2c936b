#include "attend/nn/freeze.hpp"

#include "attend/nn/transformer.hpp"
#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::Transformer<double> model(bool shared = false) {
  seed(3);
  return nn::Transformer<double>({.vocabulary = 11,
                                  .d_model = 4,
                                  .heads = 2,
                                  .d_ff = 6,
                                  .layers = 2,
                                  .dropout = 0.5,
                                  .positions = nn::PositionKind::learned,
                                  .max_length = 8,
                                  .share_embeddings = shared,
                                  .tie_head = shared});
}

nn::Batch<> batch() {
  const std::vector<token_t> source{1, 2, 3, 4, 5}, target{1, 5, 6}, labels{5, 6, 7};
  const auto tensor = [](const std::vector<token_t>& tokens) {
    return Tensor<token_t>({static_cast<index_t>(tokens.size())}, std::span<const token_t>(tokens));
  };
  return {.source = tensor(source),
          .source_segments = Segments::ragged({5}),
          .target = tensor(target),
          .target_segments = Segments::ragged({3}),
          .labels = tensor(labels)};
}

}  // namespace

TEST_CASE("a pattern matches whole names, a star any part of them") {
  CHECK(matches("encoder.*", "encoder.layers.0.fc1.weight"));
  CHECK_FALSE(matches("encoder.*", "decoder.layers.0.encoder_attn.out_proj.weight"));
  CHECK(matches("*.bias", "a.b.bias"));
  CHECK_FALSE(matches("*.bias", "a.bias.weight"));
  CHECK(matches("*layers.*.fc*.weight", "decoder.layers.12.fc2.weight"));
  CHECK_FALSE(matches("*layers.*.fc*.weight", "decoder.layers.12.fc2.bias"));
  CHECK(matches("*", ""));
  CHECK(matches("a**b", "ab"));
  CHECK(matches("*ab", "aab"));
  CHECK_FALSE(matches("", "a"));
  CHECK(matches("", ""));
  CHECK_FALSE(matches("ab", "abc"));
}

TEST_CASE("freeze: what a pattern matches learns nothing, and no gradient of it is computed") {
  auto m = model();
  const auto all = nn::parameter_count(m);
  const auto frozen = nn::freeze(m, "encoder.*");
  // Embedding, positions; of each layer two packed matrices with biases and two norms, and the feed-forward's four.
  CHECK(frozen.parameters == 2 + 2 * (2 + 2 + 4 + 4));
  CHECK(frozen.shared.empty());
  CHECK(nn::parameter_count(m) == all - frozen.values);
  CHECK(nn::is_training(m));  // dropout goes on
  const auto names = nn::frozen_names(m);
  CHECK(std::all_of(names.begin(), names.end(), [](const std::string& n) { return n.starts_with("encoder."); }));
  m.loss(batch()).backward();
  for (const auto& t : nn::state(m)) {
    INFO(t.name);
    CHECK(t.parameter.grad().empty() == t.name.starts_with("encoder."));
  }
  CHECK(nn::unfreeze(m, "encoder.layers.1.*").parameters == 12);
  CHECK(nn::unfreeze(m, "*").values == all);
  CHECK(nn::frozen_names(m).empty());
}

TEST_CASE("freeze: the gradients of the rest are what they are without") {
  auto whole = model(), part = model();
  nn::set_training(whole, false), nn::set_training(part, false);
  nn::freeze(part, "*norm*"), nn::freeze(part, "encoder.layers.0.*"), nn::freeze(part, "*.fc1.*");
  nn::freeze(part, "decoder.layers.1.self_attn.*"), nn::freeze(part, "decoder.layers.0.encoder_attn.*_proj.bias");
  whole.loss(batch()).backward(), part.loss(batch()).backward();
  const auto x = nn::state(whole), y = nn::state(part);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!y[i].parameter.requires_grad()) continue;
    INFO(x[i].name);
    CHECK(test::distance(x[i].grad(), y[i].grad()) < 1e-14);
  }
}

TEST_CASE("freeze: a parameter that modules share is frozen for all of them, and they are named") {
  auto m = model(true);
  const auto frozen = nn::freeze(m, "encoder.embed_tokens.*");
  CHECK(frozen.parameters == 1);
  CHECK(frozen.values == 44);
  CHECK(frozen.shared == std::vector<std::string>{"decoder.embed_tokens.weight"});
  CHECK_FALSE(m.output_weight().requires_grad());
  CHECK(nn::freeze(m, "*embed_tokens.weight").shared.empty());
}

TEST_CASE("freeze: a part of a parameter, or nothing at all, is refused") {
  auto m = model();
  CHECK_THROWS_WITH(nn::freeze(m, "*.q_proj.*"),
                    ContainsSubstring("freeze: encoder.layers.0.self_attn.q_proj.weight is a part of one parameter with "
                                      "encoder.layers.0.self_attn.k_proj.weight, which `*.q_proj.*` leaves out"));
  CHECK_THROWS_AS(nn::freeze(m, "encoder.layers.0.self_attn.v_proj.bias"), ValueError);
  CHECK_THROWS_WITH(nn::unfreeze(m, "encoder"),
                    ContainsSubstring("unfreeze: none of ") &&
                        ContainsSubstring("`encoder`; the first of them is encoder.embed_tokens.weight"));
  CHECK(nn::frozen_names(m).empty());
  CHECK(nn::freeze(m, "encoder.layers.0.self_attn.*_proj.weight").parameters == 2);

  const nn::MultiHeadAttention<double> own({.d_model = 4, .heads = 2, .d_memory = 6});  // q apart from k and v
  CHECK(nn::freeze(own, "q_proj.*").parameters == 2);
  CHECK_THROWS_AS(nn::freeze(own, "k_proj.*"), ValueError);
}
