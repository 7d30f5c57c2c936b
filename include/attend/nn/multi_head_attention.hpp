#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "attend/kernels/attention_step.hpp"
#include "attend/nn/attention_keys.hpp"
#include "attend/nn/dropout.hpp"
#include "attend/nn/initialisation.hpp"
#include "attend/nn/linear.hpp"
#include "attend/nn/positions.hpp"
#include "attend/ops/rearrange.hpp"

namespace attend::nn {

/// What `MultiHeadAttention` is.
struct MultiHeadAttentionOptions {
  index_t d_model = 512;
  index_t heads = 8;
  index_t d_k = 0;       ///< width of a head's queries and keys; 0 stands for d_model / heads
  index_t d_v = 0;       ///< width of a head's values; 0 stands for d_k
  index_t d_memory = 0;  ///< width of what keys and values are made from; 0 stands for d_model
  bool bias = true;      ///< of the q, k and v projections
  bool out_bias = true;
  double dropout = 0;          ///< on the attention weights
  index_t kv_heads = 0;        ///< of keys and values, a divisor of `heads`; 0 stands for `heads`
  double scale = 0;            ///< what scores are multiplied by; 0 stands for 1 / sqrt(d_k)
  InitialValues initial = {};  ///< how the weights begin, and in which place of which stack this is
};

/// Multi-head attention, for self-, masked and cross-attention: concat(head_1 ... head_h) W_out,
/// head_i = attention(x W_q_i, memory W_k_i, memory W_v_i). Source: Vaswani et al. 2017, section 3.2.2.
///
/// q, k and v are the rows of one matrix, so that a self-attention is one product. Checkpoints see them apart, as
/// `q_proj`, `k_proj` and `v_proj`. Where the memory has a width of its own, its two projections have a matrix of their own.
template <class T, Device D = Cpu>
struct MultiHeadAttention {
  using value_type = T;
  using device_type = D;
  static constexpr bool maps_vectors = true;
  index_t heads, kv_heads, d_k, d_v;
  Var<T, D> weight;  // [heads * d_k + kv_heads * (d_k + d_v), d_model], or [heads * d_k, d_model] with a memory_weight
  std::optional<Var<T, D>> bias;           // as many
  std::optional<Var<T, D>> memory_weight;  // [kv_heads * (d_k + d_v), d_memory]
  std::optional<Var<T, D>> memory_bias;    // as many
  Linear<T, D> out_proj;                   // [d_model, heads * d_v]
  Dropout dropout;
  double score_scale;                                    // 0 stands for 1 / sqrt(d_k)
  AttentionPositions<T, D> positions;                    // of a self-attention
  std::shared_ptr<const PackedWeights<T, D>> packed;     // as a Linear has it
  std::array<std::optional<Adapter<T, D>>, 3> adapters;  // of q, k and v; see add_adapters

  /// Throws ValueError if a size is not positive, or d_model is no multiple of heads and d_k is not given.
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& o)
      : heads(o.heads),
        kv_heads(o.kv_heads ? o.kv_heads : o.heads),
        d_k(head_width(o)),
        d_v(o.d_v ? o.d_v : d_k),
        out_proj(heads * d_v, o.d_model,
                 {.bias = o.out_bias, .gain = o.initial.gain(MatrixRole::attention_out, heads * d_v, o.d_model)}),
        dropout(make_dropout("attention dropout", o.dropout)),
        score_scale(o.scale) {
    check_value(d_v > 0 && o.d_memory >= 0, "MultiHeadAttention", "d_v and d_memory must be positive");
    check_value(kv_heads > 0 && heads % kv_heads == 0, "MultiHeadAttention", "kv_heads is ", kv_heads, ", no divisor of ", heads,
                " heads");
    const bool own_memory = o.d_memory != 0 && o.d_memory != o.d_model;
    const index_t q_rows = heads * d_k, kv_rows = kv_heads * (d_k + d_v);
    weight = constant_parameter<T, D>({own_memory ? q_rows : q_rows + kv_rows, o.d_model}, 0);
    if (o.bias) bias = constant_parameter<T, D>({weight.dim(0)}, 0);
    if (own_memory) {
      memory_weight = constant_parameter<T, D>({kv_rows, o.d_memory}, 0);
      if (o.bias) memory_bias = constant_parameter<T, D>({kv_rows}, 0);
    }
    for (const int part : {0, 1, 2}) {
      const auto rows = weight_rows(part);
      const auto matrix = rows.packed.value().rows(rows.first, rows.count);
      const auto role = part == 2 ? MatrixRole::value : MatrixRole::query_key;
      xavier_uniform(matrix, o.initial.gain(role, matrix.dim(1), matrix.dim(0)));
    }
  }

  /// What x [rows, d_model] sees of `keys`: an OwnKeys, a MemoryKeys or others that `attend`. -> [rows, d_model]
  template <class Keys>
  Var<T, D> operator()(const Var<T, D>& x, const Keys& keys) const {
    return out_proj(keys.attend(*this, x));
  }
  // So that braces do: attention(x, {.segments = segments, .causal = true}).
  Var<T, D> operator()(const Var<T, D>& x, const OwnKeys<T, D>& keys) const { return out_proj(keys.attend(*this, x)); }
  Var<T, D> operator()(const Var<T, D>& x, const MemoryKeys<T, D>& keys) const { return out_proj(keys.attend(*this, x)); }

