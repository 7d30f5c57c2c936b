#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "attend/nn/transformer_options.hpp"
#include "attend/train/recipe.hpp"

namespace translate {

/// The options of a new model on the command line. Those given override the preset, or the recipe where there is no preset.
struct ModelFlags {
  static constexpr const char* group = "Model";
  /// Whether an option leaves the weights of a model what they are.
  static bool is_dropout(const std::string& name) { return name.ends_with("dropout"); }

  std::string preset;
  attend::index_t d_model = 0, heads = 0, layers = -1, encoder_layers = -1, decoder_layers = -1, d_ff = 0, max_length = 256;
  std::optional<double> dropout, attention_dropout, activation_dropout;
  std::string activation, norm, tie = "all", initialisation;

  void add_to(CLI::App& app) {
    app.add_option("--preset", preset,
                   "Sizes to start from, by the number of pairs and --minutes where not given: 4+4 layers of 128/256, 6+6 of "
                   "512/1024, 6+6 of 512/2048, 6+6 of 1024/4096")
        ->check(CLI::IsMember({"tiny", "small", "base", "big"}))
        ->group(group);
    app.add_option("--d-model", d_model, "Width of the model")->check(CLI::Range(1, 1 << 16))->group(group);
    app.add_option("--heads", heads, "Attention heads, a divisor of the width")->check(CLI::Range(1, 1 << 12))->group(group);
    app.add_option("--layers", layers, "Layers of encoder and decoder each")->check(CLI::Range(1, 1000))->group(group);
    app.add_option("--encoder-layers", encoder_layers, "Layers of the encoder")->check(CLI::Range(1, 1000))->group(group);
    app.add_option("--decoder-layers", decoder_layers, "Layers of the decoder")->check(CLI::Range(1, 1000))->group(group);
    app.add_option("--d-ff", d_ff, "Width within the feed-forward")->check(CLI::Range(1, 1 << 18))->group(group);
    app.add_option("--dropout", dropout, "Dropout on embeddings and sublayers")->check(CLI::Range(0.0, 0.99))->group(group);
    app.add_option("--attention-dropout", attention_dropout, "Dropout on attention weights")
        ->check(CLI::Range(0.0, 0.99))
        ->group(group);
    app.add_option("--activation-dropout", activation_dropout, "Dropout within the feed-forward")
        ->check(CLI::Range(0.0, 0.99))
        ->group(group);
    app.add_option("--activation", activation, "Of the feed-forward")
        ->check(CLI::IsMember({"relu", "gelu", "gelu_tanh", "silu", "tanh"}))
        ->group(group);
    app.add_option("--norm", norm, "Layer norm after each sublayer (post) or before it (pre, with a final norm)")
        ->check(CLI::IsMember({"post", "pre"}))
        ->group(group);
    app.add_option("--initialisation", initialisation, "How the weights begin (residual_scaled)")
        ->check(CLI::IsMember(names_of_initialisations()))
        ->group(group);
    app.add_option("--tie", tie, "Shared embeddings: decoder and head, encoder too, or as the preset has it")
        ->check(CLI::IsMember({"none", "head", "all", "preset"}))
        ->capture_default_str()
        ->group(group);
    app.add_option("--max-length", max_length, "The longest sentence, in tokens")
        ->check(CLI::Range(2, 1 << 16))
        ->capture_default_str()
        ->group(group);
  }

  /// For so many subwords.
  [[nodiscard]] attend::nn::TransformerOptions options(attend::index_t vocabulary, const attend::train::Recipe& recipe) const {
    using Options = attend::nn::TransformerOptions;
    Options o = preset == "big"     ? Options::big(vocabulary)
                : preset == "base"  ? Options::base(vocabulary)
                : preset == "small" ? Options::small(vocabulary)
                : preset == "tiny"  ? Options::tiny(vocabulary)
                                    : recipe.model(vocabulary);
    const auto set = [](auto& to, auto value, bool given) {
      if (given) to = value;
    };
    if (d_model > 0 && d_ff == 0) o.d_ff = o.d_ff * d_model / o.d_model;  // the preset's proportion
    set(o.d_model, d_model, d_model > 0);
    set(o.heads, heads, heads > 0);
    set(o.layers, layers, layers > 0);
    o.encoder_layers = encoder_layers;
    o.decoder_layers = decoder_layers;
    set(o.d_ff, d_ff, d_ff > 0);
    o.dropout = dropout.value_or(o.dropout);
    o.attention_dropout = attention_dropout.value_or(o.attention_dropout);
    o.activation_dropout = activation_dropout.value_or(o.activation_dropout);
    if (!activation.empty()) o.activation = attend::activation_from_name(activation);
    if (norm == "pre") o.norm_order = attend::nn::NormOrder::pre, o.final_norm = true;
    if (norm == "post") o.norm_order = attend::nn::NormOrder::post, o.final_norm = false;
    if (!initialisation.empty()) o.initialisation = attend::nn::initialisation_from_name(initialisation);
    if (tie != "preset") o.tie_head = tie != "none", o.share_embeddings = tie == "all";
    o.max_length = max_length;
    return o;
  }

 private:
  static std::vector<std::string> names_of_initialisations() {
    std::vector<std::string> names;
    for (const auto& [kind, name] : attend::nn::initialisations) names.emplace_back(name);
    return names;
  }
};

}  // namespace translate
