#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "attend/nn/transformer_options.hpp"
#include "attend/train/recipe.hpp"
#include "option_flags.hpp"

namespace translate {

/// The options of a new model on the command line. Those given override the preset, or the recipe if there is no preset.
struct ModelFlags {
  static constexpr const char* group = "Model";
  /// Whether an option leaves the weights of a model what they are.
  static bool is_dropout(const std::string& name) { return name.ends_with("dropout"); }

  std::string preset, tie = "all";
  OptionFlags<attend::nn::TransformerOptions> flags{{.max_length = 256}};

  void add_to(CLI::App& app) {
    app.add_option("--preset", preset,
                   "Sizes to start from, by the number of pairs and --minutes where not given: 4+4 layers of 128/256, 6+6 of "
                   "512/1024, 6+6 of 512/2048, 6+6 of 1024/4096")
        ->check(CLI::IsMember({"tiny", "small", "base", "big"}))
        ->group(group);
    flags.add_to(app, group, false);
    flags.option("--max-length")->default_str(attend::number_text(flags.given.max_length));
    flags.option("--initialisation")->default_str(attend::name_of(flags.given.initialisation));
    tie_option_ = app.add_option("--tie", tie, "Shared embeddings: decoder and head, encoder too, or as the preset has it");
    tie_option_->check(CLI::IsMember({"none", "head", "all", "preset"}))->capture_default_str()->group(group);
  }

  /// Whether the command line says which embeddings are shared.
  [[nodiscard]] bool says_tie() const { return tie_option_ != nullptr && tie_option_->count() > 0; }

  /// For so many subwords.
  [[nodiscard]] attend::nn::TransformerOptions options(attend::index_t vocabulary, const attend::train::Recipe& recipe) const {
    using Options = attend::nn::TransformerOptions;
    Options o = preset == "big"     ? Options::big(vocabulary)
                : preset == "base"  ? Options::base(vocabulary)
                : preset == "small" ? Options::small(vocabulary)
                : preset == "tiny"  ? Options::tiny(vocabulary)
                                    : recipe.model(vocabulary);
    if (flags.has("--d-model")) o.d_ff = o.d_ff * flags.given.d_model / o.d_model;  // the preset's proportion
    o = flags.over(o);
    if (flags.has("--norm")) o.final_norm = o.norm_order == attend::nn::NormOrder::pre;
    if (flags.has("--norm-kind")) o.norm.bias = o.norm.kind == attend::NormKind::layer;
    if (tie != "preset") o.tie_head = tie != "none", o.share_embeddings = tie == "all";
    o.max_length = flags.given.max_length;
    return o;
  }

 private:
  CLI::Option* tie_option_ = nullptr;
};

}  // namespace translate
