#pragma once

#include <algorithm>

#include "attend/cuda/attention/attention_tiles.cuh"

namespace attend::cuda {

/// What the kernels of the backward on tensor cores read.
struct AttentionBackwardInputs {
  const bfloat16 *dout, *q, *k, *v, *bias;
  SoftmaxRows<float> kept;
};

/// What a thread computes the weights of its two queries from.
struct WeightRows {
  float shift[2], inverse[2];
  int query, end[2];     ///< the first of the two, and the end of the keys that each sees
  const bfloat16* bias;  ///< that of the sentence's first query, or null

  /// `first`: the first of the warp's queries.
  __device__ WeightRows(const AttentionSizes<float>& a, const AttentionBlock& b, const AttentionBackwardInputs& in, int first)
      : query(first + lane() / 4), bias(b.bias(a, in.bias)) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool inside = query + r * 8 < b.queries;
      const index_t at = b.kept_at(query + r * 8, a.heads);
      end[r] = inside ? b.seen_before(query + r * 8 + 1) : 0;
      shift[r] = inside ? in.kept.shift[at] : 0.0f;
      inverse[r] = inside ? in.kept.inverse[at] : 0.0f;
    }
  }
};

/// w = the weights of `steps` times 16 keys from `first` on, in place of the products of q and k.
template <int blocks>
__device__ void make_weights(const AttentionSizes<float>& a, const WeightRows& rows, int first, int steps,
                             float (&w)[blocks][4]) {
#pragma unroll
  for (int n = 0; n < blocks; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) w[n][i] *= a.scale;
  if (rows.bias) add_bias(rows.bias, a.bias_query, rows.query, rows.end, first, 2 * steps, w);
#pragma unroll
  for (int n = 0; n < blocks; ++n)
    if (n / 2 < steps) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool sees = first + n * 8 + lane() % 4 * 2 + i % 2 < rows.end[i / 2];
        w[n][i] = sees ? exp_of_difference(w[n][i], rows.shift[i / 2]) * rows.inverse[i / 2] : 0.0f;
      }
    }
}

/// Applies dropout, as kept_by_queries says, to dw and, if p is not null, to w on the way to p, a tile of rows `pitch` apart in
/// shared memory, of which this is the warp's first. Adds to `sums` what the thread has of the sums of dw * w of its two rows.
template <int blocks>
__device__ void drop_weights(float kept_scale, unsigned keep, int steps, const float (&w)[blocks][4], float (&dw)[blocks][4],
                             bfloat16* p, int pitch, float (&sums)[2]) {
#pragma unroll
  for (int n = 0; n < blocks; ++n)
    if (n / 2 < steps) {
      float dropped[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float factor = (keep >> (4 * n + i) & 1u) != 0 ? kept_scale : 0.0f;
        dropped[i] = factor * w[n][i];
        dw[n][i] *= factor;
        sums[i / 2] += dw[n][i] * w[n][i];
      }
      if (!p) continue;
      bfloat16* const at = p + lane() / 4 * pitch + n * 8 + lane() % 4 * 2;
      *reinterpret_cast<std::uint32_t*>(at) = pack_bfloat16(dropped[0], dropped[1]);
      *reinterpret_cast<std::uint32_t*>(at + 8 * pitch) = pack_bfloat16(dropped[2], dropped[3]);
    }
}

/// ds = w * (dw - sum), packed for the next product.
template <int blocks>
__device__ void make_ds(const float (&w)[blocks][4], const float (&dw)[blocks][4], const float (&sums)[2], int steps,
                        std::uint32_t (&ds)[blocks / 2][4]) {
#pragma unroll
  for (int n = 0; n < blocks; ++n)
    if (n / 2 < steps) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        ds[n / 2][n % 2 * 2 + r] =
            pack_bfloat16(w[n][2 * r] * (dw[n][2 * r] - sums[r]), w[n][2 * r + 1] * (dw[n][2 * r + 1] - sums[r]));
    }
}

/// acc = the transpose of 16 columns of p, from `first` on, times the rows y, over the steps of 16 rows from `begin` to `end`.
template <int width, int pitch>
__device__ void multiply_columns(const bfloat16* p, int first, const bfloat16* y, int begin, int end,
                                 float (&acc)[width / 8][4]) {
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[n][i] = 0.0f;
  for (int step = begin; step < end; ++step) {
    std::uint32_t columns[4];
    ldmatrix_x4_transposed(columns, p + (step * 16 + lane() / 16 * 8 + lane() % 8) * pitch + first + lane() / 8 % 2 * 8);
    add_product<width>(columns, y + step * 16 * tile_pitch<width>, acc);
  }
}

/// Elements of v's tile, which is also that of the weights, and bytes of shared memory of `attention_backward_short`.
template <int width, int warps>
inline constexpr int attention_backward_room = (16 * warps) * tile_pitch<(width > 16 * warps ? width : 16 * warps)>;
/// Bytes of shared memory of `attention_backward_short`.
template <int width, int warps>
inline constexpr int attention_backward_shared = 2 * (3 * 16 * warps * tile_pitch<width> + attention_backward_room<width, warps> +
                                                      16 * warps * tile_pitch<16 * warps>);

