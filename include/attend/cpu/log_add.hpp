#if !defined(ATTEND_CPU_LOG_ADD) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_LOG_ADD

#include <cmath>
#include <limits>

#include "attend/core/functor.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// log(1 + t) for t in [0, 1]. In float by 2 atanh(s) = 2 (s + s^3 / 3 + ...), s = t / (2 + t) at most 1/3: within 1e-7.
inline double log1p(double t) { return std::log1p(t); }
[[gnu::always_inline]] inline float log1p(float t) {
  const float s = t / (2.0f + t), q = s * s;
  float p = 1.0f / 13.0f;
  p = p * q + 1.0f / 11.0f;
  p = p * q + 1.0f / 9.0f;
  p = p * q + 1.0f / 7.0f;
  p = p * q + 1.0f / 5.0f;
  p = p * q + 1.0f / 3.0f;
  return 2.0f * (s * q * p + s);
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y[i] = log(exp(y[i]) + exp(x[i] + shift)), whatever the size of either; of two minus infinities, minus infinity.
template <class T>
void log_add(Cpu, index_t n, T shift, const T* x, T* y) {
  ATTEND_FASTEST(log_add, n, shift, x, y);
  parallel_rows(n, 1, [=](index_t begin, index_t end) {
    constexpr T lowest = std::numeric_limits<T>::lowest();
    for (index_t i = begin; i < end; ++i) {
      const T a = y[i], b = x[i] + shift, most = a > b ? a : b, least = a > b ? b : a;
      const T gap = cpu::select(most < lowest, lowest, most) - least;  // two minus infinities have no difference
      y[i] = most + cpu::log1p(cpu::exp(-gap));
    }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/log_add.hpp"
#include "attend/cpu/each_target.hpp"
#endif
