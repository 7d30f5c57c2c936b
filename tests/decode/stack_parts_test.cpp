#include "nn/stack_parts.hpp"

#include "attend/decode/decoder_only.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/scoring.hpp"
#include "attend/decode/transformer.hpp"
#include "catch.hpp"
#include "nn/check.hpp"

using namespace attend;

namespace {

nn::TransformerOptions small() {
  return {.vocabulary = 11, .d_model = 16, .heads = 4, .d_ff = 12, .layers = 2, .dropout = 0.1, .max_length = 40};
}

const Tensor<token_t> source({9}, {3, 4, 5, 2, 6, 7, 8, 9, 2});
const auto segments = Segments::ragged({4, 5});

/// Beyond the 32 steps for which a cache has room at first.
std::vector<token_t> target(index_t length, token_t step) {
  std::vector<token_t> tokens{1};
  for (index_t i = 1; i < length; ++i) tokens.push_back(static_cast<token_t>(1 + (step * i) % 10));
  return tokens;
}

}  // namespace

TEST_CASE("stack parts: decoding token by token equals one pass over the whole target with each, reordered rows too") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    seed(5);
    auto options = small();
    part.choose(options);
    nn::Transformer<double> model(options);
    test::randomise(model, 0.2);
    const decode::TransformerModel<double> steps(model);
    const index_t length = 37;
    const auto first = target(length, 3), second = target(length, 7);
    auto both = first;
    both.insert(both.end(), second.begin(), second.end());
    const nn::EvaluationScope evaluation(model);
    const NoGrad no_grad;
    const auto expected = log_softmax(model(nn::Batch<>{source,
                                                        segments,
                                                        Tensor<token_t>({2 * length}, std::span<const token_t>(both)),
                                                        Segments::ragged({length, length}),
                                                        {}}))
                              .value();
    auto state = steps.begin(source, segments);
    bool swapped = false;
    double worst = 0;
    for (index_t t = 0; t < length; ++t) {
      std::vector<token_t> tokens{nth(first, t), nth(second, t)};
      if (swapped) std::swap(tokens[0], tokens[1]);
      const auto got = steps.step(state, tokens);
      for (index_t row = 0; row < 2; ++row)
        for (index_t j = 0; j < 11; ++j) {
          const double e = expected((swapped ? 1 - row : row) * length + t, j);
          worst = std::max(worst, std::abs(got(row, j) - e));
        }
      if (t % 5 == 2) steps.reorder(state, std::vector<index_t>{1, 0}), swapped = !swapped;
    }
    CHECK(worst < 1e-12);
  }
}

TEST_CASE("stack parts: a language model token by token equals one pass over the whole text with each") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    seed(5);
    auto transformer = small();
    part.choose(transformer);
    auto options = nn::model_options(transformer).decoder;
    options.cross_attentions = 0;
    nn::Decoder<double> decoder(options);
    test::randomise(decoder, 0.2);
    const auto& head = decoder.embed_tokens->weight;
    const decode::DecoderOnly<double> steps(decoder, head);
    const index_t length = 36;
    const auto text = target(length, 3);
    const nn::EvaluationScope evaluation(decoder);
    const NoGrad no_grad;
    const Tensor<token_t> all({length}, std::span<const token_t>(text));
    const auto expected = log_softmax(linear(decoder(all, Segments::ragged({length})), head)).value();
    auto state = steps.begin(1);
    double worst = 0;
    for (index_t t = 0; t < length; ++t) {
      const auto got = steps.step(state, std::vector<token_t>{nth(text, t)});
      for (index_t j = 0; j < 11; ++j) worst = std::max(worst, std::abs(got(0, j) - expected(t, j)));
    }
    CHECK(worst < 1e-12);
  }
}

TEST_CASE("stack parts: scoring a translation gives what the search that found it said, with each") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    seed(7);
    auto options = small();
    part.choose(options);
    nn::Transformer<float> model(options);
    const decode::TransformerModel<float> steps(model);
    auto state = steps.begin(source, segments);
    const auto found = decode::greedy(steps, state, 2, {.max_length = 12, .min_length = 12});
    nn::set_training(model, false);
    const std::vector<std::vector<token_t>> sources{{3, 4, 5, 2}, {6, 7, 8, 9, 2}}, targets{found[0].tokens, found[1].tokens};
    const auto scores = decode::score(model, sources, targets, 1, 2);
    for (std::size_t i = 0; i < 2; ++i) {
      double said = 0, scored = 0;
      for (std::size_t t = 0; t < found[i].tokens.size(); ++t) {
        said += static_cast<double>(found[i].token_log_probabilities[t]);
        scored += static_cast<double>(scores[i].token_log_probabilities[t]);
      }
      CHECK(scored == Approx(said).margin(1e-3));
    }
  }
}

TEST_CASE("stack parts: products in 8-bit integers are near the full ones with each") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    seed(7);
    auto options = small();
    options.d_model = 64, options.d_ff = 96;
    part.choose(options);
    const nn::Transformer<float> model(options);
    const decode::TransformerModel<float> full(model), quantised(model, Precision::int8);
    auto state = full.begin(source, segments), rough = quantised.begin(source, segments);
    double worst = 0, largest = 0;
    for (const token_t token : target(6, 3)) {
      const std::vector<token_t> tokens{token, static_cast<token_t>(token % 10 + 1)};
      const auto a = full.step(state, tokens), b = quantised.step(rough, tokens);
      for (index_t i = 0; i < a.size(); ++i) {
        worst = std::max(worst, static_cast<double>(std::abs(a.data()[i] - b.data()[i])));
        largest = std::max(largest, static_cast<double>(std::abs(a.data()[i])));
      }
    }
    CHECK(worst > 0);
    CHECK(worst < 0.05 * largest);
  }
}
