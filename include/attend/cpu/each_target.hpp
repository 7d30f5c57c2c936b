// Reads the kernels' header ATTEND_TEXT, which ends by coming here, once more for each target; see targets.hpp. No `#pragma
// once`. The header has included all that it needs before, so nothing but its kernels is compiled for a target: a function of the
// standard library would take the name by which all other files of the program know it.
//
// While it is read, its `namespace attend` is the target's namespace within attend: a macro does not expand itself again.
#if defined(ATTEND_TEXT) && ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#pragma push_macro("ATTEND_LEVEL")
#pragma push_macro("ATTEND_FASTEST")
#undef ATTEND_FASTEST
#define ATTEND_FASTEST(...) static_cast<void>(0)

#if ATTEND_GRANTED < 2
#define ATTEND_TARGET "avx2,fma"
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define attend attend::avx2
#include ATTEND_TEXT
#undef attend
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ATTEND_TARGET
#endif

#if ATTEND_GRANTED < 3
#define ATTEND_TARGET "avx512"
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 3
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#define attend attend::avx512
#include ATTEND_TEXT
#undef attend
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ATTEND_TARGET
#endif

#if defined(ATTEND_TEXT_HAS_VNNI)
#define ATTEND_TARGET "avx512vnni"
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 4
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")
#endif
#define attend attend::avx512::vnni
#include ATTEND_TEXT
#undef attend
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ATTEND_TARGET
#endif

#pragma pop_macro("ATTEND_FASTEST")
#pragma pop_macro("ATTEND_LEVEL")
#endif
#ifndef ATTEND_TARGET
#undef ATTEND_TEXT
#undef ATTEND_TEXT_HAS_VNNI
#endif
