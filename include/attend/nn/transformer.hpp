#pragma once

#include <optional>
#include <utility>

#include "attend/nn/adapters.hpp"
#include "attend/nn/batch.hpp"
#include "attend/nn/stack.hpp"
#include "attend/nn/transformer_options.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/distillation_loss.hpp"
#include "attend/ops/softmax.hpp"

namespace attend::nn {

/// The encoder-decoder Transformer. Source: Vaswani et al. 2017.
///
/// Copies are handles to the same parameters; build a second model and `copy_parameters` for one of its own.
template <class T, Device D = Cpu>
struct Transformer {
  using value_type = T;
  using device_type = D;
  static constexpr bool loss_by_threads = true;  ///< several threads may call `loss` at the same time
  ModelOptions options;
  Encoder<T, D> encoder;
  Decoder<T, D> decoder;
  std::optional<Var<T, D>> head_weight;               // [target vocabulary, d_model]; absent where it is the decoder's embedding
  std::optional<Var<T, D>> head_bias;                 // [target vocabulary]
  std::shared_ptr<const PackedWeights<T, D>> packed;  // of the head, as a Linear has it

  /// Encoder and decoder that are alike. Throws ValueError if the options do not go together.
  explicit Transformer(const TransformerOptions& o) : Transformer(model_options(o)) {}
  /// Encoder and decoder that differ. With adapters, all else is frozen: see add_adapters. Throws ValueError if the two do not
  /// fit together, and as add_adapters does.
  explicit Transformer(const ModelOptions& o);

  /// The encoder's view of the sources: tokens [rows] -> [rows, d_model].
  [[nodiscard]] Memory<T, D> encode(const Tensor<token_t, D>& source, const Segments& segments,
                                    const StackCall<T, D>& call = {}) const {
    return {encoder(source, segments, call), segments};
  }
  /// The decoder's last layer for targets that attend to `memory`: tokens [rows] -> [rows, d_model].
  [[nodiscard]] Var<T, D> decode(const Tensor<token_t, D>& target, const Segments& segments, const Memory<T, D>& memory,
                                 StackCall<T, D> call = {}) const {
    call.memories = {&memory, 1};
    return decoder(target, segments, call);
  }
  /// [rows, d_model] -> logits [rows, target vocabulary].
  [[nodiscard]] Var<T, D> logits(const Var<T, D>& x) const {
    return linear(to_head(x), output_weight(), head_bias, packed.get());
  }
  /// x as the head's product takes it, divided by sqrt(d_model) where the options say so.
  [[nodiscard]] Var<T, D> to_head(const Var<T, D>& x) const {
    return options.scale_head ? x * (1 / std::sqrt(static_cast<double>(options.decoder.d_model))) : x;
  }
  /// What `options.output` asks for, at every row of the targets: [target rows, target vocabulary].
  Var<T, D> operator()(const Batch<D>& batch, const StackCall<T, D>& call = {}) const {
    const auto memory = encode(batch.source, batch.source_segments);
    const auto x = logits(decode(batch.target, batch.target_segments, memory, call));
    switch (options.output) {
      case Output::log_probabilities:
        return log_softmax(x);
      case Output::probabilities:
        return softmax(x);
      case Output::logits:
        break;
    }
    return x;
  }
  /// What the logits at every row of the targets are made of.
  [[nodiscard]] LinearLogits<T, D> linear_logits(const Batch<D>& batch) const {
    return {to_head(decode(batch.target, batch.target_segments, encode(batch.source, batch.source_segments))), output_weight(),
            head_bias};
  }
  /// The cross-entropy of the batch's labels, without ever holding the logits of all rows: [1].
  [[nodiscard]] Var<Wide<T>, D> loss(const Batch<D>& batch, const CrossEntropyOptions& how = {}) const {
    const auto logits = linear_logits(batch);
    return logits.bias ? linear_cross_entropy(logits.x, logits.weight, *logits.bias, batch.labels, how)
                       : linear_cross_entropy(logits.x, logits.weight, batch.labels, how);
  }
  [[nodiscard]] const Var<T, D>& output_weight() const { return head_weight ? *head_weight : decoder.embed_tokens->weight; }

  template <class F>
  void fields(F&& field) {
    field("encoder", encoder);
    field("decoder", decoder);
    field("lm_head.weight", head_weight);
    field("lm_head.bias", head_bias);
  }
};

/// As declared above; outside the struct, so that a program may have it compiled once: see compiled.hpp.
template <class T, Device D>
Transformer<T, D>::Transformer(const ModelOptions& o) : options((check(o), resolved(o))), encoder(o.encoder), decoder(o.decoder) {
  if (o.share_embeddings) decoder.embed_tokens->weight = encoder.embed_tokens->weight;
  if (!o.tie_head) {
    head_weight = constant_parameter<T, D>({o.decoder.vocabulary, o.decoder.d_model}, 0);
    const InitialValues initial{o.decoder.initialisation};
    xavier_uniform(head_weight->value(), initial.gain(MatrixRole::head, o.decoder.d_model, o.decoder.vocabulary));
  } else if (!o.decoder.scale_embedding && !o.scale_head) {
    // Rows of size 1 make a good unscaled embedding and far too large logits.
    normal(decoder.embed_tokens->weight.value(), 1 / std::sqrt(static_cast<double>(o.decoder.d_model)));
  }
  if (o.head_bias) head_bias = constant_parameter<T, D>({o.decoder.vocabulary}, 0);
  if (o.adapters.rank > 0) add_adapters(*this, o.adapters);
}

}  // namespace attend::nn
