#pragma once

#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/attention_step.hpp"

/// The kernels of attention in decoding: every row is one query with keys and values of its own choice. Where these lie, a
/// functor says: count(row), how many keys a row has, and at(row, j), where the vector of key j and value j begins.
namespace attend::cuda {

/// See kernels::SlabRows.
template <class T>
struct SlabKeys {
  kernels::SlabRows<T> rows;
  [[nodiscard]] __device__ int count(index_t) const { return static_cast<int>(rows.table.columns); }
  [[nodiscard]] __device__ const T* at(index_t row, int j) const {
    return rows.slabs[j] + rows.table.data[row * rows.table.stride + j] * rows.layout.stride;
  }
};
/// See kernels::SourceRows.
template <class T>
struct SourceKeys {
  kernels::SourceRows<T> rows;
  [[nodiscard]] __device__ int count(index_t row) const { return static_cast<int>(rows.lengths[row]); }
  [[nodiscard]] __device__ const T* at(index_t row, int j) const {
    return rows.data + (rows.begins[row] + j) * rows.layout.stride;
  }
};

/// The sizes of an attention step; strides and offsets in elements.
template <class T>
struct StepSizes {
  int heads, group, d_k, d_v;
  Wide<T> scale;
  const T* q;
  index_t q_stride, k_offset, v_offset;
  T* out;
  index_t out_stride;
  kernels::StepBias<T> bias;

  StepSizes(const kernels::StepHeads& of, const kernels::Matrix<const T>& queries, const kernels::KeyValueLayout& keys,
            const kernels::Matrix<T>& to, const kernels::StepBias<T>& added = {})
      : heads(static_cast<int>(of.count)),
        group(static_cast<int>(of.group)),
        d_k(static_cast<int>(of.d_k)),
        d_v(static_cast<int>(of.d_v)),
        scale(static_cast<Wide<T>>(of.scale)),
        q(queries.data),
        q_stride(queries.stride),
        k_offset(keys.k_offset),
        v_offset(keys.v_offset),
        out(to.data),
        out_stride(to.stride),
        bias(added) {}

  /// What is added to the score of key j of n.
  __device__ Wide<T> bias_of(int head, int j, int n) const {
    return bias.newest ? static_cast<Wide<T>>(bias.newest[head * bias.head + j - (n - 1)]) : Wide<T>(0);
  }
};

/// Threads of a block.
inline constexpr int step_threads = 128;

/// The softmax of some keys' scores so far and the sum of their values, one column of which is a[i].
template <class W, int V>
struct Weighted {
  W top = -infinity<W>(), sum = W(0), a[V] = {};

  /// What exp(top - .) is to be taken of once `most` is the largest score: it, or 0 if there is none.
  static __device__ W shift(W most) { return most == -infinity<W>() ? W(0) : most; }
  __device__ void rescale(W most) {
    const W factor = exp(top - shift(most));
    top = most;
    sum *= factor;
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] *= factor;
  }
  /// Joins what two lanes have that are `step` apart.
  __device__ void join(int step) {
    const W other_top = __shfl_xor_sync(all_lanes, top, step);
    rescale(other_top > top ? other_top : top);
    sum += __shfl_xor_sync(all_lanes, sum, step);
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] += __shfl_xor_sync(all_lanes, a[i], step);
  }
};

/// The most keys that a warp attends to alone. With more, a whole block does: which of the two follows from the row itself.
inline constexpr int step_alone = 64;

/// What this lane's warp has of the attention of a row's head to its n keys, of which this lane's group takes every
/// `groups`-th: joined, and the same in all groups of the warp. Each `members` neighbouring lanes are a group: they share a key,
/// 16 bytes of it each.
template <int members, class T, class Keys>
__device__ Weighted<Wide<T>, Pack<T>::count> attend_to(const StepSizes<T>& sizes, const Keys& keys, index_t row, int head, int n,
                                                       int group, int groups) {
  using W = Wide<T>;
  constexpr int V = Pack<T>::count, at_once = 4;
  const int column = lane() % members * V;
  const bool in_k = column < sizes.d_k, in_v = column < sizes.d_v;
  const index_t k_begin = sizes.k_offset + head / sizes.group * sizes.d_k + column,
                v_begin = sizes.v_offset + head / sizes.group * sizes.d_v + column;
  W q[V] = {};
  if (in_k) load_wide<V>(sizes.q + row * sizes.q_stride + head * sizes.d_k + column, q);
#pragma unroll
  for (int i = 0; i < V; ++i) q[i] *= sizes.scale;

  Weighted<W, V> own;
  for (int first = 0; first < n; first += groups * at_once) {
    Piece<T, V> k[at_once], v[at_once];
    W scores[at_once], most = own.top;
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (const int j = first + u * groups + group; j < n) {
        const T* const vector = keys.at(row, j);
        if (in_k) k[u].load(vector + k_begin);
        if (in_v) v[u].load(vector + v_begin);
      }
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int key = first + u * groups + group;
      const bool there = key < n;
      W dot(0);
      if (there && in_k)
#pragma unroll
        for (int i = 0; i < V; ++i) dot += q[i] * k[u][i];
#pragma unroll
      for (int step = members / 2; step > 0; step /= 2) dot += __shfl_xor_sync(all_lanes, dot, step);
      scores[u] = there ? dot + sizes.bias_of(head, key, n) : -infinity<W>();
      most = scores[u] > most ? scores[u] : most;
    }
    own.rescale(most);
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const W weight = exp(scores[u] - own.shift(most));
      own.sum += weight;
      if (first + u * groups + group < n && in_v)
#pragma unroll
        for (int i = 0; i < V; ++i) own.a[i] += weight * v[u][i];
    }
  }
