#if !defined(ATTEND_CPU_ATTENTION_STEP) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_ATTENTION_STEP

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "attend/core/thread_owned.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/attention_step.hpp"

#endif  // ATTEND_READING

/// Attention in decoding: every row is one query with keys and values of its own choice.
namespace attend::ATTEND_CPU {

using kernels::ConstMatrix;
using kernels::Matrix;

/// What a head asks for: q [d_k], and what its products with keys are multiplied by.
template <class T>
struct HeadQuery {
  const T* q;
  index_t d_k;
  T scale;
};
/// What it sees: n keys, of which the j-th begins `offset` after rows[j]. rows [n + 3].
template <class T>
struct HeadKeys {
  index_t n;
  const T* const* rows;
  index_t offset;
};

/// scores[j] = scale * q . k_j for j < n. Four at a time hide each other's waiting, and so there is room for n rounded up to a
/// multiple of 4. d_k is V vectors, q then stays in registers; with V = 0 it is anything. Loads need no alignment, so that a sum
/// does not depend on where its row stands.
template <int V, class T>
void key_scores(const HeadQuery<T>& query, const HeadKeys<T>& of, T* scores) {
  constexpr index_t W = width<T>;
  const T* const q = query.q;
  const T* const* const keys = of.rows;
  const T scale = query.scale;
  const index_t n = of.n, d_k = query.d_k, offset = of.offset;
  Vector<T> x[V > 0 ? V : 1];
  for (int v = 0; v < V; ++v) x[v] = scale * load<T>(q + v * W);
  for (index_t j = 0; j < n; j += 4) {
    const T* const k[4] = {keys[j] + offset, keys[j + 1] + offset, keys[j + 2] + offset, keys[j + 3] + offset};
    Vector<T> sum[4] = {};
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) multiply_add<T>(sum[i], x[v], load<T>(k[i] + v * W));
    if constexpr (V == 0) {
      index_t at = 0;
      for (; at + W <= d_k; at += W) {
        x[0] = scale * load<T>(q + at);
        for (int i = 0; i < 4; ++i) multiply_add<T>(sum[i], x[0], load<T>(k[i] + at));
      }
      if (const int rest = static_cast<int>(d_k - at); rest > 0) {
        x[0] = scale * load_part<T>(q + at, rest);
        for (int i = 0; i < 4; ++i) multiply_add<T>(sum[i], x[0], load_part<T>(k[i] + at, rest));
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
    for (int v = 0; v < V; ++v) multiply_add<T>(sum[v], w[j], load<T>(rows[j] + offset + v * width<T>));
  for (int v = 0; v < V; ++v) store<T>(out + v * width<T>, sum[v]);
}

/// The same as `key_scores` with V, for a d_k that is known only at run time.
template <class T>
void key_scores(const HeadQuery<T>& query, const HeadKeys<T>& keys, T* scores) {
  constexpr index_t W = width<T>;
  switch (query.d_k % W == 0 ? query.d_k / W : 0) {
    case 1:
      return key_scores<1>(query, keys, scores);
    case 2:
      return key_scores<2>(query, keys, scores);
    case 4:
      return key_scores<4>(query, keys, scores);
    case 8:
      return key_scores<8>(query, keys, scores);
    default:
      return key_scores<0>(query, keys, scores);
  }
}

/// weights = softmax(weights + bias) over n > 0 of them; a null bias adds nothing. There is room for n rounded up to a multiple
/// of `lanes`, and those beyond n become 0. The last lanes stay in registers: if minus infinity were written behind n first, the
/// processor would have to wait until that can be read.
template <class T>
void softmax_of_scores(index_t n, const T* bias, T* weights) {
  for (index_t j = 0; bias && j < n; ++j) weights[j] += bias[j];
  const index_t before = whole_lanes(n) - lanes;
  const auto rest = static_cast<int>(n - before);
  T* const last = weights + before;
  T end[lanes], part[lanes], sum[lanes] = {};
  for (int l = 0; l < lanes; ++l) part[l] = end[l] = select(l < rest, last[l], -std::numeric_limits<T>::infinity());
  for (index_t j = 0; j < before; j += lanes) {
#pragma GCC unroll 1  // as in max_over
    for (index_t l = 0; l < lanes; ++l) part[l] = weights[j + l] > part[l] ? weights[j + l] : part[l];
  }
  const T top = largest_of_lanes(part);
  for (index_t j = 0; j < before; j += lanes)
    for (index_t l = 0; l < lanes; ++l) sum[l] += weights[j + l] = cpu::exp_to_88(weights[j + l] - top);
  for (index_t l = 0; l < lanes; ++l) sum[l] += end[l] = cpu::exp_to_88(end[l] - top);
  const T inverse = T(1) / sum_of_lanes(sum);
  for (index_t j = 0; j < before; ++j) weights[j] *= inverse;
  for (index_t l = 0; l < lanes; ++l) last[l] = end[l] * inverse;
}

/// out [d_v] = sum_j weights[j] v_j over the n keys: v_j begins v_offset after the key's row.
template <class T>
void weigh_values(const HeadKeys<T>& of, const T* weights, index_t v_offset, index_t d_v, T* out) {
  constexpr index_t W = width<T>;
  const T* const* const keys = of.rows;
  const index_t n = of.n;
  index_t i = 0;
  for (; i + 4 * W <= d_v; i += 4 * W) weighted_rows<4>(n, weights, keys, v_offset + i, out + i);
  for (; i + 2 * W <= d_v; i += 2 * W) weighted_rows<2>(n, weights, keys, v_offset + i, out + i);
  for (; i + W <= d_v; i += W) weighted_rows<1>(n, weights, keys, v_offset + i, out + i);
  if (const int rest = static_cast<int>(d_v - i); rest > 0) {
    Vector<T> sum = {};
    for (index_t j = 0; j < n; ++j) multiply_add<T>(sum, weights[j], load_part<T>(keys[j] + v_offset + i, rest));
    store_part<T>(out + i, sum, rest);
  }
}

/// The same for 8 / V heads whose values, V vectors each, stand side by side, as their sums do in `out`; the weights of the next
/// head are `stride` further on. For heads that share no keys. One head has too few sums to hide the latency of its additions.
template <int V, class T>
void weigh_values_of_heads(const HeadKeys<T>& of, const T* weights, index_t stride, index_t v_offset, T* out) {
  constexpr index_t W = width<T>;
  Vector<T> sum[8] = {};
  for (index_t j = 0; j < of.n; ++j) {
    const T* const from = of.rows[j] + v_offset;
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) multiply_add<T>(sum[i], weights[i / V * stride + j], load<T>(from + i * W));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store<T>(out + i * W, sum[i]);
}

/// The keys of rows. count(row): how many it has, no more than `most`; key(row, j): where key j's vector of all heads begins.
/// v_offset leads from there to the value. `bias`: as in kernels::StepBias.
template <class T, class Count, class Key>
struct KeysOfRows {
  index_t most, v_offset;
  Count count;
  Key key;
  kernels::StepBias<T> bias;
};
template <class T, class Count, class Key>
KeysOfRows(index_t, index_t, Count, Key, kernels::StepBias<T>) -> KeysOfRows<T, Count, Key>;

/// Heads [first, last) of one row, of whose keys each head takes its own part. Scores, softmax and sums are each done for all
/// heads before the next begins, so that no head waits for its own results. `weights` has room for n of each head, rounded up to
/// a multiple of `lanes`.
template <class T>
void attention_step_row(const kernels::StepHeads& heads, index_t first, index_t last, const HeadKeys<T>& keys, index_t v_offset,
                        const kernels::StepBias<T>& bias, const T* q, T* weights, T* out) {
  const index_t n = keys.n, d_k = heads.d_k, d_v = heads.d_v, stride = whole_lanes(n);
  const auto weights_of = [=](index_t head) { return weights + (head - first) * stride; };
  const auto keys_of = [&](index_t head) { return HeadKeys<T>{n, keys.rows, head / heads.group * d_k}; };
  for (index_t head = first; head < last; ++head)
    key_scores<T>({q + head * d_k, d_k, static_cast<T>(heads.scale)}, keys_of(head), weights_of(head));
  for (index_t head = first; head < last; ++head)
    softmax_of_scores<T>(n, bias.newest ? bias.newest + head * bias.head - (n - 1) : nullptr, weights_of(head));
  const index_t vectors = heads.group == 1 && d_v % width<T> == 0 ? d_v / width<T> : 0;
  for (index_t head = first; head < last;) {
    const index_t offset = v_offset + head / heads.group * d_v;
    T* const to = out + head * d_v;
    const auto together = [&](auto v) {
      constexpr index_t V = v, count = 8 / V;
      if (vectors != V || last - head < count) return false;
      weigh_values_of_heads<V>(keys, weights_of(head), stride, offset, to);
      head += count;
      return true;
    };
    using std::integral_constant;
    if (together(integral_constant<int, 1>()) || together(integral_constant<int, 2>()) || together(integral_constant<int, 4>()))
      continue;
    weigh_values<T>(keys_of(head), weights_of(head), offset, d_v, to);
    ++head;
  }
}

/// The heads of all rows in parallel. Rows without keys get zeros.
template <class T, class Count, class Key>
void attention_step_rows(const kernels::StepHeads& heads, ConstMatrix<T> q, const KeysOfRows<T, Count, Key>& of, Matrix<T> out) {
  const index_t most = of.most, heads_of_row = heads.count, d_v = heads.d_v;
  const index_t cost = std::max<index_t>(1, most * (heads.d_k + d_v));
  parallel_for(out.rows * heads_of_row, std::max<index_t>(1, 65536 / cost), [&](index_t begin, index_t end) {
    ATTEND_THREAD_OWNED(std::vector<const T*>, key_room);
    ATTEND_THREAD_OWNED(std::vector<T>, weight_room);
    key_room.resize(most + 3);
    weight_room.resize(heads_of_row * whole_lanes(most));
    const T** const keys = key_room.data();
    for (index_t task = begin; task < end;) {
      const index_t row = task / heads_of_row, first = task - row * heads_of_row,
                    last = std::min(heads_of_row, first + end - task), n = of.count(row);
      T* const to = out.data + row * out.stride;
      task += last - first;
      if (n == 0) {
        std::fill(to + first * d_v, to + last * d_v, T(0));
        continue;
      }
      for (index_t j = 0; j < n; ++j) keys[j] = of.key(row, j);
      std::fill_n(keys + n, 3, keys[n - 1]);  // what completes the last four
      attention_step_row<T>(heads, first, last, {n, keys, 0}, of.v_offset, of.bias, q.data + row * q.stride, weight_room.data(),
                            to);
    }
  });
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// Masked self-attention of each row's newest token, over a cache that is never copied.
///   out[r] = softmax(scale * q[r] . k + bias) v over the rows of its steps, head by head.
/// q [rows, heads * d_k], out [rows, heads * d_v].
template <class T>
void attention_step(Cpu, const StepHeads& heads, ConstMatrix<T> q, const SlabRows<T>& keys, Matrix<T> out) {
  ATTEND_FASTEST(attention_step, heads, q, keys, out);
  const auto& layout = keys.layout;
  const auto count = [&](index_t) { return keys.table.columns; };
  const auto key = [&](index_t row, index_t t) {
    return keys.slabs[t] + keys.table.data[row * keys.table.stride + t] * layout.stride + layout.k_offset;
  };
  const index_t v_offset = layout.v_offset - layout.k_offset;
  cpu::attention_step_rows(heads, q, cpu::KeysOfRows{keys.table.columns, v_offset, count, key, keys.bias}, out);
}

/// Cross-attention of each row's newest token: rows of one sentence share its keys. Where there are none the result is 0.
/// q [rows, heads * d_k], out [rows, heads * d_v].
template <class T>
void cross_attention_step(Cpu, const StepHeads& heads, ConstMatrix<T> q, const SourceRows<T>& keys, Matrix<T> out) {
  ATTEND_FASTEST(cross_attention_step, heads, q, keys, out);
  const auto& layout = keys.layout;
  const index_t most = out.rows > 0 ? *std::max_element(keys.lengths, keys.lengths + out.rows) : 0;
  const auto count = [&](index_t row) { return keys.lengths[row]; };
  const auto key = [&](index_t row, index_t j) { return keys.data + (keys.begins[row] + j) * layout.stride + layout.k_offset; };
  const index_t v_offset = layout.v_offset - layout.k_offset;
  cpu::attention_step_rows(heads, q, cpu::KeysOfRows{most, v_offset, count, key, StepBias<T>{}}, out);
}

/// The weights of such a step, mean over the heads: weights[r, j] of the j-th of row r's keys, 0 beyond the last. weights [rows,
/// the most keys of any row, or more].
template <class T>
void cross_attention_weights_step(Cpu, const StepHeads& heads, ConstMatrix<T> q, const SourceRows<T>& keys, Matrix<T> weights) {
  ATTEND_FASTEST(cross_attention_weights_step, heads, q, keys, weights);
  const auto& layout = keys.layout;
  const index_t longest = weights.columns;
  parallel_rows(weights.rows, heads.count * longest * heads.d_k, [&](index_t begin, index_t end) {
    std::vector<const T*> vectors(longest + 3);
    std::vector<T> room(longest + cpu::lanes);
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
        cpu::key_scores<T>({q.data + r * q.stride + offset, heads.d_k, scale},
                           {n, vectors.data(), head / heads.group * heads.d_k}, room.data());
        cpu::softmax_of_scores<T>(n, nullptr, room.data());
        for (index_t j = 0; j < n; ++j) to[j] += share * nth(room, j);
      }
    }
  });
}

/// *where = value, where a table of addresses lies on the device.
template <class T>
void store_pointer(Cpu, const T* value, const T** where) {
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

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/attention_step.hpp"
#include "attend/cpu/each_target.hpp"
#endif
