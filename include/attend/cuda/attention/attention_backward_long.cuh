#pragma once

#include "attend/cuda/attention/attention_backward.cuh"

/// The backward of attention on tensor cores for sentences that `attention_backward_short` leaves alone, in two kernels: one goes
/// by queries, one by keys.
namespace attend::cuda {

/// Both kernels' tiles: 64 rows.
inline constexpr int long_warps = 4, long_tile = 16 * long_warps;

/// Tiles of each of the two matrices that a block goes along: one that is at work, and one that is on its way if there is room
/// for it on a device with 99 KiB of shared memory.
template <int width>
inline constexpr int long_buffers = width > 64 ? 1 : 2;
/// Bytes of shared memory of either: two matrices' tiles stay.
template <int width>
inline constexpr int attention_backward_long_shared = (2 + 2 * long_buffers<width>)*long_tile* tile_pitch<width> * 2;

/// A block: 64 queries of one head. It goes over the keys twice, first for sum(dw * weights), which `deltas` receives, laid out
/// as what is kept of the softmax. dq may be null.
template <int width>
__global__ void __launch_bounds__(long_warps* warp_threads, width > 64 ? 2 : 3)
    attention_backward_long_queries(AttentionSizes<float> a, AttentionBackwardInputs in, float* deltas, bfloat16* dq) {
  constexpr int pitch = tile_pitch<width>, buffers = long_buffers<width>;
  bfloat16* const q_tile = dynamic_shared<bfloat16>();
  bfloat16 *const dout_tile = q_tile + long_tile * pitch, *const key_tiles = dout_tile + long_tile * pitch;
  const AttentionBlock b(a, long_tile);
  if (b.first >= b.queries || (b.queries <= long_tile && b.keys <= long_tile)) return;
  const index_t k_head = static_cast<index_t>(b.head) * a.d_k, v_head = static_cast<index_t>(b.head) * a.d_v;
  const int rows = min(long_tile, b.queries - b.first), seen = b.seen_before(b.first + rows);
  load_tile<width, long_warps>(q_tile, in.q + (b.query_row + b.first) * a.q_stride + k_head, a.q_stride, rows, a.d_k);
  load_tile<width, long_warps>(dout_tile, in.dout + (b.query_row + b.first) * a.out_stride + v_head, a.out_stride, rows, a.d_v);
  cp_async_commit();
  const int tiles = (seen + long_tile - 1) / long_tile, all = (dq ? 2 : 1) * tiles;
  // Tile `number` of the keys and, behind it, of their values; those of both passes are numbered through.
  const auto place = [&](int number) { return key_tiles + number % buffers * 2 * long_tile * pitch; };
  const auto begin_to_load = [&](int number) {
    if (number < all) {
      const int first = number % tiles * long_tile, keys = min(long_tile, seen - first);
      load_tile<width, long_warps>(place(number), in.k + (b.key_row + first) * a.k_stride + k_head, a.k_stride, keys, a.d_k);
      load_tile<width, long_warps>(place(number) + long_tile * pitch, in.v + (b.key_row + first) * a.v_stride + v_head,
                                   a.v_stride, keys, a.d_v);
    }
    cp_async_commit();
  };
  if (buffers > 1) begin_to_load(0);

  const int own = warp() * 16, query = b.first + own;
  const int own_seen = own < rows ? b.seen_before(min(query + 16, b.queries)) : 0;
  const WeightRows own_rows(a, b, in, query);
  float sums[2] = {0.0f, 0.0f}, acc[width / 8][4] = {};
#pragma unroll 1
  for (int pass = 0; pass < (dq ? 2 : 1); ++pass) {
    for (int tile = 0; tile < tiles; ++tile) {
      const int first = tile * long_tile, steps = own_seen > first ? (min(long_tile, own_seen - first) + 15) / 16 : 0;
      const int number = pass * tiles + tile;
      const bfloat16 *const k_tile = place(number), *const v_tile = k_tile + long_tile * pitch;
      begin_to_load(number + buffers - 1);
      const unsigned keep = kept_by_queries(a, b, query, first, 2 * steps);
      cp_async_wait<buffers - 1>();
      __syncthreads();
      float w[long_tile / 8][4], dw[long_tile / 8][4], part[2] = {0.0f, 0.0f};
      multiply_rows<width>(q_tile + own * pitch, k_tile, steps, w);
      make_weights(a, own_rows, first, steps, w);
      multiply_rows<width>(dout_tile + own * pitch, v_tile, steps, dw);
      drop_weights(a.kept_scale, keep, steps, w, dw, nullptr, 0, part);
      if (pass == 0) {
        sums[0] += part[0], sums[1] += part[1];
      } else {
        std::uint32_t ds[long_tile / 16][4];
        make_ds(w, dw, sums, steps, ds);
#pragma unroll
        for (int step = 0; step < long_tile / 16; ++step)
          if (step < steps) add_product<width>(ds[step], k_tile + step * 16 * pitch, acc);
      }
      __syncthreads();  // everybody is done with the tile, in whose place another comes
    }
    if (pass == 1) break;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int at = query + lane() / 4 + r * 8;
      sums[r] = quad_sum(sums[r]);
      if (lane() % 4 == 0 && at < b.queries) deltas[b.kept_at(at, a.heads)] = sums[r];
    }
  }
  cp_async_wait<0>();  // if there are no keys, nobody has waited yet
  __syncthreads();
  if (!dq) return;
  const float scale[2] = {a.scale, a.scale};
  const index_t query_row = a.queries.begin[b.sentence];  // again, which spares registers in the loops
  store_rows<width>(acc, scale, q_tile + own * pitch, dq + (query_row + query) * a.q_stride + k_head, a.q_stride, rows - own,
                    a.d_k);
}