#pragma unroll
  for (int step = members; step < warp_threads; step *= 2) own.join(step);
  return own;
}

/// A block for each head of each row, all of them, since how many keys a row has the device alone may know. Where a row has few,
/// a warp attends to them alone, so that the first quarter of the blocks does all of those heads; the head of a row with many is
/// done by the block of its number. d_k and d_v are at most what `members` lanes hold. All vectors begin on multiples of 16
/// bytes, those of the result, too.
template <class T, int members, class Keys>
__global__ void __launch_bounds__(step_threads) attention_step_kernel(StepSizes<T> sizes, Keys keys) {
  using W = Wide<T>;
  constexpr int V = Pack<T>::count, in_warp = warp_threads / members, warps = step_threads / warp_threads;
  static __shared__ W tops[warps], sums[warps], values[warps][members * V];
  const index_t pairs = gridDim.x, pair = static_cast<index_t>(blockIdx.x) * warps + warp();
  const int column = lane() % members * V;
  if (pair < pairs) {
    const index_t row = pair / sizes.heads;
    const int head = static_cast<int>(pair % sizes.heads);
    if (const int n = keys.count(row); n <= step_alone) {
      auto own = attend_to<members>(sizes, keys, row, head, n, lane() / members, in_warp);
      const W inverse = own.sum == W(0) ? W(0) : W(1) / own.sum;
#pragma unroll
      for (int i = 0; i < V; ++i) own.a[i] *= inverse;
      if (lane() < members && column < sizes.d_v)
        store_narrow<V>(sizes.out + row * sizes.out_stride + head * sizes.d_v + column, own.a);
    }
  }
  const index_t row = blockIdx.x / sizes.heads;
  const int head = static_cast<int>(blockIdx.x % sizes.heads), n = keys.count(row);
  if (n <= step_alone) return;  // all threads or none
  const auto own = attend_to<members>(sizes, keys, row, head, n, static_cast<int>(threadIdx.x) / members, warps * in_warp);
  if (lane() < members) {
    if (lane() == 0) tops[warp()] = own.top, sums[warp()] = own.sum;
#pragma unroll
    for (int i = 0; i < V; ++i) values[warp()][column + i] = own.a[i];
  }
  __syncthreads();
  W most = tops[0], sum(0);
  for (int w = 1; w < warps; ++w) most = tops[w] > most ? tops[w] : most;
  W factors[warps];
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    factors[w] = exp(tops[w] - own.shift(most));
    sum += sums[w] * factors[w];
  }
  const W inverse = sum == W(0) ? W(0) : W(1) / sum;
  for (int c = static_cast<int>(threadIdx.x); c < sizes.d_v; c += step_threads) {
    W value(0);
#pragma unroll
    for (int w = 0; w < warps; ++w) value += values[w][c] * factors[w];
    sizes.out[row * sizes.out_stride + head * sizes.d_v + c] = static_cast<T>(value * inverse);
  }
}

