#pragma once

#include <vector>

#include "attend/nn/options.hpp"

namespace test {

/// Rates at each of the places, one after the other, and at all of them.
inline std::vector<attend::nn::DropoutRates> dropout_places() {
  return {{.embedding = 0.3},
          {.attention = 0.3},
          {.activation = 0.3},
          {.feed_forward = 0.3},
          {.residual = 0.3},
          {.norm = 0.3},
          {.block = 0.3},
          {.output = 0.3},
          {.embedding = 0.1,
           .attention = 0.15,
           .activation = 0.2,
           .feed_forward = 0.25,
           .residual = 0.3,
           .norm = 0.35,
           .block = 0.4,
           .output = 0.45}};
}

}  // namespace test
