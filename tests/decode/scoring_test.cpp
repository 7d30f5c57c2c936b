#include "attend/decode/scoring.hpp"

#include <cmath>

#include "attend/decode/beam.hpp"
#include "attend/decode/transformer.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

using Tokens = std::vector<token_t>;

nn::Transformer<float> small_model(index_t layers = 2, index_t vocabulary = 300) {
  seed(9);
  nn::Transformer<float> model(nn::TransformerOptions{
      .vocabulary = vocabulary, .d_model = 32, .heads = 4, .d_ff = 48, .layers = layers, .dropout = 0.2, .max_length = 20});
  nn::set_training(model, false);
  return model;
}

const std::vector<Tokens> texts{{5, 6, 7, 2}, {9, 2}, {250, 17, 33, 44, 55, 66, 2}, {2}};

}  // namespace

TEST_CASE("score: what a search reports for its own output") {
  const auto model = small_model(2, 14);
  const std::vector<Tokens> sources{{5, 6, 7, 2}, {9, 2}, {13, 12, 4, 4, 5, 6, 2}, {2}};
  const decode::TransformerModel<float> steps(model);
  std::vector<index_t> lengths;
  Tokens all;
  for (const auto& s : sources) lengths.push_back(static_cast<index_t>(s.size())), all.insert(all.end(), s.begin(), s.end());
  const Tensor<token_t> ids({static_cast<index_t>(all.size())}, std::span<const token_t>(all));
  auto state = steps.begin(ids, Segments::ragged(lengths));
  const auto found = decode::beam_search(
      steps, state, 4,
      {.max_length = 6, .min_length = 3, .suppressed = {0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11}, .beam = 40, .n_best = 4});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::vector<Tokens> targets;
    for (const auto& list : found) targets.push_back(list.at(rank).tokens);
    const auto rated = decode::score(model, sources, targets, 1, 2);
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const auto& h = found[s][rank];
      REQUIRE(h.finished);
      CHECK(rated[s].tokens == h.tokens);
      CHECK(rated[s].log_probability == Approx(h.log_probability).epsilon(1e-5));
      REQUIRE(rated[s].token_log_probabilities.size() == h.token_log_probabilities.size());
      for (std::size_t i = 0; i < h.token_log_probabilities.size(); ++i)
        CHECK(rated[s].token_log_probabilities[i] == Approx(h.token_log_probabilities[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("score: what can follow adds up to one, and the batch changes no bit") {
  const auto model = small_model();
  std::vector<Tokens> many, targets;
  for (token_t t = 0; t < 300; ++t) many.push_back(texts[0]), targets.push_back(t == 2 ? Tokens{7} : Tokens{7, t});
  const auto rated = decode::score(model, many, targets, 1, 2);
  double sum = 0;
  for (std::size_t t = 0; t < rated.size(); ++t) sum += std::exp(static_cast<double>(rated[t].token_log_probabilities[1]));
  CHECK(sum == Approx(1).epsilon(1e-5));
  const std::vector<Tokens> last{targets[299]};
  const auto alone = decode::score(model, std::span<const Tokens>(texts).first(1), last, 1, 2);
  CHECK(alone[0].token_log_probabilities == rated[299].token_log_probabilities);
  CHECK(decode::score(model, std::span<const Tokens>(), std::span<const Tokens>(), 1, 2).empty());
}

TEST_CASE("score: refusals") {
  const auto model = small_model();
  const auto rate = [&](const Tokens& source, const Tokens& target) {
    const std::vector<Tokens> s{{2}, source}, t{{}, target};
    return decode::score(model, s, t, 1, 2);
  };
  CHECK(rate(Tokens(20, 5), Tokens(19, 5)).size() == 2);
  CHECK_THROWS_WITH(rate(Tokens(21, 5), {}), "score: source 2 has 21 tokens, the model takes 20");
  CHECK_THROWS_WITH(rate({2}, Tokens(20, 5)), "score: target 2 has 21 tokens with the begin token, the model takes 20");
  CHECK_THROWS_WITH(rate({300}, {}), "score: source 2 has token 300, outside the vocabulary of 300");
  CHECK_THROWS_WITH(rate({2}, {-1}), "score: target 2 has token -1, outside the vocabulary of 300");
  const std::vector<Tokens> none;
  CHECK_THROWS_AS(decode::score(model, texts, none, 1, 2), ValueError);
}

TEST_CASE("force_targets: the mean attention of one layer") {
  const auto model = small_model(3);
  const std::vector<Tokens> targets{{8, 9}, {}, {10, 11, 12}, {4}};
  std::vector<AttentionWeights<float>> all;
  const auto [source, source_segments] = decode::detail::end_to_end(texts, -1, -1);
  const auto [target, segments] = decode::detail::end_to_end(targets, 1, -1);
  {
    const NoGrad no_grad;
    (void)model.decode(target, segments, model.encode(source, source_segments), {.cross_weights = &all});
  }
  for (index_t layer = 0; layer < 3; ++layer) {
    const auto only = decode::detail::force_targets(model, texts, targets, {.scores = false, .layer = layer});
    const auto both = decode::detail::force_targets(model, texts, targets, {.layer = layer});
    for (index_t s = 0; s < 4; ++s) {
      const auto& got = only[static_cast<std::size_t>(s)];
      CHECK(got.token_log_probabilities.empty());
      CHECK(both[static_cast<std::size_t>(s)].attention.values() == got.attention.values());
      REQUIRE(got.attention.shape() == Shape{segments.length(s), source_segments.length(s)});
      for (index_t i = 0; i < got.attention.dim(0); ++i)
        for (index_t j = 0; j < got.attention.dim(1); ++j) {
          float mean = 0;
          for (index_t h = 0; h < 4; ++h) mean += all[static_cast<std::size_t>(layer)].matrix(s, h)(i, j) / 4;
          CHECK(got.attention(i, j) == Approx(mean).epsilon(1e-5));
        }
    }
  }
}
