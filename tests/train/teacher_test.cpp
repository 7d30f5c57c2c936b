#include "attend/train/teacher.hpp"

#include <atomic>
#include <exception>
#include <memory>

#include "../catch.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/ops/softmax.hpp"
#include "thread_ranks.hpp"
#include "toy.hpp"
#include "with_threads.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;
using test::ThreadRanks;

namespace {

/// A wider model than the student, that knows the language already.
const toy::Model<float>& teacher() {
  static const toy::Model<float> model = [] {
    seed(9);
    toy::Model<float> wide(0.4, 20);
    fit(wide, toy::corpus(100, 7), toy::Letters(), toy::options(4));
    nn::set_training(wide, true);  // so that its dropout would be on
    return wide;
  }();
  return model;
}

FitOptions full_options() {
  auto options = toy::options(3);
  options.tokens_per_batch = 40;
  options.accumulate = 2;
  options.curve_every = 1;
  options.validation = toy::corpus(20, 2);
  options.validate_every = 7;
  options.checkpoint_seconds = 0;
  options.distillation_weight = 0.6;
  options.distillation_temperature = 2;
  return options;
}

template <class M = toy::Model<float>>
FitReport taught(M& student, const FitOptions& options, const Teacher<float>& by) {
  return fit(student, toy::corpus(100), toy::Letters(), options, by);
}

nn::Transformer<float> transformer(index_t vocabulary, index_t max_length = 32) {
  return nn::Transformer<float>({.vocabulary = vocabulary, .d_model = 8, .heads = 2, .layers = 1, .max_length = max_length});
}

/// The toy model without what a teacher would need to be compared with.
struct Mute {
  using value_type = float;
  using device_type = Cpu;
  toy::Model<float> inner = toy::model();
  [[nodiscard]] Var<float> loss(const nn::Batch<>& batch, const CrossEntropyOptions& how) const { return inner.loss(batch, how); }
  template <class F>
  void fields(F&& field) {
    inner.fields(field);
  }
};

}  // namespace

