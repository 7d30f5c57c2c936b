#pragma once

#include <algorithm>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/core/segments.hpp"
#include "attend/core/types.hpp"

namespace attend {

/// The sizes of an attention over a batch of sentences, and where its parts stand in memory.
/// Head h of a row begins h * d_k (or d_v) elements into it, of keys and values head h / group; rows of q, k, v and out lie
/// `*_stride` elements apart.
struct AttentionLayout {
  Segments queries, keys;
  index_t heads = 1, d_k = 0, d_v = 0;
  index_t group = 1;  ///< how many heads of queries, one after the other, share a head of keys and values
  double scale = 1;
  bool causal = false;
  index_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  /// Elements of the additive bias from one sentence, head and query to the next; keys are consecutive.
  index_t bias_sentence = 0, bias_head = 0, bias_query = 0;
  /// The element that query 0 and key 0 of the first head have. One that goes by the distance from query to key has each
  /// distance's number once, from the keys far before the query to those far behind it: bias_query is -1.
  index_t bias_origin = 0;
  double dropout = 0;
  Generator::Stream random{};
  /// weight_offset[s]: where the weights of sentence s begin, which are [heads, queries, keys]; one more entry for the end. Of
  /// sentences in a room (Segments::room) only the end holds, as the most that they can have; where each begins, kernels find
  /// out from the tables on the device.
  std::vector<index_t> weight_offset;

  /// Sets `weight_offset` by the sentences and heads, and gives its last entry: how many weights there are.
  index_t lay_out_weights() {
    weight_offset.clear();
    index_t size = 0;
    const bool known = !queries.is_room() && !keys.is_room();
    for (index_t s = 0; known && s < queries.count(); ++s) {
      weight_offset.push_back(size);
      size += heads * queries.length(s) * keys.keys(s);
    }
    // Any sentence of a room may be the longest, but not all of them: together they have no more rows than there are.
    const index_t most = heads * std::min(queries.rows() * keys.most_keys(), queries.longest() * keys.rows());
    weight_offset.push_back(known ? size : most);
    return weight_offset.back();
  }
};

/// How the softmax of a row was made, so that the backward can make the same weights again, bit for bit:
/// exp(score - shift) * inverse. A row that sees nothing has inverse 0. Both [query rows, heads], or null if not wanted.
template <class T>
struct SoftmaxRows {
  T *shift = nullptr, *inverse = nullptr;
};

namespace kernels {

/// What an attention reads; the bias from its origin on. A null bias adds nothing.
template <class T>
struct AttentionInputs {
  const T *q = nullptr, *k = nullptr, *v = nullptr, *bias = nullptr;
};

/// Where an attention's backward leaves its gradients, in the place of what is there: those of q, k and v laid out as these,
/// that of the scores as the weights. What is null is not wanted.
template <class T>
struct AttentionGradients {
  T *q = nullptr, *k = nullptr, *v = nullptr, *scores = nullptr;
};

/// What an additive attention reads, and where its backward leaves all four gradients: that of `score` as shares, one of each
/// sentence, [sentences, d_k].
template <class T>
struct AdditiveInputs {
  const T *q = nullptr, *k = nullptr, *score = nullptr, *v = nullptr;
};
/// See AdditiveInputs.
template <class T>
struct AdditiveGradients {
  T *q = nullptr, *k = nullptr, *score_shares = nullptr, *v = nullptr;
};

}  // namespace kernels

}  // namespace attend
