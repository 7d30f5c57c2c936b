#if !defined(ATTEND_CPU_ADDITIVE_ATTENTION) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_ADDITIVE_ATTENTION

#include <vector>

#include "attend/core/segments.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/attention.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"

#endif  // ATTEND_READING

namespace attend::kernels {

/// weights = softmax(score . tanh(q + k)), out = weights v, sentence by sentence, as laid out by `a` with one head whose d_k is
/// the width of q, k and score.
template <class T>
void additive_attention_forward(Cpu, const AttentionLayout& a, const AdditiveInputs<T>& inputs, T* weights, T* out) {
  ATTEND_FASTEST(additive_attention_forward, a, inputs, weights, out);
  const T *const q = inputs.q, *const k = inputs.k, *const score = inputs.score, *const v = inputs.v;
  cpu::attention_tasks(a, a.heads, [&](index_t s, index_t) {
    const index_t queries = a.queries.length(s), keys = a.keys.keys(s), n = a.d_k;
    T* w = weights + nth(a.weight_offset, s);
    for (index_t i = 0; i < queries; ++i)
      for (index_t j = 0; j < keys; ++j) {
        const T *qi = q + (a.queries.begin(s) + i) * n, *kj = k + (a.keys.begin(s) + j) * n;
        w[i * keys + j] = cpu::sum_over<T>(n, [=](index_t c) { return score[c] * cpu::tanh(qi[c] + kj[c]); });
      }
    softmax_forward(Cpu{}, queries, keys, w, w);
    cpu::gemm_block<T>({w, queries, keys}, {v + a.keys.begin(s) * a.d_v, keys, a.d_v},
                       {out + a.queries.begin(s) * a.d_v, queries, a.d_v});
  });
}

/// With e = tanh(q_i + k_j) and ds from the softmax: dscore = sum ds e, dq_i = sum_j ds_ij score (1 - e^2), dk_j likewise over i.
/// Gradients are written at the rows of the sentences; that of `score` as each sentence's share, [sentences, d_k].
template <class T>
void additive_attention_backward(Cpu, const AttentionLayout& a, const T* dout, const AdditiveInputs<T>& inputs, const T* weights,
                                 const AdditiveGradients<T>& gradients) {
  ATTEND_FASTEST(additive_attention_backward, a, dout, inputs, weights, gradients);
  const T *const q = inputs.q, *const k = inputs.k, *const score = inputs.score, *const v = inputs.v;
  T *const dq = gradients.q, *const dk = gradients.k, *const dscores = gradients.score_shares, *const dv = gradients.v;
  cpu::attention_tasks(a, a.heads, [&](index_t s, index_t) {
    const index_t queries = a.queries.length(s), keys = a.keys.keys(s), n = a.d_k;
    const index_t query_row = a.queries.begin(s), key_row = a.keys.begin(s);
    const T* w = weights + nth(a.weight_offset, s);
    const Matrix<const T> doutput{dout + query_row * a.d_v, queries, a.d_v};
    std::vector<T> ds(queries * keys);
    cpu::gemm_block<T>(Matrix{w, queries, keys}.transpose(), doutput, {dv + key_row * a.d_v, keys, a.d_v});
    cpu::gemm_block<T>(doutput, Matrix{v + key_row * a.d_v, keys, a.d_v}.transpose(), {ds.data(), queries, keys});
    std::fill(dq + query_row * n, dq + (query_row + queries) * n, T(0));
    std::fill(dk + key_row * n, dk + (key_row + keys) * n, T(0));
    T* dscore = dscores + s * n;
    std::fill(dscore, dscore + n, T(0));
    for (index_t i = 0; i < queries; ++i) {
      T* row = ds.data() + i * keys;
      const T* weight = w + i * keys;
      const T sum = cpu::sum_over<T>(keys, [=](index_t j) { return row[j] * weight[j]; });
      for (index_t j = 0; j < keys; ++j) {
        const T d = weight[j] * (row[j] - sum);
        const T *qi = q + (query_row + i) * n, *kj = k + (key_row + j) * n;
        T *dqi = dq + (query_row + i) * n, *dkj = dk + (key_row + j) * n;
        for (index_t c = 0; c < n; ++c) {
          const T e = cpu::tanh(qi[c] + kj[c]), slope = d * score[c] * (T(1) - e * e);
          dscore[c] += d * e;
          dqi[c] += slope;
          dkj[c] += slope;
        }
      }
    }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/additive_attention.hpp"
#include "attend/cpu/each_target.hpp"
#endif
