#pragma once

#include "attend/cpu/processor.hpp"

/// One program, several instruction sets. The kernels' headers are read once as they are, for what the compiler's flags grant,
/// and once more for each target above that (`each_target.hpp`), into a namespace of the target's own and under the compiler's
/// pragma for it. It is always the first reading's kernel that is called; its line ATTEND_FASTEST goes on to the one for this
/// processor.

#if ATTEND_DISPATCH
// What stands between the two is compiled for a target. `tuning` is for GCC alone.
#define ATTEND_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define ATTEND_BEGIN_TARGET(features, tuning) \
  ATTEND_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define ATTEND_END_TARGET ATTEND_PRAGMA(clang attribute pop)
#define ATTEND_FEATURES_DOT "dotprod"
#define ATTEND_FEATURES_I8MM "dotprod,i8mm"
#define ATTEND_FEATURES_BF16 "dotprod,i8mm,bf16"
#else
// GCC at -O2 turns hardly any loop of unknown length into vectors by itself.
#define ATTEND_BEGIN_TARGET(features, tuning) \
  ATTEND_PRAGMA(GCC push_options)             \
  ATTEND_PRAGMA(GCC target(features tuning)) ATTEND_PRAGMA(GCC optimize("vect-cost-model=dynamic"))
#define ATTEND_END_TARGET ATTEND_PRAGMA(GCC pop_options)
#if ATTEND_ARM_GRANTED >= 1
#define ATTEND_FEATURES_I8MM "+i8mm"
#define ATTEND_FEATURES_BF16 "+i8mm+bf16"
#elif defined(__ARM_FEATURE_CRYPTO)
#define ATTEND_FEATURES_DOT "arch=armv8.2-a+crypto+dotprod"
#define ATTEND_FEATURES_I8MM "arch=armv8.2-a+crypto+dotprod+i8mm"
#define ATTEND_FEATURES_BF16 "arch=armv8.2-a+crypto+dotprod+i8mm+bf16"
#else
#define ATTEND_FEATURES_DOT "arch=armv8.2-a+dotprod"
#define ATTEND_FEATURES_I8MM "arch=armv8.2-a+dotprod+i8mm"
#define ATTEND_FEATURES_BF16 "arch=armv8.2-a+dotprod+i8mm+bf16"
#endif
#endif

// A target's Cpu is a tag of its own, so that its kernels call each other and never come back to those of the first reading. What
// a target does not have of its own, such as cpu/vector.hpp, which becomes part of whoever calls it, it takes from `below`.
#define ATTEND_DECLARE_TARGET(target, below) \
  namespace target {                         \
  namespace kernels {                        \
  using namespace ::attend::kernels;         \
  struct Cpu {};                             \
  }                                          \
  namespace cpu::detail {                    \
  using namespace below::cpu::detail;        \
  }                                          \
  namespace cpu {                            \
  using namespace below::cpu;                \
  }                                          \
  namespace detail {                         \
  using namespace ::attend::detail;          \
  }                                          \
  using kernels::Cpu;                        \
  }
namespace attend::ATTEND_CPU::detail {}
#if defined(__aarch64__)
ATTEND_DECLARE_TARGET(attend::neon_dot, ::attend)
ATTEND_DECLARE_TARGET(attend::neon_i8mm, ::attend)
ATTEND_DECLARE_TARGET(attend::neon_bf16, ::attend)
#else
ATTEND_DECLARE_TARGET(attend::avx2, ::attend)
ATTEND_DECLARE_TARGET(attend::avx2::vnni, ::attend::avx2)
ATTEND_DECLARE_TARGET(attend::avx512, ::attend)
ATTEND_DECLARE_TARGET(attend::avx512::vnni, ::attend::avx512)
ATTEND_DECLARE_TARGET(attend::avx512::bf16, ::attend::avx512)
#if ATTEND_AMX
ATTEND_DECLARE_TARGET(attend::avx512::amx, ::attend::avx512)
#endif
#endif
#undef ATTEND_DECLARE_TARGET
#endif

