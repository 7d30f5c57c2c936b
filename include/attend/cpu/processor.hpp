#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"

/// Which instructions the compiler's flags grant, which others kernels are compiled for, and which of them this processor runs.
///
/// ATTEND_DISPATCH is 0 where there is nothing to choose from (flags that grant all, other compilers and processors, nvcc) and in
/// programs that are not optimised, which would only take longer to compile; define it as 0 or 1 to have it otherwise.
///
/// GCC for Windows does not align its stack for wide vectors, and reads them as if it did. The assembler can make these reads
/// what they should be: `-Wa,-muse-unaligned-vector-move`, which ATTEND_UNALIGNED_MOVES says was given, as attend::core does.
/// Without it there is no choice. Source: GCC's bug 54412.

/// What the text being read may use on x86-64: 0 the least, 1 AVX, 2 AVX2 and FMA, 3 with AVX-VNNI, 4 AVX-512, 5 with VNNI, 6
/// with BF16 too, 7 with AMX, which no flags grant: the system has to allow it. A level has all that the ones below have, but for
/// AVX-VNNI. The compiler's own macros would not do: Clang does not define them under its pragma.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__) && defined(__AVX512BF16__)
#define ATTEND_LEVEL 6
#define ATTEND_GRANTED 6
#elif defined(__AVX512F__) && defined(__AVX512VNNI__)
#define ATTEND_LEVEL 5
#define ATTEND_GRANTED 5
#elif defined(__AVX512F__)
#define ATTEND_LEVEL 4
#define ATTEND_GRANTED 4
#elif defined(__AVX2__) && defined(__FMA__) && defined(__AVXVNNI__)
#define ATTEND_LEVEL 3
#define ATTEND_GRANTED 3
#elif defined(__AVX2__) && defined(__FMA__)
#define ATTEND_LEVEL 2
#define ATTEND_GRANTED 2
#elif defined(__AVX__)
#define ATTEND_LEVEL 1
#define ATTEND_GRANTED 1
#else
#define ATTEND_LEVEL 0
#define ATTEND_GRANTED 0
#endif

/// The same on 64-bit ARM: 0 NEON, 1 with products of four bytes (DotProd), 2 with those of small matrices of bytes (I8MM), 3 of
/// bfloat16 too (BF16).
#if defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define ATTEND_ARM_LEVEL 3
#define ATTEND_ARM_GRANTED 3
#elif defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8)
#define ATTEND_ARM_LEVEL 2
#define ATTEND_ARM_GRANTED 2
#elif defined(__ARM_FEATURE_DOTPROD)
#define ATTEND_ARM_LEVEL 1
#define ATTEND_ARM_GRANTED 1
#else
#define ATTEND_ARM_LEVEL 0
#define ATTEND_ARM_GRANTED 0
#endif

// Where flags grant all else, AMX is compiled only if they name it, as -march=native does on a processor that has it. Older
// Clangs write the macros otherwise.
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__) &&                                   \
    (ATTEND_GRANTED < 6 || (defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AMX_BF16__)) || \
     (defined(__AMXTILE__) && defined(__AMXINT8__) && defined(__AMXBF16__)))
#define ATTEND_CHOICE_OF_AMX
#endif
#if defined(__x86_64__) && (ATTEND_GRANTED < 6 || defined(ATTEND_CHOICE_OF_AMX))
#define ATTEND_CHOICE
#elif defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__)) && ATTEND_ARM_GRANTED < 3
// A target must have all that the flags grant. What that is without DotProd macros do not tell, but for an ARMv8.0.
#if ATTEND_ARM_GRANTED >= 1
#define ATTEND_CHOICE
#elif !defined(__ARM_FEATURE_ATOMICS) && !defined(__ARM_FEATURE_FP16_SCALAR_ARITHMETIC) && !defined(__ARM_FEATURE_SVE) && \
    (defined(__ARM_FEATURE_CRYPTO) || !(defined(__ARM_FEATURE_AES) || defined(__ARM_FEATURE_SHA2)))
#define ATTEND_CHOICE
#endif
#endif
#if defined(__MINGW32__) && !defined(__clang__) && !defined(ATTEND_UNALIGNED_MOVES)
#undef ATTEND_CHOICE
#if defined(__AVX__)
#error \
    "attend: GCC for Windows needs -Wa,-muse-unaligned-vector-move -DATTEND_UNALIGNED_MOVES beside -mavx, -march=native and above"
#endif
#endif
#if !defined(ATTEND_CHOICE) || !defined(__GNUC__) || defined(__CUDACC__)
#undef ATTEND_DISPATCH
#define ATTEND_DISPATCH 0
#elif !defined(ATTEND_DISPATCH)
#if defined(__OPTIMIZE__)
#define ATTEND_DISPATCH 1
#else
#define ATTEND_DISPATCH 0
#endif
#endif

/// Whether there are kernels for AMX.
#if ATTEND_DISPATCH && defined(ATTEND_CHOICE_OF_AMX)
#define ATTEND_AMX 1
#else
#define ATTEND_AMX 0
#endif

