#include "attend/decode/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

nn::TransformerOptions small_options() {
  return {
      .vocabulary = 11, .d_model = 8, .heads = 2, .d_k = 3, .d_v = 5, .d_ff = 12, .layers = 2, .dropout = 0.1, .max_length = 32};
}

const Tensor<token_t> source({9}, {3, 4, 5, 2, 6, 7, 8, 9, 2});
const auto segments = Segments::ragged({4, 5});

/// The log-probabilities of every next token, by one pass over whole targets.
Tensor<double> whole_pass(nn::Transformer<double>& model, const std::vector<token_t>& target, const Segments& target_segments) {
  const NoGrad no_grad;
  const nn::EvaluationScope evaluation(model);
  const nn::Batch<> batch{source,
                          segments,
                          Tensor<token_t>({static_cast<index_t>(target.size())}, std::span<const token_t>(target)),
                          target_segments,
                          {}};
  return log_softmax(model(batch)).value();
}

}  // namespace

TEST_CASE("decoding token by token equals one pass over the whole target") {
  for (int kind = 0; kind < 4; ++kind) {
    seed(5);
    auto options = small_options();
    if (kind == 1) options.norm_order = nn::NormOrder::pre, options.final_norm = true;
    if (kind == 2) options.positions = nn::PositionKind::learned, options.attention_bias = false, options.tie_head = true;
    if (kind == 3) options.positions = nn::PositionKind::none, options.share_embeddings = true;
    nn::Transformer<double> model(options);
    const decode::TransformerModel<double> steps(model);
    CHECK(nn::is_training(model));  // the model that it was made from keeps its mode
    const std::vector<token_t> target{1, 4, 7, 3, 1, 9, 3, 5};
    const auto expected = whole_pass(model, target, Segments::ragged({4, 4}));
    auto state = steps.begin(source, segments);
    for (index_t t = 0; t < 4; ++t) {
      const std::vector<token_t> tokens{target[static_cast<std::size_t>(t)], target[static_cast<std::size_t>(4 + t)]};
      const auto got = steps.step(state, tokens);
      for (index_t row = 0; row < 2; ++row)
        for (index_t j = 0; j < 11; ++j) REQUIRE(got(row, j) == Approx(expected(row * 4 + t, j)).margin(1e-12));
    }
  }
}

TEST_CASE("reordered rows go on as prefixes of their own") {
  seed(6);
  nn::Transformer<double> model(small_options());
  const decode::TransformerModel<double> steps(model);
  auto state = steps.begin(source, segments);
  (void)steps.step(state, std::vector<token_t>{1, 1});
  steps.reorder(state, std::vector<index_t>{1, 0, 1});
  (void)steps.step(state, std::vector<token_t>{4, 5, 6});
  steps.reorder(state, std::vector<index_t>{2, 1});
  const auto got = steps.step(state, std::vector<token_t>{7, 8});
  // Row 0 is sentence 1 with 1 6 7, row 1 is sentence 0 with 1 5 8.
  const auto expected = whole_pass(model, {1, 5, 8, 1, 6, 7}, Segments::ragged({3, 3}));
  for (index_t j = 0; j < 11; ++j) {
    CHECK(got(0, j) == Approx(expected(5, j)).margin(1e-12));
    CHECK(got(1, j) == Approx(expected(2, j)).margin(1e-12));
  }
}

TEST_CASE("searches of a Transformer: greedy is the argmax of whole passes, beam is no worse, batches do not matter") {
  seed(7);
  nn::Transformer<double> model(small_options());
  const decode::TransformerModel<double> steps(model);
  auto state = steps.begin(source, segments);
  const auto greedy = decode::greedy(steps, state, 2, {.max_length = 6});
  std::vector<token_t> prefix{1};
  for (const token_t token : greedy[1].tokens) {
    const auto all = whole_pass(
        model,
        [&] {
          std::vector<token_t> both{1};
          both.insert(both.end(), prefix.begin(), prefix.end());
          return both;
        }(),
        Segments::ragged({1, static_cast<index_t>(prefix.size())}));
    const double* last = all.data() + (all.dim(0) - 1) * 11;
    CHECK(std::max_element(last, last + 11) - last == token);
    prefix.push_back(token);
  }
  auto again = steps.begin(source, segments);
  const auto beam = decode::beam_search(steps, again, 2, {.max_length = 6, .beam = 4, .alpha = 0});
  auto alone = steps.begin(source.rows(4, 5), Segments::ragged({5}));
  const auto single = decode::beam_search(steps, alone, 1, {.max_length = 6, .beam = 4, .alpha = 0});
  CHECK(beam[1].front().tokens == single[0].front().tokens);
  CHECK(beam[1].front().log_probability == Approx(single[0].front().log_probability).epsilon(1e-12));
}

