#if !defined(ATTEND_CPU_ATTENTION) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_ATTENTION

#include <algorithm>
#include <limits>

#include "attend/core/segments.hpp"
#include "attend/core/thread_owned.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/attention.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// A block of consecutive queries of one head of one sentence, with room for their weights. Rows of weights are made of whole
/// `lanes`, with zeros at their ends, because a sentence of 25 tokens would otherwise spend most of its time on the last nine.
struct QueryBlock {
  index_t first, rows;  // of the sentence's queries
  index_t seen;         // the keys that the last of them sees
  index_t width;        // from one row of weights to the next
  bool causal;

  /// The keys that query `first + i` sees.
  [[nodiscard]] index_t seen_by(index_t i) const { return causal ? std::min(first + i + 1, seen) : seen; }
  [[nodiscard]] index_t size() const { return rows * width; }
};

/// body(block) for all queries, the last block first: it sees the most keys. A block's weights stay in the second-level cache.
/// Causal blocks are shorter than they might be, because what their first query must not see is computed as well.
template <class F>
void for_query_blocks(const AttentionLayout& a, index_t queries, index_t keys, F&& body) {
  const index_t width = whole_lanes(keys),
                most = std::clamp<index_t>(131072 / std::max<index_t>(1, width), 16, a.causal ? 64 : 256);
  for (index_t b = (queries + most - 1) / most; b > 0; --b) {
    const index_t first = (b - 1) * most, end = std::min(first + most, queries);
    body(QueryBlock{first, end - first, a.causal ? std::min(end, keys) : keys, width, a.causal});
  }
}

/// Scales the scores of row i, adds the bias, and puts minus infinity behind them, up to the end of the lanes; then calls
/// f(row, score, n): score(j) for j < n is what the softmax goes over.
template <class T, class F>
void with_scores(const AttentionLayout& a, const QueryBlock& block, index_t i, const T* bias, T* s, F&& f) {
  T* row = s + i * block.width;
  const T scale = static_cast<T>(a.scale), infinity = std::numeric_limits<T>::infinity();
  const index_t seen = block.seen_by(i), n = whole_lanes(seen);
  if (bias) {
    const T* b = bias + (block.first + i) * a.bias_query;
    for (index_t j = 0; j < seen; ++j) row[j] = row[j] * scale + b[j];
    for (index_t j = seen; j < n; ++j) row[j] = -infinity;
    f(
        row, [row](index_t j) { return row[j]; }, n);
  } else {
    for (index_t j = seen; j < n; ++j) row[j] = scale < 0 ? infinity : -infinity;
    f(
        row, [row, scale](index_t j) { return row[j] * scale; }, n);
  }
  for (index_t j = n; j < block.width; ++j) row[j] = T(0);
}

/// Softmax of each row of s after scaling, bias and mask, in place; keys that must not be seen get 0. `bias`, that of the
/// sentence's first query, may be null. What is kept of row i goes to shift[i * step] and inverse[i * step].
template <class T>
void attention_softmax(const AttentionLayout& a, const QueryBlock& block, const T* bias, T* s, SoftmaxRows<T> kept,
                       index_t step) {
  for (index_t i = 0; i < block.rows; ++i)
    with_scores(a, block, i, bias, s, [&](T* row, const auto& score, index_t n) {
      T shift = max_over<T>(n, score), inverse = T(0);
      if (shift == -std::numeric_limits<T>::infinity()) {  // nothing to attend to: zeros, where a quotient would be NaN
        shift = T(0);
        std::fill(row, row + n, T(0));
      } else {
        inverse = T(1) / sum_over<T>(n, [=](index_t j) { return row[j] = cpu::exp_to_88(score(j) - shift); });
        for (index_t j = 0; j < n; ++j) row[j] *= inverse;
      }
      if (kept.shift) kept.shift[i * step] = shift, kept.inverse[i * step] = inverse;
    });
}

