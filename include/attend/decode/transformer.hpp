#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attend/cpu/attention_step.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/decode/cache.hpp"
#include "attend/decode/model.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/ops/arithmetic.hpp"

namespace attend::decode {

/// A Transformer as the searches see it: token by token, with the keys and values of what was said before kept. The source is
/// encoded once, and so are each decoder layer's keys and values of it.
///
/// Shares the parameters of the model that it is made from, so it sees new weights at once, and computes in evaluation mode
/// without touching that model's mode.
template <class T, Device D = Cpu>
class TransformerModel {
 public:
  using value_type = T;
  using device_type = D;

  struct State {
    SelfCache<T, D> cache;
    std::vector<Tensor<T, D>> source;      // a layer's keys and values of all sources, [source rows, heads * (d_k + d_v)]
    std::vector<index_t> begins, lengths;  // [rows]: which of them row i attends to
  };

  /// Throws ValueError for a decoder that sees later tokens: it cannot go token by token; for int8 unless T is float.
  explicit TransformerModel(const nn::Transformer<T, D>& model, Precision precision = Precision::full)
      : model_(model), weights_(std::make_shared<const PackedWeights<T, D>>(precision)) {
    check_value(model.decoder.options.causal, "TransformerModel",
                "the decoder is not causal and cannot be searched token by token");
    nn::set_training(model_, false);
  }

  [[nodiscard]] index_t vocabulary() const { return model_.decoder.options.vocabulary; }
  /// The most tokens that a hypothesis may have: positions, less the one of the begin token.
  [[nodiscard]] index_t longest() const { return model_.decoder.options.max_length - 1; }
  [[nodiscard]] const nn::Transformer<T, D>& transformer() const { return model_; }

  /// A state with one row for each source sentence. Throws as the encoder does.
  [[nodiscard]] State begin(const Tensor<token_t, D>& source, const Segments& segments) const {
    weights_->refresh();
    const NoGrad no_grad;
    const typename PackedWeights<T, D>::Use use(*weights_);
    const auto memory = model_.encode(source, segments);
    const auto& layers = model_.decoder.layers;
    State state{SelfCache<T, D>(static_cast<index_t>(layers.size()), segments.count(), attention_of(layers).heads,
                                attention_of(layers).d_k, attention_of(layers).d_v),
                {},
                {},
                {}};
    for (const auto& layer : layers) state.source.push_back(layer.cross.front().attention.project_kv(memory.x).value());
    for (index_t s = 0; s < segments.count(); ++s) {
      state.begins.push_back(segments.begin(s));
      state.lengths.push_back(segments.keys(s));
    }
    return state;
  }

  /// The log-probabilities after one token more for each row, [rows, vocabulary].
  [[nodiscard]] Tensor<T, D> step(State& state, std::span<const token_t> tokens) const {
    const NoGrad no_grad;
    const typename PackedWeights<T, D>::Use use(*weights_);
    const auto rows = static_cast<index_t>(tokens.size());
    if (rows != state.cache.rows())
      throw ShapeError("TransformerModel: " + std::to_string(rows) + " tokens for " + std::to_string(state.cache.rows()) +
                       " rows");
    const auto& decoder = model_.decoder;
    auto x = (*decoder.embed_tokens)(to_tensor(tokens));  // [rows, d_model]
    x = at_position(x, state.cache.steps());
    state.cache.begin_step();
    for (std::size_t l = 0; l < decoder.layers.size(); ++l) {
      const auto& layer = decoder.layers[l];
      x = layer.around_self_attn(
          x, [&](const Var<T, D>& z) { return attend_to_self(state, static_cast<index_t>(l), layer.self_attn, z); });
      const auto& cross = layer.cross.front();
      x = cross.around(x, [&](const Var<T, D>& z) { return attend_to_source(state, state.source[l], cross.attention, z); });
      x = layer.finish(x);
    }
    if (decoder.layer_norm) x = (*decoder.layer_norm)(x);
    const auto y = model_.logits(x).value();
    log_softmax_forward(D{}, rows, y.dim(1), y.data(), y.data());  // in place: nobody else reads these logits
    return y;
  }

  void reorder(State& state, std::span<const index_t> rows) const {
    state.cache.reorder(rows);
    const auto pick = [&](std::vector<index_t>& values) {
      std::vector<index_t> next;
      next.reserve(rows.size());
      for (const index_t r : rows) next.push_back(values[static_cast<std::size_t>(r)]);
      values = std::move(next);
    };
    pick(state.begins);
    pick(state.lengths);
  }

 private:
  using Attention = nn::MultiHeadAttention<T, D>;

  static const Attention& attention_of(const std::vector<nn::DecoderLayer<T, D>>& layers) {
    check_value(!layers.empty(), "TransformerModel", "the decoder has no layers");
    return layers.front().self_attn;
  }
  static Tensor<token_t, D> to_tensor(std::span<const token_t> tokens) {
    const Tensor<token_t, Cpu> host({static_cast<index_t>(tokens.size())}, tokens);
    if constexpr (std::same_as<D, Cpu>) {
      return host;
    } else {
      Tensor<token_t, D> t(host.shape());
      copy_to_device(D{}, host.size(), host.data(), t.data());
      return t;
    }
  }
  Var<T, D> at_position(const Var<T, D>& x, index_t position) const {
    const auto& positions = model_.decoder.positions;
    if (positions.kind == nn::PositionKind::none) return x;
    const auto& table = positions.table.value();
    if (position >= table.dim(0))
      throw ShapeError("TransformerModel: token " + std::to_string(position) + " is beyond the " + std::to_string(table.dim(0)) +
                       " positions of the model");
    return add(x, Var<T, D>(table.rows(position, 1)));
  }
  static double scale(const Attention& a) { return 1 / std::sqrt(static_cast<double>(a.d_k)); }

  static Var<T, D> attend_to_self(State& state, index_t layer, const Attention& a, const Var<T, D>& x) {
    const auto qkv = a.bias ? linear(x, a.weight, *a.bias) : linear(x, a.weight);  // [rows, heads * (2 d_k + d_v)]
    Tensor<T, D> out({x.dim(0), a.heads * a.d_v});
    state.cache.append(layer, qkv.data() + a.heads * a.d_k, qkv.dim(1));
    state.cache.attend(layer, scale(a), qkv.data(), qkv.dim(1), out.data(), out.dim(1));
    return a.out_proj(Var<T, D>(out));
  }
  static Var<T, D> attend_to_source(const State& state, const Tensor<T, D>& kv, const Attention& a, const Var<T, D>& x) {
    const auto q = a.project_q(x);  // [rows, heads * d_k]
    Tensor<T, D> out({x.dim(0), a.heads * a.d_v});
    cross_attention_step(D{}, x.dim(0), a.heads, a.d_k, a.d_v, scale(a), q.data(), q.dim(1), kv.data(), index_t{0},
                         a.heads * a.d_k, kv.dim(1), state.begins.data(), state.lengths.data(), out.data(), out.dim(1));
    return a.out_proj(Var<T, D>(out));
  }

  nn::Transformer<T, D> model_;
  std::shared_ptr<const PackedWeights<T, D>> weights_;
};

}  // namespace attend::decode
