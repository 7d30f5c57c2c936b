#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "attend/cpu/gemm_provider.hpp"

/// Whether numbers that come of matrix products have the same bits, or, if another library multiplies, which does not promise
/// that, are the same to within rounding. As one result, because a list of all numbers says little.
template <class T>
bool same_products(const std::vector<T>& x, const std::vector<T>& y) {
  if (attend::detail::gemm_provider == std::string_view("own")) return x == y;
  T largest = 0;
  for (const T v : y) largest = std::max(largest, std::abs(v));
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [=](T a, T b) { return std::abs(a - b) <= T(1e-5) * largest; });
}
