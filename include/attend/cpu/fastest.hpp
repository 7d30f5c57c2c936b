// What the kernels' text says where it is read for what the compiler's flags grant. No `#pragma once`: each_target.hpp says other
// things and then comes back here.

#define ATTEND_LEVEL ATTEND_GRANTED
/// The namespace of that name in the text's own target.
#define ATTEND_IN(name) name

/// The first line of a kernel: goes on to the running target's, with the kernel's arguments but for the first. Nothing in the
/// targets' own readings. ATTEND_FASTEST_INT8 knows VNNI too, for which the other kernels have no use: they would be compiled
/// once more for nothing.
#if ATTEND_DISPATCH
#define ATTEND_FASTEST(kernel, ...)         \
  switch (processor().level) {              \
    ATTEND_CASE_AVX2(kernel, __VA_ARGS__)   \
    ATTEND_CASE_AVX512(kernel, __VA_ARGS__) \
    default:                                \
      break;                                \
  }                                         \
  static_cast<void>(0)
#define ATTEND_FASTEST_INT8(kernel, ...)                                  \
  switch (processor().level) {                                            \
    ATTEND_CASE_AVX2(kernel, __VA_ARGS__)                                 \
    ATTEND_CASE_AVX512_ALONE(kernel, __VA_ARGS__)                         \
    case 4:                                                               \
      return kernel(::attend::avx512::vnni::kernels::Cpu{}, __VA_ARGS__); \
    default:                                                              \
      break;                                                              \
  }                                                                       \
  static_cast<void>(0)
#else
#define ATTEND_FASTEST(kernel, ...) static_cast<void>(0)
#define ATTEND_FASTEST_INT8(kernel, ...) static_cast<void>(0)
#endif
