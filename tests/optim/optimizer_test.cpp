#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "attend/core/random.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/clip.hpp"
#include "with_threads.hpp"

using namespace attend;
using namespace attend::optim;

namespace {

const std::vector<Shape> shapes = {{3, 5}, {1}, {70, 33}};

/// Parameters with random values, the same for each call.
template <class T>
std::vector<Var<T>> make_parameters() {
  std::vector<Var<T>> parameters;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    Tensor<T> t(shapes[k]);
    for (index_t i = 0; i < t.size(); ++i)
      t.data()[i] = static_cast<T>(Generator::Stream{1, k}.normal(static_cast<std::uint64_t>(i)));
    parameters.emplace_back(t, true);
  }
  return parameters;
}

double gradient_of(std::size_t parameter, index_t i, int step) {
  return Generator::Stream{2, parameter * 100 + static_cast<std::uint64_t>(step)}.normal(static_cast<std::uint64_t>(i));
}

template <class T>
void add_gradients(const std::vector<Var<T>>& parameters, int step) {
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    Tensor<T> g(parameters[k].shape());
    for (index_t i = 0; i < g.size(); ++i) g.data()[i] = static_cast<T>(gradient_of(k, i, step));
    parameters[k].accumulate(g);
  }
}

/// Takes five steps, and the same with `reference(w, g, memory, t)` element by element in double; memory is two numbers.
template <class T, class F>
void check_against(const OptimizerOptions& options, double tolerance, F&& reference) {
  const auto parameters = make_parameters<T>();
  AnyOptimizer<T> optimizer(FlatParameters<T>(parameters), options);
  std::vector<std::vector<double>> w(shapes.size());
  std::vector<std::vector<std::array<double, 2>>> memory(shapes.size());
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    for (const T value : parameters[k].value().values()) w[k].push_back(static_cast<double>(value));
    memory[k].resize(w[k].size());
  }
  for (int step = 1; step <= 5; ++step) {
    optimizer.zero_grad();
    add_gradients(parameters, step);
    REQUIRE(optimizer.step());
    for (std::size_t k = 0; k < shapes.size(); ++k)
      for (std::size_t i = 0; i < w[k].size(); ++i) {
        reference(w[k][i], gradient_of(k, static_cast<index_t>(i), step), memory[k][i], step);
        const double got = static_cast<double>(parameters[k].data()[i]);
        if (!(std::abs(got - w[k][i]) <= tolerance * (1 + std::abs(w[k][i])))) {
          INFO("step " << step << ", parameter " << k << ", element " << i);
          REQUIRE(got == Approx(w[k][i]).margin(tolerance));
        }
      }
  }
  CHECK(optimizer.steps() == 5);
}

template <class F>
void check_both(const OptimizerOptions& options, F&& reference) {
  check_against<double>(options, 1e-13, reference);
  check_against<float>(options, 2e-5, reference);
}

}  // namespace

TEST_CASE("Adam: both kinds of weight decay, against the formula", "[optim]") {
  const double lr = 0.02, beta1 = 0.9, beta2 = 0.98, eps = 1e-6, decay = 0.1;
  const auto adam = [=](double& w, double g, std::array<double, 2>& memory, int t) {
    memory[0] = beta1 * memory[0] + (1 - beta1) * g;
    memory[1] = beta2 * memory[1] + (1 - beta2) * g * g;
    const double m = memory[0] / (1 - std::pow(beta1, t)), v = memory[1] / (1 - std::pow(beta2, t));
    w -= lr * m / (std::sqrt(v) + eps);
  };
  check_both(AdamOptions{.learning_rate = lr, .beta2 = beta2, .eps = eps}, adam);
  check_both(AdamOptions{.learning_rate = lr, .beta2 = beta2, .eps = eps, .weight_decay = decay},
             [=](double& w, double g, auto& memory, int t) { adam(w, g + decay * w, memory, t); });
  check_both(AdamWOptions{.learning_rate = lr, .beta2 = beta2, .eps = eps, .weight_decay = decay},
             [=](double& w, double g, auto& memory, int t) {
               w *= 1 - lr * decay;
               adam(w, g, memory, t);
             });
}

TEST_CASE("Sgd: plain, momentum, Nesterov, weight decay, against the formula", "[optim]") {
  check_both(SgdOptions{.learning_rate = 0.1}, [](double& w, double g, auto&, int) { w -= 0.1 * g; });
  check_both(SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}, [](double& w, double g, auto& memory, int) {
    memory[0] = 0.9 * memory[0] + g + 0.01 * w;
    w -= 0.1 * memory[0];
  });
  check_both(SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}, [](double& w, double g, auto& memory, int) {
    memory[0] = 0.9 * memory[0] + g;
    w -= 0.1 * (g + 0.9 * memory[0]);
  });
}

