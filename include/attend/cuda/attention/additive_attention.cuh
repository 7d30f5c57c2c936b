#pragma once

#include <algorithm>

#include "attend/cuda/attention/attention_sizes.cuh"
#include "attend/cuda/attention/attention_weights.cuh"
#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/device/memory.cuh"

namespace attend::cuda {

/// Threads of a block of all these kernels.
inline constexpr int additive_threads = 128;

/// What the kernels of additive attention read of its layout; a block works on one row of one sentence.
struct AdditiveSizes {
  SegmentTables queries, keys;
  const index_t* weight_offset;
  int longest;  ///< for how many rows of a sentence the grid has blocks
  int width, d_v;

  __device__ int sentence() const { return static_cast<int>(blockIdx.x) / longest; }
  __device__ int row() const { return static_cast<int>(blockIdx.x) % longest; }
};
/// A layout as these kernels read it.
inline AdditiveSizes additive_sizes(const AttentionLayout& a, const Buffer<index_t>& weight_offset, index_t longest) {
  return {tables(a.queries),         tables(a.keys),          weight_offset.data(),
          static_cast<int>(longest), static_cast<int>(a.d_k), static_cast<int>(a.d_v)};
}

/// A block: one query. `scores` has room for all weights.
template <class T>
__global__ void additive_forward_kernel(AdditiveSizes a, const T* q, const T* k, const T* score, const T* v, Wide<T>* scores,
                                        T* weights, T* out) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  const int s = a.sentence(), keys = a.keys.keys[s];
  if (a.row() >= a.queries.length[s]) return;
  const index_t query = a.queries.begin[s] + a.row(), key = a.keys.begin[s];
  const index_t at = a.weight_offset[s] + static_cast<index_t>(a.row()) * keys;
  for (int j = warp(); j < keys; j += additive_threads / warp_threads) {
    W sum(0);
    for (int c = lane(); c < a.width; c += warp_threads)
      sum += static_cast<W>(score[c]) *
             cuda::tanh(static_cast<W>(q[query * a.width + c]) + static_cast<W>(k[(key + j) * a.width + c]));
    sum = warp_sum(sum);
    if (lane() == 0) scores[at + j] = sum;
  }
  __syncthreads();
  W top = -infinity<W>(), sum(0);
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += additive_threads) top = scores[at + j] > top ? scores[at + j] : top;
  top = block_max(top, room);
  if (top == -infinity<W>()) top = W(0);
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += additive_threads) sum += cuda::exp(scores[at + j] - top);
  sum = block_sum(sum, room);
  const W inverse = sum == W(0) ? W(0) : W(1) / sum;
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += additive_threads) {
    scores[at + j] = cuda::exp(scores[at + j] - top) * inverse;
    weights[at + j] = static_cast<T>(scores[at + j]);
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < a.d_v; c += additive_threads) {
    W y(0);
    for (int j = 0; j < keys; ++j) y += scores[at + j] * static_cast<W>(v[(key + j) * a.d_v + c]);
    out[query * a.d_v + c] = static_cast<T>(y);
  }
}

/// A block: one query. `ds`, laid out as the weights, receives the gradient of the scores.
template <class T>
__global__ void additive_backward_queries(AdditiveSizes a, const T* dout, const T* q, const T* k, const T* score, const T* v,
                                          const T* weights, Wide<T>* ds, T* dq) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  const int s = a.sentence(), keys = a.keys.keys[s];
  if (a.row() >= a.queries.length[s]) return;
  const index_t query = a.queries.begin[s] + a.row(), key = a.keys.begin[s];
  const index_t at = a.weight_offset[s] + static_cast<index_t>(a.row()) * keys;
  for (int j = warp(); j < keys; j += additive_threads / warp_threads) {
    W dw(0);
    for (int c = lane(); c < a.d_v; c += warp_threads)
      dw += static_cast<W>(dout[query * a.d_v + c]) * static_cast<W>(v[(key + j) * a.d_v + c]);
    dw = warp_sum(dw);
    if (lane() == 0) ds[at + j] = dw;
  }
  __syncthreads();
  W sum(0);
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += additive_threads)
    sum += ds[at + j] * static_cast<W>(weights[at + j]);
  sum = block_sum(sum, room);
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += additive_threads)
    ds[at + j] = static_cast<W>(weights[at + j]) * (ds[at + j] - sum);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < a.width; c += additive_threads) {
    const W x = static_cast<W>(q[query * a.width + c]);
    W slopes(0);
    for (int j = 0; j < keys; ++j) {
      const W e = cuda::tanh(x + static_cast<W>(k[(key + j) * a.width + c]));
      slopes += ds[at + j] * (W(1) - e * e);
    }
    dq[query * a.width + c] = static_cast<T>(static_cast<W>(score[c]) * slopes);
  }
}

