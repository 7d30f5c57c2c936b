#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "attend/cpu/processor.hpp"

/// While it lives, programs with AVX-VNNI run on processors with AVX2 that lack it: where the processor stops at VPDPBUSD on its
/// 256-bit registers, in its form for AVX, the system calls what does the same number by number, and then goes on behind it.
/// Where there is AVX-VNNI, nothing is done. One at a time. Source: Intel 64 and IA-32 Architectures Software Developer's Manual,
/// vol. 2, chapter 2 and VPDPBUSD, vol. 1, chapter 13.
class EmulatedVnni {
 public:
  EmulatedVnni() {
    if (attend::detail::has_avx_vnni()) return;
    unsigned size = 0, c = 0, d = 0;
    __get_cpuid_count(0xd, 2, &size, &upper_halves(), &c, &d);
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void* context) {
      auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
      if (!emulate(machine)) signal(SIGILL, SIG_DFL);  // and the instruction is met once more
    };
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
    installed_ = true;
  }
  ~EmulatedVnni() {
    if (installed_) sigaction(SIGILL, &before_, nullptr);
  }
  EmulatedVnni(const EmulatedVnni&) = delete;
  EmulatedVnni& operator=(const EmulatedVnni&) = delete;

  /// How many instructions were emulated.
  static std::size_t& count() {
    static std::size_t done = 0;
    return done;
  }

 private:
  using Bytes = std::array<std::uint8_t, 32>;

  /// Where the upper halves of the registers are in what the system saves of them.
  static unsigned& upper_halves() {
    static unsigned offset = 0;
    return offset;
  }
  static Bytes read(const mcontext_t& machine, unsigned i) {
    Bytes bytes;
    const auto* const saved = reinterpret_cast<const std::uint8_t*>(machine.fpregs);
    std::memcpy(bytes.data(), &machine.fpregs->_xmm[i], 16);
    std::memcpy(bytes.data() + 16, saved + upper_halves() + 16 * i, 16);
    return bytes;
  }
  static void write(mcontext_t& machine, unsigned i, const Bytes& bytes) {
    auto* const saved = reinterpret_cast<std::uint8_t*>(machine.fpregs);
    std::memcpy(&machine.fpregs->_xmm[i], bytes.data(), 16);
    std::memcpy(saved + upper_halves() + 16 * i, bytes.data() + 16, 16);
  }
  static std::uint64_t general(const mcontext_t& machine, unsigned i) {
    constexpr std::array<int, 16> order{REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                        REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<std::uint64_t>(machine.gregs[order[i]]);
  }

  /// Whether the instruction is VPDPBUSD ymm, ymm, ymm or memory; if so, does what it does.
  static bool emulate(mcontext_t& machine) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(machine.gregs[REG_RIP]);
    // VEX.256.66.0F38.W0 50 /r. R, X, B and vvvv are stored inverted.
    if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x87) != 0x05 || at[3] != 0x50) return false;
    const unsigned r = ~at[1] >> 7 & 1u, x = ~at[1] >> 6 & 1u, b = ~at[1] >> 5 & 1u, v = ~at[2] >> 3 & 15u;
    const unsigned mode = at[4] >> 6, to = (at[4] >> 3 & 7u) + 8 * r, low = at[4] & 7u;
    at += 5;
    Bytes weights;
    if (mode == 3) {
      weights = read(machine, low + 8 * b);
    } else {
      std::uint64_t address = 0;
      bool relative = false, wide = mode == 2;  // to what comes next; whether a displacement has four bytes
      if (low == 4) {
        const unsigned scale = *at >> 6, index = (*at >> 3 & 7u) + 8 * x, base = (*at & 7u) + 8 * b;
        ++at;
        if (index != 4) address += general(machine, index) << scale;
        if ((base & 7u) == 5 && mode == 0) wide = true;
        else address += general(machine, base);
      } else if (low == 5 && mode == 0) {
        relative = wide = true;
      } else {
        address = general(machine, low + 8 * b);
      }
      if (wide) {
        std::int32_t distance;
        std::memcpy(&distance, at, sizeof(distance));
        address += static_cast<std::uint64_t>(std::int64_t{distance});
        at += sizeof(distance);
      } else if (mode == 1) {
        address += static_cast<std::uint64_t>(std::int64_t{static_cast<std::int8_t>(*at++)});
      }
      if (relative) address += reinterpret_cast<std::uint64_t>(at);
      std::memcpy(weights.data(), reinterpret_cast<const void*>(address), weights.size());
    }
    const Bytes activations = read(machine, v);
    Bytes sums = read(machine, to);
    for (std::size_t i = 0; i < sums.size(); i += 4) {
      std::uint32_t sum;
      std::memcpy(&sum, &sums[i], sizeof(sum));
      for (std::size_t l = i; l < i + 4; ++l)
        sum += static_cast<std::uint32_t>(int{activations[l]} * static_cast<std::int8_t>(weights[l]));
      std::memcpy(&sums[i], &sum, sizeof(sum));
    }
    write(machine, to, sums);
    std::uint64_t parts;  // that have been saved, and are not simply zero
    auto* const header = reinterpret_cast<std::uint8_t*>(machine.fpregs) + 512;
    std::memcpy(&parts, header, sizeof(parts));
    parts |= 4;
    std::memcpy(header, &parts, sizeof(parts));
    machine.gregs[REG_RIP] = reinterpret_cast<greg_t>(at);
    ++count();
    return true;
  }

  struct sigaction before_ = {};
  bool installed_ = false;
};

#endif
