#include "attend/ops/distillation_loss.hpp"

#include <cmath>
#include <limits>

#include "attend/ops/arithmetic.hpp"
#include "attend/ops/elementary.hpp"
#include "attend/ops/linear.hpp"
#include "attend/ops/reduce.hpp"
#include "attend/ops/softmax.hpp"
#include "operation.hpp"

using namespace attend;

namespace {

const Tensor<token_t> labels({4}, {1, -100, 4, 0});

/// The teacher's logits in the numbers of x, on its device.
template <class T, Device D>
Tensor<T, D> taught(const Var<T, D>& /*x*/, const Tensor<double>& teacher) {
  return operation::converted<T>(teacher).template to<D>();
}

/// The same by operations that know nothing of it, for rows that all count.
Var<double> composed(const Var<double>& student, const Tensor<double>& teacher, const Tensor<token_t>& all,
                     const DistillationOptions& how) {
  const double inverse = 1 / how.temperature;
  const auto log_p = log_softmax(student * inverse), log_q = log_softmax(Var<double>(teacher) * inverse);
  const auto divergence = sum(exp(log_q) * (log_q - log_p)) * (1.0 / static_cast<double>(student.dim(0)));
  return cross_entropy(student, all, how.labels) * (1 - how.weight) +
         divergence * (how.weight * how.temperature * how.temperature);
}

double worst(const Var<double>& a, const Var<double>& b) {
  double most = 0;
  for (index_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a.grad().data()[i] - b.grad().data()[i]));
  return most;
}

}  // namespace

TEST_CASE("distillation_loss agrees with differences, float with double, at any number of threads") {
  const auto teacher = operation::random({4, 5}, 9);
  for (const double weight : {0.0, 0.3, 1.0})
    for (const double temperature : {1.0, 2.5, 0.5})
      for (const bool mean : {true, false})
        operation::check(
            [&](const auto& in) {
              return distillation_loss(
                  in[0], taught(in[0], teacher), operation::beside(in[0], labels),
                  {.weight = weight, .temperature = temperature, .labels = {.smoothing = 0.1, .mean = mean}});
            },
            {operation::random({4, 5})});
}

TEST_CASE("linear_distillation_loss agrees with differences, and gives the teacher nothing") {
  const auto h = operation::random({4, 6}, 5), v = operation::random({5, 6}, 6), c = operation::random({5}, 7);
  const auto loss = [&](const auto& in, double temperature) {
    using V = std::remove_cvref_t<decltype(in[0])>;
    using Logits = LinearLogits<typename V::value_type, typename V::device_type>;
    const Logits teacher{V(taught(in[0], h), true), V(taught(in[0], v), true), V(taught(in[0], c), true)};
    return linear_distillation_loss(Logits{in[0], in[1], in[2]}, teacher, operation::beside(in[0], labels),
                                    {.weight = 0.4, .temperature = temperature, .labels = {.smoothing = 0.1}});
  };
  for (const double temperature : {1.0, 3.0})
    operation::check([&](const auto& in) { return loss(in, temperature); },
                     {operation::random({4, 3}), operation::random({5, 3}, 1), operation::random({5}, 2)});
}

TEST_CASE("distillation_loss by hand: two words") {
  // p = (3/4, 1/4) for the student, q = (1/2, 1/2) for the teacher.
  const Var<double> student(Tensor<double>({1, 2}, {std::log(3.0), 0}), true);
  const Tensor<double> teacher({1, 2}, {5, 5});
  const auto loss = distillation_loss(student, teacher, Tensor<token_t>({1}, {0}));
  CHECK(loss.item() == Approx(0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25)));
  loss.backward();
  CHECK(student.grad().data()[0] == Approx(0.25));
  CHECK(student.grad().data()[1] == Approx(-0.25));

  // At temperature 2, p = (3^1/2, 1) / (3^1/2 + 1), and the gradient is 2 (p - q).
  student.zero_grad();
  const double p = std::sqrt(3.0) / (std::sqrt(3.0) + 1);
  const auto warm = distillation_loss(student, teacher, Tensor<token_t>({1}, {0}), {.temperature = 2});
  CHECK(warm.item() == Approx(4 * (0.5 * std::log(0.5 / p) + 0.5 * std::log(0.5 / (1 - p)))));
  warm.backward();
  CHECK(student.grad().data()[0] == Approx(2 * (p - 0.5)));

  // Half of it, and half of the label's: 0.5 log(4/3).
  const auto mixed = distillation_loss(student, teacher, Tensor<token_t>({1}, {0}), {.weight = 0.5});
  CHECK(mixed.item() == Approx(0.5 * loss.item() + 0.5 * std::log(4.0 / 3)));
}

