#include "attend/nn/stack.hpp"
#include "check.hpp"
#include "small_stack.hpp"
using namespace attend;
using Catch::Matchers::ContainsSubstring;
using nn::NormOrder;
using test::small_stack;
using test::sublayer_by_hand;
using Memories = std::vector<nn::Memory<double>>;

namespace {

const Segments ragged = Segments::ragged({3, 1, 4});
const Tensor<token_t> tokens({8}, {1, 2, 3, 4, 0, 2, 2, 5});

Memories one_memory(index_t width) { return {{test::random_leaf({7, width}, 20), Segments::ragged({2, 4, 1})}}; }

std::vector<Var<double>> leaves(const Memories& memories) {
  std::vector<Var<double>> list;
  for (const auto& m : memories) list.push_back(m.x);
  return list;
}

/// The decoder written out, operation by operation.
Var<double> by_hand(const nn::Decoder<double>& decoder, const Memories& memories, const nn::DropoutRates& p) {
  auto x = dropout(decoder.positions((*decoder.embed_tokens)(tokens), ragged), p.embedding);
  for (const auto& layer : decoder.layers) {
    const auto& a = layer.self_attn;
    x = sublayer_by_hand(layer.around_self_attn, p, x, [&](const Var<double>& z) {
      return a.out_proj(self_attention(linear(z, a.weight, *a.bias), a.d_k, a.d_v, ragged,
                                       {.heads = a.heads, .causal = true, .dropout = p.attention}));
    });
    for (std::size_t i = 0; i < layer.cross.size(); ++i) {
      const auto& c = layer.cross[i].attention;
      x = sublayer_by_hand(layer.cross[i].around, p, x, [&](const Var<double>& z) {
        return c.out_proj(cross_attention(c.project_q(z), c.project_kv(memories[i].x), ragged, memories[i].segments,
                                          {.heads = c.heads, .dropout = p.attention}));
      });
    }
    x = sublayer_by_hand(layer.around_feed_forward, p, x, [&](const Var<double>& z) {
      const auto inner = dropout(gelu(layer.feed_forward.fc1(z)), p.activation);
      return dropout(layer.feed_forward.fc2(inner), p.feed_forward);
    });
    x = dropout(x, p.block);
  }
  return decoder.layer_norm ? (*decoder.layer_norm)(x) : x;
}

}  // namespace

TEST_CASE("DecoderLayer: gradients with no, one and two cross-attentions") {
  auto options = small_stack(GENERATE(NormOrder::post, NormOrder::pre));
  options.cross_attentions = GENERATE(0, 1, 2);
  options.causal = GENERATE(true, false);
  const nn::DecoderLayer<double> layer(options);
  test::randomise(layer);
  const auto x = test::random_leaf({8, 6}, 0);
  Memories memories;
  for (index_t i = 0; i < options.cross_attentions; ++i)
    memories.push_back({test::random_leaf({7 + i, 6}, 20 + static_cast<std::uint64_t>(i)), Segments::ragged({2, 4, 1 + i})});
  auto inputs = leaves(memories);
  inputs.push_back(x);
  test::check_gradients(
      layer, [&] { return layer(x, ragged, {.memories = memories}); }, inputs, 8);
}

TEST_CASE("DecoderLayer: one memory serves every cross-attention, of any width; its gradient is the sum of both") {
  auto options = small_stack();
  options.cross_attentions = 2, options.d_memory = 9;
  const nn::DecoderLayer<double> layer(options);
  test::randomise(layer);
  const auto x = test::random_leaf({8, 6}, 0);
  const auto memory = one_memory(9);
  test::check_gradients(
      layer, [&] { return layer(x, ragged, {.memories = memory}); }, {x, memory[0].x}, 8);
  CHECK(test::distance(layer(x, ragged, {.memories = memory}).value(),
                       layer(x, ragged, {.memories = Memories{memory[0], memory[0]}}).value()) == 0);
}

