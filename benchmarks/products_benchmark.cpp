// Products, and what is made of one: linear, matmul, linear_cross_entropy.

#include "attend/core/precision.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/distillation_loss.hpp"
#include "attend/ops/linear.hpp"
#include "attend/ops/matmul.hpp"
#include "measure.hpp"

using namespace attend;

namespace {

constexpr index_t rows = 2048, classes = 10000;

/// Both gradients are a product of the same size each.
constexpr double with_backward = 3;

double product_flops(index_t m, index_t n, index_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

void linear_benchmark(index_t in, index_t out, Precision precision = Precision::full) {
  measure_operation(
      (precision == Precision::full ? "linear/" : "linear_bf16/") + std::to_string(in) + "x" + std::to_string(out),
      {.flops = product_flops(rows, out, in), .items = rows}, with_backward, [=] {
        const auto x = random_parameter({rows, in}), weight = random_parameter({out, in}), bias = random_parameter({out});
        return Operation{{x, weight, bias}, [=] {
                           const MatmulPrecision scope(precision);
                           return linear(x, weight, bias);
                         }};
      });
}

const bool registered = [] {
  for (const Precision precision : {Precision::full, Precision::bf16}) {
    for (const index_t d : {128, 256, 512}) linear_benchmark(d, d, precision);
    linear_benchmark(512, 2048, precision);
    linear_benchmark(2048, 512, precision);
  }
  measure_operation("matmul/512", {.flops = product_flops(512, 512, 512)}, with_backward, [] {
    const auto a = random_parameter({512, 512}), b = random_parameter({512, 512});
    return Operation{{a, b}, [=] { return matmul(a, b); }};
  });
  measure_operation("matmul/64_of_64", {.flops = 64 * product_flops(64, 64, 64)}, with_backward, [] {
    const auto a = random_parameter({64, 64, 64}), b = random_parameter({64, 64, 64});
    return Operation{{a, b}, [=] { return matmul(a, b); }};
  });
  for (const index_t d : {128, 512})
    measure_operation(
        "linear_cross_entropy/" + std::to_string(d), {.flops = product_flops(rows, classes, d), .items = rows}, with_backward,
        [=] {
          const auto x = random_parameter({rows, d}), bias = random_parameter({classes});
          const Var<float> weight(random_numbers({classes, d}), true);
          const auto labels = random_tokens(rows, classes);
          return Operation{{x, weight, bias}, [=] { return linear_cross_entropy(x, weight, bias, labels, {.smoothing = 0.1}); }};
        });
  measure_operation(
      "linear_distillation_loss/128", {.flops = product_flops(rows, classes, 128 + 512), .items = rows}, with_backward, [=] {
        const auto x = random_parameter({rows, 128});
        const Var<float> weight(random_numbers({classes, 128}), true);
        const LinearLogits<float> teacher{Var<float>(random_numbers({rows, 512})), Var<float>(random_numbers({classes, 512}))};
        const auto labels = random_tokens(rows, classes);
        return Operation{{x, weight}, [=] {
                           return linear_distillation_loss({x, weight}, teacher, labels, {.weight = 0.5, .temperature = 2});
                         }};
      });
  return true;
}();

}  // namespace