TEST_CASE("distillation_loss is its composition from simple operations, in one chunk and in several") {
  const index_t rows = 1500, classes = 5000;  // several chunks
  Tensor<token_t> all({rows});
  for (index_t i = 0; i < rows; ++i) all.data()[i] = static_cast<token_t>(i * 31 % classes);
  const auto input = operation::random<double>({rows, 2}), weight = operation::random<double>({classes, 2}, 1),
             theirs = operation::random<double>({rows, 3}, 2), their_weight = operation::random<double>({classes, 3}, 3);
  const auto teacher = linear(Var<double>(theirs), Var<double>(their_weight)).value();
  for (const double temperature : {1.0, 2.0}) {
    const DistillationOptions how{.weight = 0.7, .temperature = temperature, .labels = {.smoothing = 0.1}};
    const Var<double> x1(input, true), w1(weight, true), x2(input, true), w2(weight, true), x3(input, true), w3(weight, true),
        their_x(theirs, true), their_w(their_weight, true);
    const auto fused = linear_distillation_loss<double, Cpu>({x1, w1}, {their_x, their_w}, all, how),
               rows_at_once = distillation_loss(linear(x2, w2), teacher, all, how),
               simple = composed(linear(x3, w3), teacher, all, how);
    CHECK(fused.item() == Approx(simple.item()).epsilon(1e-12));
    CHECK(rows_at_once.item() == Approx(simple.item()).epsilon(1e-12));
    {
      const NoGrad off;
      CHECK(linear_distillation_loss<double, Cpu>({x1, w1}, {their_x, their_w}, all, how).item() == fused.item());
    }
    fused.backward(), rows_at_once.backward(), simple.backward();
    CHECK(worst(x1, x3) < 1e-14);
    CHECK(worst(w1, w3) < 1e-14);
    CHECK(worst(x2, x3) < 1e-14);
    CHECK(worst(w2, w3) < 1e-14);
    CHECK(their_x.grad().empty());
    CHECK(their_w.grad().empty());
  }
}

TEST_CASE("distillation_loss: a weight of 0 is the cross-entropy, a teacher that agrees pulls nowhere") {
  const Var<float> student(operation::random<float>({4, 300}), true), same(student.value().clone(), true);
  const auto teacher = operation::random<float>({4, 300}, 1);
  for (const double temperature : {1.0, 3.0}) {
    student.zero_grad(), same.zero_grad();
    const auto loss = distillation_loss(student, teacher, labels,
                                        {.weight = 0, .temperature = temperature, .labels = {.smoothing = 0.1}}),
               plain = cross_entropy(same, labels, {.smoothing = 0.1});
    CHECK(loss.item() == plain.item());
    loss.backward(), plain.backward();
    for (index_t i = 0; i < student.size(); ++i) CHECK(student.grad().data()[i] == Approx(same.grad().data()[i]).margin(1e-7));
    student.zero_grad();
    const auto none = distillation_loss(student, student.value(), labels, {.temperature = temperature});
    CHECK(none.item() == 0);
    none.backward();
    for (const float g : student.grad().span()) CHECK(g == 0);
  }
}

TEST_CASE("distillation_loss of huge logits is finite, and what the teacher excludes counts for nothing") {
  const float never = -std::numeric_limits<float>::infinity();
  const Var<float> x(Tensor<float>({1, 3}, {1e5f, -1e5f, 0}), true);
  for (const double temperature : {1.0, 4.0}) {
    x.zero_grad();
    const auto loss = distillation_loss(x, Tensor<float>({1, 3}, {-1e5f, 1e5f, never}), Tensor<token_t>({1}, {1}),
                                        {.temperature = temperature});
    CHECK(loss.item() == Approx(2e5 * temperature));  // T^2 times a difference of 2e5 / T
    loss.backward();
    CHECK(x.grad().values() == std::vector<float>{static_cast<float>(temperature), -static_cast<float>(temperature), 0.0f});
  }
  // Both exclude the same word, which is the label: its cross-entropy would be infinite, but has no share.
  const Var<float> y(Tensor<float>({1, 3}, {1, 2, never}), true);
  const auto loss = distillation_loss(y, Tensor<float>({1, 3}, {1, 2, never}), Tensor<token_t>({1}, {2}));
  CHECK(loss.item() == 0);
  loss.backward();
  for (const float g : y.grad().span()) CHECK(g == 0);
}

