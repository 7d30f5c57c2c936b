#include "attend/decode/decoder_only.hpp"

#include "attend/decode/greedy.hpp"
#include "attend/ops/softmax.hpp"
#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::StackOptions small_options() {
  return {.vocabulary = 9,
          .d_model = 8,
          .heads = 2,
          .d_k = 3,
          .d_v = 5,
          .d_ff = 12,
          .layers = 2,
          .max_length = 16,
          .dropout = {.residual = 0.2},
          .cross_attentions = 0};
}

/// The log-probabilities of every next token, by one pass over whole texts.
Tensor<double> whole_pass(nn::Decoder<double>& decoder, const Var<double>& head, std::vector<token_t> tokens,
                          const Segments& segments) {
  const NoGrad no_grad;
  const nn::EvaluationScope evaluation(decoder);
  const Tensor<token_t> all({static_cast<index_t>(tokens.size())}, std::span<const token_t>(tokens));
  return log_softmax(linear(decoder(all, segments), head)).value();
}

}  // namespace

TEST_CASE("a language model token by token equals one pass over the whole text, reordered rows too") {
  for (int kind = 0; kind < 4; ++kind) {
    seed(5);
    auto options = small_options();
    if (kind == 1) options.norm_order = nn::NormOrder::pre, options.final_norm = true;
    if (kind == 2) options.positions = nn::PositionKind::learned, options.attention_bias = false;
    if (kind == 3) options.positions = nn::PositionKind::none, options.d_k = options.d_v = 0;
    nn::Decoder<double> decoder(options);
    const auto& head = decoder.embed_tokens->weight;
    const decode::DecoderOnly<double> steps(decoder, head);
    CHECK(nn::is_training(decoder));  // the decoder that it was made from keeps its mode
    auto state = steps.begin(2);
    (void)steps.step(state, std::vector<token_t>{1, 1});
    (void)steps.step(state, std::vector<token_t>{4, 5});
    steps.reorder(state, std::vector<index_t>{1, 0, 1});
    const auto got = steps.step(state, std::vector<token_t>{6, 7, 8});
    const auto expected = whole_pass(decoder, head, {1, 5, 6, 1, 4, 7, 1, 5, 8}, Segments::ragged({3, 3, 3}));
    for (index_t row = 0; row < 3; ++row)
      for (index_t j = 0; j < 9; ++j) REQUIRE(got(row, j) == Approx(expected(3 * row + 2, j)).margin(1e-12));
  }
}

TEST_CASE("a language model's head may have a matrix and a bias of its own, and is searched with the weights of now") {
  seed(6);
  nn::Decoder<double> decoder(small_options());
  const nn::Linear<double> head(8, 9);
  const decode::DecoderOnly<double> steps(decoder, head.weight, *head.bias);
  for (const token_t wanted : {token_t{7}, token_t{4}}) {
    head.bias->value().fill(0);
    head.bias->value()(wanted) = 50;
    auto state = steps.begin(1);
    const auto found = decode::greedy(steps, state, 1, {.max_length = 3}).front();
    CHECK(found.tokens == std::vector<token_t>{wanted, wanted, wanted});
  }
}

TEST_CASE("a language model that cannot go token by token is refused") {
  seed(7);
  const auto refusal = [](auto change) {
    auto options = small_options();
    change(options);
    const nn::Decoder<double> decoder(options);
    const decode::DecoderOnly<double> steps(decoder, Var<double>(Tensor<double>({9, 8}, 0.0)));
  };
  CHECK_NOTHROW(refusal([](nn::StackOptions&) {}));
  CHECK_THROWS_WITH(refusal([](nn::StackOptions& o) { o.causal = false; }), ContainsSubstring("is not causal"));
  CHECK_THROWS_WITH(refusal([](nn::StackOptions& o) { o.cross_attentions = 1; }), ContainsSubstring("has 1 cross-attentions"));
  CHECK_THROWS_WITH(refusal([](nn::StackOptions& o) { o.vocabulary = 0; }), ContainsSubstring("no embedding"));
  CHECK_THROWS_WITH(refusal([](nn::StackOptions& o) { o.vocabulary = 10; }),
                    ContainsSubstring("head_weight has shape [9, 8], expected [10, 8]"));
  const nn::Decoder<double> decoder(small_options());
  const auto& head = decoder.embed_tokens->weight;
  CHECK_THROWS_WITH((decode::DecoderOnly<double>(decoder, head, Var<double>(Tensor<double>({8}, 0.0)))),
                    ContainsSubstring("head_bias has shape [8], expected [9]"));

  const decode::DecoderOnly<double> steps(decoder, head);
  CHECK(steps.longest() == 15);
  auto state = steps.begin(1);
  CHECK_THROWS_AS(steps.step(state, std::vector<token_t>{1, 1}), ShapeError);
  CHECK_THROWS_AS(steps.step(state, std::vector<token_t>{9}), IndexError);
  for (int i = 0; i < 16; ++i) (void)steps.step(state, std::vector<token_t>{1});
  CHECK_THROWS_WITH(steps.step(state, std::vector<token_t>{1}), ContainsSubstring("token 16 is beyond the 16 positions"));
  CHECK(state.steps() == 16);  // a refused step is none
}
