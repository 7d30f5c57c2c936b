#pragma once

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/cpu/attention.hpp"

namespace attend {

/// What an attention looked at: for each sentence and head a matrix [queries, keys] whose rows add up to 1 (or are all 0).
template <class T, Device D = Cpu>
class AttentionWeights {
 public:
  AttentionWeights() = default;
  /// `packed`: all weights, where `layout` says.
  AttentionWeights(Tensor<T, D> packed, AttentionLayout layout) : packed_(std::move(packed)), layout_(std::move(layout)) {}

  /// How many sentences and heads there are weights of.
  [[nodiscard]] index_t sentences() const { return layout_.queries.count(); }
  [[nodiscard]] index_t heads() const { return layout_.heads; }
  /// The weights of one head in one sentence, [queries, keys]. Throws IndexError, and ValueError where the sentences were in a
  /// room (Segments::room), whose lengths only the device knows.
  [[nodiscard]] Tensor<T, D> matrix(index_t sentence, index_t head) const {
    if (sentence < 0 || sentence >= sentences() || head < 0 || head >= heads())
      throw IndexError("attention weights: sentence ", sentence, ", head ", head, " of ", sentences(), " sentences with ",
                       heads(), " heads");
    check_value(!layout_.queries.is_room() && !layout_.keys.is_room(), "attention weights",
                "the sentences are in a room, of their lengths the host knows only the most");
    const index_t queries = layout_.queries.length(sentence), keys = layout_.keys.keys(sentence), n = queries * keys;
    return packed_.rows(nth(layout_.weight_offset, sentence) + head * n, n).reshape({queries, keys});
  }
  /// All of them, [sentences, heads, longest query, longest sentence of keys], with 0 beyond a sentence's end.
  [[nodiscard]] Tensor<T, Cpu> dense() const {
    const index_t rows = layout_.queries.longest(), width = layout_.keys.longest();
    const AttentionWeights<T, Cpu> here(packed_.to_host(), layout_);
    Tensor<T, Cpu> all({sentences(), heads(), rows, width}, T(0));
    for (index_t s = 0; s < sentences(); ++s)
      for (index_t h = 0; h < heads(); ++h) {
        const auto part = here.matrix(s, h);
        for (index_t i = 0; i < part.dim(0); ++i)
          copy(Cpu{}, part.dim(1), part.data() + i * part.dim(1), all.data() + ((s * heads() + h) * rows + i) * width);
      }
    return all;
  }