  /// The queries, keys and values of x side by side, [rows, heads * d_k + kv_heads * (d_k + d_v)]. Throws ShapeError if keys are
  /// made from a memory of a width of its own.
  [[nodiscard]] Var<T, D> project(const Var<T, D>& x) const {
    if (memory_weight)
      throw ShapeError("MultiHeadAttention: keys are made from a memory of width ", memory_weight->dim(1), "; pass it");
    return adapted(linear(x, weight, bias, packed.get()), x, 0, 3);
  }
  /// The same for rows that stand at these places.
  [[nodiscard]] Var<T, D> project(const Var<T, D>& x, const Places& places) const { return positions.placed(project(x), places); }
  /// The queries of x, [rows, heads * d_k].
  [[nodiscard]] Var<T, D> project_q(const Var<T, D>& x) const {
    return adapted(linear_rows(x, weight, bias, 0, heads * d_k, packed.get()), x, 0, 1);
  }
  /// The keys and values of a memory side by side, [rows, kv_heads * (d_k + d_v)].
  [[nodiscard]] Var<T, D> project_kv(const Var<T, D>& memory) const {
    if (memory_weight) return adapted(linear(memory, *memory_weight, memory_bias, packed.get()), memory, 1, 3);
    return adapted(linear_rows(memory, weight, bias, heads * d_k, kv_heads * (d_k + d_v), packed.get()), memory, 1, 3);
  }

  /// What scores are multiplied by, 1 / sqrt(d_k) where nothing else was said.
  [[nodiscard]] double scale() const { return score_scale != 0 ? score_scale : 1 / std::sqrt(static_cast<double>(d_k)); }
  /// Its heads in a step of decoding.
  [[nodiscard]] kernels::StepHeads step_heads() const { return {heads, d_k, d_v, scale(), heads / kv_heads}; }
  /// How its heads look.
  [[nodiscard]] AttentionOptions<T, D> options(bool causal, const std::optional<Var<T, D>>& scores_bias,
                                               AttentionWeights<T, D>* weights) const {
    return {.heads = heads,
            .causal = causal,
            .scale = scale(),
            .dropout = rate(dropout),
            .bias = scores_bias,
            .weights = weights,
            .kv_heads = kv_heads};
  }

  template <class F>
  void fields(F&& field) {
    field("q_proj.weight", weight_rows(0));
    if (bias) field("q_proj.bias", bias_rows(0));
    field("q_proj", adapters[0]);
    field("k_proj.weight", weight_rows(1));
    if (bias) field("k_proj.bias", bias_rows(1));
    field("k_proj", adapters[1]);
    field("v_proj.weight", weight_rows(2));
    if (bias) field("v_proj.bias", bias_rows(2));
    field("v_proj", adapters[2]);
    field("out_proj", out_proj);
    field("", positions);
    field("attention_dropout", dropout);
  }
  /// See adaptables.
  template <class F>
  void adaptable(F&& matrix) {
    matrix("q_proj", weight_rows(0), adapters[0]);
    matrix("k_proj", weight_rows(1), adapters[1]);
    matrix("v_proj", weight_rows(2), adapters[2]);
    matrix("out_proj", out_proj.own_rows(), out_proj.adapter);
  }

 private:
  /// y, the parts `first` to `last` of q (0), k (1) and v (2) of x side by side, with what their adapters add.
  Var<T, D> adapted(Var<T, D> y, const Var<T, D>& x, std::size_t first, std::size_t last) const {
    bool any = false;
    for (std::size_t part = first; part < last; ++part) any = any || adapters[part];
    if (!any) return y;
    std::vector<Var<T, D>> parts;
    for (std::size_t part = first; part < last; ++part) {
      const index_t width = part == 0 ? heads * d_k : kv_heads * (part == 1 ? d_k : d_v);
      if (adapters[part]) parts.push_back((*adapters[part])(x));
      else parts.emplace_back(Tensor<T, D>(y.shape().with(-1, width), T(0)));
    }
    return y + (parts.size() == 1 ? parts.front() : concatenate(parts, -1));
  }
  static index_t head_width(const MultiHeadAttentionOptions& o) {
    check_value(o.d_model > 0 && o.heads > 0 && o.d_k >= 0 && o.d_v >= 0, "MultiHeadAttention",
                "d_model and heads must be positive");
    if (o.d_k) return o.d_k;
    check_value(o.d_model % o.heads == 0, "MultiHeadAttention", "d_model ", o.d_model, " is no multiple of ", o.heads,
                " heads; give d_k");
    return o.d_model / o.heads;
  }
  /// Where the rows of q (0), k (1) or v (2) stand.
  Rows<T, D> part_rows(const Var<T, D>& own, const std::optional<Var<T, D>>& memory, int part) const {
    const index_t q = heads * d_k, k = kv_heads * d_k, v = kv_heads * d_v;
    const index_t alike = kv_heads == heads ? heads : 0;  // no file packs parts of other widths
    if (part == 0) return {own, 0, q, alike};
    if (memory) return {*memory, part == 1 ? 0 : k, part == 1 ? k : v, alike};
    return {own, part == 1 ? q : q + k, part == 1 ? k : v, alike};
  }
  [[nodiscard]] Rows<T, D> weight_rows(int part) const { return part_rows(weight, memory_weight, part); }
  [[nodiscard]] Rows<T, D> bias_rows(int part) const { return part_rows(*bias, memory_bias, part); }
};

}  // namespace attend::nn