/// A warp's 16 rows of a tile, which it multiplies with many others: in registers where these suffice.
template <int width>
struct OwnRows {
  static constexpr bool held = width <= 64;
  const bfloat16* rows;
  std::uint32_t pieces[held ? width / 16 : 1][4];

  __device__ explicit OwnRows(const bfloat16* x) : rows(x) {
    if constexpr (held)
#pragma unroll
      for (int d = 0; d < width / 16; ++d)
        ldmatrix_x4(pieces[d], rows + lane() % 16 * tile_pitch<width> + lane() / 16 * 8 + d * 16);
  }
  /// c = these rows times the transpose of 16 rows y, as of multiply_rows.
  __device__ void multiply(const bfloat16* y, float (&c)[2][4]) const {
    if constexpr (held) {
      const bfloat16* const row = y + (lane() / 16 * 8 + lane() % 8) * tile_pitch<width> + lane() / 8 % 2 * 8;
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) c[n][i] = 0.0f;
#pragma unroll
      for (int d = 0; d < width / 16; ++d) {
        std::uint32_t b[4];
        ldmatrix_x4(b, row + d * 16);
        mma_16x8x16(c[0], pieces[d], b[0], b[1]);
        mma_16x8x16(c[1], pieces[d], b[2], b[3]);
      }
    } else {
      multiply_rows<width>(rows, y, 1, c);
    }
  }
};

