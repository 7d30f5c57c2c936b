#pragma once

#include <cstdint>

#include "attend/core/tensor.hpp"

namespace attend::kernels {

/// How many products of two bytes fit into a sum of 32 bits: a matrix in 8-bit integers has no longer rows.
inline constexpr index_t most_int8_products = 65536;

/// A matrix [rows, columns] in 8-bit integers with a scale for each row: x[i, j] = scales[i] * data[i, j], |data[i, j]| <= 127.
template <class T>
struct Int8Rows {
  const std::int8_t* data = nullptr;
  const T* scales = nullptr;
  index_t rows = 0, columns = 0;
};

/// The 8-bit rows of a tensor, for a kernel.
inline Int8Rows<float> as_rows(const QuantizedRows& q) { return {q.rows.data(), q.scales.data(), q.rows.dim(0), q.rows.dim(1)}; }

}  // namespace attend::kernels
