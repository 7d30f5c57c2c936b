#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "attend/core/types.hpp"

namespace attend::kernels {

/// The part of softmax(x / temperature) that tokens are drawn from: the top_k most probable tokens are kept (0: all), of these
/// the fewest most probable ones that have at least the share top_p of their mass, and of these the ones that are at least min_p
/// times as probable as the most probable. temperature > 0, 0 < top_p <= 1, 0 <= min_p <= 1. Source of top_p: Holtzman et al.
/// 2020, "The curious case of neural text degeneration".
struct SampledTokens {
  double temperature = 1;
  index_t top_k = 0;
  double top_p = 1, min_p = 0;
};

/// Draws: each from a row, and with a number in [0, 1) that says which token is hit. Both lists are host memory.
struct Draws {
  index_t count = 0;
  const index_t* rows = nullptr;
  const double* uniforms = nullptr;
};

}  // namespace attend::kernels

namespace attend::detail {

/// What is added to the largest log-probability to give the least that min_p keeps, 0 or less; minus infinity: it keeps all.
/// `sharpness` is one over the temperature, rounded.
template <class T>
T min_p_margin(double min_p, T sharpness) {
  return static_cast<T>(std::log(min_p)) / std::max(sharpness, std::numeric_limits<T>::min());
}

}  // namespace attend::detail
