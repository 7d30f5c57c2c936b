#pragma once

#include <array>

#include "attend/nn/options.hpp"

namespace fuzz {

/// The files of a model of `transformers` that a target puts its input in place of.
inline constexpr std::array<const char*, 3> model_files{"config.json", "generation_config.json", "model.safetensors"};

/// Whether options ask for tables of positions that take more time than an input is worth. A reader takes them: see
/// attend::detail::check_memory.
inline bool is_large(const attend::nn::ModelOptions& o) {
  const auto large = [](const auto& side) {
    return side.positions != attend::nn::PositionKind::relative && side.max_length * side.d_model > 1 << 16;
  };
  return large(o.encoder) || large(o.decoder);
}

}  // namespace fuzz