// Files of one program may be compiled with other flags, for other vectors. So all that depends on the flags has a name of its
// own for each: the linker must not put the one's tile of a product into the other's loop.
#define ATTEND_PASTE_FLAGS(granted, arm, dispatch, amx) flags_##granted##_##arm##_##dispatch##_##amx
#define ATTEND_NAME_FLAGS(granted, arm, dispatch, amx) ATTEND_PASTE_FLAGS(granted, arm, dispatch, amx)
#define ATTEND_FLAGS ATTEND_NAME_FLAGS(ATTEND_GRANTED, ATTEND_ARM_GRANTED, ATTEND_DISPATCH, ATTEND_AMX)
/// Within `attend`, the namespace of what kernels are made of. One says `cpu::` to it.
#define ATTEND_CPU inline ATTEND_FLAGS::cpu

namespace attend {

/// A set of instructions that this program has kernels for.
struct InstructionSet {
  std::string_view name;  ///< as ATTEND_ISA says it
  int level;              ///< ATTEND_LEVEL in its kernels, on ARM ATTEND_ARM_LEVEL
  int vector_bytes;       ///< of a register that the kernels compute in
};

namespace detail {

inline namespace ATTEND_FLAGS {

#if defined(__aarch64__)

/// Those that were compiled, the least first.
inline constexpr auto instruction_sets = std::to_array<InstructionSet>({
#if ATTEND_ARM_GRANTED == 3
  {"neon_bf16", 3, 16},
#elif ATTEND_ARM_GRANTED == 2
  {"neon_i8mm", 2, 16},
#elif ATTEND_ARM_GRANTED == 1
  {"neon_dot", 1, 16},
#else
  {"neon", 0, 16},
#endif
#if ATTEND_DISPATCH && ATTEND_ARM_GRANTED < 1
      {"neon_dot", 1, 16},
#endif
#if ATTEND_DISPATCH && ATTEND_ARM_GRANTED < 2
      {"neon_i8mm", 2, 16},
#endif
#if ATTEND_DISPATCH
      {"neon_bf16", 3, 16},
#endif
});
/// The level that the whole program was compiled for.
inline constexpr int granted_level = ATTEND_ARM_GRANTED;

/// Whether this processor, and the system that keeps its registers, has the instructions of a level that is above that.
inline bool processor_has([[maybe_unused]] int level) {
#if ATTEND_DISPATCH && defined(__APPLE__)
  // Source: Apple's documentation, "Determining instruction set characteristics".
  const auto has = [](const char* feature) {
    int answer = 0;
    std::size_t size = sizeof(answer);
    return ::sysctlbyname(feature, &answer, &size, nullptr, 0) == 0 && answer != 0;
  };
  if (level >= 1 && !has("hw.optional.arm.FEAT_DotProd")) return false;
  if (level >= 2 && !has("hw.optional.arm.FEAT_I8MM")) return false;
  if (level >= 3 && !has("hw.optional.arm.FEAT_BF16")) return false;
#elif ATTEND_DISPATCH
  // HWCAP_ASIMDDP and those of ARMv8.2, which is the target (CRC32, ATOMICS, ASIMDRDM); HWCAP2_I8MM; HWCAP2_BF16. Old systems do
  // not name them.
  constexpr unsigned long dot = 1ul << 20 | 1ul << 7 | 1ul << 8 | 1ul << 12, i8mm = 1ul << 13, bf16 = 1ul << 14;
  if (level >= 1 && (~getauxval(AT_HWCAP) & dot) != 0) return false;
  if (level >= 2 && (getauxval(AT_HWCAP2) & i8mm) == 0) return false;
  if (level >= 3 && (getauxval(AT_HWCAP2) & bf16) == 0) return false;
#endif
  return true;
}

#else

// The same on other processors.
inline constexpr auto instruction_sets = std::to_array<InstructionSet>({
#if ATTEND_GRANTED == 6
  {"avx512_bf16", 6, 64},
#elif ATTEND_GRANTED == 5
  {"avx512_vnni", 5, 64},
#elif ATTEND_GRANTED == 4
  {"avx512", 4, 64},
#elif ATTEND_GRANTED == 3
  {"avx_vnni", 3, 32},
#elif ATTEND_GRANTED == 2
  {"avx2", 2, 32},
#elif ATTEND_GRANTED == 1
  {"avx", 1, 32},
#elif defined(__x86_64__)
  {"sse2", 0, 16},
#else
  {"generic", 0, 16},
#endif
#if ATTEND_DISPATCH && ATTEND_GRANTED < 2
      {"avx2", 2, 32},
#endif
#if ATTEND_DISPATCH && ATTEND_GRANTED < 3
      {"avx_vnni", 3, 32},
#endif
#if ATTEND_DISPATCH && ATTEND_GRANTED < 4
      {"avx512", 4, 64},
#endif
#if ATTEND_DISPATCH && ATTEND_GRANTED < 5
      {"avx512_vnni", 5, 64},
#endif
#if ATTEND_DISPATCH && ATTEND_GRANTED < 6
      {"avx512_bf16", 6, 64},
#endif
#if ATTEND_AMX
      {"amx", 7, 64},
#endif
});
/// The level that the whole program was compiled for.
inline constexpr int granted_level = ATTEND_GRANTED;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
/// Whether this processor has AVX-VNNI, which not every compiler's __builtin_cpu_supports knows: leaf 7, part 1.
[[gnu::target("arch=x86-64")]] inline bool has_avx_vnni() {
  const auto leaf_7 = [](unsigned part) __attribute__((target("arch=x86-64"))) {
    unsigned a = 7, b = 0, c = part, d = 0;
    asm("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return a;
  };
  return leaf_7(0) >= 1 && (leaf_7(1) >> 4 & 1) != 0;
}
#endif

/// Whether this processor has the instructions of a level.
inline bool processor_has([[maybe_unused]] int level) {
#if ATTEND_AMX
  if (level >= 7) {
    // Leaf 7: AMX-BF16, AMX-TILE, AMX-INT8, and that the system keeps both parts of the tiles' state. It is read by XGETBV, which
    // there is wherever the levels below are.
    constexpr unsigned instructions = 1u << 22 | 1u << 24 | 1u << 25, state = 1u << 17 | 1u << 18;
    unsigned a = 0, b = 0, c = 0, d = 0, kept = 0, upper = 0;
    if (!processor_has(6) || !processor_has(5) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (~d & instructions) != 0)
      return false;
    asm("xgetbv" : "=a"(kept), "=d"(upper) : "c"(0));
    if ((~kept & state) != 0) return false;
  }
#endif
#if ATTEND_DISPATCH
  __builtin_cpu_init();
  if (level >= 6 && !__builtin_cpu_supports("avx512bf16")) return false;
  if (level >= 5 && !__builtin_cpu_supports("avx512vnni")) return false;
  if (level >= 4 && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")))
    return false;
  if (level >= 2 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return false;
  if (level == 3 && !has_avx_vnni()) return false;
#endif
  return true;
}

#endif

/// Asks the system to let this process use the instructions of a level. Returns whether it does.
/// Source: the Linux kernel's documentation, "Using XSTATE features in user space applications".
inline bool system_allows([[maybe_unused]] int level) {
#if ATTEND_AMX
  constexpr long ask_for = 0x1023, tiles = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (level >= 7) return ::syscall(SYS_arch_prctl, ask_for, tiles) == 0;
#endif
  return true;
}

/// The last of them that this processor has and this system allows, or the one that `wanted` names, unless that is null or empty.
/// Throws ValueError if there is none of that name.
inline const InstructionSet& choose_instruction_set(const char* wanted) {
  const std::string_view name = wanted ? wanted : "";
  const InstructionSet* best = nullptr;
  for (const InstructionSet& set : instruction_sets) {
    if (set.level > granted_level && !processor_has(set.level)) continue;
    if (set.name == name) {
      if (!system_allows(set.level))
        throw ValueError("ATTEND_ISA is '", printable(name), "', which this processor has and this system does not allow");
      return set;
    }
    if (name.empty() && system_allows(set.level)) best = &set;
  }
  if (!name.empty()) {
    std::string names;
    for (const InstructionSet& set : instruction_sets)
      if (set.level <= granted_level || (processor_has(set.level) && system_allows(set.level)))
        names += (names.empty() ? "" : ", ") + std::string(set.name);
    throw ValueError("ATTEND_ISA is '", printable(name), "', expected what this program and this processor have: ", names);
  }
  return *best;
}

}  // namespace ATTEND_FLAGS

}  // namespace detail

inline namespace ATTEND_FLAGS {

/// The instructions that kernels on the processor run with in this process: the most that were compiled and that the processor
/// has, or those that the environment variable ATTEND_ISA names. Throws ValueError if these are not to be had.
inline const InstructionSet& processor() {
  static const InstructionSet& chosen = detail::choose_instruction_set(std::getenv("ATTEND_ISA"));
  return chosen;
}

/// Whether products of bfloat16 are faster with these than those of floats. Without AMX, Intel's are half as fast; ARM's should
/// be faster by what one instruction multiplies, which nobody has measured.
inline bool bf16_is_fast() {
#if defined(__aarch64__)
  return processor().level >= 3;
#else
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
  if (processor().level == 6) return __builtin_cpu_init(), !__builtin_cpu_is("intel");
#endif
  return processor().level >= 6;
#endif
}

/// How products of bfloat16 are summed: as "pairs", one number after the other, or as AMX or ARM's BFMMLA does, "amx" and
/// "bfmmla". Each gives bits of its own.
inline std::string_view bf16_sums() {
#if defined(__aarch64__)
  return processor().level >= 3 ? "bfmmla" : "pairs";
#else
  return processor().level >= 7 ? "amx" : "pairs";
#endif
}

}  // namespace ATTEND_FLAGS

}  // namespace attend
