#pragma once

#include <algorithm>
#include <type_traits>

#include "attend/cuda/attention/attention_backward_long.cuh"
#include "attend/cuda/attention/attention_forward.cuh"
#include "attend/cuda/attention/attention_general.cuh"
#include "attend/cuda/attention/attention_general_backward.cuh"
#include "attend/cuda/attention/attention_weights.cuh"
#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/matrix.hpp"

namespace attend::cuda {

/// The grid of the kernels for any width: `width` columns, 64 a block, of so many heads.
template <class W>
dim3 general_grid(const AttentionLayout& a, const AttentionSizes<W>& sizes, index_t width, index_t heads) {
  const index_t columns = std::max<index_t>(1, (width + general_columns - 1) / general_columns);
  return dim3(attention_blocks(a, sizes, heads), static_cast<unsigned>(columns));
}

/// See `attention_backward_bias`. One thread an element: no two add to the same. An element that sentences, heads or queries
/// share, which is where its stride is 0, goes over all of them.
template <class T>
__global__ void attention_bias_kernel(AttentionSizes<Wide<T>> a, int sentences, index_t size, const T* ds,
                                      const index_t* weight_offset, kernels::Gradient<T> dbias) {
  for (index_t e = grid_thread(); e < size; e += grid_threads()) {
    index_t rest = e;
    int first[3] = {0, 0, 0}, end[3] = {sentences, a.heads, -1};  // of sentences, heads and queries; -1: as many as there are
    const index_t strides[3] = {a.bias_sentence, a.bias_head, a.bias_query};
    for (int i = 0; i < 3; ++i)
      if (strides[i] > 0) {
        first[i] = static_cast<int>(rest / strides[i]);
        rest -= first[i] * strides[i];
        if (end[i] < 0 || first[i] < end[i]) end[i] = first[i] + 1;
      }
    Wide<T> sum = dbias.add ? static_cast<Wide<T>>(dbias.data[e]) : Wide<T>(0);
    for (int s = first[0]; s < end[0]; ++s) {
      const index_t queries = a.queries.length[s], keys = a.keys.keys[s];
      if (rest >= keys) continue;
      const index_t last = end[2] < 0 || end[2] > queries ? queries : end[2];
      for (int h = first[1]; h < end[1]; ++h)
        for (index_t i = first[2]; i < last; ++i)
          sum += static_cast<Wide<T>>(ds[weight_offset[s] + (h * queries + i) * keys + rest]);
    }
    dbias.data[e] = static_cast<T>(sum);
  }
}

/// The same for a bias that goes by distance: a block for each of its elements, of `head` a head. A thread goes along the
/// diagonals of the sentences that are its turn.
template <class T>
__global__ void __launch_bounds__(block_threads)
    attention_distance_bias_kernel(AttentionSizes<Wide<T>> a, int sentences, index_t origin, const T* ds,
                                   const index_t* weight_offset, kernels::Gradient<T> dbias) {
  static __shared__ Wide<T> room[warp_threads];
  const index_t head = blockIdx.x / a.bias_head, distance = blockIdx.x - head * a.bias_head - origin;
  Wide<T> sum(0);
  for (int s = static_cast<int>(threadIdx.x); s < sentences; s += block_threads) {
    const index_t queries = a.queries.length[s], keys = a.keys.keys[s];
    const T* const scores = ds + weight_offset[s] + head * queries * keys;
    for (index_t i = distance < 0 ? -distance : 0; i < queries && i + distance < keys; ++i)
      sum += static_cast<Wide<T>>(scores[i * keys + i + distance]);
  }
  sum = block_sum(sum, room);
  if (threadIdx.x > 0) return;
  T* const to = dbias.data + blockIdx.x;
  *to = static_cast<T>(dbias.add ? static_cast<Wide<T>>(*to) + sum : sum);
}

/// The forward on tensor cores; small tiles where all sentences are short.
template <int warps>
void attention_forward_on_tensor_cores(const AttentionLayout& a, const kernels::AttentionInputs<bfloat16>& in,
                                       SoftmaxRows<float> rows, bfloat16* out) {
  with_tile_width(a, [&](auto width) {
    const auto sizes = attention_sizes<float>(a, a.queries.longest(), 16 * warps);
    launch("attention", attention_forward_tiles<width, warps>, attention_blocks(a, sizes), warps * warp_threads,
           attention_forward_shared<width, warps>, sizes, in, rows, out);
  });
}

/// The backward on tensor cores.
inline void attention_backward_on_tensor_cores(const AttentionLayout& a, const AttentionBackwardInputs& in, bfloat16* dq,
                                               bfloat16* dk, bfloat16* dv) {
  const index_t queries = a.queries.longest(), keys = a.keys.most_keys(), longest = std::max(queries, keys);
  with_tile_width(a, [&](auto width) {
    const auto run_short = [&](auto warps) {
      const auto sizes = attention_sizes<float>(a, 0, 1);
      launch("attention", attention_backward_short<width, warps>, attention_blocks(a, sizes), warps * warp_threads,
             attention_backward_shared<width, warps>, sizes, in, dq, dk, dv);
    };
    if (longest <= 16) run_short(std::integral_constant<int, 1>{});
    else if (longest <= 32) run_short(std::integral_constant<int, 2>{});
    else run_short(std::integral_constant<int, long_warps>{});
    if (longest <= long_tile) return;
    Buffer<float> deltas;
    if ((dq || dk) && queries > 0) {
      deltas = Buffer<float>(a.queries.rows() * a.heads);
      const auto sizes = attention_sizes<float>(a, queries, long_tile);
      launch("attention", attention_backward_long_queries<width>, attention_blocks(a, sizes), long_warps * warp_threads,
             attention_backward_long_shared<width>, sizes, in, deltas.data(), dq);
    }
    if ((dk || dv) && keys > 0) {
      const auto sizes = attention_sizes<float>(a, keys, long_tile);
      launch("attention", attention_backward_long_keys<width>, attention_blocks(a, sizes), long_warps * warp_threads,
             attention_backward_long_shared<width>, sizes, in, static_cast<const float*>(deltas.data()), dk, dv);
    }
  });
}

}  // namespace attend::cuda

