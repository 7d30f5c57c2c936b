#pragma once

#include <cstdint>

#include "attend/core/random.hpp"

namespace attend {

/// The mask of a dropout; see `dropout_apply`. `scale` is 1 if nothing is dropped.
struct DropoutMask {
  Generator::Stream stream{};
  std::uint32_t threshold = 0;
  double scale = 1;
};

}  // namespace attend
