#include "attend/nn/transformer.hpp"

#include "attend/cpu/gemm_provider.hpp"
#include "attend/nn/dense.hpp"
#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using nn::NormOrder;
using nn::Output;
using Model = nn::Transformer<double>;

namespace {

constexpr index_t vocabulary = 7;

nn::TransformerOptions small() {
  return {.vocabulary = vocabulary,
          .d_model = 6,
          .heads = 2,
          .d_ff = 5,
          .layers = 2,
          .dropout = 0,
          .activation = Activation::gelu,
          .max_length = 6};
}

/// The ways of sharing the embeddings and the head.
struct Tying {
  bool share_embeddings, tie_head;
};
std::vector<Tying> ways_of_tying() { return {{false, false}, {true, false}, {false, true}, {true, true}}; }

/// Three sentence pairs with padding between their tokens and the end.
nn::DenseBatch sentences() {
  return {.source = Tensor<token_t>({3, 4}, {1, 2, 0, 0, 3, 4, 5, 6, 2, 0, 0, 0}),
          .source_mask = Tensor<std::uint8_t>({3, 4}, {1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0}),
          .target = Tensor<token_t>({3, 3}, {1, 2, 3, 1, 6, 0, 1, 0, 0}),
          .target_mask = Tensor<std::uint8_t>({3, 3}, {1, 1, 1, 1, 1, 0, 1, 0, 0}),
          .labels = Tensor<token_t>({3, 3}, {2, 3, 5, 6, 4, -100, 5, -100, -100})};
}

/// Sentence i of a ragged batch by itself.
nn::Batch<> alone(const nn::Batch<>& b, index_t i) {
  const auto part = [&](const Tensor<token_t>& x, const Segments& s) { return x.rows(s.begin(i), s.length(i)); };
  return {.source = part(b.source, b.source_segments),
          .source_segments = Segments::ragged({b.source_segments.length(i)}),
          .target = part(b.target, b.target_segments),
          .target_segments = Segments::ragged({b.target_segments.length(i)}),
          .labels = part(b.labels, b.target_segments)};
}

}  // namespace

TEST_CASE("Transformer: gradients of output and loss, tied in every way") {
  for (const auto& [share, tie] : ways_of_tying()) {
    auto options = small();
    options.share_embeddings = share, options.tie_head = tie;
    const Model model(options);
    test::randomise(model);
    const auto batch = nn::ragged_batch(sentences());
    test::check_gradients(
        model, [&] { return model(batch); }, {}, 4);
    test::check_gradients(
        model, [&] { return model.loss(batch, {.smoothing = 0.1}); }, {}, 4);
  }
}

TEST_CASE("Transformer: gradients pre-norm, with dropout everywhere, other outputs and dense batches") {
  auto options = small();
  options.norm_order = NormOrder::pre, options.final_norm = true;
  options.dropout = 0.2, options.attention_dropout = 0.1, options.activation_dropout = 0.3;
  options.head_bias = false;
  options.output = GENERATE(Output::log_probabilities, Output::probabilities);
  const Model model(options);
  test::randomise(model);
  const auto batch = nn::dense_batch(sentences());
  const auto with_seed = [&](auto&& f) {
    seed(2);
    return f();
  };
  test::check_gradients(
      model, [&] { return with_seed([&] { return model(batch); }); }, {}, 4);
  test::check_gradients(
      model, [&] { return with_seed([&] { return model.loss(batch); }); }, {}, 4);
}

TEST_CASE("Transformer: gradients where the decoder differs from the encoder in depth, heads and widths") {
  nn::ModelOptions options = nn::model_options(small());
  options.encoder.d_model = 4, options.encoder.layers = 1, options.encoder.heads = 1;
  options.decoder.d_memory = 4, options.decoder.heads = 3, options.decoder.d_ff = 7, options.decoder.vocabulary = 9;
  const Model model(options);
  test::randomise(model);
  const auto batch = nn::ragged_batch(sentences());
  CHECK(model(batch).shape() == Shape{6, 9});
  test::check_gradients(
      model, [&] { return model.loss(batch); }, {}, 4);
}

