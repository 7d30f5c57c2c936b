#pragma once

#include <string>
#include <vector>

#include "attend/nn/transformer.hpp"
#include "learn.hpp"

/// Transformers of every kind of option, the presets' widths, and a language model; each learns for three steps.
namespace bits {

template <class T>
void learn_network(Record& record, const std::string& name, const nn::TransformerOptions& options,
                   const CrossEntropyOptions& how = {}) {
  seed(41);
  const nn::Transformer<T, D> model(options);
  const auto vocabulary = [&](index_t own) { return own ? own : options.vocabulary; };
  const auto batch = made_batch(Segments::ragged({7, 2, 12, 1}), Segments::ragged({4, 9, 11, 1}),
                                vocabulary(options.source_vocabulary), vocabulary(options.target_vocabulary), 41);
  const auto all = how.r_drop > 0 ? batch.twice() : batch;
  learn(record, name, model, [&] { return model.loss(all, how); });
}

template <class T>
void options(Record& record) {
  constexpr index_t vocabulary = sized(90, 30);
  const nn::TransformerOptions plain{
      .vocabulary = vocabulary, .d_model = 48, .heads = 4, .d_ff = 80, .layers = sized(2, 1), .dropout = 0.1, .max_length = 32};
  const auto check = [&](const std::string& name, const auto& change, const CrossEntropyOptions& how = {}) {
    auto o = plain;
    change(o);
    learn_network<T>(record, "options/" + name, o, how);
  };
  using Options = nn::TransformerOptions;
  check("post", [](Options&) {});
  check("no_dropout", [](Options& o) { o.dropout = 0; });
  check("pre", [](Options& o) { o.norm_order = nn::NormOrder::pre, o.final_norm = true; });
  check("gelu", [](Options& o) { o.activation = Activation::gelu; });
  check("gelu_tanh_pre", [](Options& o) { o.activation = Activation::gelu_tanh, o.norm_order = nn::NormOrder::pre; });
  check("all_dropouts", [](Options& o) { o.attention_dropout = o.activation_dropout = 0.2; });
  check("tied_head", [](Options& o) { o.tie_head = true; });
  check("tied_unscaled", [](Options& o) { o.tie_head = true, o.scale_embedding = false; });
  check("shared", [](Options& o) { o.share_embeddings = o.tie_head = true; });
  check("no_biases", [](Options& o) { o.attention_bias = o.head_bias = false; });
  check("learned_positions", [](Options& o) { o.positions = nn::PositionKind::learned; });
  check("halved_sinusoids", [](Options& o) { o.positions = nn::PositionKind::sinusoidal_halves; });
  check("head_widths", [](Options& o) { o.d_k = 5, o.d_v = 9; });
  check("stacks_apart",
        [](Options& o) { o.source_vocabulary = 25, o.decoder_layers = 1, o.encoder_heads = 2, o.decoder_d_ff = 56; });
  check("smoothing", [](Options&) {}, {.smoothing = 0.1});
  check("r_drop", [](Options&) {}, {.smoothing = 0.1, .r_drop = 5});
  check("plain_xavier", [](Options& o) { o.initialisation = nn::Initialisation::xavier; });
}

/// The widths of the larger presets, with a layer in each stack.
template <class T>
void presets(Record& record) {
  const auto check = [&](const std::string& name, nn::TransformerOptions o) {
    o.layers = 1;
    learn_network<T>(record, "presets/" + name, o);
  };
  check("small", nn::TransformerOptions::small(120));
  check("base", nn::TransformerOptions::base(120));
  check("big", nn::TransformerOptions::big(120));
}

}  // namespace bits
