#include "attend/nn/transformer.hpp"

#include "../catch.hpp"
#include "toy.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::Transformer<float> tiny_model(index_t vocabulary = 29, index_t max_length = 32) {
  seed(3);
  return nn::Transformer<float>({.vocabulary = vocabulary,
                                 .d_model = 16,
                                 .heads = 2,
                                 .d_ff = 32,
                                 .layers = 1,
                                 .dropout = 0.2,
                                 .attention_dropout = 0.1,
                                 .max_length = max_length,
                                 .share_embeddings = true,
                                 .tie_head = true});
}

}  // namespace

TEST_CASE("fit a Transformer: stopped in the middle of an epoch and resumed, the bits are the same", "[train]") {
  auto options = toy::options(3);
  options.accumulate = 2;
  auto whole = tiny_model();
  const auto expected = fit(whole, toy::corpus(60), toy::Letters(), options);
  CHECK(expected.curve.size() > 0);

  const TemporaryFolder folder;
  auto first = tiny_model(), second = tiny_model();
  options = toy::stopped_run(folder.path(), first, options, 4);
  CHECK(toy::weights(first) != toy::weights(whole));
  fit(second, toy::corpus(60), toy::Letters(), options);
  CHECK(toy::weights(second) == toy::weights(whole));

  const auto loaded = io::load_model<float>(model_folder(folder.path()));
  CHECK(toy::weights(loaded) == toy::weights(whole));
}

TEST_CASE("fit a Transformer: a vocabulary or a length that does not fit is seen before training", "[train]") {
  auto small = tiny_model(20), brief = tiny_model(29, 6);
  CHECK_THROWS_WITH(fit(small, toy::corpus(60), toy::Letters(), toy::options()),
                    ContainsSubstring("29 tokens, the model's vocabulary 20"));
  CHECK_THROWS_WITH(fit(brief, toy::corpus(60), toy::Letters(), toy::options()),
                    ContainsSubstring("9 tokens, the model takes 6"));
}