TEST_CASE("Transformer: which names and how many parameters each way of tying leaves") {
  const auto built = [](bool share, bool tie, bool bias) {
    auto options = small();
    options.share_embeddings = share, options.tie_head = tie, options.head_bias = bias;
    return Model(options);
  };
  const auto has = [](const Model& model, const std::string& name) {
    const auto names = test::names(model);
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const index_t matrix = vocabulary * 6;
  const Model own = built(false, false, true);
  const index_t layers = nn::parameter_count(own) - 3 * matrix - vocabulary;
  CHECK(has(own, "encoder.embed_tokens.weight"));
  CHECK(has(own, "decoder.embed_tokens.weight"));
  CHECK(has(own, "lm_head.weight"));
  CHECK(has(own, "lm_head.bias"));
  CHECK(has(own, "decoder.layers.1.encoder_attn.q_proj.weight"));

  const Model shared = built(true, false, false), tied = built(false, true, true), all = built(true, true, false);
  CHECK(nn::parameter_count(shared) == layers + 2 * matrix);
  CHECK_FALSE(has(shared, "decoder.embed_tokens.weight"));
  CHECK_FALSE(has(shared, "lm_head.bias"));
  CHECK(nn::parameter_count(tied) == layers + 2 * matrix + vocabulary);
  CHECK(has(tied, "decoder.embed_tokens.weight"));
  CHECK_FALSE(has(tied, "lm_head.weight"));
  CHECK(nn::parameter_count(all) == layers + matrix);
  CHECK(all.output_weight().id() == all.encoder.embed_tokens->weight.id());
}

TEST_CASE("Transformer: a sentence gets the same alone as in a batch, to 1e-13") {
  const Model model(small());
  test::randomise(model);
  const auto batch = nn::ragged_batch(sentences());
  const auto together = model(batch);
  for (index_t i = 0; i < 3; ++i) {
    const auto single = alone(batch, i);
    CHECK(test::distance(model(single).value(),
                         together.value().rows(batch.target_segments.begin(i), batch.target_segments.length(i))) < 1e-13);
  }
}

TEST_CASE("Transformer: a batch with padding and without give the same at every token: outputs, loss and gradients, to 1e-12") {
  for (const auto& [share, tie] : ways_of_tying()) {
    auto options = small();
    options.share_embeddings = share, options.tie_head = tie;
    const Model model(options);
    test::randomise(model);
    const auto padded = nn::dense_batch(sentences()), ragged = nn::ragged_batch(sentences());
    const auto dense = model(padded).value().reshape({3, 3, vocabulary});
    CHECK(test::distance(nn::drop_padding(dense, padded.target_segments), model(ragged).value()) < 1e-13);
    std::vector<double> losses;
    std::vector<Tensor<double>> gradients;
    for (const auto* batch : {&padded, &ragged}) {
      nn::zero_grad(model);
      const auto loss = model.loss(*batch, {.smoothing = 0.1});
      losses.push_back(loss.item());
      loss.backward();
      for (const auto& t : nn::state(model)) gradients.push_back(t.grad().clone());
    }
    CHECK(losses[0] == Approx(losses[1]).epsilon(1e-13));
    const std::size_t n = gradients.size() / 2;
    for (std::size_t i = 0; i < n; ++i) CHECK(test::distance(gradients[i], gradients[n + i]) < 1e-12);
  }
}

TEST_CASE("Transformer: what stands in the padding changes nothing at the tokens") {
  const Model model(small());
  test::randomise(model);
  auto other = sentences();
  other.source = other.source.clone();
  other.target = other.target.clone();
  other.source(0, 3) = 6, other.target(2, 1) = 4;
  const auto one = nn::dense_batch(sentences()), two = nn::dense_batch(other);
  const auto real = [&](const nn::Batch<>& b) {
    return nn::drop_padding(model(b).value().reshape({3, 3, vocabulary}), b.target_segments);
  };
  CHECK(test::distance(real(one), real(two)) == 0);
}

TEST_CASE("Transformer: loss is the cross-entropy of its output, with every output and option") {
  auto options = small();
  options.output = GENERATE(Output::logits, Output::log_probabilities);
  options.tie_head = GENERATE(false, true);
  options.head_bias = GENERATE(false, true);
  const Model model(options);
  test::randomise(model);
  const auto batch = nn::dense_batch(sentences());
  for (const CrossEntropyOptions& how :
       {CrossEntropyOptions{}, CrossEntropyOptions{.smoothing = 0.2, .mean = false}, CrossEntropyOptions{.ignore_index = 3}}) {
    if (how.ignore_index == 3) {  // the padding's labels are then no labels at all
      CHECK_THROWS_AS(model.loss(batch, how), IndexError);
      CHECK_THROWS_AS(cross_entropy(model(batch), batch.labels, how), IndexError);
      continue;
    }
    CHECK(model.loss(batch, how).item() == Approx(cross_entropy(model(batch), batch.labels, how).item()).epsilon(1e-13));
  }
}

TEST_CASE("Transformer: linear_logits are what its logits are made of") {
  auto options = small();
  options.tie_head = GENERATE(false, true);
  options.head_bias = GENERATE(false, true);
  options.scale_head = GENERATE(false, true);
  const Model model(options);
  test::randomise(model);
  const auto batch = nn::ragged_batch(sentences());
  const auto made_of = model.linear_logits(batch);
  CHECK(test::distance(linear(made_of.x, made_of.weight, made_of.bias).value(), model(batch).value()) == 0);
}

TEST_CASE("Transformer: the three outputs belong together") {
  auto options = small();
  const Model logits(options);
  options.output = Output::log_probabilities;
  const Model logs(options);
  options.output = Output::probabilities;
  const Model probabilities(options);
  nn::copy_parameters(logits, logs);
  nn::copy_parameters(logits, probabilities);
  const auto batch = nn::ragged_batch(sentences());
  CHECK(test::distance(log_softmax(logits(batch)).value(), logs(batch).value()) < 1e-14);
  const auto p = probabilities(batch).value(), l = logs(batch).value();
  for (index_t i = 0; i < p.size(); ++i) CHECK(p.data()[i] == Approx(std::exp(l.data()[i])).epsilon(1e-13));
}

TEST_CASE("Transformer: encoder and decoder called apart are the whole") {
  const Model model(small());
  const auto batch = nn::ragged_batch(sentences());
  std::vector<AttentionWeights<double>> self, cross;
  const auto memory = model.encode(batch.source, batch.source_segments, {.self_weights = &self});
  const auto x = model.decode(batch.target, batch.target_segments, memory, {.cross_weights = &cross});
  CHECK(test::distance(model.logits(x).value(), model(batch).value()) == 0);
  CHECK(memory.x.shape() == Shape{7, 6});
  CHECK(x.shape() == Shape{6, 6});
  CHECK(self.size() == 2);
  REQUIRE(cross.size() == 2);
  CHECK(cross[0].dense().shape() == Shape{3, 2, 3, 4});
  std::vector<AttentionWeights<double>> of_call;
  (void)model(batch, {.cross_weights = &of_call});
  REQUIRE(of_call.size() == 2);
  CHECK(test::distance(of_call[1].dense(), cross[1].dense()) == 0);
}

TEST_CASE("Transformer: dropout in training, none in evaluation, and the same for the same seed") {
  auto options = small();
  options.dropout = 0.3;
  Model model(options);
  const auto batch = nn::ragged_batch(sentences());
  seed(1);
  const auto first = model(batch), second = model(batch);
  seed(1);
  const auto again = model(batch);
  CHECK(test::distance(first.value(), second.value()) > 1e-3);
  CHECK(test::distance(first.value(), again.value()) == 0);
  {
    const nn::EvaluationScope evaluation(model);
    CHECK(test::distance(model(batch).value(), model(batch).value()) == 0);
  }
  CHECK(nn::is_training(model));
}

TEST_CASE("Transformer: in evaluation without gradients nothing is recorded") {
  const Model model(small());
  const NoGrad no_grad;
  CHECK_FALSE(model(nn::ragged_batch(sentences())).requires_grad());
}

TEST_CASE("Transformer: a tied head of unscaled embeddings begins with logits of bearable size") {
  for (const bool scaled : {false, true}) {
    auto options = small();
    options.d_model = 64, options.tie_head = true, options.scale_embedding = scaled;
    seed(11);
    const nn::Transformer<float> model(options);
    const auto batch = nn::ragged_batch(sentences());
    const auto y = model(batch);
    // Residual branches begin small, so a row is much like the embedding of its own token, whose logit is then about
    // sqrt(d_model).
    for (index_t row = 0; row < y.shape()[0]; ++row)
      for (index_t token = 0; token < y.shape()[1]; ++token)
        CHECK(std::abs(y.value()(row, token)) < (token == batch.target.data()[row] ? 9.5f : 6.0f));
  }
}

TEST_CASE("Transformer names tokens and sentences that do not fit") {
  const Model model(small());
  auto batch = nn::ragged_batch(sentences());
  const auto good = batch;
  batch.source = good.source.clone();
  batch.source(3) = vocabulary;
  CHECK_THROWS_AS(model(batch), IndexError);
  CHECK_THROWS_WITH(model(batch), ContainsSubstring("token 7 at position 3 is outside the vocabulary of 7"));
  batch = good;
  batch.target = good.target.clone();
  batch.target(0) = -1;
  CHECK_THROWS_AS(model.loss(batch), IndexError);
  batch = good;
  batch.labels = good.labels.clone();
  batch.labels(5) = 7;
  CHECK_THROWS_WITH(model.loss(batch), ContainsSubstring("label 7 at position 5"));
  batch = good;
  batch.labels = {};
  CHECK_THROWS_AS(model.loss(batch), ShapeError);
  batch = good;
  batch.source = Tensor<token_t>({7}, 1), batch.source_segments = Segments::ragged({7});
  CHECK_THROWS_WITH(model(batch), ContainsSubstring("a sentence of 7 tokens is longer than the 6 positions of the model"));
  batch.source_segments = Segments::ragged({4, 3});
  CHECK_THROWS_AS(model(batch), ShapeError);  // two sources, three targets
}

TEST_CASE("Transformer: empty batches and empty sentences are no error") {
  const Model model(small());
  const nn::Batch<> nothing{.source = {}, .source_segments = {}, .target = {}, .target_segments = {}, .labels = {}};
  CHECK(model(nothing).shape() == Shape{0, vocabulary});
  CHECK(model.loss(nothing).item() == 0);
  const nn::Batch<> no_source{.source = {},
                              .source_segments = Segments::ragged({0}),
                              .target = Tensor<token_t>({2}, 1),
                              .target_segments = Segments::ragged({2}),
                              .labels = Tensor<token_t>({2}, 1)};
  const auto y = model(no_source);
  for (const double v : y.value().span()) CHECK(std::isfinite(v));
}

TEST_CASE("Transformer: in float, what a sentence gets has the same bits alone and beside others") {
  if (std::string_view(detail::gemm_provider) != "own") {
    WARN("skipped: products of other libraries do not promise it");
    return;
  }
  seed(3);
  const nn::Transformer<float> model(nn::TransformerOptions{
      .vocabulary = 40, .d_model = 48, .heads = 4, .d_ff = 80, .layers = 2, .dropout = 0, .max_length = 64});
  std::vector<index_t> sources, targets;
  std::vector<token_t> source, target;
  for (index_t s = 0; s < 17; ++s) {
    sources.push_back(1 + s * 5 % 13), targets.push_back(1 + s * 7 % 11);
    for (index_t i = 0; i < sources.back(); ++i) source.push_back(static_cast<token_t>((s * 31 + i * 17) % 40));
    for (index_t i = 0; i < targets.back(); ++i) target.push_back(static_cast<token_t>((s * 13 + i * 29) % 40));
  }
  const auto logits = [&](const std::vector<token_t>& from, const std::vector<index_t>& from_lengths,
                          const std::vector<token_t>& to, const std::vector<index_t>& to_lengths) {
    const auto tensor = [](const std::vector<token_t>& v) {
      return Tensor<token_t>({static_cast<index_t>(v.size())}, std::span<const token_t>(v));
    };
    return model(nn::Batch<>{.source = tensor(from),
                             .source_segments = Segments::ragged(from_lengths),
                             .target = tensor(to),
                             .target_segments = Segments::ragged(to_lengths),
                             .labels = tensor(to)})
        .value()
        .values();
  };
  const auto all = logits(source, sources, target, targets);
  auto from = source.begin(), to = target.begin();
  auto row = all.begin();
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto alone = logits({from, from + sources[s]}, {sources[s]}, {to, to + targets[s]}, {targets[s]});
    INFO("sentence " << s);
    CHECK(std::equal(alone.begin(), alone.end(), row));
    from += sources[s], to += targets[s], row += static_cast<std::ptrdiff_t>(alone.size());
  }
}

TEST_CASE("Transformer: of an empty batch the loss is 0, and no gradient is another number") {
  const Model model(small());
  const Tensor<token_t> nothing(Shape{0});
  const auto none = Segments::ragged({});
  const nn::Batch<> batch{
      .source = nothing, .source_segments = none, .target = nothing, .target_segments = none, .labels = nothing};
  const auto loss = model.loss(batch);
  CHECK(loss.item() == 0);
  loss.backward();
  for (const auto& p : nn::parameters(model))
    for (const double g : p.grad().values()) CHECK(g == 0);
}
