#pragma once
/// \file
/// The product behind cublasLtMatmul, with its epilogues.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "emulator/cublas_types.hpp"

namespace emulator {

inline std::size_t bytes_of(std::int32_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

/// One product, all that it needs copied from the descriptors at the call.
struct Product {
  cublasLtMatmulDescOpaque_t desc;
  double alpha, beta;
  const unsigned char *a, *b, *c;
  unsigned char* d;
  cublasLtMatrixLayoutOpaque_t layout_a, layout_b, layout_c, layout_d;
  unsigned char* workspace;
  std::size_t workspace_bytes;
  std::size_t m, n, k;
  bool in_parts;  ///< each sum is taken in two parts, which are rounded to D's type before they are added
};

template <class T>
T load(const unsigned char* at, std::size_t index, std::int32_t type) {
  if (type == CUDA_R_64F) return static_cast<T>(reinterpret_cast<const double*>(at)[index]);
  if (type == CUDA_R_32F) return static_cast<T>(reinterpret_cast<const float*>(at)[index]);
  const std::uint32_t bits = reinterpret_cast<const std::uint16_t*>(at)[index];
  return static_cast<T>(std::bit_cast<float>(bits << 16));
}
template <class T>
void store(unsigned char* at, std::size_t index, std::int32_t type, T value) {
  if (type == CUDA_R_64F) {
    reinterpret_cast<double*>(at)[index] = static_cast<double>(value);
  } else if (type == CUDA_R_32F) {
    reinterpret_cast<float*>(at)[index] = static_cast<float>(value);
  } else {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    reinterpret_cast<std::uint16_t*>(at)[index] =
        static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fffU : (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
  }
}

inline std::size_t place_in(const cublasLtMatrixLayoutOpaque_t& layout, std::size_t row, std::size_t column) {
  const auto ld = static_cast<std::size_t>(layout.ld);
  return layout.order == CUBLASLT_ORDER_COL ? row + column * ld : row * ld + column;
}

/// As matrix units take a float: cut to 10 bits of fraction (TF32), or to 7 (bfloat16), rounded to nearest.
inline float cut(float x, std::int32_t compute) {
  const int dropped = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? 13 : compute == CUBLAS_COMPUTE_32F_FAST_16BF ? 16 : 0;
  if (dropped == 0 || !std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x) + (std::uint32_t{1} << (dropped - 1));
  return std::bit_cast<float>(bits >> dropped << dropped);
}

/// out[j][i] = Σ_p a[p * rows + i] b[j * stride + p] for a tile of 4 columns and two vectors of rows, in the order of p.
template <class T>
#if defined(__clang__) || defined(__GNUC__)
__attribute__((no_sanitize("address", "undefined", "thread")))
#endif
void tile(const T* a, std::size_t rows, const T* b, std::size_t stride, std::size_t depth, T* out) {
  using V __attribute__((vector_size(16), aligned(sizeof(T)))) = T;
  constexpr std::size_t lanes = 16 / sizeof(T);
  V sum[4][2] = {};
  for (std::size_t p = 0; p < depth; ++p) {
    const V first = *reinterpret_cast<const V*>(a + p * rows);
    const V second = *reinterpret_cast<const V*>(a + p * rows + lanes);
    for (std::size_t j = 0; j < 4; ++j) {
      const T factor = b[j * stride + p];
      sum[j][0] += first * factor;
      sum[j][1] += second * factor;
    }
  }
  std::memcpy(out, sum, sizeof sum);
}

/// With 10 bits of fraction, as a device's own instruction has it: cuBLASLt does not promise more.
template <class T>
T coarse_tanh(T x) {
  return static_cast<T>(cut(static_cast<float>(std::tanh(x)), CUBLAS_COMPUTE_32F_FAST_TF32));
}
/// Tanh's form, as cuBLASLt has it.
template <class T>
T gelu(T x) {
  return T(0.5) * x * (T(1) + coarse_tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
}

/// What becomes of `x` = α Σ + β C in row i of column j.
template <class T>
T epilogue(const Product& f, T x, std::size_t batch, std::size_t i, std::size_t j) {
  const unsigned mode = f.desc.epilogue;
  const auto bias_at = batch * static_cast<std::size_t>(f.desc.bias_stride) + i;
  const auto aux_at = batch * static_cast<std::size_t>(f.desc.aux_stride) + j * static_cast<std::size_t>(f.desc.aux_ld) + i;
  const std::int32_t aux_type = f.desc.aux_type < 0 ? f.layout_d.type : f.desc.aux_type;
  auto* const aux = static_cast<unsigned char*>(f.desc.aux);
  if ((mode & 4U) != 0) x += load<T>(static_cast<const unsigned char*>(f.desc.bias), bias_at, f.layout_d.type);
  if ((mode & 2U) != 0) return x > T(0) ? x : T(0);
  if ((mode & 32U) == 0) return x;
  if ((mode & 128U) != 0) store(aux, aux_at, aux_type, x);
  return gelu(x);
}

template <class T>
void multiply(const Product& f, std::size_t batch) {
  constexpr std::size_t tile_rows = 32 / sizeof(T);
  const auto at = [batch](auto* data, const cublasLtMatrixLayoutOpaque_t& layout) {
    return data + batch * static_cast<std::size_t>(layout.stride) * bytes_of(layout.type);
  };
  const unsigned char* const a = at(f.a, f.layout_a);
  const unsigned char* const b = at(f.b, f.layout_b);
  const unsigned char* const c = at(f.c, f.layout_c);
  unsigned char* const d = at(f.d, f.layout_d);
  const std::size_t rows = (f.m + tile_rows - 1) / tile_rows * tile_rows;
  const std::size_t columns = (f.n + 3) / 4 * 4;
  std::vector<T> packed_a(rows * f.k), packed_b(columns * f.k);  // op(A) column after column, op(B) too
  for (std::size_t p = 0; p < f.k; ++p)
    for (std::size_t i = 0; i < f.m; ++i) {
      const std::size_t from = f.desc.trans_a != CUBLAS_OP_N ? place_in(f.layout_a, p, i) : place_in(f.layout_a, i, p);
      T x = load<T>(a, from, f.layout_a.type);
      if constexpr (sizeof(T) == 4) x = cut(x, f.desc.compute);
      packed_a[p * rows + i] = x;
    }
  for (std::size_t j = 0; j < f.n; ++j)
    for (std::size_t p = 0; p < f.k; ++p) {
      const std::size_t from = f.desc.trans_b != CUBLAS_OP_N ? place_in(f.layout_b, j, p) : place_in(f.layout_b, p, j);
      T x = load<T>(b, from, f.layout_b.type);
      if constexpr (sizeof(T) == 4) x = cut(x, f.desc.compute);
      packed_b[j * f.k + p] = x;
    }
  T sums[4 * tile_rows];
  const auto sum_tile = [&](std::size_t i0, std::size_t j0) {
    const T* const first_a = packed_a.data() + i0;
    const T* const first_b = packed_b.data() + j0 * f.k;
    if (!f.in_parts) return tile(first_a, rows, first_b, f.k, f.k, sums);
    const std::size_t half = f.k / 2;
    T others[4 * tile_rows];
    tile(first_a, rows, first_b, f.k, half, sums);
    tile(first_a + half * rows, rows, first_b + half, f.k, f.k - half, others);
    const auto rounded = [&](T x) {
      alignas(8) unsigned char room[8];
      store(room, 0, f.layout_d.type, x);
      return load<T>(room, 0, f.layout_d.type);
    };
    for (std::size_t i = 0; i < 4 * tile_rows; ++i) sums[i] = rounded(sums[i]) + rounded(others[i]);
  };
  for (std::size_t j0 = 0; j0 < f.n; j0 += 4)
    for (std::size_t i0 = 0; i0 < f.m; i0 += tile_rows) {
      sum_tile(i0, j0);
      for (std::size_t j = j0; j < std::min(j0 + 4, f.n); ++j)
        for (std::size_t i = i0; i < std::min(i0 + tile_rows, f.m); ++i) {
          T x = static_cast<T>(f.alpha) * sums[(j - j0) * tile_rows + i - i0];
          if (f.beta != 0) x += static_cast<T>(f.beta) * load<T>(c, place_in(f.layout_c, i, j), f.layout_c.type);
          x = epilogue(f, x, batch, i, j);
          store(d, place_in(f.layout_d, i, j), f.layout_d.type, x);
        }
    }
}

inline void multiply_all(const Product& f) {
  if (f.workspace_bytes != 0) std::memset(f.workspace, 0xff, f.workspace_bytes);  // nobody else may use it meanwhile
  for (std::size_t batch = 0; batch < static_cast<std::size_t>(f.layout_d.batches); ++batch) {
    if (f.desc.compute == CUBLAS_COMPUTE_64F || f.desc.compute == CUBLAS_COMPUTE_64F_PEDANTIC) multiply<double>(f, batch);
    else multiply<float>(f, batch);
  }
}

}  // namespace emulator