TEST_CASE("optimizers: the gradient scale of a step equals scaling the gradients", "[optim]") {
  for (const OptimizerOptions& options : {OptimizerOptions(AdamOptions{}), OptimizerOptions(AdamWOptions{}),
                                          OptimizerOptions(SgdOptions{.momentum = 0.5, .weight_decay = 0.1})}) {
    const auto a = make_parameters<double>(), b = make_parameters<double>();
    AnyOptimizer<double> scaled(FlatParameters<double>(a), options), plain(FlatParameters<double>(b), options);
    add_gradients(a, 1);
    add_gradients(b, 1);
    const auto& g = plain.parameters().gradients();
    scale_add(Cpu{}, g.size(), 0.25, g.data(), 0.0, g.data());
    scaled.step(0.1, 0.25);
    plain.step(0.1);
    for (index_t i = 0; i < g.size(); ++i)
      REQUIRE(scaled.parameters().values().data()[i] == Approx(plain.parameters().values().data()[i]).epsilon(1e-13));
  }
}

TEST_CASE("optimizers: a run that goes on from a saved state has the same bits, with any number of threads", "[optim]") {
  const WithThreads afterwards;
  for (const OptimizerOptions& options :
       {OptimizerOptions(AdamOptions{}), OptimizerOptions(AdamWOptions{}), OptimizerOptions(SgdOptions{.momentum = 0.9})}) {
    const auto a = make_parameters<float>(), b = make_parameters<float>();
    AnyOptimizer<float> whole(FlatParameters<float>(a), options);
    set_threads(1);
    for (int step = 1; step <= 6; ++step) whole.zero_grad(), add_gradients(a, step), whole.step();
    set_threads(3);
    OptimizerState<float> saved;
    {
      AnyOptimizer<float> first(FlatParameters<float>(b), options);
      for (int step = 1; step <= 3; ++step) first.zero_grad(), add_gradients(b, step), first.step();
      saved = first.state();
      for (auto& entry : saved.entries) entry.values = entry.values.clone();
    }
    AnyOptimizer<float> second(FlatParameters<float>(b), options);
    second.restore(saved);
    for (int step = 4; step <= 6; ++step) second.zero_grad(), add_gradients(b, step), second.step();
    CHECK(second.steps() == 6);
    CHECK(whole.parameters().values().values() == second.parameters().values().values());
  }
}

TEST_CASE("optimizers: a state that does not fit is refused and changes nothing", "[optim]") {
  const auto parameters = make_parameters<float>();
  Adam<float> adam(parameters);
  add_gradients(parameters, 1);
  adam.step();
  const auto moments = adam.state().entries[0].values.values();
  auto other = adam.state();
  other.entries[1].values = Tensor<float>({7}, 0.0f);
  CHECK_THROWS_AS(adam.restore(other), ShapeError);
  other = Sgd<float>(parameters, {.momentum = 0.9}).state();
  CHECK_THROWS_AS(adam.restore(other), ValueError);
  CHECK(adam.steps() == 1);
  CHECK(adam.state().entries[0].values.values() == moments);
}

