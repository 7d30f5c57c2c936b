#pragma once

#include "attend/cuda/attention/attention_general.cuh"

/// The backward of attention of any number type and width, in two kernels: one goes by queries, one by keys, and both make the
/// weights again. So each element has one thread that adds it up, always in the same order.
namespace attend::cuda {

/// A block: 32 queries of one head, and 64 columns of their dq. `deltas` receives sum(dw * weights) of each of its queries, laid
/// out as what is kept of their softmax. dq, ds_out may be null. See `attention_backward`.
template <class T>
__global__ void __launch_bounds__(general_threads)
    attention_backward_queries(AttentionSizes<Wide<T>> a, const T* dout, const T* q, const T* k, const T* v, const T* bias,
                               SoftmaxRows<Wide<T>> kept, Wide<T>* deltas, T* dq, T* ds_out, const index_t* weight_offset) {
  using W = Wide<T>;
  static __shared__ GeneralRoom<W> room;
  const AttentionBlock b(a, general_tile);
  if (b.first >= b.queries) return;
  const int rows = min(general_tile, b.queries - b.first), columns = static_cast<int>(blockIdx.y) * general_columns;
  const int query = b.first + general::thread_y() * 4;  // the thread's first one
  const T* biases = b.bias(a, bias);
  const auto qs = general::tile_of(q, a.q_stride, b.query_row, b.first, b.queries, b.head, a.d_k);
  const auto douts = general::tile_of(dout, a.out_stride, b.query_row, b.first, b.queries, b.head, a.d_v);
  const bool first_columns = blockIdx.y == 0;
  if (!ds_out || !first_columns) ds_out = nullptr;
  else ds_out += weight_offset[b.sentence] + static_cast<index_t>(b.head) * b.queries * b.keys;
  // ds goes to memory with the zeros of what is not seen.
  const int end = ds_out ? b.keys : b.seen_before(b.first + rows);
  W shift[4], inverse[4], delta[4], w[4][4], dw[4][4], acc[4][8] = {};
  for (int i = 0; i < 4; ++i) {
    const bool inside = query + i < b.queries;
    const index_t at = b.kept_at(query + i, a.heads);
    shift[i] = inside ? kept.shift[at] : W(0), inverse[i] = inside ? kept.inverse[at] : W(0), delta[i] = W(0);
  }
#pragma unroll 1
  for (int pass = 0; pass < (dq || ds_out ? 2 : 1); ++pass) {  // the first for the deltas
    for (int tile = 0; tile < end; tile += general_tile) {
      const int key = tile + general::thread_x() * 4;
      const auto ks = general::tile_of(k, a.k_stride, b.key_row, tile, b.keys, b.head / a.group, a.d_k);
      if (pass == 0 || end > general_tile) {  // else they are still there
        const unsigned keep = general::kept_tile(a, b, query, key);
        general::scores(qs, ks, room, w);
        general::scores(douts, general::tile_of(v, a.v_stride, b.key_row, tile, b.keys, b.head / a.group, a.d_v), room, dw);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            w[i][j] = cuda::exp(b.score(a, biases, query + i, key + j, w[i][j]) - shift[i]) * inverse[i];
            dw[i][j] = (keep >> (4 * i + j) & 1u) == 0 ? W(0) : dw[i][j] * a.kept_scale;
          }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (pass == 0) delta[i] += w[i][j] * dw[i][j];
          else w[i][j] *= dw[i][j] - delta[i];
      if (pass == 0) continue;
      for (int i = 0; ds_out && i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          if (query + i < b.queries && key + j < b.keys)
            ds_out[static_cast<index_t>(query + i) * b.keys + key + j] = static_cast<T>(w[i][j]);
      if (dq) general::add_product(w, ks, columns, room, acc);
    }
    if (pass == 1) break;
    for (int i = 0; i < 4; ++i) {
      delta[i] = general::row_sum(delta[i]);
      if (first_columns && general::thread_x() == 0 && query + i < b.queries) deltas[b.kept_at(query + i, a.heads)] = delta[i];
    }
  }
  if (dq)
    general::store(acc, a.scale, columns, dq + (b.query_row + b.first) * a.q_stride + static_cast<index_t>(b.head) * a.d_k,
                   a.q_stride, rows, a.d_k);
}

/// A block: 32 keys of one head of keys, and 64 columns of their dk and dv, each of which may be null, summed over the heads of
/// queries that share it.
template <class T>
__global__ void __launch_bounds__(general_threads)
    attention_backward_keys(AttentionSizes<Wide<T>> a, const T* dout, const T* q, const T* k, const T* v, const T* bias,
                            SoftmaxRows<Wide<T>> kept, const Wide<T>* deltas, T* dk, T* dv) {
  using W = Wide<T>;
  static __shared__ GeneralRoom<W> room;
  AttentionBlock b(a, general_tile, a.heads / a.group);
  const int of_keys = b.head;
  if (b.first >= b.keys) return;
  const int rows = min(general_tile, b.keys - b.first), columns = static_cast<int>(blockIdx.y) * general_columns;
  const int key = b.first + general::thread_y() * 4;  // the thread's first one
  const auto ks = general::tile_of(k, a.k_stride, b.key_row, b.first, b.keys, of_keys, a.d_k);
  const auto vs = general::tile_of(v, a.v_stride, b.key_row, b.first, b.keys, of_keys, a.d_v);
  W dks[4][8] = {}, dvs[4][8] = {};
  for (b.head = of_keys * a.group; b.head < (of_keys + 1) * a.group; ++b.head)
    for (int tile = a.causal ? b.first : 0; tile < b.queries; tile += general_tile) {
      const T* biases = b.bias(a, bias);
      const auto qs = general::tile_of(q, a.q_stride, b.query_row, tile, b.queries, b.head, a.d_k);
      const auto douts = general::tile_of(dout, a.out_stride, b.query_row, tile, b.queries, b.head, a.d_v);
      W w[4][4], x[4][4];  // [key, query]; x becomes the weights after dropout, then ds
      const unsigned keep = general::kept_tile(a, b, tile + general::thread_x() * 4, key);
      general::scores(ks, qs, room, w);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int query = tile + general::thread_x() * 4 + j;
        const bool inside = query < b.queries;
        const index_t at = b.kept_at(query, a.heads);
        const W shift = inside ? kept.shift[at] : W(0), inverse = inside ? kept.inverse[at] : W(0);
        for (int i = 0; i < 4; ++i) {
          w[i][j] = cuda::exp(b.score(a, biases, query, key + i, w[i][j]) - shift) * inverse;
          x[i][j] = (keep >> (4 * j + i) & 1u) != 0 ? w[i][j] : W(0);
        }
      }
      if (dv) general::add_product(x, douts, columns, room, dvs);
      if (!dk) continue;
      general::scores(vs, douts, room, x);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int query = tile + general::thread_x() * 4 + j;
        const W delta = query < b.queries ? deltas[b.kept_at(query, a.heads)] : W(0);
        for (int i = 0; i < 4; ++i) {
          const W dw = (keep >> (4 * j + i) & 1u) == 0 ? W(0) : x[i][j] * a.kept_scale;
          x[i][j] = w[i][j] * (dw - delta);
        }
      }
      general::add_product(x, qs, columns, room, dks);
    }
  const index_t row = b.key_row + b.first;
  if (dk)
    general::store(dks, a.scale, columns, dk + row * a.k_stride + static_cast<index_t>(of_keys) * a.d_k, a.k_stride, rows, a.d_k);
  if (dv)
    general::store(dvs, a.kept_scale, columns, dv + row * a.v_stride + static_cast<index_t>(of_keys) * a.d_v, a.v_stride, rows,
                   a.d_v);
}

}  // namespace attend::cuda