TEST_CASE(
    "distillation_loss: a teacher that is no number never passes for one that agrees; without a share it is not looked at") {
  const auto check = []<class T, class D>(const Var<T, D>& on) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), infinite, -infinite})
      for (const bool all : {false, true}) {
        if (bad < 0 && !all) continue;  // one word that is excluded is none
        INFO(bad << (all ? " in all of a row" : ""));
        const Var<T, D> x(taught(on, operation::random({2, 40})), true);
        const auto numbers = operation::random({2, 40}, 1);
        for (index_t j = 0; j < (all ? 40 : 1); ++j) numbers.data()[40 + j] = bad;
        const auto teacher = taught(x, numbers);
        const auto two = operation::beside(x, Tensor<token_t>({2}, {0, 1}));
        CHECK(std::isnan(static_cast<double>(distillation_loss(x, teacher, two, {.weight = 0.5}).value().to_host().item())));
        const auto none = distillation_loss(x, teacher, two, {.weight = 0, .temperature = 2});
        CHECK(std::isfinite(static_cast<double>(none.value().to_host().item())));
        none.backward();
        for (const auto g : x.grad().to_host().values()) CHECK(std::isfinite(static_cast<double>(g)));
      }
  };
  check(Var<float>());
  check(Var<double>());
#if defined(ATTEND_TEST_CUDA)
  if (device::present()) check(Var<float, Cuda>());
#endif
}

TEST_CASE("distillation_loss: where no row counts, the loss is 0 and so are its gradients") {
  for (const index_t rows : {0, 2}) {
    const Var<float> x(Tensor<float>({rows, 3}, 1.0f), true), w(Tensor<float>({5, 3}, 1.0f), true),
        b(Tensor<float>({5}, 1.0f), true);
    const Tensor<float> teacher({rows, 5}, 2.0f);
    const Tensor<token_t> ignored({rows}, -100);
    const auto fused = linear_distillation_loss<float, Cpu>({x, w, b}, {x, w, b}, ignored);
    CHECK(fused.item() == 0);
    CHECK(fused.requires_grad());
    fused.backward();
    CHECK(w.grad().values() == std::vector<float>(15, 0.0f));
    CHECK(b.grad().values() == std::vector<float>(5, 0.0f));
    const auto plain = distillation_loss(linear(x, w, b), teacher, ignored, {.weight = 0.5, .temperature = 2});
    CHECK(plain.item() == 0);
    plain.backward();
    CHECK(w.grad().values() == std::vector<float>(15, 0.0f));
  }
}

TEST_CASE("distillation_loss names what does not fit") {
  const Var<float> x(Tensor<float>({2, 3}, 0.0f)), w(Tensor<float>({5, 3}, 0.0f)), other(Tensor<float>({6, 3}, 0.0f));
  const Tensor<float> teacher({2, 3}, 0.0f);
  const Tensor<token_t> good({2}, {0, 1});
  const auto call = [&](const DistillationOptions& how) { return distillation_loss(x, teacher, good, how); };
  CHECK_THROWS_WITH(distillation_loss(x, Tensor<float>({2, 4}, 0.0f), good),
                    "distillation_loss: teacher has shape [2, 4], expected [2, 3]");
  CHECK_THROWS_WITH(distillation_loss(x, teacher, Tensor<token_t>({3}, {0, 1, 2})),
                    "distillation_loss: labels have shape [3], expected 2 of them");
  CHECK_THROWS_WITH(distillation_loss(x, teacher, Tensor<token_t>({2}, {0, 3})),
                    "distillation_loss: label 3 at position 1 is outside [0, 3)");
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(call({.temperature = bad}), ValueError);
  CHECK_THROWS_WITH(call({.temperature = 0}), "distillation_loss: temperature 0 is outside [0.01, 100]");
  CHECK_THROWS_AS(call({.temperature = 101}), ValueError);
  CHECK_THROWS_WITH(call({.weight = 1.5}), "distillation_loss: weight 1.5 is outside [0, 1]");
  CHECK_THROWS_AS(call({.weight = -0.1}), ValueError);
  CHECK_THROWS_AS(call({.labels = {.smoothing = 1}}), ValueError);
  CHECK_THROWS_WITH(call({.labels = {.r_drop = 2}}), "distillation_loss: r_drop is 2, and there is no R-Drop here");
  const auto fused = [&](const LinearLogits<float>& theirs, const DistillationOptions& how = {}) {
    return linear_distillation_loss({x, w}, theirs, good, how);
  };
  CHECK_THROWS_WITH(fused({x, other}), "linear_distillation_loss: the teacher's logits have shape [2, 6], the student's [2, 5]");
  CHECK_THROWS_AS(fused({Var<float>(Tensor<float>({3, 3}, 0.0f)), w}), ShapeError);
  CHECK_THROWS_AS(fused({Var<float>(Tensor<float>({2, 4}, 0.0f)), w}), ShapeError);
  CHECK_THROWS_WITH(fused({x, w}, {.temperature = -2}), "linear_distillation_loss: temperature -2 is outside [0.01, 100]");
}
