#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/vector.hpp"

/// Attention in decoding: every row is one query with keys and values of its own choice.
namespace attend::cpu {

/// scores[j] = scale * q . k_j for j < n; key j's k_j begins `offset` after keys[j]. Four at a time hide each other's waiting,
/// and so there is room for n rounded up to a multiple of 4, in keys too. d_k is V vectors, q then stays in registers; with V = 0
/// it is anything. Loads need no alignment, so that a sum does not depend on where its row stands.
template <int V, class T>
void key_scores(index_t n, index_t d_k, T scale, const T* q, const T* const* keys, index_t offset, T* scores) {
  constexpr index_t W = width<T>;
  Vector<T> x[V > 0 ? V : 1];
  for (int v = 0; v < V; ++v) x[v] = scale * load<T>(q + v * W);
  for (index_t j = 0; j < n; j += 4) {
    const T* const k[4] = {keys[j] + offset, keys[j + 1] + offset, keys[j + 2] + offset, keys[j + 3] + offset};
    Vector<T> sum[4] = {};
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[i] += x[v] * load<T>(k[i] + v * W);
    if constexpr (V == 0) {
      index_t at = 0;
      for (; at + W <= d_k; at += W) {
        x[0] = scale * load<T>(q + at);
        for (int i = 0; i < 4; ++i) sum[i] += x[0] * load<T>(k[i] + at);
      }
      if (const int rest = static_cast<int>(d_k - at); rest > 0) {
        x[0] = scale * load_part<T>(q + at, rest);
        for (int i = 0; i < 4; ++i) sum[i] += x[0] * load_part<T>(k[i] + at, rest);
      }
    }
    four_sums<T>(sum, scores + j);
  }
}

/// out[i] = sum_j w[j] * rows[j][offset + i] for V vectors of i.
template <int V, class T>
void weighted_rows(index_t n, const T* w, const T* const* rows, index_t offset, T* out) {
  Vector<T> sum[V] = {};
  for (index_t j = 0; j < n; ++j)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] += w[j] * load<T>(rows[j] + offset + v * width<T>);
  for (int v = 0; v < V; ++v) store<T>(out + v * width<T>, sum[v]);
}

/// weights[j] = softmax(scale * q . k_j) over n > 0 keys: k_j begins k_offset after keys[j]. keys [n + 3]; there is room for n
/// rounded up to a multiple of `lanes` weights, those beyond n are 0.
template <class T>
void key_weights(index_t n, index_t d_k, T scale, const T* q, const T* const* keys, index_t k_offset, T* weights) {
  constexpr index_t W = width<T>;
  switch (d_k % W == 0 ? d_k / W : 0) {
    case 1:
      key_scores<1>(n, d_k, scale, q, keys, k_offset, weights);
      break;
    case 2:
      key_scores<2>(n, d_k, scale, q, keys, k_offset, weights);
      break;
    case 4:
      key_scores<4>(n, d_k, scale, q, keys, k_offset, weights);
      break;
    case 8:
      key_scores<8>(n, d_k, scale, q, keys, k_offset, weights);
      break;
    default:
      key_scores<0>(n, d_k, scale, q, keys, k_offset, weights);
  }
  // To the end of the lanes, with keys that weigh nothing: the rest of 13 one by one would take longer than all else here.
  const index_t whole = whole_lanes(n);
  std::fill(weights + n, weights + whole, -std::numeric_limits<T>::infinity());
  const T top = max_over<T>(whole, [=](index_t j) { return weights[j]; });
  for (index_t j = 0; j < whole; ++j) weights[j] = cpu::exp(weights[j] - top);
  const T inverse = T(1) / sum_over<T>(whole, [=](index_t j) { return weights[j]; });
  for (index_t j = 0; j < whole; ++j) weights[j] *= inverse;
}

/// out = sum_j w_j v_j, w = softmax(scale * q . k_j), over n > 0 keys: k_j begins k_offset after keys[j], v_j v_offset after it.
/// keys [n + 3]; weights, room to work in, [n rounded up to a multiple of `lanes`].
template <class T>
void attend_to_keys(index_t n, index_t d_k, index_t d_v, T scale, const T* q, const T* const* keys, index_t k_offset,
                    index_t v_offset, T* weights, T* out) {
  constexpr index_t W = width<T>;
  key_weights(n, d_k, scale, q, keys, k_offset, weights);

  index_t i = 0;
  for (; i + 4 * W <= d_v; i += 4 * W) weighted_rows<4>(n, weights, keys, v_offset + i, out + i);
  for (; i + 2 * W <= d_v; i += 2 * W) weighted_rows<2>(n, weights, keys, v_offset + i, out + i);
  for (; i + W <= d_v; i += W) weighted_rows<1>(n, weights, keys, v_offset + i, out + i);
  if (const int rest = static_cast<int>(d_v - i); rest > 0) {
    Vector<T> sum = {};
    for (index_t j = 0; j < n; ++j) sum += weights[j] * load_part<T>(keys[j] + v_offset + i, rest);
    store_part<T>(out + i, sum, rest);
  }
}

