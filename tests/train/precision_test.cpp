#include "../catch.hpp"
#include "attend/nn/transformer.hpp"
#include "toy.hpp"
#include "with_threads.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;

namespace {

FitOptions bf16_options(index_t epochs) {
  auto options = toy::options(epochs);
  options.accumulate = 2;
  options.checkpoint_seconds = 0;
  options.validation = toy::corpus(20, 2);
  options.precision = Precision::bf16;
  return options;
}

}  // namespace

TEST_CASE("fit: in bf16 the bits are those of any number of threads, and of a run that was stopped; they are not float's") {
  const auto corpus = toy::corpus(100);
  const auto train = [&](FitOptions options) {
    auto model = toy::model(0.2);
    const auto report = fit(model, corpus, toy::Letters(), options);
    return std::pair(toy::weights(model), report);
  };
  const auto [expected, report] = train(bf16_options(4));
  CHECK(report.curve.back().loss < report.curve.front().loss);
  CHECK(matmul_precision() == Precision::full);
  auto options = bf16_options(4);
  options.precision = Precision::full;
  const auto [full, full_report] = train(options);
  CHECK((full != expected));
  CHECK(report.validations.back().loss == Approx(full_report.validations.back().loss).epsilon(0.02));
  for (const int count : {1, 2, 3}) {
    const WithThreads set(count);
    CHECK((train(bf16_options(4)).first == expected));
  }
  const TemporaryFolder folder;
  options = bf16_options(4);
  options.output = folder.path();
  std::atomic<bool> stop{false};
  options.stop = &stop;
  options.on_step = [&](const CurvePoint& point) { stop = point.step == 7; };
  CHECK(train(options).second.stopped == StopReason::interrupted);
  stop = false;
  options.resume = true;
  CHECK((train(options).first == expected));
}

TEST_CASE("fit: the validation loss is computed in the precision of the steps, with the bits of the model in that precision") {
  auto model = toy::model();
  auto options = bf16_options(1);
  const auto report = fit(model, toy::corpus(50), toy::Letters(), options);
  const text::AnyTokenizer letters{toy::Letters()};
  const Validation validation(options.validation, letters,
                              {.tokens_per_batch = options.tokens_per_batch, .source_end = letters.source_end()});
  const auto full = validation.measure(model, options.translate)->loss;
  const MatmulPrecision scope(Precision::bf16);
  CHECK(report.validations.back().loss == *validation.loss(model));
  CHECK(report.validations.back().loss != full);
}

TEST_CASE("fit: a run goes on in the precision in which it began; runs from before there was one are in full") {
  const TemporaryFolder folder;
  auto options = bf16_options(1);
  options.output = folder.path();
  auto model = toy::model();
  fit(model, toy::corpus(50), toy::Letters(), options);
  options.epochs = 2;
  options.resume = true;
  options.precision = Precision::full;
  CHECK_THROWS_WITH(fit(model, toy::corpus(50), toy::Letters(), options), ContainsSubstring("precision bf16 (this run: full)"));
  CHECK(train::detail::differences({{"run.seed", "1"}}, {{"seed", "1"}, {"precision", "full"}}).empty());
  CHECK(train::detail::differences({{"run.seed", "1"}}, {{"seed", "1"}, {"precision", "bf16"}}) ==
        "precision full (this run: bf16)");
}

TEST_CASE("fit: refuses precisions that it or the model's numbers do not have") {
  auto options = bf16_options(1);
  auto doubles = toy::model<double>();
  CHECK_THROWS_WITH(fit(doubles, toy::corpus(50), toy::Letters(), options),
                    "fit: precision is bf16, which is for models of floats on the CPU; on a GPU bfloat16 is a type of model");
  options.precision = Precision::int8;
  auto model = toy::model();
  CHECK_THROWS_WITH(fit(model, toy::corpus(50), toy::Letters(), options), "fit: precision is int8, expected full or bf16");
}

TEST_CASE("a Transformer in bf16: loss and every gradient are close to float's") {
  seed(5);
  nn::Transformer<float> model({.vocabulary = 40, .d_model = 64, .heads = 4, .d_ff = 128, .layers = 2, .dropout = 0});
  std::vector<token_t> tokens, labels;
  for (token_t i = 0; i < 30; ++i) tokens.push_back(3 + i * 7 % 37), labels.push_back(3 + i * 11 % 37);
  const auto tensor = [](const std::vector<token_t>& x) {
    return Tensor<token_t>({static_cast<index_t>(x.size())}, std::span<const token_t>(x));
  };
  const nn::Batch<> batch{.source = tensor(tokens),
                          .source_segments = Segments::ragged({12, 18}),
                          .target = tensor(tokens),
                          .target_segments = Segments::ragged({17, 13}),
                          .labels = tensor(labels)};
  const auto pass = [&](Precision precision) {
    const MatmulPrecision scope(precision);
    for (const auto& p : nn::parameters(model)) p.zero_grad();
    const auto loss = model.loss(batch, {.smoothing = 0.1});
    loss.backward();
    std::vector<std::vector<float>> all{loss.value().values()};
    for (const auto& p : nn::parameters(model)) all.push_back(p.grad().values());
    return all;
  };
  const auto full = pass(Precision::full), bf16 = pass(Precision::bf16);
  CHECK(bf16[0][0] == Approx(full[0][0]).epsilon(2e-3));
  for (std::size_t i = 1; i < full.size(); ++i) {
    double off = 0, norm = 0;
    for (std::size_t j = 0; j < full[i].size(); ++j) {
      off += std::pow(static_cast<double>(bf16[i][j]) - full[i][j], 2);
      norm += std::pow(static_cast<double>(full[i][j]), 2);
    }
    INFO("parameter " << i << " of " << full.size() - 1);
    CHECK(off <= 0.06 * 0.06 * norm);  // a wrong operand would be off by all of it
    CHECK(off > 0);
  }
}
