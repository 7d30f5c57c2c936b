#if !defined(ATTEND_CPU_ATTENTION_STEP) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_ATTENTION_STEP

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/attention_step.hpp"
#endif

/// Attention in decoding: every row is one query with keys and values of its own choice.
namespace attend::ATTEND_IN(cpu) {

  using kernels::ConstMatrix;
  using kernels::Matrix;

  /// scores[j] = scale * q . k_j for j < n; key j's k_j begins `offset` after keys[j]. Four at a time hide each other's waiting,
  /// and so there is room for n rounded up to a multiple of 4, in keys too. d_k is V vectors, q then stays in registers; with V =
  /// 0 it is anything. Loads need no alignment, so that a sum does not depend on where its row stands.
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

  /// out = sum_j w_j v_j, w = softmax(scale * q . k_j), over n > 0 keys: k_j begins k_offset after keys[j], v_j v_offset after
  /// it. keys [n + 3]; weights, room to work in, [n rounded up to a multiple of `lanes`].
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

  /// The heads of all rows in parallel. count(row): how many keys it has, no more than `most`; key(row, j): where key j's vector
  /// of all heads begins. v_offset leads from there to the value. Rows without keys get zeros.
  template <class T, class Count, class Key>
  void attention_step_rows(const kernels::StepHeads& heads, ConstMatrix<T> q, index_t most, index_t v_offset, Count&& count,
                           Key&& key, Matrix<T> out) {
    const index_t heads_of_row = heads.count, d_k = heads.d_k, d_v = heads.d_v;
    const T scale = static_cast<T>(heads.scale);
    const index_t cost = std::max<index_t>(1, most * (d_k + d_v));
    parallel_for(out.rows * heads_of_row, std::max<index_t>(1, 65536 / cost), [&](index_t begin, index_t end) {
      thread_local std::vector<const T*> key_room;
      thread_local std::vector<T> weight_room;
      key_room.resize(static_cast<std::size_t>(most + 3));
      weight_room.resize(static_cast<std::size_t>(most + lanes));
      const T** const keys = key_room.data();
      for (index_t task = begin; task < end;) {
        const index_t row = task / heads_of_row, first = task - row * heads_of_row,
                      last = std::min(heads_of_row, first + end - task), n = count(row);
        const T* const from = q.data + row * q.stride;
        T* const to = out.data + row * out.stride;
        if (n == 0) std::fill(to + first * d_v, to + last * d_v, T(0));
        for (index_t j = 0; j < n; ++j) keys[j] = key(row, j);
        if (n > 0) std::fill_n(keys + n, 3, keys[n - 1]);  // what completes the last four
        for (index_t head = first; n > 0 && head < last; ++head)
          attend_to_keys(n, d_k, d_v, scale, from + head * d_k, keys, head * d_k, v_offset + head * d_v, weight_room.data(),
                         to + head * d_v);
        task += last - first;
      }
    });
  }

}  // namespace attend::ATTEND_IN(cpu)

namespace attend::ATTEND_IN(kernels) {

  /// Masked self-attention of each row's newest token, over a cache that is never copied.
  ///   out[r] = softmax(scale * q[r] . k) v over the rows of its steps, head by head.
  /// q [rows, heads * d_k], out [rows, heads * d_v].
  template <class T>
  void attention_step(Cpu, const StepHeads& heads, ConstMatrix<T> q, const SlabRows<T>& keys, Matrix<T> out) {
    ATTEND_FASTEST(attention_step, heads, q, keys, out);
    const auto& layout = keys.layout;
    cpu::attention_step_rows(
        heads, q, keys.table.columns, layout.v_offset - layout.k_offset, [&](index_t) { return keys.table.columns; },
        [&](index_t row, index_t t) {
          return keys.slabs[t] + keys.table.data[row * keys.table.stride + t] * layout.stride + layout.k_offset;
        },
        out);
  }

  /// Cross-attention of each row's newest token: rows of one sentence share its keys. Where there are none the result is 0.
  /// q [rows, heads * d_k], out [rows, heads * d_v].
  template <class T>
  void cross_attention_step(Cpu, const StepHeads& heads, ConstMatrix<T> q, const SourceRows<T>& keys, Matrix<T> out) {
    ATTEND_FASTEST(cross_attention_step, heads, q, keys, out);
    const auto& layout = keys.layout;
    const index_t most = out.rows > 0 ? *std::max_element(keys.lengths, keys.lengths + out.rows) : 0;
    cpu::attention_step_rows(
        heads, q, most, layout.v_offset - layout.k_offset, [&](index_t row) { return keys.lengths[row]; },
        [&](index_t row, index_t j) { return keys.data + (keys.begins[row] + j) * layout.stride + layout.k_offset; }, out);
  }

  /// The weights of such a step, mean over the heads: weights[r, j] of the j-th of row r's keys, 0 beyond the last. weights
  /// [rows, the most keys of any row, or more].
  template <class T>
  void cross_attention_weights_step(Cpu, const StepHeads& heads, ConstMatrix<T> q, const SourceRows<T>& keys, Matrix<T> weights) {
    ATTEND_FASTEST(cross_attention_weights_step, heads, q, keys, weights);
    const auto& layout = keys.layout;
    const index_t longest = weights.columns;
    parallel_rows(weights.rows, heads.count * longest * heads.d_k, [&](index_t begin, index_t end) {
      std::vector<const T*> vectors(static_cast<std::size_t>(longest + 3));
      std::vector<T> room(static_cast<std::size_t>(longest + cpu::lanes));
      const T share = T(1) / static_cast<T>(heads.count), scale = static_cast<T>(heads.scale);
      for (index_t r = begin; r < end; ++r) {
        const index_t n = keys.lengths[r];
        T* const to = weights.data + r * weights.stride;
        std::fill_n(to, longest, T(0));
        if (n == 0) continue;
        for (index_t j = 0; j < n + 3; ++j)
          nth(vectors, j) = keys.data + (keys.begins[r] + std::min(j, n - 1)) * layout.stride + layout.k_offset;
        for (index_t head = 0; head < heads.count; ++head) {
          const index_t offset = head * heads.d_k;
          cpu::key_weights(n, heads.d_k, scale, q.data + r * q.stride + offset, vectors.data(), offset, room.data());
          for (index_t j = 0; j < n; ++j) to[j] += share * nth(room, j);
        }
      }
    });
  }

  /// y = x.
  template <class T>
  void copy_rows(Cpu, ConstMatrix<T> x, Matrix<T> y) {
    ATTEND_FASTEST(copy_rows, x, y);
    parallel_rows(y.rows, y.columns, [=](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) std::copy_n(x.data + r * x.stride, y.columns, y.data + r * y.stride);
    });
  }

  /// *where = value, where a table of addresses lies on the device.
  template <class T>
  void store_pointer(Cpu, const T* value, const T** where) {
    ATTEND_FASTEST(store_pointer, value, where);
    *where = value;
  }

  /// Row i of `to` becomes row rows[i] of `from`, as far as `to` has columns.
  inline void reorder_table(Cpu, const index_t* rows, Matrix<const std::int32_t> from, Matrix<std::int32_t> to) {
    for (index_t i = 0; i < to.rows; ++i) std::copy_n(from.data + rows[i] * from.stride, to.columns, to.data + i * to.stride);
  }

  /// table[r, step] = r: at its newest step, every prefix stands in its own row.
  inline void begin_table_step(Cpu, Matrix<std::int32_t> table, index_t step) {
    for (index_t r = 0; r < table.rows; ++r) table.data[r * table.stride + step] = static_cast<std::int32_t>(r);
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/attention_step.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_ATTENTION_STEP
