#pragma once

#include <optional>

#include "attend/kernels/places.hpp"
#include "attend/ops/attention.hpp"

/// Where the keys and values of an attention come from. What a `MultiHeadAttention` is called with is anything that has
/// `attend(attention, x)`, which gives what its heads see from the rows of x, [rows, heads * d_v]; decoding has keys of its own,
/// which were made in the steps before.
namespace attend::nn {

/// The rows that ask, sentence by sentence: self-attention.
template <class T, Device D = Cpu>
struct OwnKeys {
  Segments segments;
  bool causal = false;                        ///< a row sees itself and those before it
  std::optional<Var<T, D>> bias = {};         ///< added to the scores; see attend::AttentionOptions
  AttentionWeights<T, D>* weights = nullptr;  ///< if given, receives the weights

  /// What the attention `a` gives for the rows x [rows, d_model], which are queries, keys and values.
  template <class Attention>
  Var<T, D> attend(const Attention& a, const Var<T, D>& x) const {
    const auto qkv = a.project(x, Places{segments});
    auto how = a.options(causal, bias, weights);
    a.positions.add_to(how, segments.longest());
    return self_attention(qkv, a.d_k, a.d_v, segments, how);
  }
};

/// The rows of another text, such as an encoder's output, with its sentences.
template <class T, Device D = Cpu>
struct Memory {
  Var<T, D> x;  // [rows, d_memory]
  Segments segments;
};

/// The rows of another text: cross-attention.
template <class T, Device D = Cpu>
struct MemoryKeys {
  Segments queries;  ///< the sentences of the rows that ask
  Memory<T, D> memory;
  bool causal = false;                        ///< row i of a sentence sees rows 0 to i of the memory's
  std::optional<Var<T, D>> bias = {};         ///< added to the scores; see attend::AttentionOptions
  AttentionWeights<T, D>* weights = nullptr;  ///< if given, receives the weights

  /// What the attention `a` gives for the queries of the rows x [rows, d_model].
  template <class Attention>
  Var<T, D> attend(const Attention& a, const Var<T, D>& x) const {
    const auto q = a.project_q(x), kv = a.project_kv(memory.x);
    return cross_attention(q, kv, queries, memory.segments, a.options(causal, bias, weights));
  }
};

}  // namespace attend::nn
