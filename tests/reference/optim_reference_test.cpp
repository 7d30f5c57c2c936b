#include <string>
#include <vector>

#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/clip.hpp"
#include "attend/optim/schedule.hpp"
#include "reference.hpp"

using namespace attend;
using namespace attend::optim;
using reference::Case;
using reference::Where;

namespace {

/// Takes all steps of a case; `update(optimizer, step)` takes one, once its gradients are there.
template <class T, class F>
void check_steps(const Case& c, const OptimizerOptions& options, F&& update) {
  std::vector<Var<T, Where>> parameters;
  for (int i = 0; c.has("input.p" + std::to_string(i)); ++i) parameters.push_back(c.leaf<T>("p" + std::to_string(i)));
  REQUIRE(!parameters.empty());
  AnyOptimizer<T, Where> optimizer(FlatParameters<T, Where>(parameters), options);
  for (index_t step = 0; step < c.integer("steps"); ++step) {
    optimizer.zero_grad();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].accumulate(c.tensor<T>("input.g" + std::to_string(i) + "." + std::to_string(step)).template to<Where>());
    update(optimizer, step);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      c.check("output.p" + std::to_string(i) + "." + std::to_string(step), parameters[i]);
  }
}

template <class T>
void check_plain_steps(const Case& c, const OptimizerOptions& options) {
  check_steps<T>(c, options, [](auto& optimizer, index_t) { CHECK(optimizer.step()); });
}

}  // namespace

TEMPLATE_TEST_CASE("SGD with momentum: every step", "", REFERENCE_TYPES) {
  const Case c("optim_sgd_momentum");
  check_plain_steps<TestType>(c, SgdOptions{.learning_rate = c.number("lr"), .momentum = c.number("momentum")});
}

TEMPLATE_TEST_CASE("Adam: every step", "", REFERENCE_TYPES) {
  const Case c("optim_adam");
  check_plain_steps<TestType>(
      c, AdamOptions{
             .learning_rate = c.number("lr"), .beta1 = c.number("beta1"), .beta2 = c.number("beta2"), .eps = c.number("eps")});
}

TEMPLATE_TEST_CASE("AdamW: every step", "", REFERENCE_TYPES) {
  const Case c("optim_adamw");
  check_plain_steps<TestType>(c, AdamWOptions{.learning_rate = c.number("lr"),
                                              .beta1 = c.number("beta1"),
                                              .beta2 = c.number("beta2"),
                                              .eps = c.number("eps"),
                                              .weight_decay = c.number("weight_decay")});
}

TEMPLATE_TEST_CASE("Adam with clipping and the paper's schedule: every norm, rate and step", "", REFERENCE_TYPES) {
  const Case c("optim_adam_clip_noam");
  const Schedule schedule({.kind = from_name<ScheduleKind>("schedule", c.text("lr")),
                           .warmup = c.integer("warmup"),
                           .d_model = c.integer("d_model"),
                           .factor = c.number("factor")});
  const AdamOptions options{.beta1 = c.number("beta1"), .beta2 = c.number("beta2"), .eps = c.number("eps")};
  check_steps<TestType>(c, options, [&](auto& optimizer, index_t step) {
    const std::string suffix = "." + std::to_string(step);
    const double norm = clip_grad_norm(optimizer.parameters(), c.number("clip_norm"));
    c.check("output.norm" + suffix, Tensor<TestType>({1}, static_cast<TestType>(norm)));
    c.check("output.lr" + suffix, Tensor<double>({1}, schedule.at(step + 1)));
    CHECK(optimizer.step(schedule.at(step + 1)));
  });
}
