#pragma once

#include <string>
#include <vector>

#include "attend/ops/activations.hpp"
#include "attend/ops/argmax.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/elementary.hpp"
#include "attend/ops/matmul.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/reduce.hpp"
#include "attend/ops/softmax.hpp"
#include "given.hpp"

/// Operations that no module below needs, forward and backward.
namespace bits {

template <class T>
void elementwise(Record& record) {
  const Shape shape{5, 37};
  const Var<T, D> a(positive_numbers<T>(shape, 1), true), b(positive_numbers<T>(shape, 2), true),
      row(positive_numbers<T>({37}, 3), true);
  const auto check = [&](const std::string& name, const auto& compute) {
    for (const auto& x : {a, b, row}) x.zero_grad();
    differentiate(record, "operations/" + name, NoWeights<T>{}, {a, b, row}, compute);
  };
  check("add", [&] { return a + b + row; });
  check("subtract", [&] { return a - b - row; });
  check("multiply", [&] { return a * b * row; });
  check("divide", [&] { return a / b / row; });
  check("constants", [&] { return 2.0 / (3.0 - (a * 2.0 + 1.0) / 7.0); });
  check("exp", [&] { return exp(a); });
  check("log", [&] { return log(a); });
  check("sqrt", [&] { return sqrt(a); });
  check("square", [&] { return square(a); });
  check("relu", [&] { return relu(a - b); });
  check("gelu", [&] { return gelu(a - b); });
  check("gelu_tanh", [&] { return gelu_tanh(a - b); });
  check("silu", [&] { return silu(a - b); });
  check("tanh", [&] { return tanh(a - b); });
  check("sigmoid", [&] { return sigmoid(a - b); });
  check("softmax", [&] { return softmax(a * 5.0); });
  check("log_softmax", [&] { return log_softmax(a * 5.0); });
  item(record, "operations/argmax", argmax(a.value()));
}

template <class T>
void shapes(Record& record) {
  const Var<T, D> x(numbers<T>({3, 4, 10}, 4), true), y(numbers<T>({3, 10, 6}, 5), true);
  const auto check = [&](const std::string& name, const auto& compute) {
    for (const auto& v : {x, y}) v.zero_grad();
    differentiate(record, "operations/" + name, NoWeights<T>{}, {x, y}, compute);
  };
  check("matmul", [&] { return matmul(x, y); });
  check("matmul_transposed", [&] { return matmul(y, x, {.transpose_a = true, .transpose_b = true}); });
  check("permute", [&] { return permute(x, {2, 0, 1}); });
  check("transpose", [&] { return transpose(x, 0, 1); });
  check("slice", [&] { return slice(x, 1, 1, 2); });
  check("concatenate", [&] { return concatenate({x, x}, 1); });
  check("sum", [&] { return sum(x); });
  check("sum_axis", [&] { return sum(x, 1); });
  check("mean_axis", [&] { return mean(x, 0, {.keep = true}); });
  check("max_axis", [&] { return max(x, 2); });
}

template <class T>
void losses(Record& record) {
  constexpr index_t rows = sized(300, 12), classes = sized(700, 40), width = sized(64, 8);
  auto labels = words(rows / 2, classes, 6);
  labels[1] = -100;
  labels.insert(labels.end(), labels.begin(), labels.begin() + rows / 2);  // two passes over the same tokens, for R-Drop
  const auto given = tensor_of(labels).to<D>();
  const Var<T, D> logits(numbers<T>({rows, classes}, 7), true), x(numbers<T>({rows, width}, 8), true),
      weight(numbers<T>({classes, width}, 9), true), bias(numbers<T>({classes}, 10), true);
  const auto check = [&](const std::string& name, const CrossEntropyOptions& how) {
    for (const auto& v : {logits, x, weight, bias}) v.zero_grad();
    differentiate(record, "operations/cross_entropy/" + name, NoWeights<T>{}, {logits},
                  [&] { return cross_entropy(logits, given, how); });
    differentiate(record, "operations/linear_cross_entropy/" + name, NoWeights<T>{}, {x, weight, bias},
                  [&] { return linear_cross_entropy(x, weight, bias, given, how); });
  };
  check("mean", {});
  check("smoothed_sum", {.smoothing = 0.1, .mean = false});
  check("r_drop", {.smoothing = 0.1, .r_drop = 3});
}

template <class T>
void operations(Record& record) {
  elementwise<T>(record);
  shapes<T>(record);
  losses<T>(record);
}

}  // namespace bits
