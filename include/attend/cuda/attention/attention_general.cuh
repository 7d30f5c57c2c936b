#pragma once

#include <type_traits>

#include "attend/cuda/attention/attention_sizes.cuh"

/// Attention of any number type and width: 64 threads look at 32 queries and 32 keys at a time, of which each thread has 4 x 4
/// scores, and at 64 columns of a result, of which it has 4 x 8 elements. Further columns are other blocks' work, `blockIdx.y`
/// says which.
namespace attend::cuda {

/// Threads of a block, queries or keys of its tiles, and columns of a result that it makes.
inline constexpr int general_threads = 64, general_tile = 32, general_columns = 64;
/// Elements from one column of a tile in shared memory to the next.
inline constexpr int general_pitch = general_tile + 4;

/// Rows of a matrix that blocks read: `rows` of them, `stride` apart, with `width` columns. Beyond them it is as if it were 0.
template <class T>
struct MatrixRows {
  const T* x;
  index_t stride;
  int rows, width;
};

/// What a block of such a kernel has in shared memory.
template <class W>
struct GeneralRoom {
  alignas(16) W tiles[2 * general_tile * general_pitch];  // columns of two matrices, or rows of one
  alignas(16) W weights[general_tile * general_pitch];
};

namespace general {

/// Where a thread stands among the 8 x 8 of a block: it has four columns beside those of its neighbours in x, four rows in y.
__device__ inline int thread_x() { return static_cast<int>(threadIdx.x) % 8; }
/// See thread_x.
__device__ inline int thread_y() { return static_cast<int>(threadIdx.x) / 8; }
/// The column, among those of the block, of element j of a thread.
__device__ inline int column(int j) { return j / 4 * 32 + thread_x() * 4 + j % 4; }

/// to[c * pitch + r] = x[r][first + c] for 32 rows and columns.
template <class T, class W>
__device__ void stage_columns(const MatrixRows<T>& x, int first, W* to) {
  for (int e = static_cast<int>(threadIdx.x); e < general_tile * general_tile; e += general_threads) {
    const int c = e % 8 + e / 32 % 4 * 8, r = e / 8 % 4 + e / 128 * 4;  // a warp writes to all banks
    const bool inside = r < x.rows && first + c < x.width;
    to[c * general_pitch + r] = inside ? static_cast<W>(x.x[r * x.stride + first + c]) : W(0);
  }
}
/// to[r * (columns + 4) + c] = x[r][first + c] for 32 rows and 64 columns.
template <class T, class W>
__device__ void stage_rows(const MatrixRows<T>& x, int first, W* to) {
  for (int e = static_cast<int>(threadIdx.x); e < general_tile * general_columns; e += general_threads) {
    const int c = e % general_columns, r = e / general_columns;
    const bool inside = r < x.rows && first + c < x.width;
    to[r * (general_columns + 4) + c] = inside ? static_cast<W>(x.x[r * x.stride + first + c]) : W(0);
  }
}

/// c[i][j] = row i of x times row j of y, where i and j count from the thread's first ones.
template <class T, class W>
__device__ void scores(const MatrixRows<T>& x, const MatrixRows<T>& y, GeneralRoom<W>& room, W (&c)[4][4]) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) c[i][j] = W(0);
  W* const y_tile = room.tiles + general_tile * general_pitch;
  for (int first = 0; first < x.width; first += general_tile) {
    __syncthreads();  // nobody reads what was there before
    stage_columns(x, first, room.tiles);
    stage_columns(y, first, y_tile);
    __syncthreads();
    const int depth = min(general_tile, x.width - first);
    for (int d = 0; d < depth; ++d) {
      const W *a = room.tiles + d * general_pitch + thread_y() * 4, *b = y_tile + d * general_pitch + thread_x() * 4;
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) c[i][j] += a[i] * b[j];
    }
  }
}

/// acc[i][c] += sum over the columns j of the tile p of p[i][j] y[j][first + column(c)].
template <class T, class W>
__device__ void add_product(const W (&p)[4][4], const MatrixRows<T>& y, int first, GeneralRoom<W>& room, W (&acc)[4][8]) {
  __syncthreads();
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 4; ++i) room.weights[(thread_x() * 4 + j) * general_pitch + thread_y() * 4 + i] = p[i][j];
  stage_rows(y, first, room.tiles);
  __syncthreads();
  const int depth = min(general_tile, y.rows);
  for (int d = 0; d < depth; ++d) {
    const W *a = room.weights + d * general_pitch + thread_y() * 4, *b = room.tiles + d * (general_columns + 4);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 8; ++j) acc[i][j] += a[i] * b[column(j)];
  }
}

/// out[i][first + column(c)] = factor * acc[i][c]; `out` is row 0 of the tile, `rows` and `width` are its ends.
template <class T, class W>
__device__ void store(const W (&acc)[4][8], W factor, int first, T* out, index_t stride, int rows, int width) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j) {
      const int row = thread_y() * 4 + i, at = first + column(j);
      if (row < rows && at < width) out[row * stride + at] = static_cast<T>(factor * acc[i][j]);
    }
}

