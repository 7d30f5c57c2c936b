// Reads the kernels' header that ATTEND_TEXT names once for each target; see targets.hpp. No `#pragma once`: each such header
// ends by coming here. It has included all that it needs before, so that nothing else is compiled for a target: a function of the
// standard library would take the name that all other files of a program know it by.
#ifdef ATTEND_TEXT  // else somebody has included this by itself
#define ATTEND_TARGET
#undef ATTEND_FASTEST
#undef ATTEND_FASTEST_INT8
#define ATTEND_FASTEST(kernel, ...) static_cast<void>(0)
#define ATTEND_FASTEST_INT8(kernel, ...) static_cast<void>(0)

#if ATTEND_TARGET_AVX2
#undef ATTEND_LEVEL
#undef ATTEND_IN
#define ATTEND_LEVEL 2
#define ATTEND_IN(name) avx2::name
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#if defined(__OPTIMIZE__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#endif
#endif
#include ATTEND_TEXT
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#if ATTEND_TARGET_AVX512
#undef ATTEND_LEVEL
#undef ATTEND_IN
#define ATTEND_LEVEL 3
#define ATTEND_IN(name) avx512::name
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#if defined(__OPTIMIZE__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#endif
#endif
#include ATTEND_TEXT
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#if ATTEND_TARGET_AVX512_VNNI && defined(ATTEND_TEXT_KNOWS_VNNI)
#undef ATTEND_LEVEL
#undef ATTEND_IN
#define ATTEND_LEVEL 4
#define ATTEND_IN(name) avx512::vnni::name
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")
#if defined(__OPTIMIZE__)
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#endif
#endif
#include ATTEND_TEXT
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#undef ATTEND_TARGET
#undef ATTEND_TEXT
#undef ATTEND_TEXT_KNOWS_VNNI
#undef ATTEND_LEVEL
#undef ATTEND_IN
#undef ATTEND_FASTEST
#undef ATTEND_FASTEST_INT8
#include "attend/cpu/fastest.hpp"
#endif  // ATTEND_TEXT