/// Blocks that a multiprocessor of compute capability 9.0 is to hold at a time: as many as its 228 KiB of shared memory have room
/// for, of which a block takes one more than it asks for, and at most 16 warps. Leaving registers for more would gain nothing.
template <int width, int warps>
inline constexpr int attention_backward_blocks = std::min(16 / warps,
                                                          228 * 1024 / (attention_backward_shared<width, warps> + 1024));

/// The backward of attention on tensor cores for sentences of at most 16 * warps queries and keys; it leaves others alone. A
/// block: one head of one sentence. Each of the five products is made once: a warp has 16 queries until their weights and ds lie
/// in shared memory, then 16 keys. dq, dk, dv may be null.
template <int width, int warps>
__global__ void __launch_bounds__(warps* warp_threads, attention_backward_blocks<width, warps>)
    attention_backward_short(AttentionSizes<float> a, AttentionBackwardInputs in, bfloat16* dq, bfloat16* dk, bfloat16* dv) {
  constexpr int tile = 16 * warps, pitch = tile_pitch<width>, pair_pitch = tile_pitch<tile>;
  bfloat16* const q_tile = dynamic_shared<bfloat16>();
  bfloat16 *const k_tile = q_tile + tile * pitch, *const dout_tile = k_tile + tile * pitch;
  bfloat16 *const v_tile = dout_tile + tile * pitch, *const p_tile = v_tile;
  bfloat16* const ds_tile = v_tile + attention_backward_room<width, warps>;
  const AttentionBlock b(a, tile);
  if (b.queries > tile || b.keys > tile) return;
  const index_t k_head = static_cast<index_t>(b.head) * a.d_k, v_head = static_cast<index_t>(b.head) * a.d_v;
  load_tile<width, warps>(q_tile, in.q + b.query_row * a.q_stride + k_head, a.q_stride, b.queries, a.d_k);
  load_tile<width, warps>(k_tile, in.k + b.key_row * a.k_stride + k_head, a.k_stride, b.keys, a.d_k);
  cp_async_commit();
  load_tile<width, warps>(dout_tile, in.dout + b.query_row * a.out_stride + v_head, a.out_stride, b.queries, a.d_v);
  load_tile<width, warps>(v_tile, in.v + b.key_row * a.v_stride + v_head, a.v_stride, b.keys, a.d_v);
  cp_async_commit();

  const int own = warp() * 16;
  const int steps = own < b.queries ? (b.seen_before(min(own + 16, b.queries)) + 15) / 16 : 0;
  const WeightRows own_rows(a, b, in, own);
  const unsigned keep = kept_by_queries(a, b, own, 0, 2 * steps);  // while the matrices are on their way
  float acc[width / 8][4] = {};
  {
    float w[tile / 8][4], dw[tile / 8][4], sums[2] = {0.0f, 0.0f};
    cp_async_wait<1>();
    __syncthreads();
    multiply_rows<width>(q_tile + own * pitch, k_tile, steps, w);
    make_weights(a, own_rows, 0, steps, w);
    cp_async_wait<0>();
    __syncthreads();
    multiply_rows<width>(dout_tile + own * pitch, v_tile, steps, dw);
    __syncthreads();  // everybody is done with v
    drop_weights(a.kept_scale, keep, steps, w, dw, dv ? p_tile + own * pair_pitch : nullptr, pair_pitch, sums);
    sums[0] = quad_sum(sums[0]), sums[1] = quad_sum(sums[1]);
    std::uint32_t ds[tile / 16][4];
    make_ds(w, dw, sums, steps, ds);
#pragma unroll
    for (int step = 0; step < tile / 16; ++step)
      if (step < steps) {
        bfloat16* const at = ds_tile + (own + lane() / 4) * pair_pitch + step * 16 + lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4; ++i) *reinterpret_cast<std::uint32_t*>(at + i % 2 * 8 * pair_pitch + i / 2 * 8) = ds[step][i];
        if (dq) add_product<width>(ds[step], k_tile + step * 16 * pitch, acc);
      }
  }
  __syncthreads();  // the weights and ds are there, and everybody is done with k, whose rows are room for results from here on
  bfloat16* const room = k_tile + own * pitch;
  const float one[2] = {1.0f, 1.0f}, scale[2] = {a.scale, a.scale};
  if (dq) store_rows<width>(acc, scale, room, dq + (b.query_row + own) * a.q_stride + k_head, a.q_stride, b.queries - own, a.d_k);
  // A causal query's warp has made weights up to its own keys' step, no further.
  const int begin = a.causal ? warp() : 0, end = own < b.keys ? (b.queries + 15) / 16 : 0;
  if (dv) {
    multiply_columns<width, pair_pitch>(p_tile, own, dout_tile, begin, end, acc);
    store_rows<width>(acc, one, room, dv + (b.key_row + own) * a.v_stride + v_head, a.v_stride, b.keys - own, a.d_v);
  }
  if (dk) {
    multiply_columns<width, pair_pitch>(ds_tile, own, q_tile, begin, end, acc);
    store_rows<width>(acc, scale, room, dk + (b.key_row + own) * a.k_stride + k_head, a.k_stride, b.keys - own, a.d_k);
  }
}

}  // namespace attend::cuda
