#include "nn/stack_parts.hpp"

#include "attend/decode/transformer.hpp"
#include "attend/nn/dense.hpp"
#include "attend/optim/adam.hpp"
#include "modules.hpp"

using namespace attend;

namespace {

nn::TransformerOptions small() {
  return {.vocabulary = 11,
          .d_model = 32,
          .heads = 4,
          .d_ff = 40,
          .layers = 2,
          .dropout = 0,
          .activation = Activation::gelu,
          .max_length = 40};
}

/// Losses and weights of some steps, captured as a graph or launched.
template <class T>
std::vector<double> trained(const nn::TransformerOptions& options, bool captured) {
  cuda::enable_graphs(captured);
  seed(3);
  const nn::Transformer<T, Cuda> model(options);
  const auto batch = nn::ragged_batch(test::sentences()).to<Cuda>();
  optim::Adam<T, Cuda> adam(nn::parameters(model));
  const Tensor<Wide<T>, Cuda> loss({1});
  Repeated<Cuda> step;
  std::vector<double> all;
  for (int i = 0; i < 5; ++i) {
    adam.zero_grad();
    step.run([&] {
      const auto mean = model.loss(batch);
      copy(Cuda{}, index_t{1}, mean.data(), loss.data());
      mean.backward();
    });
    adam.update(3e-3, 1.0);
    all.push_back(static_cast<double>(loss.item()));
  }
  CHECK(step.captured() == captured);
  cuda::enable_graphs(true);
  for (const auto& p : nn::parameters(model))
    for (const T x : p.value().values()) all.push_back(static_cast<double>(x));
  return all;
}

}  // namespace

TEST_CASE("cuda: a Transformer with each part of a stack is the processor's: output, loss, gradients") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    auto options = small();
    part.choose(options);
    const auto make = [=]<class T, class D>() { return nn::Transformer<T, D>(options); };
    for (const auto& batch : {nn::ragged_batch(test::sentences()), nn::dense_batch(test::sentences())}) {
      modules::check(
          make, [&](const auto& m, auto& given) { return m(given.beside(batch)); }, {}, modules::Depth::stack);
      modules::check(
          make, [&](const auto& m, auto& given) { return m.loss(given.beside(batch)); }, {}, modules::Depth::stack);
    }
  }
}

TEMPLATE_TEST_CASE("cuda: recorded steps of decoding equal one pass over the whole target with each part of a stack", "", double,
                   float, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    auto options = small();
    part.choose(options);
    seed(5);
    nn::Transformer<T, Cuda> model(options);
    modules::randomise(model, modules::rounded_to<T>);
    const decode::TransformerModel<T, Cuda> steps(model);
    const nn::EvaluationScope evaluation(model);
    const NoGrad no_grad;
    const index_t length = 35;  // beyond the room that there is at first
    std::vector<token_t> target;
    for (index_t row = 0; row < 2; ++row)
      for (index_t t = 0; t < length; ++t) target.push_back(t == 0 ? 1 : static_cast<token_t>(1 + (3 + 4 * row) * t % 10));
    const auto source = Tensor<token_t>({9}, {3, 4, 5, 2, 6, 7, 8, 9, 2}).to<Cuda>();
    const auto segments = Segments::ragged({4, 5});
    const nn::Batch<Cuda> batch{source,
                                segments,
                                Tensor<token_t>({2 * length}, std::span<const token_t>(target)).to<Cuda>(),
                                Segments::ragged({length, length}),
                                {}};
    const auto logits = device::converted<double>(model(batch).value().to_host());
    const Tensor<double> expected(logits.shape());
    log_softmax_forward(Cpu{}, logits.dim(0), logits.dim(1), logits.data(), expected.data());
    auto state = steps.begin(source, segments);
    double worst = 0;
    for (index_t t = 0; t < length; ++t) {
      const auto got = steps.step(state, std::vector<token_t>{nth(target, t), nth(target, length + t)}).to_host();
      for (index_t row = 0; row < 2; ++row)
        for (index_t j = 0; j < 11; ++j)
          worst = std::max(worst, std::abs(static_cast<double>(got(row, j)) - expected(row * length + t, j)));
    }
    CHECK(worst < (std::is_same_v<T, double> ? 1e-12 : std::is_same_v<T, float> ? 1e-4 : 0.15));
  }
}

TEMPLATE_TEST_CASE("cuda: steps of training with each part of a stack are captured, and give the bits of launched ones", "",
                   float, bfloat16) {
  if (!device::present()) return;
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    auto options = small();
    options.layers = 1, options.dropout = 0.1, options.attention_dropout = 0.1;
    part.choose(options);
    CHECK(trained<TestType>(options, false) == trained<TestType>(options, true));
  }
}
