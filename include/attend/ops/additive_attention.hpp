#pragma once

#include "attend/cpu/additive_attention.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/ops/attention.hpp"

namespace attend {

/// What an additive attention sees, besides its projections.
template <class T, Device D = Cpu>
struct AdditiveAttentionCall {
  Segments queries, keys;                         ///< which rows form a sentence
  AttentionWeights<T, D>* weights_out = nullptr;  ///< if given, receives the weights
};

/// Additive attention on projected queries and keys: softmax_j(score . tanh(q_i + k_j)) v.
/// ds = w * (dw - sum_j(w dw)),  dw = dy v^T,  dv = w^T dy; with e = tanh(q_i + k_j): dscore = sum ds e,
/// dq_i = sum_j ds_ij score * (1 - e^2), dk_j = sum_i of the same.
/// Shapes: q [query rows, a], k [key rows, a], score [a] or [1, a], v [key rows, d_v], y [query rows, d_v]. A query with nothing
/// to attend to gets zeros. Throws ShapeError.
/// Source: Bahdanau et al. 2015, appendix A.1.2.
template <class T, Device D>
Var<T, D> additive_attention(const Var<T, D>& q, const Var<T, D>& k, const Var<T, D>& score, const Var<T, D>& v,
                             const std::type_identity_t<AdditiveAttentionCall<T, D>>& call) {
  const Segments &queries = call.queries, &keys = call.keys;
  const index_t width = q.dim(-1);
  queries.check_rows("additive_attention", "q", rows_and_width(q.shape()).rows);
  keys.check_rows("additive_attention", "k", rows_and_width(k.shape()).rows);
  keys.check_rows("additive_attention", "v", rows_and_width(v.shape()).rows);
  if (k.dim(-1) != width || score.size() != width)
    throw ShapeError("additive_attention: q ", q.shape().text(), ", k ", k.shape().text(), " and score ", score.shape().text(),
                     " differ in width");
  if (queries.count() != keys.count())
    throw ShapeError("additive_attention: queries of ", queries.count(), " sentences, keys of ", keys.count());
  AttentionLayout a;
  a.queries = queries, a.keys = keys, a.d_k = width, a.d_v = v.dim(-1);
  Tensor<T, D> weights({a.lay_out_weights()}), out(q.shape().with(-1, a.d_v));
  const auto inputs = [=] { return kernels::AdditiveInputs<T>{q.data(), k.data(), score.data(), v.data()}; };
  additive_attention_forward(D{}, a, inputs(), weights.data(), out.data());
  if (call.weights_out) *call.weights_out = AttentionWeights<T, D>(weights, a);
  return record(std::move(out), {q, k, score, v}, [=](const Tensor<T, D>& dout) {
    // Padding is no key: its rows keep the zeros.
    Tensor<T, D> dq(q.shape(), T(0)), dk(k.shape(), T(0)), dv(v.shape(), T(0)), dscores({queries.count(), width});
    additive_attention_backward(D{}, a, dout.data(), inputs(), weights.data(), {dq.data(), dk.data(), dscores.data(), dv.data()});
    q.accumulate(std::move(dq));
    k.accumulate(std::move(dk));
    v.accumulate(std::move(dv));
    score.accumulate_with([&](auto g) { sum_rows(D{}, kernels::Matrix<T>{dscores.data(), queries.count(), width}, g); });
  });
}

}  // namespace attend
