// What goes over rows once or twice and is bound by memory: softmax, norm, activations, dropout, embedding, Adam.

#include <memory>

#include "attend/ops/activations.hpp"
#include "attend/ops/dropout.hpp"
#include "attend/ops/embedding.hpp"
#include "attend/ops/layer_norm.hpp"
#include "attend/ops/softmax.hpp"
#include "attend/optim/adam.hpp"
#include "measure.hpp"

using namespace attend;

namespace {

constexpr index_t rows = 2048;

/// Reads x and writes y: [rows, width].
Work pass(index_t width) { return {.bytes = 2.0 * sizeof(float) * rows * static_cast<double>(width), .items = rows}; }

/// The backward reads dy and x or y, and writes dx.
constexpr double with_backward = 2.5;

template <class F>
void unary(const std::string& name, index_t width, F f) {
  measure_operation(name + "/" + std::to_string(width), pass(width), with_backward, [=] {
    const auto x = random_parameter({rows, width});
    return Operation{{x}, [=] { return f(x); }};
  });
}

const bool registered = [] {
  unary("softmax", 512, [](const auto& x) { return softmax(x); });
  unary("log_softmax", 10000, [](const auto& x) { return log_softmax(x); });
  unary("relu", 2048, [](const auto& x) { return relu(x); });
  unary("gelu", 2048, [](const auto& x) { return gelu(x); });
  unary("dropout", 512, [](const auto& x) { return dropout(x, 0.1); });
  measure_operation("layer_norm/512", pass(512), with_backward, [] {
    const auto x = random_parameter({rows, 512}), gamma = random_parameter({512}), beta = random_parameter({512});
    return Operation{{x, gamma, beta}, [=] { return layer_norm(x, gamma, beta); }};
  });
  // Its gradient is a whole table, which is written too.
  measure_operation("embedding/10000x512", pass(512), 1 + 10000.0 / (2 * rows) + 1, [] {
    const auto table = random_parameter({10000, 512});
    const auto tokens = random_tokens(rows, 10000);
    return Operation{{table}, [=] { return embedding(table, tokens); }};
  });
  constexpr index_t weights = 10'000'000;  // four arrays are read, three written
  return measure("adam/10M", {.bytes = 7.0 * sizeof(float) * weights, .items = weights}, [] {
    const auto weight = random_parameter({weights});
    const auto adam = std::make_shared<optim::Adam<float>>(std::vector{weight});
    weight.grad().assign(random_numbers({weights}));
    return [adam] { adam->step(); };
  });
}();

}  // namespace
