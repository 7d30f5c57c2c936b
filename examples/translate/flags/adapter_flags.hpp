#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "attend/core/error.hpp"
#include "attend/nn/adapter_options.hpp"
#include "option_flags.hpp"

namespace translate {

/// The options of low-rank adapters on the command line.
struct AdapterFlags {
  static constexpr const char* group = "Adapters";
  static constexpr const char* rank = "--adapter-rank";

  OptionFlags<attend::nn::AdapterOptions> flags{attend::nn::no_adapters()};

  void add_to(CLI::App& app) { flags.add_to(app, group, true); }
  /// Whether a model is to get some.
  [[nodiscard]] bool wanted() const { return flags.given.rank > 0; }
  /// Throws ValueError if there is no model to have them, or an option of them without them.
  void check(bool has_model) const {
    flags.for_each_given([&](const std::string& flag, const std::string& /*field*/) {
      attend::check_value(wanted(), "train", flag, " goes with ", rank);
    });
    attend::check_value(!wanted() || has_model, "train", rank, " goes with --init, the model that they stand beside");
  }
};

}  // namespace translate