/// The sum and the largest of the eight threads that have the same rows.
template <class W>
__device__ W row_sum(W value) {
  for (int step = 4; step > 0; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
  return value;
}
/// See row_sum.
template <class W>
__device__ W row_max(W value) {
  for (int step = 4; step > 0; step /= 2) {
    const W other = __shfl_xor_sync(all_lanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}

/// Bit 4 i + j: whether dropout keeps the weight of query + i and key + j, for i, j < 4.
template <class W>
__device__ unsigned kept_tile(const AttentionSizes<W>& a, const AttentionBlock& b, int query, int key) {
  if (!a.dropout) return 0xffffu;
  unsigned bits = 0;
#pragma unroll 1
  for (int i = 0; i < 4; ++i) bits |= b.kept(a, query + i, key) << (4 * i);
  return bits;
}

/// Those of a sentence's rows that begin at `first`, at most a tile of them.
template <class T>
__device__ MatrixRows<T> tile_of(const T* x, index_t stride, index_t row, int first, int end, int head, int width) {
  return {x + (row + first) * stride + static_cast<index_t>(head) * width, stride, min(general_tile, end - first), width};
}

}  // namespace general

/// A block: 32 queries of one head, and 64 columns of their results. See `attention_forward`.
template <class T>
__global__ void __launch_bounds__(general_threads)
    attention_forward_general(AttentionSizes<Wide<T>> a, const T* q, const T* k, const T* v, const T* bias, T* weights,
                              const index_t* weight_offset, SoftmaxRows<Wide<T>> kept, T* out) {
  using W = Wide<T>;
  static __shared__ GeneralRoom<W> room;
  const AttentionBlock b(a, general_tile);
  if (b.first >= b.queries) return;
  const int rows = min(general_tile, b.queries - b.first), columns = static_cast<int>(blockIdx.y) * general_columns;
  const int query = b.first + general::thread_y() * 4, seen = b.seen_before(b.first + rows);  // the thread's first query
  const T* biases = b.bias(a, bias);
  const auto qs = general::tile_of(q, a.q_stride, b.query_row, b.first, b.queries, b.head, a.d_k);
  W top[4], sum[4], acc[4][8] = {};
  for (int i = 0; i < 4; ++i) top[i] = -infinity<W>(), sum[i] = W(0);
  for (int tile = 0; tile < seen; tile += general_tile) {
    W p[4][4];
    general::scores(qs, general::tile_of(k, a.k_stride, b.key_row, tile, b.keys, b.head / a.group, a.d_k), room, p);
    const int key = tile + general::thread_x() * 4;
    const unsigned keep = general::kept_tile(a, b, query, key);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      W largest = top[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        p[i][j] = b.score(a, biases, query + i, key + j, p[i][j]);
        largest = p[i][j] > largest ? p[i][j] : largest;
      }
      largest = general::row_max(largest);
      const W shift = largest == -infinity<W>() ? W(0) : largest, fade = cuda::exp(top[i] - shift);
      top[i] = largest;
      sum[i] *= fade;
      for (int c = 0; c < 8; ++c) acc[i][c] *= fade;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        p[i][j] = cuda::exp(p[i][j] - shift);
        sum[i] += p[i][j];
        if ((keep >> (4 * i + j) & 1u) == 0) p[i][j] = W(0);
      }
    }
    general::add_product(p, general::tile_of(v, a.v_stride, b.key_row, tile, b.keys, b.head / a.group, a.d_v), columns, room,
                         acc);
  }
  W shift[4], inverse[4];
  for (int i = 0; i < 4; ++i) {
    sum[i] = general::row_sum(sum[i]);
    shift[i] = top[i] == -infinity<W>() ? W(0) : top[i], inverse[i] = sum[i] == W(0) ? W(0) : W(1) / sum[i];
    for (int c = 0; c < 8; ++c) acc[i][c] *= inverse[i];
    if (kept.shift && blockIdx.y == 0 && general::thread_x() == 0 && query + i < b.queries) {
      const index_t at = b.kept_at(query + i, a.heads);
      kept.shift[at] = shift[i], kept.inverse[at] = inverse[i];
    }
  }
  general::store(acc, a.kept_scale, columns, out + (b.query_row + b.first) * a.out_stride + static_cast<index_t>(b.head) * a.d_v,
                 a.out_stride, rows, a.d_v);
  if (!weights || blockIdx.y != 0) return;
  weights += weight_offset[b.sentence] + static_cast<index_t>(b.head) * b.queries * b.keys;
  for (int tile = 0; tile < b.keys; tile += general_tile) {
    W p[4][4];
    general::scores(qs, general::tile_of(k, a.k_stride, b.key_row, tile, b.keys, b.head / a.group, a.d_k), room, p);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        const int key = tile + general::thread_x() * 4 + j;
        if (query + i < b.queries && key < b.keys)
          weights[static_cast<index_t>(query + i) * b.keys + key] =
              static_cast<T>(cuda::exp(b.score(a, biases, query + i, key, p[i][j]) - shift[i]) * inverse[i]);
      }
  }
}

}  // namespace attend::cuda