TEST_CASE("a step with a head of some tokens gives what restricting all of them gives") {
  for (int kind = 0; kind < 3; ++kind) {
    seed(9);
    auto options = nn::model_options(small_options());
    if (kind == 1) options.tie_head = options.decoder.scale_embedding = true;
    if (kind == 2) options.head_bias = true;
    nn::Transformer<double> model(options);
    if (kind == 2) model.head_bias->value().fill(0.5), model.head_bias->value()(7) = -2;
    const decode::TransformerModel<double> steps(model);
    const std::vector<token_t> head{7, 2, 5, 5, 10}, listed{2, 5, 7, 10};
    auto state = steps.begin(source, segments), narrow = steps.begin(source, segments, head);
    for (const token_t token : {1, 5, 7}) {
      const std::vector<token_t> tokens{token, token};
      const auto all = steps.step(state, tokens), got = steps.step(narrow, tokens);
      REQUIRE(got.shape() == Shape{2, 11});
      for (index_t r = 0; r < 2; ++r) {
        double mass = 0;
        for (const token_t t : listed) mass += std::exp(all(r, t));
        for (token_t t = 0; t < 11; ++t) {
          if (std::count(listed.begin(), listed.end(), t))
            REQUIRE(got(r, t) == Approx(all(r, t) - std::log(mass)).epsilon(1e-12));
          else REQUIRE(got(r, t) == -std::numeric_limits<double>::infinity());
        }
      }
      steps.reorder(state, std::vector<index_t>{1, 0});
      steps.reorder(narrow, std::vector<index_t>{1, 0});
    }
    CHECK_THROWS_WITH(steps.begin(source, segments, std::vector<token_t>{2, 11}),
                      "TransformerModel: token 11 of the head is outside the vocabulary of 11");
    CHECK_THROWS_AS(steps.begin(source, segments, std::vector<token_t>{-1, 2}), IndexError);
  }
}

TEST_CASE("a shortlist's search is the same with the head of its tokens, in 8-bit integers too") {
  seed(10);
  const nn::Transformer<float> model(small_options());
  const decode::Constraints constraints{.allowed = {{3, 9, 4}, {6, 4, 5, 3}}};
  const std::vector<token_t> head{2, 3, 4, 5, 6, 9};
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const decode::TransformerModel<float> steps(model, precision);
    auto state = steps.begin(source, segments), narrow = steps.begin(source, segments, head);
    const decode::BeamOptions options{.max_length = 9, .beam = 3, .n_best = 3, .constraints = constraints};
    const auto expected = decode::beam_search(steps, state, 2, options), got = decode::beam_search(steps, narrow, 2, options);
    for (std::size_t s = 0; s < 2; ++s) {
      REQUIRE(got[s].size() == expected[s].size());
      for (std::size_t i = 0; i < got[s].size(); ++i) {
        CHECK(got[s][i].tokens == expected[s][i].tokens);
        CHECK(got[s][i].score == Approx(expected[s][i].score).epsilon(1e-5));
        for (const token_t t : got[s][i].tokens)
          CHECK(std::count(constraints.allowed[s].begin(), constraints.allowed[s].end(), t) == 1);
      }
    }
  }
}

TEST_CASE("a Transformer's step names what does not fit") {
  seed(8);
  auto options = nn::model_options(small_options());
  nn::Transformer<float> model(options);
  const decode::TransformerModel<float> steps(model);
  CHECK(steps.longest() == 31);
  auto state = steps.begin(source, segments);
  CHECK_THROWS_AS(steps.step(state, std::vector<token_t>{1}), ShapeError);
  CHECK_THROWS_AS(steps.step(state, std::vector<token_t>{1, 11}), IndexError);
  options.decoder.causal = false;
  const nn::Transformer<float> sees_all(options);
  CHECK_THROWS_WITH(decode::TransformerModel<float>(sees_all),
                    "TransformerModel: the decoder is not causal and cannot be searched token by token");
}