/// The same weights from the same scores and what was kept.
template <class T>
void attention_softmax_again(const AttentionLayout& a, const QueryBlock& block, const T* bias, T* s, SoftmaxRows<T> kept,
                             index_t step) {
  for (index_t i = 0; i < block.rows; ++i)
    with_scores(a, block, i, bias, s, [&](T* row, const auto& score, index_t n) {
      const T shift = kept.shift[i * step], inverse = kept.inverse[i * step];
      for (index_t j = 0; j < n; ++j) row[j] = cpu::exp_to_88(score(j) - shift) * inverse;
    });
}

/// y = x * mask / (1 - p) for a block of weights. y may be x. The weight of query i and key j of head h of sentence s draws word
/// ((s * heads + h) << 32) + i * width + j of the stream.
template <class T>
void attention_dropout(const AttentionLayout& a, const QueryBlock& block, index_t s, index_t h, const T* x, T* y) {
  const DropoutMask mask{a.random, static_cast<std::uint32_t>(a.dropout * 0x1p32), 1 / (1 - a.dropout)};
  const index_t first = ((s * a.heads + h) << 32) + block.first * block.width;
  if (!a.causal || block.width < 4 * random_block) {
    dropout_range<T>(mask, first, block.size(), x, {y});
    return;
  }
  for (index_t i = 0; i < block.rows; ++i) {  // no random numbers for what is not seen
    const index_t at = i * block.width, seen = block.seen_by(i);
    dropout_range<T>(mask, first + at, seen, x + at, {y + at});
    std::fill(y + at + seen, y + at + block.width, T(0));
  }
}

/// Copies a block's weights to where those of its head stand without the lanes' rest, [queries, keys].
template <class T>
void attention_store(const QueryBlock& block, index_t keys, const T* w, T* weights) {
  for (index_t i = 0; i < block.rows; ++i)
    std::copy(w + i * block.width, w + i * block.width + keys, weights + (block.first + i) * keys);
}

