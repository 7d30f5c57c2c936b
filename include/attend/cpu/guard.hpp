#pragma once

#include "attend/cpu/targets.hpp"

/// A program that was compiled for a newer processor than it runs on says so, in place of ending by an illegal instruction. Once
/// in a program: `attend::compiled` has it.

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && ATTEND_GRANTED > 0 && !defined(__CUDACC__)

#include <unistd.h>

#include <cstddef>

namespace attend::detail {

/// Before all that is constructed before main(), in the instructions that every processor of the kind has.
[[gnu::constructor(101), gnu::target("arch=x86-64")]] static void check_processor() {
  __builtin_cpu_init();
  const char* lacking = nullptr;
#if ATTEND_GRANTED >= 5
  if (!__builtin_cpu_supports("avx512bf16")) lacking = "AVX512_BF16";
#endif
#if ATTEND_GRANTED >= 4
  if (!__builtin_cpu_supports("avx512vnni")) lacking = "AVX512_VNNI";
#endif
#if ATTEND_GRANTED >= 3
  if (!__builtin_cpu_supports("avx512f")) lacking = "AVX-512";
#endif
#if ATTEND_GRANTED >= 2
  if (!__builtin_cpu_supports("fma")) lacking = "FMA";
  if (!__builtin_cpu_supports("avx2")) lacking = "AVX2";
#endif
  if (!__builtin_cpu_supports("avx")) lacking = "AVX";
  if (lacking == nullptr) return;
  const auto say = [](const char* text) __attribute__((target("arch=x86-64"))) {
    std::size_t size = 0;
    while (text[size] != 0) ++size;
    if (::write(2, text, size) < 0) ::_exit(1);
  };
  say("this program was compiled for processors with ");
  say(lacking);
  say(", which this one lacks: compile it with ATTEND_NATIVE=OFF, or attend_optimise(... PORTABLE), or without -march\n");
  ::_exit(1);
}

}  // namespace attend::detail

#endif