TEST_CASE("optimizers: options out of range are refused", "[optim]") {
  const auto p = make_parameters<float>();
  CHECK_THROWS_AS(Adam<float>(p, {.learning_rate = -1}), ValueError);
  CHECK_THROWS_AS(Adam<float>(p, {.beta1 = 1}), ValueError);
  CHECK_THROWS_AS(Adam<float>(p, {.beta2 = -0.1}), ValueError);
  CHECK_THROWS_AS(Adam<float>(p, {.eps = 0}), ValueError);
  CHECK_THROWS_AS(AdamW<float>(p, {.weight_decay = -1}), ValueError);
  CHECK_THROWS_AS(Sgd<float>(p, {.momentum = 1}), ValueError);
  CHECK_THROWS_AS(Sgd<float>(p, {.nesterov = true}), ValueError);
  CHECK_THROWS_AS(Sgd<float>(p).step(std::numeric_limits<double>::quiet_NaN()), ValueError);
  for (const double scale : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH(Sgd<float>(p).step(0.1, scale),
                      "optimizer: gradient_scale is " + number_text(scale) + ", expected more than 0");
}

TEST_CASE("optimizers: gradients that are not finite leave weights and memory as they are, without clipping too", "[optim]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const OptimizerOptions& options :
       {OptimizerOptions(AdamOptions{}), OptimizerOptions(AdamWOptions{}), OptimizerOptions(SgdOptions{}),
        OptimizerOptions(SgdOptions{.momentum = 0.9}), OptimizerOptions(MuonOptions{})}) {
    INFO(optimizer_name(options));
    const auto parameters = make_parameters<float>();
    AnyOptimizer<float> optimizer(FlatParameters<float>(parameters, {parameters[2].value()}), options);
    add_gradients(parameters, 1);
    REQUIRE(optimizer.step(0.01));
    const auto numbers = [&] {
      auto all = optimizer.parameters().values().values();
      for (const auto& entry : optimizer.state().entries)
        for (const float x : entry.values.values()) all.push_back(x);
      return all;
    };
    const auto before = numbers();
    index_t left_out = 0;
    for (const float bad : {nan, infinity, -infinity})
      for (const std::size_t where : {0, 1, 2}) {
        optimizer.zero_grad();
        add_gradients(parameters, 2);
        parameters[where].grad().data()[0] = bad;
        CHECK_FALSE(optimizer.step(0.01));
        CHECK_FALSE(optimizer.step(0.01, 0.5));
        optimizer.update(0.01);
        left_out += 3;
        CHECK_FALSE(optimizer.record().data()->taken);
      }
    optimizer.zero_grad();
    parameters[0].accumulate(Tensor<float>(shapes[0], 1e30f));
    CHECK_FALSE(optimizer.step(0.01, 1e20));  // they are finite, and would not be
    optimizer.zero_grad();
    add_gradients(parameters, 2);
    optimizer.parameters().mark_not_finite();
    CHECK_FALSE(optimizer.step(0.01));
    optimizer.update(0.01);
    CHECK(optimizer.skipped() == left_out + 3);
    CHECK(optimizer.steps() == 1);
    CHECK(numbers() == before);
    optimizer.zero_grad();
    add_gradients(parameters, 2);
    CHECK(optimizer.step(0.01));
    CHECK(numbers() != before);
  }
}

TEST_CASE("optimizers: the weights' version grows once they are written, not before", "[optim]") {
  struct Watching : OptimizerBase<float, Cpu> {
    explicit Watching(const std::vector<Var<float>>& parameters)
        : OptimizerBase<float, Cpu>(FlatParameters<float>(parameters), 0.1, {}) {}
    std::uint64_t seen = 0;
    bool fails = false;
    void apply(double) override {
      seen = weights_version();
      if (fails) throw MemoryError("half-way");
    }
  };
  const auto parameters = make_parameters<float>();
  Watching optimizer(parameters);
  optimizer.zero_grad();
  auto before = weights_version();
  optimizer.step();
  CHECK(optimizer.seen == before);
  CHECK(weights_version() > before);
  before = weights_version();
  optimizer.update(0.1, 1);
  CHECK(optimizer.seen == before);
  CHECK(weights_version() > before);
  optimizer.fails = true;
  before = weights_version();
  CHECK_THROWS_AS(optimizer.step(), MemoryError);
  CHECK(weights_version() > before);  // some of them may have been written
}

TEST_CASE("clip_grad_norm: scales down to the norm asked for, never up", "[optim]") {
  const Var<double> a(Tensor<double>({2}, 0.0), true), b(Tensor<double>({1}, 0.0), true);
  const FlatParameters<double> flat({a, b});
  a.accumulate(Tensor<double>({2}, {3, 0}));
  b.accumulate(Tensor<double>({1}, {4}));
  CHECK(clip_grad_norm(flat, 10) == Approx(5));
  CHECK(a.grad().values() == std::vector<double>{3, 0});
  CHECK(clip_grad_norm(flat, 1) == Approx(5));
  CHECK(a.grad()(0) == Approx(3.0 / (5 + 1e-6)).epsilon(1e-14));
  CHECK(b.grad()(0) == Approx(4.0 / (5 + 1e-6)).epsilon(1e-14));
  CHECK_THROWS_AS(clip_grad_norm(flat, 0), ValueError);
  CHECK_THROWS_AS(clip_grad_norm(flat, std::numeric_limits<double>::quiet_NaN()), ValueError);
}

TEST_CASE("clip_grad_norm: gradients that are not finite cost one step, not the weights", "[optim]") {
  const auto parameters = make_parameters<float>();
  Adam adam(parameters, {.learning_rate = 0.1});
  const auto before = adam.parameters().values().values();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    adam.zero_grad();
    parameters[1].accumulate(Tensor<float>({1}, bad));
    CHECK_FALSE(std::isfinite(clip_grad_norm(adam.parameters(), 1)));
    CHECK_FALSE(adam.step());
  }
  CHECK(adam.skipped() == 2);
  CHECK(adam.steps() == 0);
  CHECK(adam.parameters().values().values() == before);
  adam.zero_grad();
  add_gradients(parameters, 1);
  CHECK(std::isfinite(clip_grad_norm(adam.parameters(), 1)));
  CHECK(adam.step());
  CHECK(adam.parameters().values().values() != before);
}
