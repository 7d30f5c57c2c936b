#pragma once

#include "attend/cpu/processor.hpp"

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
#if defined(__AVXVNNI__)
  if (!has_avx_vnni()) lacking = "AVXVNNI";
#endif
#if defined(__VPCLMULQDQ__)
  if (!__builtin_cpu_supports("vpclmulqdq")) lacking = "VPCLMULQDQ";
#endif
#if defined(__GFNI__)
  if (!__builtin_cpu_supports("gfni")) lacking = "GFNI";
#endif
#if defined(__AVX512BF16__)
  if (!__builtin_cpu_supports("avx512bf16")) lacking = "AVX512BF16";
#endif
#if defined(__AVX512VPOPCNTDQ__)
  if (!__builtin_cpu_supports("avx512vpopcntdq")) lacking = "AVX512VPOPCNTDQ";
#endif
#if defined(__AVX512BITALG__)
  if (!__builtin_cpu_supports("avx512bitalg")) lacking = "AVX512BITALG";
#endif
#if defined(__AVX512VBMI2__)
  if (!__builtin_cpu_supports("avx512vbmi2")) lacking = "AVX512VBMI2";
#endif
#if defined(__AVX512VNNI__)
  if (!__builtin_cpu_supports("avx512vnni")) lacking = "AVX512VNNI";
#endif
#if defined(__AVX512VBMI__)
  if (!__builtin_cpu_supports("avx512vbmi")) lacking = "AVX512VBMI";
#endif
#if defined(__AVX512VL__)
  if (!__builtin_cpu_supports("avx512vl")) lacking = "AVX512VL";
#endif
#if defined(__AVX512BW__)
  if (!__builtin_cpu_supports("avx512bw")) lacking = "AVX512BW";
#endif
#if defined(__AVX512DQ__)
  if (!__builtin_cpu_supports("avx512dq")) lacking = "AVX512DQ";
#endif
#if defined(__AVX512CD__)
  if (!__builtin_cpu_supports("avx512cd")) lacking = "AVX512CD";
#endif
#if defined(__AVX512F__)
  if (!__builtin_cpu_supports("avx512f")) lacking = "AVX512F";
#endif
#if defined(__BMI2__)
  if (!__builtin_cpu_supports("bmi2")) lacking = "BMI2";
#endif
#if defined(__BMI__)
  if (!__builtin_cpu_supports("bmi")) lacking = "BMI";
#endif
#if defined(__FMA__)
  if (!__builtin_cpu_supports("fma")) lacking = "FMA";
#endif
#if defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2")) lacking = "AVX2";
#endif
#if defined(__AVX__)
  if (!__builtin_cpu_supports("avx")) lacking = "AVX";
#endif
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
