// Products, and what is made of one: linear, matmul, linear_cross_entropy; and those of decoding, with packed weights.

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "attend/core/precision.hpp"
#include "attend/cpu/bf16.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/int8.hpp"
#include "attend/cpu/packed_matrix.hpp"
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

/// A product alone, [m, k] by [k, n] as both lie.
template <class T>
void product_benchmark(const std::string& type, index_t m, index_t n, index_t k) {
  const auto sizes = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
  measure("product_" + type + "/" + sizes, {.flops = product_flops(m, n, k)}, [=] {
    const auto numbers = [](const Shape& shape) {
      const Tensor<T> x(shape);
      std::copy_n(random_numbers(shape).data(), x.size(), x.data());
      return x;
    };
    return [=, a = numbers({m, k}), b = numbers({k, n}), c = Tensor<T>({m, n})] {
      kernels::gemm<T>(Cpu{}, {a.data(), m, k, k}, {b.data(), k, n, n}, {c.data(), m, n, n});
      benchmark::ClobberMemory();
    };
  });
}

/// A product as decoding has it, of few rows, with weights that were packed before: [rows, in] by [in, out].
template <class Pack>
void packed_benchmark(const std::string& precision, Pack pack) {
  for (const auto& size : {std::array<index_t, 2>{128, 10000}, {1024, 4096}})
    for (const index_t count : {1, 2, 3, 4, 8, 32}) {
      const index_t in = size[0], out = size[1];
      measure("packed_" + precision + "/" + std::to_string(count) + "x" + std::to_string(in) + "x" + std::to_string(out),
              {.flops = product_flops(count, out, in), .items = static_cast<double>(count)}, [=] {
                const auto x = random_numbers({count, in}), y = random_numbers({count, out}), weight = random_numbers({in, out});
                return [=, product = std::shared_ptr(pack(kernels::Matrix<const float>{weight.data(), in, out}))] {
                  product->multiply({x.data(), count, in}, nullptr, {y.data(), count, out});
                  benchmark::ClobberMemory();
                };
              });
    }
}

const bool registered = [] {
  // Sums of few products, few rows, and right sides with rows of a half to two kilobytes, copied and not.
  for (const auto& size :
       {std::array<index_t, 3>{256, 256, 16}, {14, 200, 600}, {100, 240, 512}, {250, 192, 512}, {256, 128, 2048}}) {
    product_benchmark<float>("float", size[0], size[1], size[2]);
    product_benchmark<double>("double", size[0], size[1], size[2]);
  }
  packed_benchmark("float32", [](const auto& weight) { return kernels::pack_matrix<float>(Cpu{}, weight); });
  packed_benchmark("bf16", [](const auto& weight) { return kernels::pack_bf16<float>(Cpu{}, weight); });
  packed_benchmark("int8", [](const auto& weight) { return kernels::pack_int8<float>(Cpu{}, weight); });
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