 private:
  Tensor<T, D> packed_;  // [sum over sentences of heads * queries * keys]
  AttentionLayout layout_;
};

/// How an attention looks.
template <class T, Device D = Cpu>
struct AttentionOptions {
  index_t heads = 1;
  bool causal = false;                          ///< query i sees keys 0 to i of its sentence
  double scale = 0;                             ///< what q k^T is multiplied by; 0 stands for 1 / sqrt(d_k)
  double dropout = 0;                           ///< the chance that a weight is dropped, in [0, 1)
  std::optional<Var<T, D>> bias = {};           ///< added before the softmax: [queries, keys], [heads, queries, keys] or
                                                ///< [sentences, heads, queries, keys], at least as large as the longest sentence
  AttentionWeights<T, D>* weights = nullptr;    ///< if given, receives the weights (before dropout)
  index_t kv_heads = 0;                         ///< of keys and values, each for as many heads of queries; 0 stands for `heads`
  std::optional<Var<T, D>> distance_bias = {};  ///< in the place of a bias: [heads, 2 n - 1], n at least the longest sentence;
                                                ///< query i and key j get what stands in column n - 1 + j - i
};

namespace detail {

/// Columns of a row matrix: from `first` on, in rows of the Var's width.
template <class T, Device D>
struct Columns {
  Var<T, D> x;
  index_t first;
  [[nodiscard]] index_t stride() const { return x.dim(-1); }
  [[nodiscard]] const T* data() const { return at(x.value()); }
  /// The same columns of a tensor like x; null if it is empty.
  [[nodiscard]] T* at(const Tensor<T, D>& tensor) const { return tensor.empty() ? nullptr : tensor.data() + first; }
};

/// Queries, keys and values, and how wide they are for each head.
template <class T, Device D>
struct Projections {
  Columns<T, D> q, k, v;
  index_t d_k, d_v;
};

/// What the forward keeps of each row's softmax; rows [2, query rows * heads], or empty.
template <class W, Device D>
SoftmaxRows<W> softmax_rows(const Tensor<W, D>& rows) {
  return rows.empty() ? SoftmaxRows<W>{} : SoftmaxRows<W>{rows.data(), rows.data() + rows.dim(1)};
}

/// Where a bias [((sentences,) heads,) queries, keys] lies for a sentence, a head and a query. Throws ShapeError.
template <class T, Device D>
void set_bias_strides(AttentionLayout& a, const Shape& bias) {
  const index_t queries = a.queries.longest(), keys = a.keys.most_keys();
  const bool fits = bias.rank() >= 2 && bias.rank() <= 4 && bias[-1] >= keys && bias[-2] >= queries &&
                    (bias.rank() < 3 || bias[-3] == a.heads) && (bias.rank() < 4 || bias[0] == a.queries.count());
  if (!fits)
    throw ShapeError("attention: bias has shape ", bias.text(), ", expected [", queries, ", ", keys, "], with ", a.heads,
                     " heads and ", a.queries.count(), " sentences before it or without");
  a.bias_query = bias[-1];
  a.bias_head = bias.rank() >= 3 ? bias[-1] * bias[-2] : 0;
  a.bias_sentence = bias.rank() == 4 ? bias[0] == 0 ? 0 : bias.size() / bias[0] : 0;
}

/// How many heads keys and values have. Throws ValueError where `heads` is no multiple of that.
template <class T, Device D>
index_t kv_heads(const AttentionOptions<T, D>& o) {
  check_value(o.heads > 0, "attention", "heads is ", o.heads);
  if (o.kv_heads == 0) return o.heads;
  check_value(o.kv_heads > 0 && o.heads % o.kv_heads == 0, "attention", "heads is ", o.heads, ", no multiple of the ", o.kv_heads,
              " of keys and values");
  return o.kv_heads;
}

/// As set_bias_strides, for a bias that goes by distance.
template <class T, Device D>
void set_distance_strides(AttentionLayout& a, const Shape& bias) {
  const index_t longest = std::max(a.queries.longest(), a.keys.most_keys());
  if (bias.rank() != 2 || bias[0] != a.heads || bias[1] % 2 == 0 || bias[1] < 2 * longest - 1)
    throw ShapeError("attention: distance_bias has shape ", bias.text(), ", expected [", a.heads, ", an odd number from ",
                     std::max<index_t>(1, 2 * longest - 1), " on]");
  a.bias_origin = bias[1] / 2, a.bias_head = bias[1], a.bias_query = -1;
}

/// `attention` of projections that lie in one tensor or in several.
template <class T, Device D>
Var<T, D> attention(const Projections<T, D>& of, const Segments& queries, const Segments& keys,
                    const AttentionOptions<T, D>& options) {
  const Columns<T, D> q = of.q, k = of.k, v = of.v;
  const index_t d_k = of.d_k, d_v = of.d_v;
  check_value(options.dropout >= 0 && options.dropout < 1, "attention", "dropout ", options.dropout, " is outside [0, 1)");
  queries.check_rows("attention", "q", rows_and_width(q.x.shape()).rows);
  keys.check_rows("attention", "k", rows_and_width(k.x.shape()).rows);
  keys.check_rows("attention", "v", rows_and_width(v.x.shape()).rows);
  if (queries.count() != keys.count())
    throw ShapeError("attention: queries of ", queries.count(), " sentences, keys of ", keys.count());

  AttentionLayout a;
  a.queries = queries, a.keys = keys, a.heads = options.heads, a.group = options.heads / kv_heads(options), a.d_k = d_k,
  a.d_v = d_v;
  a.scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(std::max<index_t>(1, d_k)));
  a.causal = options.causal;
  a.q_stride = q.stride(), a.k_stride = k.stride(), a.v_stride = v.stride(), a.out_stride = options.heads * d_v;
  check_value(!options.bias || !options.distance_bias, "attention", "there is a bias and a distance_bias; add them up");
  const auto bias = options.bias ? options.bias : options.distance_bias;
  if (options.bias) set_bias_strides<T, D>(a, bias->shape());
  if (options.distance_bias) set_distance_strides<T, D>(a, bias->shape());
  if (options.dropout > 0) a.dropout = options.dropout, a.random = default_generator().next();
  const index_t size = a.lay_out_weights();