TEST_CASE("DecoderLayer: terms added to the scores, and the weights given back") {
  auto options = small_stack();
  options.cross_attentions = 2;
  const nn::DecoderLayer<double> layer(options);
  test::randomise(layer);
  const auto x = test::random_leaf({8, 6}, 0), self_bias = test::random_leaf({4, 4}, 1),
             cross_bias = test::random_leaf({2, 4, 4}, 2);
  const auto memory = one_memory(6);
  const nn::StackCall<double> call{.memories = memory, .self_bias = self_bias, .cross_bias = cross_bias};
  test::check_gradients(
      layer, [&] { return layer(x, ragged, call); }, {x, self_bias, cross_bias}, 8);
  std::vector<AttentionWeights<double>> self, cross;
  (void)layer(x, ragged, {.memories = memory, .self_weights = &self, .cross_weights = &cross});
  REQUIRE(self.size() == 1);
  CHECK(self[0].dense().shape() == Shape{3, 2, 4, 4});
  REQUIRE(cross.size() == 2);
  CHECK(cross[1].matrix(1, 0).shape() == Shape{1, 4});
}

TEST_CASE("Decoder: gradients with dropout at all places, and the places are where the formulas have them") {
  auto options = small_stack(GENERATE(NormOrder::post, NormOrder::pre));
  options.cross_attentions = GENERATE(1, 2);
  options.final_norm = options.norm_order == NormOrder::pre;
  options.dropout = {
      .embedding = 0.1, .attention = 0.15, .activation = 0.2, .feed_forward = 0.25, .residual = 0.3, .norm = 0.35, .block = 0.4};
  nn::Decoder<double> decoder(options);
  test::randomise(decoder);
  Memories memories = one_memory(6);
  if (options.cross_attentions == 2) memories.push_back({test::random_leaf({5, 6}, 21), Segments::ragged({1, 1, 3})});
  const auto run = [&] {
    seed(8);
    return decoder(tokens, ragged, {.memories = memories});
  };
  const auto dropped = run();
  seed(8);
  CHECK(test::distance(dropped.value(), by_hand(decoder, memories, options.dropout).value()) < 1e-14);
  test::check_gradients(decoder, run, leaves(memories), 6);
  nn::set_training(decoder, false);
  CHECK(test::distance(run().value(), by_hand(decoder, memories, {}).value()) < 1e-14);
}

TEST_CASE("Decoder: gradients of a decoder on its own, from vectors, and of one with a memory of another width") {
  auto options = small_stack();
  const bool alone = GENERATE(true, false);
  options.vocabulary = 0;
  options.cross_attentions = alone ? 0 : 1;
  options.d_memory = alone ? 0 : 3;
  options.positions = nn::PositionKind::learned;
  options.d_k = 2, options.d_v = 5, options.attention_bias = false;
  const nn::Decoder<double> decoder(options);
  test::randomise(decoder);
  const auto x = test::random_leaf({8, 6}, 0);
  const auto memories = alone ? Memories{} : one_memory(3);
  auto inputs = leaves(memories);
  inputs.push_back(x);
  test::check_gradients(
      decoder, [&] { return decoder(x, ragged, {.memories = memories}); }, inputs, 8);
}

TEST_CASE("Decoder: a token sees nothing that comes after it, unless it may") {
  auto options = small_stack();
  options.causal = GENERATE(true, false);
  const nn::Decoder<double> decoder(options);
  test::randomise(decoder);
  const auto memory = one_memory(6);
  auto changed = tokens.clone();
  changed(6) = 3;  // the third token of the last sentence
  const auto before = decoder(tokens, ragged, {.memories = memory}), after = decoder(changed, ragged, {.memories = memory});
  CHECK(test::distance(before.value().rows(0, 4), after.value().rows(0, 4)) == 0);
  const double earlier = test::distance(before.value().rows(4, 2), after.value().rows(4, 2));
  if (options.causal) CHECK(earlier == 0);
  else CHECK(earlier > 1e-3);
  CHECK(test::distance(before.value().rows(6, 2), after.value().rows(6, 2)) > 1e-3);
}

TEST_CASE("Decoder: the weights of each layer's self-attention and cross-attentions") {
  auto options = small_stack();
  options.cross_attentions = 2;
  const nn::Decoder<double> decoder(options);
  std::vector<AttentionWeights<double>> self, cross;
  (void)decoder(tokens, ragged, {.memories = one_memory(6), .self_weights = &self, .cross_weights = &cross});
  REQUIRE(self.size() == 2);
  REQUIRE(cross.size() == 4);  // two layers of two
  CHECK(cross[3].dense().shape() == Shape{3, 2, 4, 4});
}