TEST_CASE("distillation: the loss of a step is made of the labels' and the teacher's", "[train]") {
  for (const double temperature : {1.0, 3.0}) {
    auto options = toy::options(0);
    options.max_steps = 1;
    options.tokens_per_batch = 100'000;  // all pairs at once, in a known order
    options.curve_every = 1;
    options.label_smoothing = 0.1;
    options.distillation_weight = 0.3;
    options.distillation_temperature = temperature;
    auto student = toy::model();
    const Batches batches(encode_pairs(toy::corpus(100), toy::Letters()), 1, 2, {.tokens_per_batch = 100'000});
    const auto batch = batches.make(batches.in_order()[0]);
    const auto& m = teacher();
    const Tensor<float> theirs = linear(m.embedding(batch.target), m.head.weight, m.head.bias).value();
    CHECK_FALSE(Teacher<float>(m)(batch).x.requires_grad());  // nothing is recorded
    const auto own = linear(student.embedding(batch.target), student.head.weight, student.head.bias);
    const auto log_p = log_softmax(own * (1 / temperature)), log_q = log_softmax(Var<float>(theirs) * (1 / temperature));
    double divergence = 0;
    for (index_t i = 0; i < log_p.size(); ++i) {
      const double p = log_p.data()[i], q = log_q.data()[i];
      divergence += std::exp(q) * (q - p) / static_cast<double>(log_p.dim(0));
    }
    const double expected =
        0.7 * cross_entropy(own, batch.labels, {.smoothing = 0.1}).item() + 0.3 * temperature * temperature * divergence;
    const auto report = taught(student, options, teacher());
    CHECK(report.curve.front().loss == Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("distillation: the student comes to say what the teacher says, and the teacher stays what it is", "[train]") {
  // The pairs' labels are of another language than the teacher's, and with a weight of 1 count for nothing.
  text::Corpus noise = toy::corpus(100);
  for (auto& pair : noise.pairs) std::reverse(pair.target.begin(), pair.target.end());
  auto options = toy::options(30);
  options.distillation_weight = 1;
  auto student = toy::model(), plain = toy::model();
  const auto before = toy::weights(teacher());
  nn::zero_grad(teacher());  // what its own training has left
  fit(student, noise, toy::Letters(), options, teacher());
  CHECK(toy::weights(teacher()) == before);
  CHECK(nn::is_training(teacher()));
  for (const auto& p : nn::parameters(teacher())) CHECK(p.grad().values() == std::vector<float>(p.size(), 0.0f));
  fit(plain, noise, toy::Letters(), options);
  const Validation language(toy::corpus(50, 3), toy::Letters(), {.tokens_per_batch = 64});
  toy::Model<float> theirs = teacher();
  const double of_teacher = *language.loss(theirs), of_student = *language.loss(student), of_plain = *language.loss(plain);
  CHECK(of_student < of_teacher + 0.1);
  CHECK(of_plain > of_teacher + 1);
}

TEST_CASE("distillation: a weight of 0 leaves the bits of a training without a teacher", "[train]") {
  auto options = full_options();
  auto plain = toy::model(0.3), off = toy::model(0.3), on = toy::model(0.3);
  fit(plain, toy::corpus(100), toy::Letters(), options);
  taught(on, options, teacher());
  options.distillation_weight = 0;
  options.r_drop = 0;
  taught(off, options, teacher());
  CHECK(toy::weights(off) == toy::weights(plain));
  CHECK(toy::weights(on) != toy::weights(plain));
}

TEST_CASE("distillation: the same bits by any number of ranks and threads", "[train]") {
  auto options = full_options();
  options.parts = 8;
  const auto run = [&](const std::shared_ptr<Communicator>& ranks) {
    auto own = options;
    own.communicator = ranks;
    auto student = toy::model(0.3);
    const auto report = taught(student, own, teacher());
    return std::pair(toy::weights(student), report.curve);
  };
  const auto alone = [&](int count) {
    const WithThreads set(count);
    return run(nullptr);
  };
  const auto [expected, curve] = alone(1);
  CHECK(alone(3).first == expected);
  for (const index_t count : {1, 2, 4}) {
    std::vector<std::vector<float>> all(static_cast<std::size_t>(count));
    std::vector<double> losses;
    const auto ends = ThreadRanks::run(count, [&](const std::shared_ptr<Communicator>& ranks) {
      auto [weights, points] = run(ranks);
      nth(all, ranks->rank()) = std::move(weights);
      if (ranks->rank() == 0)
        for (const auto& point : points) losses.push_back(point.loss);
    });
    for (const auto& end : ends)
      if (end) std::rethrow_exception(end);
    for (const auto& weights : all) CHECK(weights == expected);
    REQUIRE(losses.size() == curve.size());
    for (std::size_t i = 0; i < curve.size(); ++i) CHECK(losses[i] == curve[i].loss);
  }
  // A rank that has another teacher is found out before the first step.
  const auto ends = ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& ranks) {
    auto own = options;
    own.communicator = ranks;
    auto student = toy::model(0.3), other = toy::model();
    taught(student, own, ranks->rank() == 0 ? teacher() : other);
  });
  REQUIRE(ends[0]);
  CHECK_THROWS_WITH(std::rethrow_exception(ends[0]), ContainsSubstring("teacher of "));
}

TEST_CASE("distillation: stopped and resumed, the bits are those of a run that was not stopped", "[train]") {
  auto options = full_options();
  auto whole = toy::model(0.3);
  const auto expected = taught(whole, options, teacher());
  const TemporaryFolder folder;
  options.output = folder.path();
  std::atomic<bool> stop{false};
  options.stop = &stop;
  index_t pieces = 0;
  FitReport report;
  toy::Model<float> last = toy::model(0.3);
  do {
    stop = false;
    index_t left = 2 + pieces++;
    options.on_step = [&](const CurvePoint&) { stop = --left == 0; };
    auto student = toy::model(0.3);
    report = taught(student, options, teacher());
    options.resume = true;
    last = student;
  } while (report.stopped == StopReason::interrupted && pieces < 50);
  CHECK(pieces > 3);
  CHECK(report.steps == expected.steps);
  CHECK(toy::weights(last) == toy::weights(whole));
}

TEST_CASE("distillation: a run goes on with the teacher that it began with, or not at all", "[train]") {
  auto options = full_options();
  options.validation = {}, options.validate_every = automatic;
  options.epochs = 1;
  const TemporaryFolder folder, plain_folder;
  options.output = folder.path();
  auto student = toy::model();
  taught(student, options, teacher());
  options.resume = true;
  options.epochs = 2;
  const auto fails = [&](const Teacher<float>& by, const FitOptions& with, const std::string& why) {
    auto again = toy::model();
    CHECK_THROWS_WITH(taught(again, with, by), ContainsSubstring("is of another run: ") && ContainsSubstring(why));
  };
  seed(9);
  const toy::Model<float> other(0.4, 20);
  nn::copy_parameters(teacher(), other);
  other.head.bias->data()[28] += 1e-6f;  // one number
  const auto numbers = std::to_string(nn::parameter_count(other));
  fails(other, options, "teacher of " + numbers + " numbers (this run: others)");
  fails(Teacher<float>(), options, "teacher of " + numbers + " numbers (this run: none)");
  auto changed = options;
  changed.distillation_weight = 0.5;
  fails(teacher(), changed, "distillation_weight 0.6 (this run: 0.5)");
  changed = options;
  changed.distillation_temperature = 1;
  fails(teacher(), changed, "distillation_temperature 2 (this run: 1)");
  other.head.bias->data()[28] = teacher().head.bias->data()[28];
  auto again = toy::model();
  CHECK_NOTHROW(taught(again, options, other));  // the same numbers

  changed = options;
  changed.output = plain_folder.path();
  changed.resume = false;
  changed.epochs = 1;
  auto plain = toy::model();
  fit(plain, toy::corpus(100), toy::Letters(), changed);
  changed.resume = true;
  fails(teacher(), changed, "teacher none (this run: of " + numbers + " numbers)");
}

TEST_CASE("distillation: a teacher that cannot teach is refused by name", "[train]") {
  const auto fails = [&](auto&& student, const Teacher<float>& by, const std::string& why, const FitOptions& options = {}) {
    auto with = options;
    with.progress.mode = ProgressMode::off;
    with.max_steps = 1;
    CHECK_THROWS_WITH(taught(student, with, by), why);
  };
  fails(transformer(29), transformer(31),
        "fit: the teacher's vocabulary is 31, that of the model that is trained 29; they must be the same");
  fails(transformer(29), transformer(29, 5), "fit: a sentence has 9 tokens, the teacher takes 5; set max_length");
  nn::Transformer<float> few({.source_vocabulary = 20, .target_vocabulary = 29, .d_model = 8, .heads = 2, .layers = 1});
  fails(transformer(29), few, "fit: the tokenizer has 29 tokens, the teacher's source vocabulary 20");
  // Models that do not say how wide they are find out in the first step.
  fails(toy::model(), toy::Model<float>(0, 20, 31),
        "linear_distillation_loss: the teacher's logits have shape [513, 31], the student's [513, 29]",
        {.tokens_per_batch = 10'000});
  auto own = toy::model();
  fails(own, own, "fit: the teacher shares parameters with the model that is trained, and so would change");
  fails(toy::model(), teacher(), "fit: r_drop is 5, which excludes a teacher", {.r_drop = 5});
  fails(Mute(), teacher(), "fit: the model has no `linear_logits(batch)`, by which it would be compared with a teacher");
  CHECK_THROWS_WITH(check(FitOptions{.distillation_weight = 1.5}), ContainsSubstring("distillation_weight is 1.5"));
  CHECK_THROWS_WITH(check(FitOptions{.distillation_temperature = 0}), ContainsSubstring("distillation_temperature is 0"));
  auto same = transformer(29);
  auto options = toy::options(1);
  CHECK(taught(same, options, transformer(29)).steps > 0);
}
