// Reads the kernels' header ATTEND_READ_AGAIN, which ends by coming here, once more for each target; see targets.hpp. No
// `#pragma once`. The header has included all that it needs before, so nothing but its kernels is compiled for a target: a
// function of the standard library would take the name by which all other files of the program know it.
//
// While it is read, its `namespace attend` is the target's namespace within attend: a macro does not expand itself again.
#if defined(ATTEND_READ_AGAIN) && ATTEND_DISPATCH && !defined(ATTEND_READING)
#pragma push_macro("attend")
#pragma push_macro("ATTEND_CPU")
#pragma push_macro("ATTEND_LEVEL")
#pragma push_macro("ATTEND_ARM_LEVEL")
#pragma push_macro("ATTEND_BY_PROVIDER")
#pragma push_macro("ATTEND_FASTEST")
#pragma push_macro("ATTEND_FASTEST_BYTES")
#pragma push_macro("ATTEND_FASTEST_BF16")
#undef ATTEND_CPU
#define ATTEND_CPU cpu
#undef ATTEND_BY_PROVIDER
#define ATTEND_BY_PROVIDER(...) static_cast<void>(0)
#undef ATTEND_FASTEST
#define ATTEND_FASTEST(...) static_cast<void>(0)
#undef ATTEND_FASTEST_BYTES
#define ATTEND_FASTEST_BYTES(...) static_cast<void>(0)
#undef ATTEND_FASTEST_BF16
#define ATTEND_FASTEST_BF16(...) static_cast<void>(0)
#define ATTEND_READING

#if defined(__x86_64__) && ATTEND_GRANTED < 2 && !defined(ATTEND_READ_FOR_AMX)
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 2
#undef attend
#define attend attend::avx2
ATTEND_BEGIN_TARGET("avx2,fma", "")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if defined(__x86_64__) && defined(ATTEND_READ_FOR_BYTES) && ATTEND_GRANTED < 3
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 3
#undef attend
#define attend attend::avx2::vnni
ATTEND_BEGIN_TARGET("avx2,fma,avxvnni", "")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if defined(__x86_64__) && ATTEND_GRANTED < 4 && !defined(ATTEND_READ_FOR_AMX)
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 4
#undef attend
#define attend attend::avx512
ATTEND_BEGIN_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl", ",prefer-vector-width=512")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if defined(__x86_64__) && defined(ATTEND_READ_FOR_BYTES) && ATTEND_GRANTED < 5
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 5
#undef attend
#define attend attend::avx512::vnni
ATTEND_BEGIN_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni", ",prefer-vector-width=512")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if defined(__x86_64__) && defined(ATTEND_READ_FOR_BF16) && ATTEND_GRANTED < 6
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 6
#undef attend
#define attend attend::avx512::bf16
ATTEND_BEGIN_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16", ",prefer-vector-width=512")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if ATTEND_AMX && (defined(ATTEND_READ_FOR_BYTES) || defined(ATTEND_READ_FOR_BF16) || defined(ATTEND_READ_FOR_AMX))
#undef ATTEND_LEVEL
#define ATTEND_LEVEL 7
#undef attend
#define attend attend::avx512::amx
ATTEND_BEGIN_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16",
                    ",prefer-vector-width=512")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if defined(__aarch64__) && defined(ATTEND_READ_FOR_BYTES) && ATTEND_ARM_GRANTED < 1
#undef ATTEND_ARM_LEVEL
#define ATTEND_ARM_LEVEL 1
#undef attend
#define attend attend::neon_dot
ATTEND_BEGIN_TARGET(ATTEND_FEATURES_DOT, "")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if defined(__aarch64__) && defined(ATTEND_READ_FOR_BYTES) && ATTEND_ARM_GRANTED < 2
#undef ATTEND_ARM_LEVEL
#define ATTEND_ARM_LEVEL 2
#undef attend
#define attend attend::neon_i8mm
ATTEND_BEGIN_TARGET(ATTEND_FEATURES_I8MM, "")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#if defined(__aarch64__) && defined(ATTEND_READ_FOR_BF16)
#undef ATTEND_ARM_LEVEL
#define ATTEND_ARM_LEVEL 3
#undef attend
#define attend attend::neon_bf16
ATTEND_BEGIN_TARGET(ATTEND_FEATURES_BF16, "")
#include ATTEND_READ_AGAIN
ATTEND_END_TARGET
#endif

#undef ATTEND_READING
#pragma pop_macro("ATTEND_FASTEST_BF16")
#pragma pop_macro("ATTEND_FASTEST_BYTES")
#pragma pop_macro("ATTEND_FASTEST")
#pragma pop_macro("ATTEND_BY_PROVIDER")
#pragma pop_macro("ATTEND_ARM_LEVEL")
#pragma pop_macro("ATTEND_LEVEL")
#pragma pop_macro("ATTEND_CPU")
#undef attend
#pragma pop_macro("attend")
#endif
#ifndef ATTEND_READING
#undef ATTEND_READ_AGAIN
#undef ATTEND_READ_FOR_BYTES
#undef ATTEND_READ_FOR_BF16
#undef ATTEND_READ_FOR_AMX
#endif