TEST_CASE("Decoder: names and counts") {
  auto options = small_stack();
  options.layers = 1, options.cross_attentions = 2, options.d_memory = 3, options.final_norm = true;
  const nn::Decoder<float> decoder(options);
  test::Names expected{"embed_tokens.weight"};
  for (const std::string block : {"self_attn", "encoder_attn", "encoder_attn2"}) {
    for (const std::string part : {".q_proj", ".k_proj", ".v_proj", ".out_proj"})
      for (const char* kind : {".weight", ".bias"}) expected.push_back("layers.0." + block + part + kind);
    for (const char* kind : {".weight", ".bias"}) expected.push_back("layers.0." + block + "_layer_norm" + kind);
  }
  for (const std::string part : {"layers.0.fc1", "layers.0.fc2", "layers.0.final_layer_norm", "layer_norm"})
    for (const char* kind : {".weight", ".bias"}) expected.push_back(part + kind);
  CHECK(test::names(decoder) == expected);
  const index_t self = 4 * (6 * 6 + 6), cross = 2 * (6 * 6 + 6) + 2 * (3 * 6 + 6), feed_forward = 6 * 5 + 5 + 5 * 6 + 6;
  CHECK(nn::parameter_count(decoder) == 6 * 6 + self + 2 * cross + feed_forward + 5 * 12);
}

TEST_CASE("Decoder names what does not fit") {
  auto options = small_stack();
  options.cross_attentions = 2;
  const nn::Decoder<double> decoder(options);
  const auto memory = one_memory(6);
  CHECK_THROWS_WITH(decoder(tokens, ragged, {.memories = Memories{}}), ContainsSubstring("0 memories for 2 cross-attentions"));
  CHECK_THROWS_AS(decoder(tokens, ragged, {.memories = Memories(3, memory[0])}), ShapeError);
  CHECK_THROWS_AS(decoder(tokens, ragged, {.memories = one_memory(5)}), ShapeError);
  CHECK_THROWS_AS(decoder(tokens, Segments::ragged({4, 4}), {.memories = memory}),
                  ShapeError);  // two sentences, a memory of three
  CHECK_THROWS_AS(decoder(tokens, Segments::ragged({2, 6}), {.memories = memory}), ShapeError);  // too long
  CHECK_THROWS_AS(decoder(Tensor<token_t>({8}, -1), ragged, {.memories = memory}), IndexError);
  auto vectors = small_stack();
  vectors.vocabulary = 0;
  CHECK_THROWS_WITH(nn::Decoder<double>(vectors)(tokens, ragged, {.memories = memory}),
                    ContainsSubstring("built without a vocabulary"));
  vectors.cross_attentions = 0;
  const nn::Decoder<double> alone(vectors);
  CHECK_THROWS_WITH(alone(test::random_leaf({8, 6}, 0), ragged, {.memories = memory}),
                    ContainsSubstring("1 memories for 0 cross-attentions"));
  vectors.cross_attentions = -2;
  CHECK_THROWS_WITH(nn::Decoder<double>(vectors), ContainsSubstring("cross_attentions is -2"));
  vectors.cross_attentions = 1, vectors.d_memory = -1;
  CHECK_THROWS_WITH(nn::Decoder<double>(vectors), ContainsSubstring("d_memory is -1"));
  vectors.d_memory = 0, vectors.causal = 2;
  CHECK_THROWS_WITH(nn::Decoder<double>(vectors), ContainsSubstring("Decoder: causal is 2, expected 0 to 1"));
}

TEST_CASE("Decoder: what its options leave open is one cross-attention, and tokens that see none later") {
  const nn::Decoder<double> decoder(small_stack());
  CHECK(decoder.options.cross_attentions == 1);
  CHECK(decoder.options.causal == 1);
  CHECK(decoder.layers[0].cross.size() == 1);
  CHECK(decoder.layers[0].causal);
}
