#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/cpu/eigen.hpp"
#include "attend/cpu/vector.hpp"

/// Attention in decoding: every row is one query with keys and values of its own choice.
namespace attend {

namespace cpu {

/// `lanes` numbers in vector registers. Loads need no alignment, so that a sum does not depend on where its row stands.
template <class T>
using Lanes = Eigen::Array<T, lanes, 1>;
template <class T>
Eigen::Map<const Lanes<T>> load_lanes(const T* x) {
  return Eigen::Map<const Lanes<T>>(x);
}

/// scores[j] = q . keys[j] for j < 4: four sums at a time hide each other's waiting.
template <class T>
void four_scores(index_t d_k, const T* q, const T* const* keys, T* scores) {
  const T *k0 = keys[0], *k1 = keys[1], *k2 = keys[2], *k3 = keys[3];
  Lanes<T> p0 = Lanes<T>::Zero(), p1 = p0, p2 = p0, p3 = p0;
  index_t i = 0;
  for (; i + lanes <= d_k; i += lanes) {
    const Lanes<T> x = load_lanes(q + i);
    p0 += x * load_lanes(k0 + i), p1 += x * load_lanes(k1 + i), p2 += x * load_lanes(k2 + i), p3 += x * load_lanes(k3 + i);
  }
  scores[0] = p0.sum(), scores[1] = p1.sum(), scores[2] = p2.sum(), scores[3] = p3.sum();
  for (; i < d_k; ++i) scores[0] += q[i] * k0[i], scores[1] += q[i] * k1[i], scores[2] += q[i] * k2[i], scores[3] += q[i] * k3[i];
}

/// out[i] = sum_j w[j] * rows[j][offset + i] for i < registers * lanes.
template <index_t registers, class T>
void weighted_rows(index_t n, const T* w, const T* const* rows, index_t offset, T* out) {
  Lanes<T> sum[registers];
  for (auto& s : sum) s.setZero();
  for (index_t j = 0; j < n; ++j)
    for (index_t r = 0; r < registers; ++r) sum[r] += w[j] * load_lanes(rows[j] + offset + r * lanes);
  for (index_t r = 0; r < registers; ++r) Eigen::Map<Lanes<T>>(out + r * lanes) = sum[r];
}

/// out = sum_j w_j values_j, w = softmax(scale * q . keys_j), over n > 0 keys. keys[j] is the key's first element, the value
/// begins v_offset elements after it. weights [n + 3] is room to work in.
template <class T>
void attend_to_keys(index_t n, index_t d_k, index_t d_v, T scale, const T* q, const T* const* keys, index_t v_offset, T* weights,
                    T* out) {
  for (index_t j = 0; j < n; j += 4) {
    const index_t end = n - 1;  // the last four may hold the last key several times
    const T* four[4] = {keys[j], keys[std::min(j + 1, end)], keys[std::min(j + 2, end)], keys[std::min(j + 3, end)]};
    four_scores(d_k, q, four, weights + j);
  }
  for (index_t j = 0; j < n; ++j) weights[j] *= scale;
  const T top = max_over<T>(n, [=](index_t j) { return weights[j]; });
  for (index_t j = 0; j < n; ++j) weights[j] = cpu::exp(weights[j] - top);
  const T inverse = T(1) / sum_over<T>(n, [=](index_t j) { return weights[j]; });
  for (index_t j = 0; j < n; ++j) weights[j] *= inverse;

  index_t i = 0;
  for (; i + 4 * lanes <= d_v; i += 4 * lanes) weighted_rows<4>(n, weights, keys, v_offset + i, out + i);
  for (; i + lanes <= d_v; i += lanes) weighted_rows<1>(n, weights, keys, v_offset + i, out + i);
  for (; i < d_v; ++i) {
    T sum = 0;
    for (index_t j = 0; j < n; ++j) sum += weights[j] * keys[j][v_offset + i];
    out[i] = sum;
  }
}

/// The heads of all rows in parallel. count(row): how many keys it has; key(row, j): where key j's vector of all heads begins.
/// v_offset leads from there to the value. Rows without keys get zeros.
template <class T, class Count, class Key>
void attention_step_rows(index_t rows, index_t heads, index_t d_k, index_t d_v, index_t most_keys, double scale, const T* q,
                         index_t q_stride, index_t v_offset, Count&& count, Key&& key, T* out, index_t out_stride) {
  const index_t cost = std::max<index_t>(1, most_keys * (d_k + d_v));
  parallel_for(rows * heads, std::max<index_t>(1, 65536 / cost), [&](index_t begin, index_t end) {
    thread_local std::vector<const T*> keys;
    thread_local std::vector<T> weights;
    keys.resize(static_cast<std::size_t>(most_keys));
    weights.resize(static_cast<std::size_t>(most_keys + 3));
    for (index_t task = begin; task < end; ++task) {
      const index_t row = task / heads, head = task % heads, n = count(row);
      T* to = out + row * out_stride + head * d_v;
      if (n == 0) {
        std::fill(to, to + d_v, T(0));
        continue;
      }
      for (index_t j = 0; j < n; ++j) keys[static_cast<std::size_t>(j)] = key(row, j) + head * d_k;
      attend_to_keys(n, d_k, d_v, static_cast<T>(scale), q + row * q_stride + head * d_k, keys.data(),
                     v_offset + head * (d_v - d_k), weights.data(), to);
    }
  });
}

}  // namespace cpu

/// Masked self-attention of each row's newest token, over a cache that is never copied: what was computed at step t stays in
/// slab t, and a table says in which row of it each prefix went on.
///   out[r] = softmax(scale * q[r] . k) v over the `steps` rows slabs[t][table[r][t]], head by head.
/// q [rows, heads * d_k], out [rows, heads * d_v]; slabs[t] [its rows, slab_stride], each row with the keys of all heads at
/// k_offset and the values at v_offset; table [rows, steps], table_stride elements from row to row.
template <class T>
void attention_step(Cpu, index_t rows, index_t heads, index_t d_k, index_t d_v, index_t steps, double scale, const T* q,
                    index_t q_stride, const T* const* slabs, index_t k_offset, index_t v_offset, index_t slab_stride,
                    const std::int32_t* table, index_t table_stride, T* out, index_t out_stride) {
  cpu::attention_step_rows(
      rows, heads, d_k, d_v, steps, scale, q, q_stride, v_offset - k_offset, [=](index_t) { return steps; },
      [=](index_t row, index_t t) { return slabs[t] + table[row * table_stride + t] * slab_stride + k_offset; }, out, out_stride);
}

/// Cross-attention of each row's newest token: row r attends to the rows begins[r] to begins[r] + lengths[r] of kv; rows of one
/// sentence share them. With lengths[r] = 0 the result is 0.
/// q [rows, heads * d_k], out [rows, heads * d_v]; kv [source rows, kv_stride], each row with the keys of all heads at k_offset
/// and the values at v_offset.
template <class T>
void cross_attention_step(Cpu, index_t rows, index_t heads, index_t d_k, index_t d_v, double scale, const T* q, index_t q_stride,
                          const T* kv, index_t k_offset, index_t v_offset, index_t kv_stride, const index_t* begins,
                          const index_t* lengths, T* out, index_t out_stride) {
  const index_t most = rows > 0 ? *std::max_element(lengths, lengths + rows) : 0;
  cpu::attention_step_rows(
      rows, heads, d_k, d_v, most, scale, q, q_stride, v_offset - k_offset, [=](index_t row) { return lengths[row]; },
      [=](index_t row, index_t j) { return kv + (begins[row] + j) * kv_stride + k_offset; }, out, out_stride);
}

/// y[r] = x[r], rows of `width` elements at these strides.
template <class T>
void copy_rows(Cpu, index_t rows, index_t width, const T* x, index_t x_stride, T* y, index_t y_stride) {
  parallel_rows(rows, width, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) std::copy_n(x + r * x_stride, width, y + r * y_stride);
  });
}

/// Row i of `to` becomes row rows[i] of `from`, for i < count: the first `steps` entries of tables with these strides.
inline void reorder_table(Cpu, index_t count, index_t steps, const index_t* rows, const std::int32_t* from, index_t from_stride,
                          std::int32_t* to, index_t to_stride) {
  for (index_t i = 0; i < count; ++i) std::copy_n(from + rows[i] * from_stride, steps, to + i * to_stride);
}

/// table[r, step] = r: at its newest step, every prefix stands in its own row.
inline void begin_table_step(Cpu, index_t rows, index_t step, std::int32_t* table, index_t stride) {
  for (index_t r = 0; r < rows; ++r) table[r * stride + step] = static_cast<std::int32_t>(r);
}

}  // namespace attend