namespace attend::kernels {

/// out = dropout(weights) v,  weights = softmax(scale * q k^T + bias), sentence by sentence and head by head; see the CPU's for
/// the shapes. No weights are stored unless `weights`, not null, is to receive them, before dropout.
template <class T>
void attention_forward(Cuda, const AttentionLayout& a, const AttentionInputs<T>& inputs, T* weights, SoftmaxRows<Wide<T>> rows,
                       T* out) {
  const T *const q = inputs.q, *const k = inputs.k, *const v = inputs.v, *const bias = inputs.bias;
  if (a.queries.longest() == 0 || a.heads == 0) return;
  if constexpr (std::is_same_v<T, bfloat16>)
    if (!weights && cuda::fits_tiles(a, q, k, v, out)) {
      const index_t longest = std::max(a.queries.longest(), a.keys.most_keys());
      if (longest <= 16) cuda::attention_forward_on_tensor_cores<1>(a, inputs, rows, out);
      else if (a.queries.longest() <= 32) cuda::attention_forward_on_tensor_cores<2>(a, inputs, rows, out);
      else cuda::attention_forward_on_tensor_cores<4>(a, inputs, rows, out);
      return;
    }
  cuda::Buffer<index_t> offsets;
  if (weights) offsets = cuda::weight_offsets(a);
  const auto sizes = cuda::attention_sizes<Wide<T>>(a, a.queries.longest(), cuda::general_tile);
  cuda::launch("attention", cuda::attention_forward_general<T>, cuda::general_grid(a, sizes, a.d_v, a.heads),
               cuda::general_threads, 0, sizes, q, k, v, bias, weights, offsets.data(), rows, out);
}

/// dv = dropout(weights)^T dout,  ds = weights * (dw - sum(dw * weights)) with dw = dropout(dout v^T),
/// dq = scale * ds k,  dk = scale * ds^T q; see the CPU's for what is written. The weights are made again from `rows`. Sums run
/// in an order that never changes.
template <class T>
void attention_backward(Cuda, const AttentionLayout& a, const T* dout, const AttentionInputs<T>& inputs,
                        SoftmaxRows<Wide<T>> rows, const AttentionGradients<T>& gradients) {
  const T *const q = inputs.q, *const k = inputs.k, *const v = inputs.v, *const bias = inputs.bias;
  T *const dq = gradients.q, *const dk = gradients.k, *const dv = gradients.v, *const ds_out = gradients.scores;
  if (a.queries.count() == 0 || a.heads == 0) return;
  if constexpr (std::is_same_v<T, bfloat16>)
    if (!ds_out && a.group == 1 && cuda::fits_tiles(a, dout, q, k, v, dq, dk, dv)) {
      cuda::attention_backward_on_tensor_cores(a, {dout, q, k, v, bias, rows}, dq, dk, dv);
      return;
    }
  cuda::Buffer<index_t> offsets;
  if (ds_out) offsets = cuda::weight_offsets(a);
  cuda::Buffer<Wide<T>> deltas;
  if ((dq || dk || ds_out) && a.queries.longest() > 0) {
    deltas = cuda::Buffer<Wide<T>>(a.queries.rows() * a.heads);
    const auto sizes = cuda::attention_sizes<Wide<T>>(a, a.queries.longest(), cuda::general_tile);
    cuda::launch("attention", cuda::attention_backward_queries<T>, cuda::general_grid(a, sizes, dq ? a.d_k : 0, a.heads),
                 cuda::general_threads, 0, sizes, dout, q, k, v, bias, rows, deltas.data(), dq, ds_out, offsets.data());
  }
  if ((dk || dv) && a.keys.most_keys() > 0) {
    const auto sizes = cuda::attention_sizes<Wide<T>>(a, a.keys.most_keys(), cuda::general_tile);
    cuda::launch("attention", cuda::attention_backward_keys<T>,
                 cuda::general_grid(a, sizes, std::max(dk ? a.d_k : 0, dv ? a.d_v : 0), a.heads / a.group), cuda::general_threads,
                 0, sizes, dout, q, k, v, bias, rows, static_cast<const Wide<T>*>(deltas.data()), dk, dv);
  }
}

/// dbias = ds, added up over whatever the bias is shared by, in the order of the sentences. `size`: elements of
/// dbias, which lie as the layout's strides say, each stride 0 or at least as far as what is inside it reaches; or by distance.
template <class T>
void attention_backward_bias(Cuda, const AttentionLayout& a, index_t size, const T* ds, Gradient<T> dbias) {
  if (size == 0) return;
  const auto offsets = cuda::weight_offsets(a);
  const auto sizes = cuda::attention_sizes<Wide<T>>(a, 0, 1);
  if (a.bias_query < 0) {
    cuda::launch("attention", cuda::attention_distance_bias_kernel<T>, static_cast<unsigned>(size), cuda::block_threads, 0, sizes,
                 static_cast<int>(a.queries.count()), a.bias_origin, ds, static_cast<const index_t*>(offsets.data()), dbias);
    return;
  }
  cuda::launch("attention", cuda::attention_bias_kernel<T>, cuda::blocks_for(size), cuda::block_threads, 0, sizes,
               static_cast<int>(a.queries.count()), size, ds, static_cast<const index_t*>(offsets.data()), dbias);
}

}  // namespace attend::kernels
