#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "attend/load.hpp"
#include "attend/nn/adapters.hpp"
#include "attend/nn/freeze.hpp"
#include "flags/adapter_flags.hpp"
#include "flags/model_flags.hpp"

/// The model that a training begins with if it is not a new one.
namespace translate {

/// Throws ValueError if the command line asks for another model than that of `--init`.
inline void check_init(const CLI::App& command) {
  using namespace attend;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().size() != 1) continue;
    const std::string& name = option->get_lnames().front();
    const bool makes_model = option->get_group() == ModelFlags::group || name == "vocabulary";
    check_value(!makes_model || ModelFlags::is_dropout(name), "train", "--", name,
                " is for a new model; that of --init stays as it is");
  }
}

/// The model with the dropout rates that were given in place of its own.
template <class T, attend::Device D>
attend::nn::Transformer<T, D> with_dropout(const attend::nn::Transformer<T, D>& model, const ModelFlags& flags) {
  using namespace attend;
  const auto& given = flags.flags;
  const bool any = given.has("--dropout") || given.has("--attention-dropout") || given.has("--activation-dropout");
  if (!any) return model;
  nn::ModelOptions options = model.options;
  for (auto* stack : {&options.encoder, &options.decoder}) {
    auto& rates = stack->dropout;
    if (given.has("--dropout")) rates.embedding = rates.residual = given.given.dropout;
    if (given.has("--attention-dropout")) rates.attention = given.given.attention_dropout;
    if (given.has("--activation-dropout")) rates.activation = given.given.activation_dropout;
  }
  auto changed = nn::without_initial_values<nn::Transformer<T, D>>(options);
  nn::share_parameters(model, changed);
  return changed;
}

/// Says what adapters the model has, if any.
template <class M>
void report_adapters(const M& model) {
  const auto modules = attend::nn::adapted_modules(model);
  if (modules.empty()) return;
  attend::index_t all = 0;
  for (const auto& p : attend::nn::parameters(model)) all += p.size();
  std::fprintf(stderr, "train: adapters of rank %lld in %zu modules learn, %lld of %lld numbers; all else stays as it is\n",
               static_cast<long long>(model.options.adapters.rank), modules.size(),
               static_cast<long long>(attend::nn::parameter_count(model)), static_cast<long long>(all));
}

/// Freezes what the patterns match, and says what that is.
template <class M>
void freeze(const M& model, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const auto frozen = attend::nn::freeze(model, pattern);
    std::string text = std::to_string(frozen.parameters) + " parameters of " + std::to_string(frozen.values) + " numbers match " +
                       pattern + " and stay as they are";
    for (std::size_t i = 0; i < frozen.shared.size(); ++i)
      text += (i == 0 ? "; with them " : ", ") + frozen.shared[i] + (i + 1 == frozen.shared.size() ? ", which is shared" : "");
    std::fprintf(stderr, "train: %s\n", text.c_str());
  }
}

}  // namespace translate