/// A task is one of `heads` heads of one sentence: task(s, h), several at a time where they are small.
template <class F>
void attention_tasks(const AttentionLayout& a, index_t heads, F&& task) {
  const index_t tasks = a.queries.count() * heads;
  const index_t cost = std::max<index_t>(1, a.queries.longest() * a.keys.most_keys() * (a.d_k + a.d_v));
  parallel_for(tasks, std::max<index_t>(1, 65536 / cost), [&](index_t begin, index_t end) {
    for (index_t t = begin; t < end; ++t) task(t / heads, t % heads);
  });
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// out = dropout(weights) v,  weights = softmax(scale * q k^T + bias), sentence by sentence and head by head.
/// q [query rows, heads * d_k], k [key rows, heads / group * d_k], v [key rows, heads / group * d_v], out [query rows, heads *
/// d_v], at the layout's strides; `bias` may be null. Only a block of weights exists at a time; `rows` receives what the backward
/// makes them from again. `weights`, if not null, receives all of them, before dropout.
template <class T>
void attention_forward(Cpu, const AttentionLayout& a, const AttentionInputs<T>& inputs, T* weights, SoftmaxRows<T> rows, T* out) {
  ATTEND_FASTEST(attention_forward, a, inputs, weights, rows, out);
  const T *const q = inputs.q, *const k = inputs.k, *const v = inputs.v, *const bias = inputs.bias;
  cpu::attention_tasks(a, a.heads, [&](index_t s, index_t h) {
    const index_t queries = a.queries.length(s), keys = a.keys.keys(s);
    const T* ks = keys > 0 ? k + a.keys.begin(s) * a.k_stride + h / a.group * a.d_k : k;  // without any rows k is null
    const T* vs = keys > 0 ? v + a.keys.begin(s) * a.v_stride + h / a.group * a.d_v : v;
    const T* bs = bias ? bias + s * a.bias_sentence + h * a.bias_head : nullptr;
    ATTEND_THREAD_OWNED(cpu::Scratch, weights_room);
    ATTEND_THREAD_OWNED(cpu::Scratch, dropped_room);
    cpu::for_query_blocks(a, queries, keys, [&](const cpu::QueryBlock& block) {
      const index_t row = a.queries.begin(s) + block.first, width = block.width;
      T* w = weights_room.get<T>(block.size());
      const Matrix<const T> qs{q + row * a.q_stride + h * a.d_k, block.rows, a.d_k, a.q_stride};
      cpu::gemm_block<T>(qs, Matrix{ks, block.seen, a.d_k, a.k_stride}.transpose(), {w, block.rows, block.seen, width});
      const auto kept = rows.shift ? SoftmaxRows<T>{rows.shift + row * a.heads + h, rows.inverse + row * a.heads + h} : rows;
      cpu::attention_softmax(a, block, bs, w, kept, a.heads);
      if (weights) cpu::attention_store(block, keys, w, weights + nth(a.weight_offset, s) + h * queries * keys);
      const T* p = w;
      if (a.dropout > 0) {
        T* dropped = dropped_room.get<T>(block.size());
        cpu::attention_dropout(a, block, s, h, w, dropped);
        p = dropped;
      }
      cpu::gemm_block<T>({p, block.rows, block.seen, width}, {vs, block.seen, a.d_v, a.v_stride},
                         {out + row * a.out_stride + h * a.d_v, block.rows, a.d_v, a.out_stride});
    });
  });
}

/// dv = dropout(weights)^T dout,  ds = weights * (dw - sum(dw * weights)) with dw = dropout(dout v^T),
/// dq = scale * ds k,  dk = scale * ds^T q,  dbias = ds. `rows`: what the forward kept. dq, dk, dv are written at the rows of the
/// sentences, no others.
template <class T>
void attention_backward(Cpu, const AttentionLayout& a, const T* dout, const AttentionInputs<T>& inputs, SoftmaxRows<T> rows,
                        const AttentionGradients<T>& gradients) {
  ATTEND_FASTEST(attention_backward, a, dout, inputs, rows, gradients);
  const T *const q = inputs.q, *const k = inputs.k, *const v = inputs.v, *const bias = inputs.bias;
  T *const dq = gradients.q, *const dk = gradients.k, *const dv = gradients.v, *const ds_out = gradients.scores;
  cpu::attention_tasks(a, a.heads / a.group, [&](index_t s, index_t of_keys) {
    const index_t queries = a.queries.length(s), keys = a.keys.keys(s), key_row = a.keys.begin(s);
    const auto rows_of_keys = [&](auto* x, index_t stride, index_t width) {  // null stays null, and is what no rows at all have
      return x && keys > 0 ? x + key_row * stride + of_keys * width : x;
    };
    const T *ks = rows_of_keys(k, a.k_stride, a.d_k), *vs = rows_of_keys(v, a.v_stride, a.d_v);
    T *dks = rows_of_keys(dk, a.k_stride, a.d_k), *dvs = rows_of_keys(dv, a.v_stride, a.d_v);
    const auto clear = [](T* x, index_t begin, index_t end, index_t width, index_t stride) {
      for (index_t j = begin; x && j < end; ++j) std::fill(x + j * stride, x + j * stride + width, T(0));
    };
    const index_t seen = queries == 0 ? 0 : a.causal ? std::min(queries, keys) : keys;  // by any query; others get no gradient
    clear(dks, seen, keys, a.d_k, a.k_stride);
    clear(dvs, seen, keys, a.d_v, a.v_stride);
    ATTEND_THREAD_OWNED(cpu::Scratch, weights_room);
    ATTEND_THREAD_OWNED(cpu::Scratch, dropped_room);
    ATTEND_THREAD_OWNED(cpu::Scratch, scores_room);
    bool add = false;  // the first block, which is the last of the sentence, sees all keys that any sees
    const auto back_through = [&](index_t h, const cpu::QueryBlock& block) {
      const T* bs = bias ? bias + s * a.bias_sentence + h * a.bias_head : nullptr;
      const index_t row = a.queries.begin(s) + block.first, width = block.width;
      const Matrix<const T> qs{q + row * a.q_stride + h * a.d_k, block.rows, a.d_k, a.q_stride};
      const Matrix<const T> doutput{dout + row * a.out_stride + h * a.d_v, block.rows, a.d_v, a.out_stride};
      const Matrix<const T> seen_keys{ks, block.seen, a.d_k, a.k_stride}, seen_values{vs, block.seen, a.d_v, a.v_stride};
      T* w = weights_room.get<T>(block.size());
      cpu::gemm_block<T>(qs, seen_keys.transpose(), {w, block.rows, block.seen, width});
      cpu::attention_softmax_again(a, block, bs, w, {rows.shift + row * a.heads + h, rows.inverse + row * a.heads + h}, a.heads);
      if (dvs) {
        const T* p = w;
        if (a.dropout > 0) {
          T* dropped = dropped_room.get<T>(block.size());
          cpu::attention_dropout(a, block, s, h, w, dropped);
          p = dropped;
        }
        cpu::gemm_block<T>(Matrix{p, block.rows, block.seen, width}.transpose(), doutput, {dvs, block.seen, a.d_v, a.v_stride},
                           {.add = add});
      }
      if (dq || dk || ds_out) {
        T* ds = scores_room.get<T>(block.size());
        const Matrix<T> dscores{ds, block.rows, block.seen, width};
        cpu::gemm_block<T>(doutput, seen_values.transpose(), dscores);
        for (index_t i = 0; i < block.rows; ++i)  // what the product leaves as it was
          for (index_t j = block.seen; j < width; ++j) ds[i * width + j] = T(0);
        if (a.dropout > 0) cpu::attention_dropout(a, block, s, h, ds, ds);
        for (index_t i = 0; i < block.rows; ++i) {
          T* dscore = ds + i * width;
          const T* weight = w + i * width;
          const index_t n = cpu::whole_lanes(block.seen);
          const T sum = cpu::sum_over<T>(n, [=](index_t j) { return dscore[j] * weight[j]; });
          for (index_t j = 0; j < n; ++j) dscore[j] = weight[j] * (dscore[j] - sum);
        }
        if (ds_out) cpu::attention_store(block, keys, ds, ds_out + nth(a.weight_offset, s) + h * queries * keys);
        if (dq)
          cpu::gemm_block<T>(dscores, seen_keys, {dq + row * a.q_stride + h * a.d_k, block.rows, a.d_k, a.q_stride},
                             {.alpha = a.scale});
        if (dks)
          cpu::gemm_block<T>(dscores.transpose(), qs, {dks, block.seen, a.d_k, a.k_stride}, {.alpha = a.scale, .add = add});
      }
      add = true;
    };
    for (index_t h = of_keys * a.group; h < (of_keys + 1) * a.group; ++h)
      cpu::for_query_blocks(a, queries, keys, [&](const cpu::QueryBlock& block) { back_through(h, block); });
  });
}

/// dbias = ds, added up over whatever the bias is shared by, in the order of the sentences.
/// `size`: elements of dbias.
template <class T>
void attention_backward_bias(Cpu, const AttentionLayout& a, index_t size, const T* ds, Gradient<T> dbias) {
  ATTEND_FASTEST(attention_backward_bias, a, size, ds, dbias);
  if (!dbias.add) std::fill(dbias.data, dbias.data + size, T(0));
  for (index_t s = 0; s < a.queries.count(); ++s)
    for (index_t h = 0; h < a.heads; ++h) {
      const index_t queries = a.queries.length(s), keys = a.keys.keys(s);
      const T* part = ds + nth(a.weight_offset, s) + h * queries * keys;
      for (index_t i = 0; i < queries; ++i) {
        T* row = dbias.data + a.bias_origin + s * a.bias_sentence + h * a.bias_head + i * a.bias_query;
        for (index_t j = 0; j < keys; ++j) row[j] += part[i * keys + j];
      }
    }
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/attention.hpp"
#include "attend/cpu/each_target.hpp"
#endif
