#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>

#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"

/// What the notebooks' programs print with, and make their inputs from.

/// Name and shape of a tensor, and the first rows of its last matrix's first columns.
template <class T>
void show(const std::string& name, const attend::Tensor<T>& x, attend::index_t rows = 2, attend::index_t columns = 6) {
  std::printf("%s %s\n", name.c_str(), x.shape().text().c_str());
  const auto [all_rows, width] = attend::rows_and_width(x.shape());
  const attend::index_t shown_rows = std::min(rows, all_rows), shown = std::min(columns, width);
  for (attend::index_t i = 0; i < shown_rows; ++i) {
    for (attend::index_t j = 0; j < shown; ++j) {
      const T value = x.data()[i * width + j];
      if constexpr (std::is_integral_v<T>) std::printf("  %6lld", static_cast<long long>(value));
      else std::printf("  %8.4f", static_cast<double>(value));
    }
    std::printf("%s\n", shown < width ? "  ..." : "");
  }
  if (shown_rows < all_rows) std::printf("  ...\n");
}

/// Standard normal numbers, as a notebook's `randn`.
inline attend::Tensor<float> random_numbers(const attend::Shape& shape) {
  const auto random = attend::default_generator().next();
  const attend::Tensor<float> x(shape);
  for (attend::index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  return x;
}

/// Tokens drawn evenly from a vocabulary, as a notebook's `randint`.
inline attend::Tensor<attend::token_t> random_tokens(const attend::Shape& shape, attend::index_t vocabulary) {
  const auto random = attend::default_generator().next();
  const attend::Tensor<attend::token_t> x(shape);
  for (attend::index_t i = 0; i < x.size(); ++i)
    x.data()[i] =
        static_cast<attend::token_t>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocabulary)));
  return x;
}

/// Seconds that a call takes.
template <class F>
double seconds(F&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