  std::vector<Var<T, D>> inputs{q.x, k.x, v.x};
  if (bias) inputs.push_back(*bias);
  const bool need = grad_enabled() && std::any_of(inputs.begin(), inputs.end(), [](const auto& x) { return x.requires_grad(); });
  // The weights would fill the memory with long sentences, and cost no less to fetch than to make again.
  Tensor<T, D> weights, out(q.x.shape().with(-1, options.heads * d_v));
  Tensor<Wide<T>, D> rows;
  if (options.weights) weights = Tensor<T, D>({size});
  if (need) rows = Tensor<Wide<T>, D>({2, queries.rows() * options.heads});
  const auto read = [=] {
    return kernels::AttentionInputs<T>{q.data(), k.data(), v.data(), bias ? bias->data() + a.bias_origin : nullptr};
  };
  attention_forward(D{}, a, read(), weights.data(), softmax_rows(rows), out.data());
  if (options.weights) *options.weights = AttentionWeights<T, D>(weights, a);
  return record(std::move(out), inputs, [=](const Tensor<T, D>& dout) {
    // `rows` is kept for softmax_rows(rows), which looks into it. One gradient tensor for each distinct input, so that packed
    // projections get theirs in one piece.
    struct Gradient {
      Var<T, D> x;
      Tensor<T, D> dx;
    };
    std::vector<Gradient> gradients;
    const auto place = [&](const Columns<T, D>& c, bool all_rows) -> T* {
      if (!c.x.requires_grad()) return nullptr;
      for (const auto& g : gradients)
        if (g.x.id() == c.x.id()) return c.at(g.dx);
      gradients.push_back({c.x, Tensor<T, D>(c.x.shape())});
      if (!all_rows) gradients.back().dx.fill(T(0));  // padding is no key and gets no gradient
      return c.at(gradients.back().dx);
    };
    const auto same = [](const Columns<T, D>& one, const Columns<T, D>& other) {
      return one.x.id() == other.x.id() && one.first == other.first;
    };
    const bool aliased = same(q, k) || same(k, v) || same(q, v);
    bool all_keys = true;  // all rows of sentences are keys, as in any room
    for (index_t s = 0; !keys.is_room() && s < keys.count(); ++s) all_keys = all_keys && keys.keys(s) == keys.length(s);
    Tensor<T, D> ds;
    if (bias && bias->requires_grad()) ds = Tensor<T, D>({a.weight_offset.back()});
    T* ds_out = bias && bias->requires_grad() ? ds.data() : nullptr;
    if (aliased) {  // the same tensor in two roles: each role gets a gradient of its own, and they are added
      const auto own = [&](const Columns<T, D>& c) {
        return c.x.requires_grad() ? Tensor<T, D>(c.x.shape(), T(0)) : Tensor<T, D>();
      };
      const auto dq = own(q), dk = own(k), dv = own(v);
      attention_backward(D{}, a, dout.data(), read(), softmax_rows(rows), {q.at(dq), k.at(dk), v.at(dv), ds_out});
      for (const auto& [c, dx] : {std::pair{&q, &dq}, std::pair{&k, &dk}, std::pair{&v, &dv}})
        if (c->x.requires_grad()) c->x.accumulate(*dx);
    } else {
      T* dq = place(q, all_keys);
      T* dk = place(k, all_keys);
      T* dv = place(v, all_keys);
      attention_backward(D{}, a, dout.data(), read(), softmax_rows(rows), {dq, dk, dv, ds_out});
      for (auto& g : gradients) g.x.accumulate(std::move(g.dx));
    }
    if (ds_out) bias->accumulate_with([&](auto dbias) { attention_backward_bias(D{}, a, bias->size(), ds.data(), dbias); });
  });
}

/// Columns of a head. Throws ValueError for heads out of range and ShapeError for a width that they do not divide.
inline index_t head_width(const char* name, index_t width, index_t heads) {
  check_value(heads > 0, "attention", "heads is ", heads);
  if (width % heads != 0) throw ShapeError("attention: ", name, " has ", width, " columns, not a multiple of ", heads, " heads");
  return width / heads;
}

}  // namespace detail