#if ATTEND_DISPATCH && defined(__x86_64__)
#if ATTEND_GRANTED < 2
#define ATTEND_TARGET_AVX2(...) __VA_ARGS__
#else
#define ATTEND_TARGET_AVX2(...)
#endif
#if ATTEND_AMX
#define ATTEND_FASTEST_AMX(kernel, ...) \
  if (processor().level >= 7) return kernel(::attend::avx512::amx::kernels::Cpu{}, __VA_ARGS__)
#else
#define ATTEND_FASTEST_AMX(...) static_cast<void>(0)
#endif
#if ATTEND_GRANTED < 3
#define ATTEND_FASTEST_AVX_VNNI(kernel, ...) \
  if (processor().level == 3) return kernel(::attend::avx2::vnni::kernels::Cpu{}, __VA_ARGS__)
#else
#define ATTEND_FASTEST_AVX_VNNI(...) static_cast<void>(0)
#endif
/// The first line of a kernel, with its name and its arguments but for the device: goes on to the kernel for this processor.
#if ATTEND_GRANTED < 4
#define ATTEND_FASTEST(kernel, ...)                                                                   \
  switch (processor().level) {                                                                        \
    ATTEND_TARGET_AVX2(case 2 : case 3 : return kernel(::attend::avx2::kernels::Cpu{}, __VA_ARGS__);) \
    case 4:                                                                                           \
    case 5:                                                                                           \
    case 6:                                                                                           \
    case 7:                                                                                           \
      return kernel(::attend::avx512::kernels::Cpu{}, __VA_ARGS__);                                   \
    default:                                                                                          \
      break;                                                                                          \
  }                                                                                                   \
  static_cast<void>(0)
#else
#define ATTEND_FASTEST(...) static_cast<void>(0)
#endif
/// The same for kernels that are read for instructions on bytes too, which are 8-bit products alone, and for those that are read
/// for BF16: the others would be compiled once more for nothing.
#if ATTEND_GRANTED < 5
#define ATTEND_FASTEST_BYTES(kernel, ...)                                                         \
  ATTEND_FASTEST_AMX(kernel, __VA_ARGS__);                                                        \
  ATTEND_FASTEST_AVX_VNNI(kernel, __VA_ARGS__);                                                   \
  if (processor().level >= 5) return kernel(::attend::avx512::vnni::kernels::Cpu{}, __VA_ARGS__); \
  ATTEND_FASTEST(kernel, __VA_ARGS__)
#else
#define ATTEND_FASTEST_BYTES(kernel, ...) ATTEND_FASTEST_AMX(kernel, __VA_ARGS__)
#endif
#if ATTEND_GRANTED < 6
#define ATTEND_FASTEST_BF16(kernel, ...)                                                          \
  ATTEND_FASTEST_AMX(kernel, __VA_ARGS__);                                                        \
  if (processor().level >= 6) return kernel(::attend::avx512::bf16::kernels::Cpu{}, __VA_ARGS__); \
  ATTEND_FASTEST(kernel, __VA_ARGS__)
#else
#define ATTEND_FASTEST_BF16(kernel, ...) ATTEND_FASTEST_AMX(kernel, __VA_ARGS__)
#endif
#else
#define ATTEND_FASTEST(...) static_cast<void>(0)
#if !ATTEND_DISPATCH
#define ATTEND_FASTEST_BF16(...) static_cast<void>(0)
#else
#define ATTEND_FASTEST_BF16(kernel, ...) \
  if (processor().level >= 3) return kernel(::attend::neon_bf16::kernels::Cpu{}, __VA_ARGS__)
#endif
#if !ATTEND_DISPATCH || ATTEND_ARM_GRANTED >= 2
#define ATTEND_FASTEST_BYTES(...) static_cast<void>(0)
#elif ATTEND_ARM_GRANTED < 1
#define ATTEND_FASTEST_BYTES(kernel, ...)                                                      \
  if (processor().level >= 2) return kernel(::attend::neon_i8mm::kernels::Cpu{}, __VA_ARGS__); \
  if (processor().level == 1) return kernel(::attend::neon_dot::kernels::Cpu{}, __VA_ARGS__)
#else
#define ATTEND_FASTEST_BYTES(kernel, ...) \
  if (processor().level >= 2) return kernel(::attend::neon_i8mm::kernels::Cpu{}, __VA_ARGS__)
#endif
#endif
