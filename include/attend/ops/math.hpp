#pragma once

#include <cmath>

#include "attend/core/functor.hpp"
#include "attend/cpu/vector.hpp"

/// The functions that functors for `map` are written with. On the CPU those of float become vector instructions in a loop; in
/// device code they are CUDA's.
namespace attend::math {

#if defined(__CUDA_ARCH__)
#define ATTEND_MATH_FUNCTION(name, host) \
  template <class T>                     \
  ATTEND_FUNCTOR T name(T x) {           \
    return ::name(x);                    \
  }
#else
#define ATTEND_MATH_FUNCTION(name, host) \
  template <class T>                     \
  ATTEND_FUNCTOR T name(T x) {           \
    return host::name(x);                \
  }
#endif
/// On the processor exp, tanh and erf are the library's own and the others the standard library's; on a GPU all are CUDA's.
ATTEND_MATH_FUNCTION(exp, cpu)
ATTEND_MATH_FUNCTION(tanh, cpu)
ATTEND_MATH_FUNCTION(erf, cpu)
ATTEND_MATH_FUNCTION(log, std)
ATTEND_MATH_FUNCTION(sqrt, std)
#undef ATTEND_MATH_FUNCTION

/// 1, 0 or -1.
template <class T>
ATTEND_FUNCTOR T sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);
}

/// condition ? a : b, without a branch where a loop is to become vector instructions.
template <class T>
ATTEND_FUNCTOR T select(bool condition, T a, T b) {
#if defined(__CUDA_ARCH__)
  return condition ? a : b;
#else
  return cpu::select(condition, a, b);
#endif
}

/// 1 / (1 + e^-x).
template <class T>
ATTEND_FUNCTOR T sigmoid(T x) {
  return T(1) / (T(1) + math::exp(-x));
}

}  // namespace attend::math