/// Scaled dot-product attention: softmax(q k^T / sqrt(d_k) + bias) v, for every head of every sentence.
/// A query that has nothing to attend to gets zeros. With fewer heads of keys and values, heads / kv_heads neighbouring heads of
/// queries share each (Ainslie et al. 2023); k and v are then so many heads wide.
/// With w = softmax(s): dv = w^T dy,  ds = w * (dw - sum_j(w dw)),  dw = dy v^T,  dq = ds k / sqrt(d_k),  dk = ds^T q /
/// sqrt(d_k). Shapes: q [query rows, heads * d_k], k [key rows, heads * d_k], v [key rows, heads * d_v], y [query rows, heads *
/// d_v]; leading dimensions such as [batch, length] are taken together as rows. `queries` and `keys` say which rows form a
/// sentence. Throws ShapeError, ValueError. Source: Vaswani et al. 2017, eq. 1.
template <class T, Device D>
Var<T, D> attention(const Var<T, D>& q, const Var<T, D>& k, const Var<T, D>& v, const Segments& queries, const Segments& keys,
                    const AttentionOptions<T, D>& options = {}) {
  const index_t d_k = detail::head_width("q", q.dim(-1), options.heads), of_keys = detail::kv_heads(options),
                d_v = detail::head_width("v", v.dim(-1), of_keys);
  if (k.dim(-1) != of_keys * d_k)
    throw ShapeError("attention: k has shape ", k.shape().text(), ", expected [..., ", of_keys * d_k, "]");
  return detail::attention<T, D>({{q, 0}, {k, 0}, {v, 0}, d_k, d_v}, queries, keys, options);
}

/// Self-attention on one packed projection: qkv [rows, heads * d_k + kv_heads * (d_k + d_v)], the columns of q, then k, then v.
/// Nothing is copied apart, and the gradient comes back in one piece. Throws ShapeError, ValueError.
template <class T, Device D>
Var<T, D> self_attention(const Var<T, D>& qkv, index_t d_k, index_t d_v, const Segments& segments,
                         const AttentionOptions<T, D>& options) {
  const index_t h = options.heads, of_keys = detail::kv_heads(options), width = h * d_k + of_keys * (d_k + d_v);
  if (qkv.dim(-1) != width)
    throw ShapeError("self_attention: qkv has shape ", qkv.shape().text(), ", expected [..., ", width, "]");
  return detail::attention<T, D>({{qkv, 0}, {qkv, h * d_k}, {qkv, (h + of_keys) * d_k}, d_k, d_v}, segments, segments, options);
}

/// Cross-attention with packed keys and values: q [query rows, heads * d_k], kv [key rows, kv_heads * (d_k + d_v)].
/// Throws ShapeError, ValueError.
template <class T, Device D>
Var<T, D> cross_attention(const Var<T, D>& q, const Var<T, D>& kv, const Segments& queries, const Segments& keys,
                          const AttentionOptions<T, D>& options) {
  const index_t d_k = detail::head_width("q", q.dim(-1), options.heads), of_keys = detail::kv_heads(options),
                d_v = detail::head_width("kv", kv.dim(-1), of_keys) - d_k;
  if (d_v < 1)
    throw ShapeError("cross_attention: kv has shape ", kv.shape().text(), ", expected more than the ", of_keys * d_k,
                     " columns of its keys");
  return detail::attention<T, D>({{q, 0}, {kv, 0}, {kv, of_keys * d_k}, d_k, d_v}, queries, keys, options);
}

}  // namespace attend
