#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "attend/cpu/gemm.hpp"
#include "attend/cpu/int8.hpp"

/// The largest error of products of small whole numbers, whose sums are exact in any order.
static double worst_product() {
  using namespace attend;
  const index_t m = 37, n = 83, k = 301;
  std::vector<float> a, b, c(m * n), p(m * n), q(m * n);
  for (index_t i = 0; i < m * k; ++i) a.push_back(static_cast<float>(i * 7 % 5 - 2));
  for (index_t i = 0; i < k * n; ++i) b.push_back(static_cast<float>(i * 5 % 3 - 1));
  const kernels::Matrix<const float> left{a.data(), m, k}, right{b.data(), k, n};
  kernels::gemm<float>(Cpu{}, left, right, {c.data(), m, n});
  kernels::pack_matrix<float>(Cpu{}, right)->multiply(left, nullptr, {p.data(), m, n});
  kernels::pack_int8<float>(Cpu{}, right)->multiply(left, nullptr, {q.data(), m, n});
  double worst = 0;
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < n; ++j) {
      float sum = 0;
      for (index_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
      for (const auto* y : {&c, &p}) worst = std::max(worst, std::abs(static_cast<double>((*y)[i * n + j] - sum)));
      if (std::abs(q[i * n + j] - sum) > 0.01f * k) worst = std::max(worst, 1.0);  // bytes are near, not exact
    }
  return worst;
}
