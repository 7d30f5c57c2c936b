#include <string>
#include <vector>

#include "attend/nn/additive_attention.hpp"
#include "attend/nn/dense.hpp"
#include "attend/ops/attention.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/positions.hpp"
#include "reference.hpp"

using namespace attend;
using reference::Case;
using reference::Where;

namespace {

/// [a, b, c, d] with b and c in each other's place: [batch, heads, length, d] to [batch, length, heads, d] and back.
template <class T>
Tensor<T> swap_middle(const Tensor<T>& x) {
  const index_t a = x.dim(0), b = x.dim(1), c = x.dim(2), d = x.dim(3);
  const Tensor<T> y({a, c, b, d});
  for (index_t i = 0; i < a; ++i)
    for (index_t j = 0; j < b; ++j)
      for (index_t k = 0; k < c; ++k)
        for (index_t l = 0; l < d; ++l) y(i, k, j, l) = x(i, j, k, l);
  return y;
}

/// [batch, heads, length, d] as the rows of `attention`, [batch, length, heads * d].
template <class T>
Tensor<T> as_rows(const Tensor<T>& x) {
  return swap_middle(x).reshape({x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}
template <class T>
Tensor<T> as_heads(const Tensor<T>& x, index_t heads) {
  return swap_middle(x.reshape({x.dim(0), x.dim(1), heads, x.dim(2) / heads}));
}

/// The mask of a case as segments; all keys if it has none.
Segments keys_of(const Case& c, index_t batch, index_t length) {
  return nn::dense_segments(batch, length, c.has("input.key_mask") ? c.mask("key_mask") : Tensor<std::uint8_t>());
}

}  // namespace

TEMPLATE_TEST_CASE("attention: outputs, weights and every gradient", "", REFERENCE_TYPES) {
  using T = TestType;
  const std::string kind = GENERATE("plain", "key_mask", "causal", "additive", "empty_row");
  const Case c("op_attention_" + kind);
  const auto leaf = [&](const std::string& name) {
    return Var<T, Where>(as_rows(c.tensor<T>("input." + name)).template to<Where>(), true);
  };
  const auto q = leaf("q"), k = leaf("k"), v = leaf("v");
  const index_t heads = c.file().info("input.q").shape[1];
  const auto queries = Segments::dense(q.dim(0), q.dim(1));
  AttentionWeights<T, Where> weights;
  AttentionOptions<T, Where> options{.heads = heads, .causal = kind == "causal", .weights = &weights};
  if (kind == "additive") options.bias = c.leaf<T>("bias");
  const auto y = attention(q, k, v, queries, keys_of(c, k.dim(0), k.dim(1)), options);
  c.check("output.y", as_heads(y.value().to_host(), heads));
  c.check("output.weights", weights.dense());
  y.backward(as_rows(c.tensor<T>("input.cotangent")).template to<Where>());
  c.check("grad_input.q", as_heads(q.grad().to_host(), heads));
  c.check("grad_input.k", as_heads(k.grad().to_host(), heads));
  c.check("grad_input.v", as_heads(v.grad().to_host(), heads));
  if (options.bias) c.check("grad_input.bias", options.bias->grad());
}

TEMPLATE_TEST_CASE("additive attention: outputs, weights and every gradient", "", REFERENCE_TYPES) {
  using T = TestType;
  const Case c("op_additive_attention");
  const auto query = c.leaf<T>("query"), key = c.leaf<T>("key"), value = c.leaf<T>("value");
  nn::AdditiveAttention<T, Where> bahdanau(query.dim(-1), key.dim(-1), c.file().info("param.q_proj.weight").shape[0]);
  for (const auto& t : nn::state(bahdanau)) t.value.assign(c.tensor<T>("param." + t.name));
  AttentionWeights<T, Where> weights;
  const auto y =
      bahdanau(query, Segments::dense(query.dim(0), query.dim(1)), key, value, keys_of(c, key.dim(0), key.dim(1)), &weights);
  c.check("output.y", y);
  const auto dense = weights.dense();  // [batch, 1 head, queries, keys]
  c.check("output.weights", dense.reshape({dense.dim(0), dense.dim(2), dense.dim(3)}));
  c.weighted_backward(y);
  c.check("grad_input.query", query.grad());
  c.check("grad_input.key", key.grad());
  c.check("grad_input.value", value.grad());
  for (const auto& t : nn::state(bahdanau)) c.check("grad." + t.name, t.grad());
}

TEMPLATE_TEST_CASE("cross-entropy: loss and gradient", "", REFERENCE_TYPES) {
  using T = TestType;
  const std::string reduction = GENERATE("mean", "sum"), smoothing = GENERATE("0.0", "0.1");
  const Case c("op_cross_entropy_" + reduction + "_" + smoothing);
  const CrossEntropyOptions options{.smoothing = c.number("label_smoothing"),
                                    .ignore_index = static_cast<token_t>(c.integer("ignore_index")),
                                    .mean = c.text("reduction") == "mean"};
  const auto logits = c.leaf<T>("logits");
  const auto loss = cross_entropy(logits, c.tokens("labels").to<Where>(), options);
  c.template check_from<T>("output.loss", loss);
  loss.backward();
  c.check("grad_input.logits", logits.grad());

  // The loss that makes its own logits, from an identity matrix.
  const index_t n = logits.dim(-1);
  Tensor<T> identity({n, n}, T(0));
  for (index_t i = 0; i < n; ++i) identity(i, i) = T(1);
  const auto x = c.leaf<T>("logits");
  const auto fused =
      linear_cross_entropy(x, Var<T, Where>(identity.template to<Where>()), c.tokens("labels").to<Where>(), options);
  c.template check_from<T>("output.loss", fused);
  fused.backward();
  c.check("grad_input.logits", x.grad());
}

TEMPLATE_TEST_CASE("sinusoid: three bases and an odd width", "", REFERENCE_TYPES) {
  const Case c("op_sinusoid");
  for (const auto& name : c.names("output.")) {
    const double base = name.starts_with("base_") ? std::stod(name.substr(5)) : 10000;
    const auto& shape = c.file().info("output." + name).shape;
    c.check("output." + name, sinusoid<TestType>(shape[0], shape[1], base));
  }
}
