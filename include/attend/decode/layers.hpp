#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "attend/nn/transformer.hpp"

/// A Transformer's decoder taken one token a row, whatever keeps the keys and values of the tokens before.
namespace attend::decode::detail {

/// The attention whose heads the caches are made for. Throws ValueError where the decoder has no layers.
template <class T, Device D>
const nn::MultiHeadAttention<T, D>& attention_of(const nn::Transformer<T, D>& model) {
  check_value(!model.decoder.layers.empty(), "TransformerModel", "the decoder has no layers");
  return model.decoder.layers.front().self_attn;
}

/// What scores are multiplied by, 1 / sqrt(d_k).
template <class T, Device D>
double attention_scale(const nn::MultiHeadAttention<T, D>& a) {
  return 1 / std::sqrt(static_cast<double>(a.d_k));
}

/// Throws ShapeError where the model has no position of that number.
template <class T, Device D>
void check_position(const nn::Transformer<T, D>& model, index_t position) {
  const auto& positions = model.decoder.positions;
  if (positions.kind != nn::PositionKind::none && position >= positions.table.dim(0))
    throw ShapeError("TransformerModel: token " + std::to_string(position) + " is beyond the " +
                     std::to_string(positions.table.dim(0)) + " positions of the model");
}

/// x, the embedded tokens at their positions [rows, d_model], through all layers -> [rows, d_model], what the logits are made of.
/// self(layer, qkv, out) attends from the queries in qkv [rows, heads * (2 d_k + d_v)] to the keys before, theirs included;
/// source(layer, q, out) from q [rows, heads * d_k] to the source; both write out [rows, heads * d_v].
template <class T, Device D, class Self, class Source>
Var<T, D> decoded_rows(const nn::Transformer<T, D>& model, Var<T, D> x, Self&& self, Source&& source) {
  const auto& decoder = model.decoder;
  for (std::size_t l = 0; l < decoder.layers.size(); ++l) {
    const auto& layer = decoder.layers[l];
    const auto at = static_cast<index_t>(l);
    x = layer.around_self_attn(x, [&](const Var<T, D>& z) {
      const auto& a = layer.self_attn;
      const auto qkv = a.bias ? linear(z, a.weight, *a.bias) : linear(z, a.weight);
      const Tensor<T, D> out({z.dim(0), a.heads * a.d_v});
      self(at, qkv.value(), out);
      return a.out_proj(Var<T, D>(out));
    });
    const auto& cross = layer.cross.front();
    x = cross.around(x, [&](const Var<T, D>& z) {
      const auto& a = cross.attention;
      const auto q = a.project_q(z);
      const Tensor<T, D> out({z.dim(0), a.heads * a.d_v});
      source(at, q.value(), out);
      return a.out_proj(Var<T, D>(out));
    });
    x = layer.finish(x);
  }
  return decoder.layer_norm ? (*decoder.layer_norm)(x) : x;
}

}  // namespace attend::decode::detail