/// A block: 64 keys of one head. dk, dv may be null.
template <int width>
__global__ void __launch_bounds__(long_warps* warp_threads, width > 64 ? 2 : 3)
    attention_backward_long_keys(AttentionSizes<float> a, AttentionBackwardInputs in, const float* deltas, bfloat16* dk,
                                 bfloat16* dv) {
  constexpr int pitch = tile_pitch<width>, buffers = long_buffers<width>;
  bfloat16* const k_tile = dynamic_shared<bfloat16>();
  bfloat16 *const v_tile = k_tile + long_tile * pitch, *const query_tiles = v_tile + long_tile * pitch;
  static __shared__ float shift[long_tile], inverse[long_tile], delta[long_tile];  // of the tile's queries
  const AttentionBlock b(a, long_tile);
  if (b.first >= b.keys || (b.queries <= long_tile && b.keys <= long_tile)) return;
  const index_t k_head = static_cast<index_t>(b.head) * a.d_k, v_head = static_cast<index_t>(b.head) * a.d_v;
  const int rows = min(long_tile, b.keys - b.first), own = warp() * 16, key = b.first + own;
  const bfloat16* biases = b.bias(a, in.bias);
  load_tile<width, long_warps>(k_tile, in.k + (b.key_row + b.first) * a.k_stride + k_head, a.k_stride, rows, a.d_k);
  load_tile<width, long_warps>(v_tile, in.v + (b.key_row + b.first) * a.v_stride + v_head, a.v_stride, rows, a.d_v);
  cp_async_commit();
  // Where the tile from query `first` on lies, and behind it that of dout.
  const auto place = [&](int first) { return query_tiles + first / long_tile % buffers * 2 * long_tile * pitch; };
  const auto begin_to_load = [&](int first) {
    if (first < b.queries) {
      const int queries = min(long_tile, b.queries - first);
      load_tile<width, long_warps>(place(first), in.q + (b.query_row + first) * a.q_stride + k_head, a.q_stride, queries, a.d_k);
      load_tile<width, long_warps>(place(first) + long_tile * pitch, in.dout + (b.query_row + first) * a.out_stride + v_head,
                                   a.out_stride, queries, a.d_v);
    }
    cp_async_commit();
  };
  const int begin = a.causal ? b.first : 0;
  if (buffers > 1) begin_to_load(begin);
  cp_async_wait<buffers - 1>();
  __syncthreads();
  const OwnRows<width> own_keys(k_tile + own * pitch), own_values(v_tile + own * pitch);
  float dks[width / 8][4] = {}, dvs[width / 8][4] = {};
  for (int first = begin; first < b.queries; first += long_tile) {
    const int queries = min(long_tile, b.queries - first);
    const bfloat16 *const q_tile = place(first), *const dout_tile = q_tile + long_tile * pitch;
    begin_to_load(first + (buffers - 1) * long_tile);
    for (int i = static_cast<int>(threadIdx.x); i < queries; i += long_warps * warp_threads) {
      const index_t at = b.kept_at(first + i, a.heads);
      shift[i] = in.kept.shift[at], inverse[i] = in.kept.inverse[at], delta[i] = dk ? deltas[at] : 0.0f;
    }
    cp_async_wait<buffers - 1>();
    __syncthreads();
    for (int step = 0; step * 16 < queries; ++step) {
      if (own >= rows || (a.causal && first + step * 16 + 15 < key)) continue;
      const unsigned keep = kept_by_keys(a, b, first + step * 16, key);
      float w[2][4], dw[2][4];  // of 16 keys and 16 queries
      own_keys.multiply(q_tile + step * 16 * pitch, w);
      own_values.multiply(dout_tile + step * 16 * pitch, dw);
      std::uint32_t p[4], ds[4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int at = step * 16 + n * 8;
        float dropped[4], dscore[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = at + lane() % 4 * 2 + i % 2, query = first + column, row = key + lane() / 4 + i / 2 * 8;
          const bool sees = b.sees(query, row);
          const float factor = (keep >> (4 * n + i) & 1u) != 0 ? a.kept_scale : 0.0f;
          float score = w[n][i] * a.scale, weight = 0.0f;
          if (biases && sees) score += biases[query * a.bias_query + row];
          if (sees) weight = exp_of_difference(score, shift[column]) * inverse[column];
          dropped[i] = factor * weight;
          dscore[i] = sees ? weight * (factor * dw[n][i] - delta[column]) : 0.0f;
        }
        p[2 * n] = pack_bfloat16(dropped[0], dropped[1]), p[2 * n + 1] = pack_bfloat16(dropped[2], dropped[3]);
        ds[2 * n] = pack_bfloat16(dscore[0], dscore[1]), ds[2 * n + 1] = pack_bfloat16(dscore[2], dscore[3]);
      }
      if (dv) add_product<width>(p, dout_tile + step * 16 * pitch, dvs);
      if (dk) add_product<width>(ds, q_tile + step * 16 * pitch, dks);
    }
    __syncthreads();  // everybody is done with the tile, in whose place another comes
  }
  cp_async_wait<0>();  // if there are no queries, nobody has waited yet
  __syncthreads();
  const float one[2] = {1.0f, 1.0f}, scale[2] = {a.scale, a.scale};
  const index_t key_row = a.keys.begin[b.sentence];  // again, which spares registers in the loops
  if (dk)
    store_rows<width>(dks, scale, k_tile + own * pitch, dk + (key_row + key) * a.k_stride + k_head, a.k_stride, rows - own,
                      a.d_k);
  if (dv)
    store_rows<width>(dvs, one, v_tile + own * pitch, dv + (key_row + key) * a.v_stride + v_head, a.v_stride, rows - own, a.d_v);
}

}  // namespace attend::cuda
