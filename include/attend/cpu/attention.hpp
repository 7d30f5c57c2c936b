#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/core/segments.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/vector.hpp"

namespace attend {

/// The sizes of an attention over a batch of sentences, and where its parts stand in memory.
/// Head h of a row begins h * d_k (or d_v) elements into it; rows of q, k, v and out lie `*_stride` elements apart.
struct AttentionLayout {
  Segments queries, keys;
  index_t heads = 1, d_k = 0, d_v = 0;
  double scale = 1;
  bool causal = false;
  index_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  /// Elements of the additive bias from one sentence, head and query to the next; keys are consecutive.
  index_t bias_sentence = 0, bias_head = 0, bias_query = 0;
  double dropout = 0;
  Generator::Stream random{};
  /// weight_offset[s]: where the weights of sentence s begin, which are [heads, queries, keys]; one more entry for the end.
  std::vector<index_t> weight_offset;
};

namespace cpu {

/// Softmax of each row of s [queries, keys] after scaling, bias and mask, in place; keys that must not be seen get 0.
template <class T>
void attention_softmax(const AttentionLayout& a, index_t queries, index_t keys, const T* bias, T* s) {
  const T scale = static_cast<T>(a.scale);
  for (index_t i = 0; i < queries; ++i) {
    T* row = s + i * keys;
    const index_t seen = a.causal ? std::min(i + 1, keys) : keys;
    if (bias) {
      const T* b = bias + i * a.bias_query;
      for (index_t j = 0; j < seen; ++j) row[j] = row[j] * scale + b[j];
    } else {
      for (index_t j = 0; j < seen; ++j) row[j] *= scale;
    }
    const T top = max_over<T>(seen, [=](index_t j) { return row[j]; });
    if (top == -std::numeric_limits<T>::infinity()) {  // nothing to attend to: zeros, where a quotient would be NaN
      std::fill(row, row + keys, T(0));
      continue;
    }
    for (index_t j = 0; j < seen; ++j) row[j] = cpu::exp(row[j] - top);
    const T inverse = T(1) / sum_over<T>(seen, [=](index_t j) { return row[j]; });
    for (index_t j = 0; j < seen; ++j) row[j] *= inverse;
    std::fill(row + seen, row + keys, T(0));
  }
}

/// y = x * mask / (1 - p) where element i draws word `first + i` of the stream. y may be x.
template <class T>
void attention_dropout(const AttentionLayout& a, index_t first, index_t n, const T* x, T* y) {
  dropout_range(a.random, static_cast<std::uint32_t>(a.dropout * 0x1p32), static_cast<T>(1 / (1 - a.dropout)), first, n, x, T(0),
                y);
}

/// A row's share of the cost is some thousand operations per key; a task is one head of one sentence.
template <class F>
void attention_tasks(const AttentionLayout& a, F&& task) {
  const index_t tasks = a.queries.count() * a.heads;
  const index_t cost = std::max<index_t>(1, a.queries.longest() * a.keys.most_keys() * (a.d_k + a.d_v));
  parallel_for(tasks, std::max<index_t>(1, 65536 / cost), [&](index_t begin, index_t end) {
    for (index_t t = begin; t < end; ++t) task(t / a.heads, t % a.heads);
  });
}

}  // namespace cpu

/// out = dropout(weights) v,  weights = softmax(scale * q k^T + bias), sentence by sentence and head by head.
/// q [query rows, heads * d_k], k [key rows, heads * d_k], v [key rows, heads * d_v], out [query rows, heads * d_v], at the
/// layout's strides; `bias` may be null. `weights` is kept for the backward, before dropout.
template <class T>
void attention_forward(Cpu, const AttentionLayout& a, const T* q, const T* k, const T* v, const T* bias, T* weights, T* out) {
  cpu::attention_tasks(a, [&](index_t s, index_t h) {
    const index_t queries = a.queries.length(s), keys = a.keys.keys(s);
    const T* qs = q + a.queries.begin(s) * a.q_stride + h * a.d_k;
    const T* ks = k + a.keys.begin(s) * a.k_stride + h * a.d_k;
    const T* vs = v + a.keys.begin(s) * a.v_stride + h * a.d_v;
    const index_t offset = a.weight_offset[static_cast<std::size_t>(s)] + h * queries * keys;
    T* w = weights + offset;
    cpu::gemm_block(false, true, queries, keys, a.d_k, T(1), qs, a.q_stride, ks, a.k_stride, T(0), w, keys);
    cpu::attention_softmax(a, queries, keys, bias ? bias + s * a.bias_sentence + h * a.bias_head : nullptr, w);
    thread_local std::vector<T> dropped;
    const T* p = w;
    if (a.dropout > 0) {
      dropped.resize(static_cast<std::size_t>(queries * keys));
      cpu::attention_dropout(a, offset, queries * keys, w, dropped.data());
      p = dropped.data();
    }
    T* o = out + a.queries.begin(s) * a.out_stride + h * a.d_v;
    cpu::gemm_block(false, false, queries, a.d_v, keys, T(1), p, keys, vs, a.v_stride, T(0), o, a.out_stride);
  });
}

/// dv = dropout(weights)^T dout,  ds = weights * (dw - sum(dw * weights)) with dw = dropout(dout v^T),
/// dq = scale * ds k,  dk = scale * ds^T q,  dbias = ds. dq, dk, dv have the strides of q, k, v and are overwritten at the rows
/// of the sentences, no others. Each may be null. `ds_out`, where not null, receives ds, laid out as the weights.
template <class T>
void attention_backward(Cpu, const AttentionLayout& a, const T* dout, const T* q, const T* k, const T* v, const T* weights, T* dq,
                        T* dk, T* dv, T* ds_out) {
  cpu::attention_tasks(a, [&](index_t s, index_t h) {
    const index_t queries = a.queries.length(s), keys = a.keys.keys(s), n = queries * keys;
    const index_t query_row = a.queries.begin(s), key_row = a.keys.begin(s);
    const index_t offset = a.weight_offset[static_cast<std::size_t>(s)] + h * n;
    const T* w = weights + offset;
    const T* doutput = dout + query_row * a.out_stride + h * a.d_v;
    const T scale = static_cast<T>(a.scale);
    thread_local std::vector<T> dropped, dscores;
    dropped.resize(static_cast<std::size_t>(n));
    dscores.resize(static_cast<std::size_t>(n));
    if (dv) {
      const T* p = w;
      if (a.dropout > 0) {
        cpu::attention_dropout(a, offset, n, w, dropped.data());
        p = dropped.data();
      }
      cpu::gemm_block(true, false, keys, a.d_v, queries, T(1), p, keys, doutput, a.out_stride, T(0),
                      dv + key_row * a.v_stride + h * a.d_v, a.v_stride);
    }
    if (!dq && !dk && !ds_out) return;
    T* ds = dscores.data();
    cpu::gemm_block(false, true, queries, keys, a.d_v, T(1), doutput, a.out_stride, v + key_row * a.v_stride + h * a.d_v,
                    a.v_stride, T(0), ds, keys);
    if (a.dropout > 0) cpu::attention_dropout(a, offset, n, ds, ds);
    for (index_t i = 0; i < queries; ++i) {
      T* row = ds + i * keys;
      const T* weight = w + i * keys;
      const T sum = cpu::sum_over<T>(keys, [=](index_t j) { return row[j] * weight[j]; });
      for (index_t j = 0; j < keys; ++j) row[j] = weight[j] * (row[j] - sum);
    }
    if (ds_out) std::copy(ds, ds + n, ds_out + offset);
    if (dq)
      cpu::gemm_block(false, false, queries, a.d_k, keys, scale, ds, keys, k + key_row * a.k_stride + h * a.d_k, a.k_stride, T(0),
                      dq + query_row * a.q_stride + h * a.d_k, a.q_stride);
    if (dk)
      cpu::gemm_block(true, false, keys, a.d_k, queries, scale, ds, keys, q + query_row * a.q_stride + h * a.d_k, a.q_stride,
                      T(0), dk + key_row * a.k_stride + h * a.d_k, a.k_stride);
  });
}

/// dbias = keep * dbias + ds, added up over whatever the bias is shared by, in the order of the sentences.
/// `size`: elements of dbias.
template <class T>
void attention_backward_bias(Cpu, const AttentionLayout& a, index_t size, const T* ds, T keep, T* dbias) {
  if (keep == T(0)) std::fill(dbias, dbias + size, T(0));
  for (index_t s = 0; s < a.queries.count(); ++s)
    for (index_t h = 0; h < a.heads; ++h) {
      const index_t queries = a.queries.length(s), keys = a.keys.keys(s);
      const T* part = ds + a.weight_offset[static_cast<std::size_t>(s)] + h * queries * keys;
      for (index_t i = 0; i < queries; ++i) {
        T* row = dbias + s * a.bias_sentence + h * a.bias_head + i * a.bias_query;
        for (index_t j = 0; j < keys; ++j) row[j] += part[i * keys + j];
      }
    }
}

}  // namespace attend
