#pragma once

#include <cstdint>

#include "attend/kernels/matrix.hpp"

/// What attention in decoding is told, where every row is one query.
namespace attend::kernels {

/// The heads of an attention, and what their scores are multiplied by.
struct StepHeads {
  index_t count = 1, d_k = 0, d_v = 0;
  double scale = 1;
  index_t group = 1;  ///< how many of them, one after the other, share a head of keys and values
};

/// Rows of keys and values, `stride` elements apart: the keys of all heads begin `k_offset` into a row, the values `v_offset`.
struct KeyValueLayout {
  index_t stride = 0, k_offset = 0, v_offset = 0;
};

/// What is added to the scores by how far a key stands before the newest, the query's own: the key `d` steps before it gets
/// newest[h * head - d] of head h. Null adds nothing.
template <class T>
struct StepBias {
  const T* newest = nullptr;
  index_t head = 0;
};

/// Keys and values where they were computed, step by step: those of step t and query r are row table[r][t] of the slab that
/// begins at slabs[t]. table [queries, steps].
template <class T>
struct SlabRows {
  const T* const* slabs = nullptr;
  KeyValueLayout layout = {};
  Matrix<const std::int32_t> table = {};
  StepBias<T> bias = {};
};

/// The same with slabs that lie `slab` elements apart. How many of them hold anything, only the device knows.
template <class T>
struct RoomRows {
  const T* slabs = nullptr;
  index_t slab = 0;
  KeyValueLayout layout = {};
  Matrix<const std::int32_t> table = {};
  StepBias<T> bias = {};
};

/// Keys and values of all sources, one after the other: query r sees rows begins[r] to begins[r] + lengths[r].
template <class T>
struct SourceRows {
  const T* data = nullptr;
  KeyValueLayout layout = {};
  const index_t *begins = nullptr, *lengths = nullptr;
};

}  // namespace attend::kernels
