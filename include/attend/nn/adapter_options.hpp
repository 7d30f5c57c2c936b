#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "attend/core/options.hpp"
#include "attend/core/types.hpp"

namespace attend::nn {

/// What low-rank adapters are, and which matrices get one. The defaults are what most fine-tuning begins with.
struct AdapterOptions {
  index_t rank = 8;     ///< the numbers that stand between A and B; in a model's options 0 stands for no adapters
  double alpha = 16;    ///< what an adapter gives is multiplied by alpha / rank
  double dropout = 0;   ///< on what goes into the adapters
  bool rslora = false;  ///< multiplied by alpha / sqrt(rank) instead: Kalajdzievski 2023
  /// The modules that get one, by name or the end of one after a dot; `*` stands for any characters, dots too.
  std::vector<std::string> modules = {"q_proj", "v_proj"};

  friend bool operator==(const AdapterOptions&, const AdapterOptions&) = default;

  /// What the product of A and B is multiplied by.
  [[nodiscard]] double scale() const {
    const auto r = static_cast<double>(rank);
    return alpha / (rslora ? std::sqrt(r) : r);
  }
  template <class F>
  static void fields(F&& field) {
    using O = AdapterOptions;
    field("rank", &O::rank, at_least(1), Except{index_t{0}},
          Flag{.text = "Train low-rank adapters of that rank alone, beside the weights of --init",
               .name = "--adapter-rank",
               .within = between(1, 65536)});
    field("alpha", &O::alpha, more_than(0), Flag{"What they give is multiplied by alpha / rank", "--adapter-alpha"});
    field("dropout", &O::dropout, less_than_1(), Flag{"Dropout on what goes into them", "--adapter-dropout"});
    field("rslora", &O::rslora, Flag{"Multiplied by alpha / sqrt(rank) instead", "--adapter-rslora"});
    field("modules", &O::modules,
          Flag{"What gets one, by name or its end: q_proj, k_proj, v_proj, out_proj, fc1, fc2, gate_proj; *: any characters. May "
               "come often",
               "--adapter-modules", "NAME"});
  }
};

/// Those of a model that has none.
inline AdapterOptions no_adapters() {
  AdapterOptions o;
  o.rank = 0;
  return o;
}

}  // namespace attend::nn