/// The heads of all rows in parallel. count(row): how many keys it has; key(row, j): where key j's vector of all heads begins.
/// v_offset leads from there to the value. Rows without keys get zeros.
template <class T, class Count, class Key>
void attention_step_rows(index_t rows, index_t heads, index_t d_k, index_t d_v, index_t most_keys, double scale, const T* q,
                         index_t q_stride, index_t v_offset, Count&& count, Key&& key, T* out, index_t out_stride) {
  const index_t cost = std::max<index_t>(1, most_keys * (d_k + d_v));
  parallel_for(rows * heads, std::max<index_t>(1, 65536 / cost), [&](index_t begin, index_t end) {
    thread_local std::vector<const T*> key_room;
    thread_local std::vector<T> weight_room;
    key_room.resize(static_cast<std::size_t>(most_keys + 3));
    weight_room.resize(static_cast<std::size_t>(most_keys + lanes));
    const T** const keys = key_room.data();
    for (index_t task = begin; task < end;) {
      const index_t row = task / heads, first = task - row * heads, last = std::min(heads, first + end - task), n = count(row);
      const T* const from = q + row * q_stride;
      T* const to = out + row * out_stride;
      if (n == 0) std::fill(to + first * d_v, to + last * d_v, T(0));
      for (index_t j = 0; j < n; ++j) keys[j] = key(row, j);
      if (n > 0) std::fill_n(keys + n, 3, keys[n - 1]);  // what completes the last four
      for (index_t head = first; n > 0 && head < last; ++head)
        attend_to_keys(n, d_k, d_v, static_cast<T>(scale), from + head * d_k, keys, head * d_k, v_offset + head * d_v,
                       weight_room.data(), to + head * d_v);
      task += last - first;
    }
  });
}

}  // namespace attend::cpu

namespace attend::kernels {

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

/// The weights of such a step, mean over the heads: weights[r, j] of the j-th of row r's keys, 0 for j from lengths[r] up to
/// `longest`, which no length exceeds. weights [rows, longest].
template <class T>
void cross_attention_weights_step(Cpu, index_t rows, index_t heads, index_t d_k, double scale, const T* q, index_t q_stride,
                                  const T* kv, index_t k_offset, index_t kv_stride, const index_t* begins, const index_t* lengths,
                                  index_t longest, T* weights) {
  parallel_rows(rows, heads * longest * d_k, [=](index_t begin, index_t end) {
    std::vector<const T*> keys(static_cast<std::size_t>(longest + 3));
    std::vector<T> room(static_cast<std::size_t>(longest + cpu::lanes));
    const T share = T(1) / static_cast<T>(heads);
    for (index_t r = begin; r < end; ++r) {
      const index_t n = lengths[r];
      T* const to = weights + r * longest;
      std::fill_n(to, longest, T(0));
      if (n == 0) continue;
      for (index_t j = 0; j < n + 3; ++j)
        keys[static_cast<std::size_t>(j)] = kv + (begins[r] + std::min(j, n - 1)) * kv_stride + k_offset;
      for (index_t head = 0; head < heads; ++head) {
        cpu::key_weights(n, d_k, static_cast<T>(scale), q + r * q_stride + head * d_k, keys.data(), head * d_k, room.data());
        for (index_t j = 0; j < n; ++j) to[j] += share * room[static_cast<std::size_t>(j)];
      }
    }
  });
}

/// y[r] = x[r], rows of `width` elements at these strides.
template <class T>
void copy_rows(Cpu, index_t rows, index_t width, const T* x, index_t x_stride, T* y, index_t y_stride) {
  parallel_rows(rows, width, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) std::copy_n(x + r * x_stride, width, y + r * y_stride);
  });
}

/// *where = value, where a table of addresses lies on the device.
template <class T>
void store_pointer(Cpu, const T* value, const T** where) {
  *where = value;
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

}  // namespace attend::kernels
