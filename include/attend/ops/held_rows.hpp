#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "attend/autograd/var.hpp"
#include "attend/core/tensor.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/basic.hpp"

/// Weights that hold rows of other numbers in place of elements (`Tensor::instead`), where elements are wanted after all: they
/// are made for as long as they are looked at.
namespace attend::detail {

/// The numbers that the rows held in place of elements stand for.
inline Tensor<float> elements_of_held(const Tensor<float>& held) {
  const Tensor<float> x(held.shape());
  if (const auto* halves = held.in_bfloat16()) {
    convert(Cpu{}, x.size(), halves->data(), x.data());  // of a mapped file pages stay: the next step reads them again
    return x;
  }
  const QuantizedRows& q = *held.quantized();
  const index_t width = held.dim(1);
  parallel_for(held.dim(0), std::max<index_t>(1, 65536 / std::max<index_t>(1, width)), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const std::int8_t* const row = q.rows.data() + i * width;
      const float scale = q.scales.data()[i];
      float* const y = x.data() + i * width;
      for (index_t j = 0; j < width; ++j) y[j] = scale * static_cast<float>(row[j]);
    }
  });
  return x;
}

/// Calls f(first, rows) for all rows of a matrix, in order, `rows` being a Matrix<const T> of those from `first` on: once if it
/// has elements, otherwise with `step` of them at a time, for which elements are made.
template <class T, Device D, class F>
void for_rows(const Tensor<T, D>& matrix, index_t step, F&& f) {
  if constexpr (std::same_as<T, float> && std::same_as<D, Cpu>)
    if (matrix.instead()) {
      const index_t count = matrix.dim(0);
      index_t first = 0;
      do {
        const Tensor<float> rows = elements_of_held(matrix.rows(first, std::min(step, count - first)));
        f(first, kernels::Matrix<const float>(kernels::as_rows(rows)));
        first += step;
      } while (first < count);
      return;
    }
  f(index_t{0}, kernels::Matrix<const T>(kernels::as_rows(matrix)));
}

/// Throws ValueError, which begins with `operation`, for a weight without elements that is to learn.
template <class T, Device D>
void check_may_learn(const char* operation, const Var<T, D>& weight) {
  if (!weight.requires_grad() || !grad_enabled() || !weight.value().instead()) return;
  throw ValueError(operation, ": the weight ", weight.shape().text(), " is of ", weight.value().instead(),
                   ", which cannot learn; freeze it, as nn::add_adapters does, or load the model in floats");
}

}  // namespace attend::detail
