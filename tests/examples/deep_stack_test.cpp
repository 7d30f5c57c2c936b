#include <cmath>
#include <map>

#include "../../examples/translate/demo_corpus/grammar.hpp"
#include "../catch.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/train/fit.hpp"

using namespace attend;

namespace {

text::Corpus corpus(const std::vector<demo::Pair>& pairs) {
  text::Corpus list;
  for (const auto& pair : pairs) list.pairs.push_back({pair.source, pair.target});
  return list;
}

/// What a model reaches that knows nothing but how frequent each target token is: nats a token.
double unigram_entropy(const text::Corpus& pairs, const text::SentencePiece& tokenizer) {
  std::map<token_t, double> counts;
  double all = 0;
  for (const auto& pair : pairs) {
    for (const token_t token : tokenizer.encode(pair.target)) ++counts[token], ++all;
    ++counts[tokenizer.eos()], ++all;
  }
  double entropy = 0;
  for (const auto& [token, count] : counts) entropy -= count / all * std::log(count / all);
  return entropy;
}

}  // namespace

TEST_CASE("twelve post-norm layers on either side learn from the first steps on", "[translate]") {
  const auto pairs = demo::demo_corpus(1, {.train = 6000, .validation = 100, .test = 10});
  const auto train = corpus(pairs.train);
  const auto tokenizer = text::SentencePiece::train(train, {.vocabulary = 400});
  const double entropy = unigram_entropy(train, tokenizer);
  seed(1);
  nn::Transformer<float> model({.vocabulary = tokenizer.size(),
                                .d_model = 32,
                                .heads = 4,
                                .d_ff = 64,
                                .layers = 12,
                                .share_embeddings = true,
                                .tie_head = true});
  const auto report = train::fit(model, train, tokenizer,
                                 {.max_steps = 200,
                                  .tokens_per_batch = 600,
                                  .optimizer = optim::AdamOptions{.learning_rate = 2e-3, .beta2 = 0.98, .eps = 1e-9},
                                  .schedule = optim::Schedule({.learning_rate = 2e-3, .warmup = 100}),
                                  .validation = corpus(pairs.validation),
                                  .validate_every = 100,
                                  .progress = {.mode = train::ProgressMode::off}});
  REQUIRE(report.validations.size() == 2);
  INFO("entropy of single tokens " << entropy << ", validation loss " << report.validations[0].loss << " and "
                                   << report.validations[1].loss);
  CHECK(report.validations[0].loss < 0.85 * entropy);
  CHECK(report.validations[1].loss < 0.6 * entropy);
}
