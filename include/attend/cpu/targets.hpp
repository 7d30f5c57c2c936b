#pragma once

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"

/// One program, several instruction sets. The kernels' headers are read once as they are, for what the compiler's flags grant,
/// and once more for each target above that (`each_target.hpp`), within a namespace of the target's own and under the compiler's
/// pragma for it. What is called is always the first reading's kernel; its line ATTEND_FASTEST goes on to the one for this
/// processor. ATTEND_DISPATCH=0 leaves it at the first reading, as do flags that grant everything.

/// What the text being read may use: 0 the least, 1 AVX, 2 AVX2, 3 AVX-512, 4 AVX-512 with VNNI. The compiler's own macros would
/// not do: Clang does not define them under its pragma.
#if defined(__AVX512F__) && defined(__AVX512VNNI__)
#define ATTEND_GRANTED 4
#elif defined(__AVX512F__)
#define ATTEND_GRANTED 3
#elif defined(__AVX2__)
#define ATTEND_GRANTED 2
#elif defined(__AVX__)
#define ATTEND_GRANTED 1
#else
#define ATTEND_GRANTED 0
#endif

#if !defined(ATTEND_DISPATCH)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && ATTEND_GRANTED < 4
#define ATTEND_DISPATCH 1
#else
#define ATTEND_DISPATCH 0
#endif
#elif ATTEND_DISPATCH && (!defined(__x86_64__) || !defined(__GNUC__) || defined(__CUDACC__) || ATTEND_GRANTED == 4)
#undef ATTEND_DISPATCH
#define ATTEND_DISPATCH 0
#endif

#if ATTEND_DISPATCH && !(ATTEND_GRANTED >= 2 && defined(__FMA__) && defined(__F16C__))
#define ATTEND_TARGET_AVX2 1
#else
#define ATTEND_TARGET_AVX2 0
#endif
#if ATTEND_DISPATCH && ATTEND_GRANTED < 3
#define ATTEND_TARGET_AVX512 1
#else
#define ATTEND_TARGET_AVX512 0
#endif
#define ATTEND_TARGET_AVX512_VNNI ATTEND_DISPATCH

namespace attend {

/// A set of instructions that this program has kernels for.
struct InstructionSet {
  std::string_view name;  ///< as ATTEND_ISA says it
  int level;              ///< what ATTEND_LEVEL is in its kernels
  int vector_bytes;       ///< of a register that the kernels compute in
};

namespace detail {

inline bool processor_has([[maybe_unused]] int level) {
#if ATTEND_DISPATCH
  __builtin_cpu_init();
  if (level >= 4 && !__builtin_cpu_supports("avx512vnni")) return false;
  if (level >= 3)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  if (level == 2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return true;
}

/// Those that were compiled, the least first.
inline constexpr std::array instruction_sets {
#if ATTEND_GRANTED == 4
  InstructionSet{"avx512_vnni", 4, 64},
#elif ATTEND_GRANTED == 3
  InstructionSet{"avx512", 3, 64},
#elif ATTEND_GRANTED == 2
  InstructionSet{"avx2", 2, 32},
#elif ATTEND_GRANTED == 1
  InstructionSet{"avx", 1, 32},
#elif defined(__x86_64__)
  InstructionSet{"sse2", 0, 16},
#elif defined(__aarch64__)
  InstructionSet{"neon", 0, 16},
#else
  InstructionSet{"generic", 0, 16},
#endif
#if ATTEND_TARGET_AVX2 && ATTEND_GRANTED < 2
      InstructionSet{"avx2", 2, 32},
#endif
#if ATTEND_TARGET_AVX512
      InstructionSet{"avx512", 3, 64},
#endif
#if ATTEND_TARGET_AVX512_VNNI
      InstructionSet{"avx512_vnni", 4, 64},
#endif
};

/// The last of them that this processor has, or the one that `wanted` names. Throws ValueError where there is none of that name.
inline const InstructionSet& choose_instruction_set(const char* wanted) {
  const InstructionSet* best = instruction_sets.data();
  std::string names;
  for (const InstructionSet& set : instruction_sets) {
    if (&set != instruction_sets.data() && !processor_has(set.level)) continue;
    best = &set;
    if (wanted != nullptr && set.name == wanted) return set;
    names += (names.empty() ? "" : ", ") + std::string(set.name);
  }
  if (wanted != nullptr && *wanted != 0)
    throw ValueError("ATTEND_ISA is '", printable(wanted), "', expected what this program and this processor have: ", names);
  return *best;
}

}  // namespace detail

/// The instructions that the processor's kernels run with in this process: the most that were compiled and that the processor
/// has, or what the environment variable ATTEND_ISA names. Throws ValueError where that is not to be had.
inline const InstructionSet& processor() {
  static const InstructionSet& chosen = detail::choose_instruction_set(std::getenv("ATTEND_ISA"));
  return chosen;
}

}  // namespace attend

// A target's Cpu is a tag of its own, so that its kernels call each other and never come back to those of the first reading. What
// a target does not have of its own, such as cpu/vector.hpp, which becomes part of whoever calls it, it takes from there.
#define ATTEND_DECLARE_TARGET(target, below) \
  namespace attend::target {                 \
  namespace kernels {                        \
  using namespace ::attend::kernels;         \
  struct Cpu {};                             \
  }                                          \
  namespace cpu {                            \
  using namespace ::attend::below;           \
  namespace detail {                         \
  using namespace ::attend::below::detail;   \
  }                                          \
  }                                          \
  using kernels::Cpu;                        \
  }
#if ATTEND_DISPATCH
namespace attend::cpu::detail {}
ATTEND_DECLARE_TARGET(avx2, cpu)
ATTEND_DECLARE_TARGET(avx512, cpu)
// Within AVX-512's namespace, so that AVX-512's names are nearer than those of the first reading.
#if ATTEND_TARGET_AVX512
ATTEND_DECLARE_TARGET(avx512::vnni, avx512::cpu)
#else
ATTEND_DECLARE_TARGET(avx512::vnni, cpu)
#endif
#endif
#undef ATTEND_DECLARE_TARGET

#if ATTEND_TARGET_AVX2
#define ATTEND_CASE_AVX2(kernel, ...) \
  case 2:                             \
    return kernel(::attend::avx2::kernels::Cpu{}, __VA_ARGS__);
#else
#define ATTEND_CASE_AVX2(kernel, ...)
#endif
#if ATTEND_TARGET_AVX512
#define ATTEND_CASE_AVX512(kernel, ...) \
  case 3:                               \
  case 4:                               \
    return kernel(::attend::avx512::kernels::Cpu{}, __VA_ARGS__);
#define ATTEND_CASE_AVX512_ALONE(kernel, ...) \
  case 3:                                     \
    return kernel(::attend::avx512::kernels::Cpu{}, __VA_ARGS__);
#else
#define ATTEND_CASE_AVX512(kernel, ...)
#define ATTEND_CASE_AVX512_ALONE(kernel, ...)
#endif
/// The first line of a kernel, ATTEND_FASTEST(name, arguments but for the first): goes on to the running target's kernel.
#include "attend/cpu/fastest.hpp"