/// A block: one key.
template <class T>
__global__ void additive_backward_keys(AdditiveSizes a, const T* dout, const T* q, const T* k, const T* score, const T* weights,
                                       const Wide<T>* ds, T* dk, T* dv) {
  using W = Wide<T>;
  const int s = a.sentence(), j = a.row(), keys = a.keys.keys[s], queries = a.queries.length[s];
  if (j >= keys) return;
  const index_t query = a.queries.begin[s], key = a.keys.begin[s] + j, at = a.weight_offset[s] + j;
  for (int c = static_cast<int>(threadIdx.x); c < a.width; c += additive_threads) {
    const W x = static_cast<W>(k[key * a.width + c]);
    W slopes(0);
    for (index_t i = 0; i < queries; ++i) {
      const W e = cuda::tanh(static_cast<W>(q[(query + i) * a.width + c]) + x);
      slopes += ds[at + i * keys] * (W(1) - e * e);
    }
    dk[key * a.width + c] = static_cast<T>(static_cast<W>(score[c]) * slopes);
  }
  for (int c = static_cast<int>(threadIdx.x); c < a.d_v; c += additive_threads) {
    W y(0);
    for (index_t i = 0; i < queries; ++i)
      y += static_cast<W>(weights[at + i * keys]) * static_cast<W>(dout[(query + i) * a.d_v + c]);
    dv[key * a.d_v + c] = static_cast<T>(y);
  }
}

/// A block: some columns of one sentence's dscores. A thread adds up its column's in the order of queries and keys.
template <class T>
__global__ void additive_backward_scores(AdditiveSizes a, const T* q, const T* k, const Wide<T>* ds, T* dscores) {
  using W = Wide<T>;
  const int s = static_cast<int>(blockIdx.x), c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (c >= a.width) return;
  const index_t query = a.queries.begin[s], key = a.keys.begin[s], queries = a.queries.length[s], keys = a.keys.keys[s];
  W sum(0);
  for (index_t i = 0; i < queries; ++i) {
    const W x = static_cast<W>(q[(query + i) * a.width + c]);
    for (index_t j = 0; j < keys; ++j)
      sum += ds[a.weight_offset[s] + i * keys + j] * cuda::tanh(x + static_cast<W>(k[(key + j) * a.width + c]));
  }
  dscores[s * static_cast<index_t>(a.width) + c] = static_cast<T>(sum);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// weights = softmax(score . tanh(q + k)), out = weights v, sentence by sentence, as laid out by `a` with one head whose d_k is
/// the width of q, k and score.
template <class T>
void additive_attention_forward(Cuda, const AttentionLayout& a, const AdditiveInputs<T>& inputs, T* weights, T* out) {
  const T *const q = inputs.q, *const k = inputs.k, *const score = inputs.score, *const v = inputs.v;
  const index_t blocks = a.queries.count() * a.queries.longest();
  if (blocks == 0) return;
  const auto offsets = cuda::weight_offsets(a);
  const cuda::Buffer<Wide<T>> scores(a.weight_offset.back());
  cuda::launch("additive_attention", cuda::additive_forward_kernel<T>, static_cast<unsigned>(blocks), cuda::additive_threads, 0,
               cuda::additive_sizes(a, offsets, a.queries.longest()), q, k, score, v, scores.data(), weights, out);
}

/// With e = tanh(q_i + k_j) and ds from the softmax: dscore = sum ds e, dq_i = sum_j ds_ij score (1 - e^2), dk_j likewise over i.
/// Gradients are written at the rows of the sentences; that of `score` as each sentence's share, [sentences, d_k].
template <class T>
void additive_attention_backward(Cuda, const AttentionLayout& a, const T* dout, const AdditiveInputs<T>& inputs, const T* weights,
                                 const AdditiveGradients<T>& gradients) {
  const T *const q = inputs.q, *const k = inputs.k, *const score = inputs.score, *const v = inputs.v;
  T *const dq = gradients.q, *const dk = gradients.k, *const dscores = gradients.score_shares, *const dv = gradients.v;
  const index_t sentences = a.queries.count(), queries = a.queries.longest(), keys = a.keys.most_keys();
  if (sentences == 0) return;
  const auto offsets = cuda::weight_offsets(a);
  const cuda::Buffer<Wide<T>> ds(a.weight_offset.back());
  const Wide<T>* const made = ds.data();
  if (queries > 0)
    cuda::launch("additive_attention", cuda::additive_backward_queries<T>, static_cast<unsigned>(sentences * queries),
                 cuda::additive_threads, 0, cuda::additive_sizes(a, offsets, queries), dout, q, k, score, v, weights, ds.data(),
                 dq);
  if (keys > 0)
    cuda::launch("additive_attention", cuda::additive_backward_keys<T>, static_cast<unsigned>(sentences * keys),
                 cuda::additive_threads, 0, cuda::additive_sizes(a, offsets, keys), dout, q, k, score, weights, made, dk, dv);
  if (a.d_k > 0)
    cuda::launch("additive_attention", cuda::additive_backward_scores<T>,
                 dim3(static_cast<unsigned>(sentences),
                      static_cast<unsigned>((a.d_k + cuda::additive_threads - 1) / cuda::additive_threads)),
                 cuda::additive_threads, 0, cuda::additive_sizes(a, offsets, 1), q, k, made, dscores);
}

}  // namespace attend::kernels