/// A block for a head of a row, vectors of any width and place. The dynamic shared memory holds d_v sums.
template <class T, class Keys>
__global__ void __launch_bounds__(step_threads) attention_step_general_kernel(StepSizes<T> sizes, Keys keys) {
  using W = Wide<T>;
  constexpr int warps = step_threads / warp_threads;
  static __shared__ W room[warp_threads], weights[step_threads];
  static __shared__ const T* vectors[step_threads];
  W* const sums = dynamic_shared<W>();  // [d_v], each of them one thread's
  const index_t row = blockIdx.x / sizes.heads;
  const int head = static_cast<int>(blockIdx.x % sizes.heads), n = keys.count(row), thread = static_cast<int>(threadIdx.x);
  const index_t k_begin = sizes.k_offset + head / sizes.group * sizes.d_k,
                v_begin = sizes.v_offset + head / sizes.group * sizes.d_v;
  const T* const q = sizes.q + row * sizes.q_stride + head * sizes.d_k;
  for (int c = thread; c < sizes.d_v; c += step_threads) sums[c] = W(0);
  Weighted<W, 1> all;
  for (int first = 0; first < n; first += step_threads) {
    const int count = min(step_threads, n - first);
    for (int j = warp(); j < count; j += warps) {
      const T* const vector = keys.at(row, first + j);
      W dot(0);
      for (int i = lane(); i < sizes.d_k; i += warp_threads)
        dot += sizes.scale * static_cast<W>(q[i]) * static_cast<W>(vector[k_begin + i]);
      dot = warp_sum(dot);
      if (lane() == 0) weights[j] = dot + sizes.bias_of(head, first + j, n), vectors[j] = vector;
    }
    __syncthreads();
    const W score = thread < count ? weights[thread] : -infinity<W>(), largest = block_max(score, room);
    const W most = largest > all.top ? largest : all.top, factor = exp(all.top - all.shift(most));
    weights[thread] = exp(score - all.shift(most));
    all.rescale(most);
    all.sum += block_sum(weights[thread], room);
    for (int c = thread; c < sizes.d_v; c += step_threads) {
      W sum = sums[c] * factor;
      for (int j = 0; j < count; ++j) sum += weights[j] * static_cast<W>(vectors[j][v_begin + c]);
      sums[c] = sum;
    }
    __syncthreads();
  }
  const W inverse = all.sum == W(0) ? W(0) : W(1) / all.sum;
  for (int c = thread; c < sizes.d_v; c += step_threads)
    sizes.out[row * sizes.out_stride + head * sizes.d_v + c] = static_cast<T>(sums[c] * inverse);
}

/// A block for a row: the mean over its heads of what they attend to, weights [rows, longest], 0 beyond a row's keys. Scores are
/// computed twice rather than kept, since there is no room for those of all keys.
template <class T, class Keys>
__global__ void __launch_bounds__(step_threads)
    attention_weights_kernel(StepSizes<T> sizes, Keys keys, kernels::Matrix<Wide<T>> weights) {
  using W = Wide<T>;
  constexpr int warps = step_threads / warp_threads;
  static __shared__ W tops[warps], sums[warps];
  const index_t row = blockIdx.x;
  const int n = keys.count(row);
  W* const to = weights.data + row * weights.stride;
  for (int j = static_cast<int>(threadIdx.x); j < weights.columns; j += step_threads) to[j] = W(0);
  __syncthreads();
  for (int head = 0; head < sizes.heads; ++head) {
    const T* const q = sizes.q + row * sizes.q_stride + head * sizes.d_k;
    const index_t k_begin = sizes.k_offset + head / sizes.group * sizes.d_k;
    const auto score = [&](int j) {
      const T* const vector = keys.at(row, j) + k_begin;
      W dot(0);
      for (int i = lane(); i < sizes.d_k; i += warp_threads)
        dot += sizes.scale * static_cast<W>(q[i]) * static_cast<W>(vector[i]);
      return warp_sum(dot);
    };
    Weighted<W, 1> own;
    for (int j = warp(); j < n; j += warps) {
      const W s = score(j);
      own.rescale(s > own.top ? s : own.top);
      own.sum += exp(s - own.shift(own.top));
    }
    if (lane() == 0) tops[warp()] = own.top, sums[warp()] = own.sum;
    __syncthreads();
    W most = tops[0], sum(0);
    for (int w = 1; w < warps; ++w) most = tops[w] > most ? tops[w] : most;
    for (int w = 0; w < warps; ++w) sum += sums[w] * exp(tops[w] - own.shift(most));
    const W share = sum == W(0) ? W(0) : W(1) / (sum * static_cast<W>(sizes.heads));
    for (int j = warp(); j < n; j += warps) {
      const W s = score(j);
      if (lane() == 0) to[j] += share * exp(s - own.shift(most));
    }
    __syncthreads();
  }
}

/// to[r, t] = from[rows[r], t].
template <class Entry>
__global__ void reorder_table_kernel(const index_t* rows, kernels::Matrix<const Entry> from, kernels::Matrix<Entry> to) {
  for (index_t i = grid_thread(); i < to.rows * to.columns; i += grid_threads()) {
    const index_t r = i / to.columns, t = i - r * to.columns;
    to.data[r * to.stride + t] = from.data[rows[r] * from.stride + t];
  }
}
/// table[r, step] = r: each row went on in itself.
template <class Entry>
__global__ void begin_table_step_kernel(kernels::Matrix<Entry> table, index_t step) {
  for (index_t r = grid_thread(); r < table.rows; r += grid_threads())
    table.data[r * table.stride + step] = static_cast<Entry>(r);
}
/// *where = value: puts a slab's address into a table on the device.
template <class T>
__global__ void store_pointer_kernel(const T* value, const T** where) {
  if (threadIdx.x == 0) *where = value;
}

}  // namespace attend::cuda
