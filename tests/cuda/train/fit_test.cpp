#include <type_traits>

#include "attend/cuda.hpp"
#include "attend/io/model.hpp"
#include "attend/translate/translator.hpp"
#include "cuda/device.hpp"
#include "cuda/train/toy_transformer.hpp"
#include "train/thread_ranks.hpp"

using namespace attend;
using namespace attend::train;

namespace {

FitOptions options() {
  auto o = toy::options(3);
  o.tokens_per_batch = 48;
  o.accumulate = 2;
  o.curve_every = 2;
  o.validation = toy::corpus(6, 2);
  o.validate_every = 0;
  return o;
}

/// What two runs have in common, whatever order their sums had.
void check_near(const FitReport& got, const FitReport& expected, double allowed) {
  CHECK(got.steps == expected.steps);
  CHECK(got.tokens == expected.tokens);
  REQUIRE(got.curve.size() == expected.curve.size());
  for (std::size_t i = 0; i < got.curve.size(); ++i) {
    INFO("point " << i);
    CHECK(got.curve[i].step == expected.curve[i].step);
    CHECK(got.curve[i].loss == Approx(expected.curve[i].loss).epsilon(allowed));
    CHECK(got.curve[i].gradient_norm == Approx(expected.curve[i].gradient_norm).epsilon(20 * allowed));
  }
  REQUIRE(got.validations.size() == expected.validations.size());
  for (std::size_t i = 0; i < got.validations.size(); ++i)
    CHECK(got.validations[i].loss == Approx(expected.validations[i].loss).epsilon(allowed));
}

}  // namespace

TEST_CASE("cuda: fit on the device has the processor's losses, with graphs and without") {
  if (!device::present()) return;
  const auto corpus = toy::corpus(30);
  auto here = toy::transformer<float, Cpu>();
  const auto expected = fit(here, corpus, toy::Letters(), options());
  CHECK(expected.curve.back().loss < 0.9 * expected.curve.front().loss);
  for (const bool graphs : {true, false}) {
    cuda::enable_graphs(graphs);
    auto there = toy::transformer<float, Cuda>();
    check_near(fit(there, corpus, toy::Letters(), options()), expected, 1e-3);
  }
  cuda::enable_graphs(true);
  auto narrow = toy::transformer<bfloat16, Cuda>();
  check_near(fit(narrow, corpus, toy::Letters(), options()), expected, 3e-2);
}

TEST_CASE("cuda: with a teacher, fit on the device has the processor's losses, with graphs and without, and leaves the teacher") {
  if (!device::present()) return;
  const auto corpus = toy::corpus(30);
  const auto teacher = [&]<class T, Device D>(std::type_identity<nn::Transformer<T, D>>) {
    seed(8);
    return nn::Transformer<T, D>(
        {.vocabulary = 29, .d_model = 24, .heads = 2, .d_ff = 24, .layers = 2, .dropout = 0.3, .max_length = 24});
  };
  auto o = options();
  o.distillation_weight = 0.7;
  o.distillation_temperature = 2;
  auto here = toy::transformer<float, Cpu>(), alone = toy::transformer<float, Cpu>();
  const auto expected = fit(here, corpus, toy::Letters(), o, teacher(std::type_identity<nn::Transformer<float>>()));
  CHECK(expected.curve.front().loss != Approx(fit(alone, corpus, toy::Letters(), o).curve.front().loss).epsilon(0.01));
  std::vector<float> bits;
  for (const bool graphs : {true, false}) {
    cuda::enable_graphs(graphs);
    auto there = toy::transformer<float, Cuda>();
    const auto by = teacher(std::type_identity<nn::Transformer<float, Cuda>>());
    const auto before = toy::weights(by);
    check_near(fit(there, corpus, toy::Letters(), o, by), expected, 1e-3);
    CHECK(toy::weights(by) == before);
    if (bits.empty()) bits = toy::weights(there);
    CHECK(toy::weights(there) == bits);
  }
  cuda::enable_graphs(true);
  auto narrow = toy::transformer<bfloat16, Cuda>();
  check_near(fit(narrow, corpus, toy::Letters(), o, teacher(std::type_identity<nn::Transformer<bfloat16, Cuda>>())), expected,
             3e-2);
}

TEMPLATE_TEST_CASE("cuda: a run that was stopped and resumed gives the bits of one that was not", "", float, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  auto o = options();
  o.average_decay = 0.9;
  const auto bits = [](const nn::Transformer<T, Cuda>& m) {
    std::vector<float> all;
    for (const T x : toy::weights(m)) all.push_back(static_cast<float>(x));
    return all;
  };
  auto whole = toy::transformer<T, Cuda>();
  const auto expected = fit(whole, toy::corpus(30), toy::Letters(), o);

  const TemporaryFolder folder;
  o.output = folder.path();
  std::atomic<bool> stop{false};
  o.stop = &stop;
  o.on_step = [&](const CurvePoint& point) {
    if (point.step == 3) stop = true;
  };
  auto first = toy::transformer<T, Cuda>(), second = toy::transformer<T, Cuda>();
  REQUIRE(fit(first, toy::corpus(30), toy::Letters(), o).stopped == StopReason::interrupted);
  stop = false;
  o.on_step = {};
  o.resume = true;
  const auto report = fit(second, toy::corpus(30), toy::Letters(), o);
  CHECK(bits(second) == bits(whole));
  CHECK(report.steps == expected.steps);
  CHECK(report.curve.back().loss == expected.curve.back().loss);

  // The files are the processor's too.
  const auto here = io::load_model<float>(model_folder(folder.path()));
  const auto there = io::load_model<T, Cuda>(model_folder(folder.path()));
  const decode::Translator<toy::Letters, float> translate(here, toy::Letters(), {.beam = 2});
  const decode::Translator<toy::Letters, T, Cuda> translate_there(there, toy::Letters(), {.beam = 2});
  const std::vector<std::string> sentences{"dcba", "z", "", "hgfedc"};
  const auto a = translate(sentences), b = translate_there(sentences);
  CHECK(a.size() == b.size());
  if (std::is_same_v<T, float>) CHECK(a == b);
}

TEST_CASE("cuda: steps with gradients that are not finite are left out, counted and reported") {
  if (!device::present()) return;
  auto there = toy::transformer<float, Cuda>();
  there.decoder.layers[0].feed_forward.fc1.weight.value().fill(std::numeric_limits<float>::infinity());
  auto o = options();
  o.validation = {};
  o.validate_every = automatic;
  o.epochs = 0;
  o.max_steps = 3;
  const auto report = fit(there, toy::corpus(20), toy::Letters(), o);
  CHECK(report.skipped == 3);
}

TEST_CASE("cuda: ranks share a device and come to the bits of one process") {
  auto o = options();
  o.accumulate = 1;
  o.parts = 4;
  auto alone = toy::transformer<float, Cuda>();
  fit(alone, toy::corpus(30), toy::Letters(), o);
  const auto expected = toy::weights(alone);
  const auto ends = test::ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& communicator) {
    auto own = o;
    own.communicator = communicator;
    auto m = toy::transformer<float, Cuda>();
    fit(m, toy::corpus(30), toy::Letters(), own);
    if (toy::weights(m) != expected) throw Error("other weights");
  });
  for (const auto& end : ends)
    if (end) std::rethrow_exception(end);
}
