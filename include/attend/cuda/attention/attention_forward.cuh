#pragma once

#include "attend/cuda/attention/attention_tiles.cuh"

namespace attend::cuda {

/// Bytes of shared memory of `attention_forward_tiles`.
template <int width, int warps>
inline constexpr int attention_forward_shared = 2 * (3 * 16 * warps) * tile_pitch<width>;

/// The forward of attention on tensor cores. A block: 16 * warps queries of one head. While the scores of a tile of keys are
/// made, its values are on their way, and while they are summed up, the next keys.
template <int width, int warps>
__global__ void __launch_bounds__(warps* warp_threads, (width > 64 ? 12 : 16) / warps)
    attention_forward_tiles(AttentionSizes<float> a, kernels::AttentionInputs<bfloat16> in, SoftmaxRows<float> kept,
                            bfloat16* out) {
  const bfloat16 *const q = in.q, *const k = in.k, *const v = in.v, *const bias = in.bias;
  constexpr int tile = 16 * warps, pitch = tile_pitch<width>;
  bfloat16* const q_tile = dynamic_shared<bfloat16>();
  bfloat16 *const k_tile = q_tile + tile * pitch, *const v_tile = k_tile + tile * pitch;
  const AttentionBlock b(a, tile);
  if (b.first >= b.queries) return;
  const int rows = min(tile, b.queries - b.first), seen = b.seen_before(b.first + rows);
  const bfloat16* const ks = k + b.key_row * a.k_stride + static_cast<index_t>(b.head / a.group) * a.d_k;
  const bfloat16* const vs = v + b.key_row * a.v_stride + static_cast<index_t>(b.head / a.group) * a.d_v;
  if (seen > 0) {
    load_tile<width, warps>(q_tile, q + (b.query_row + b.first) * a.q_stride + static_cast<index_t>(b.head) * a.d_k, a.q_stride,
                            rows, a.d_k);
    load_tile<width, warps>(k_tile, ks, a.k_stride, min(tile, seen), a.d_k);
    cp_async_commit();
    load_tile<width, warps>(v_tile, vs, a.v_stride, min(tile, seen), a.d_v);
    cp_async_commit();
  }
  const int own = warp() * 16, query = b.first + own + lane() / 4;  // the thread's second one is 8 behind
  const bfloat16* biases = b.bias(a, bias);
  const int own_seen = own < rows ? b.seen_before(min(b.first + own + 16, b.queries)) : 0;  // by the warp
  const int end[2] = {query < b.queries ? b.seen_before(query + 1) : 0, query + 8 < b.queries ? b.seen_before(query + 9) : 0};
  float top[2] = {-infinity<float>(), -infinity<float>()}, sum[2] = {0.0f, 0.0f}, acc[width / 8][4] = {};
  for (int first = 0; first < seen; first += tile) {
    const bool more = first + tile < seen;
    const int next = min(tile, seen - first - tile);
    const int steps = own_seen > first ? (min(tile, own_seen - first) + 15) / 16 : 0;
    const unsigned keep = kept_by_queries(a, b, b.first + own, first, 2 * steps);  // while q and k are on their way
    float s[tile / 8][4];
    cp_async_wait<1>();
    __syncthreads();
    multiply_rows<width>(q_tile + own * pitch, k_tile, steps, s);
    if (more) {
      __syncthreads();
      load_tile<width, warps>(k_tile, ks + (first + tile) * a.k_stride, a.k_stride, next, a.d_k);
    }
    cp_async_commit();

    float largest[2] = {top[0], top[1]}, shift[2];
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= a.scale;
    if (biases) add_bias(biases, a.bias_query, query, end, first, 2 * steps, s);
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
      if (n / 2 < steps) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (first + n * 8 + lane() % 4 * 2 + i % 2 >= end[i / 2]) s[n][i] = -infinity<float>();
          largest[i / 2] = fmaxf(largest[i / 2], s[n][i]);
        }
      }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = quad_max(largest[r]);
      shift[r] = largest[r] == -infinity<float>() ? 0.0f : largest[r];
      const float fade = exp_of_difference(top[r], shift[r]);
      top[r] = largest[r];
      sum[r] *= fade;
#pragma unroll
      for (int n = 0; n < width / 8; ++n) acc[n][2 * r] *= fade, acc[n][2 * r + 1] *= fade;
    }
    std::uint32_t p[tile / 16][4];
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
      if (n / 2 < steps) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float e = exp_of_difference(s[n][i], shift[i / 2]);
          sum[i / 2] += e;
          s[n][i] = (keep >> (4 * n + i) & 1u) != 0 ? e : 0.0f;
        }
        p[n / 2][n % 2 * 2] = pack_bfloat16(s[n][0], s[n][1]);
        p[n / 2][n % 2 * 2 + 1] = pack_bfloat16(s[n][2], s[n][3]);
      }

    cp_async_wait<1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < tile / 16; ++step)
      if (step < steps) add_product<width>(p[step], v_tile + step * 16 * pitch, acc);
    if (more) {
      __syncthreads();
      load_tile<width, warps>(v_tile, vs + (first + tile) * a.v_stride, a.v_stride, next, a.d_v);
    }
    cp_async_commit();
  }
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = quad_sum(sum[r]);
    factor[r] = total == 0.0f ? 0.0f : __fdividef(1.0f, total);
    if (kept.shift && lane() % 4 == 0 && query + r * 8 < b.queries) {
      const index_t at = b.kept_at(query + r * 8, a.heads);
      kept.shift[at] = top[r] == -infinity<float>() ? 0.0f : top[r], kept.inverse[at] = factor[r];
    }
    factor[r] *= a.kept_scale;
  }
  store_rows<width>(acc, factor, q_tile + own * pitch,
                    out + (b.query_row + b.first + own) * a.out_stride + static_cast<index_t>(b.head) * a.d_v, a.out_stride,
                    rows - own, a.d_v);
}

}  // namespace attend::cuda
