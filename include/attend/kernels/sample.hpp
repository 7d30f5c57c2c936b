#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend::detail {

/// By how much a log-probability may lie below the largest for min_p to keep it; minus infinity: it keeps all. `sharpness` is one
/// over the temperature, rounded.
template <class T>
T min_p_margin(double min_p, T sharpness) {
  return static_cast<T>(std::log(min_p)) / std::max(sharpness, std::numeric_limits<T>::min());
}

}  // namespace attend::detail
