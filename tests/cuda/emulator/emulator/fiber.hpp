#pragma once
/// \file
/// Fibers: a thread of a block is one, so that it can stand still in the middle of a kernel while others run. On x86-64 a switch
/// is a dozen instructions; elsewhere it is swapcontext. The address and the thread sanitizer are told of every switch.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "emulator/fault.hpp"

#if defined(__x86_64__) && defined(__ELF__) && !defined(EMULATOR_UCONTEXT)
/// Saves the callee's registers on this stack, its pointer in `*save`, and goes on where `load` was saved.
extern "C" void attend_emulator_switch(void** save, void* load);
// A group of its own, so that every translation unit may bring it along. Not an inline function: a compiler that sees into one
// believes that it leaves all registers alone.
asm(R"(
.pushsection .text.attend_emulator_switch,"axG",@progbits,attend_emulator_switch,comdat
.weak attend_emulator_switch
.type attend_emulator_switch,@function
attend_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size attend_emulator_switch,.-attend_emulator_switch
.popsection
)");
#else
#if !defined(EMULATOR_UCONTEXT)
#define EMULATOR_UCONTEXT 1
#endif
#include <ucontext.h>
#endif

#if defined(EMULATOR_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace emulator {

/// A stack of its own, on which `body` runs over and over: once for each `enter` that finds it finished.
class Fiber {
 public:
  /// Local arrays of kernels lie here. A thread on hardware may have 512 KiB; ours have more than any sane kernel.
#if defined(EMULATOR_ADDRESS_SANITIZER) || defined(EMULATOR_THREAD_SANITIZER)
  static constexpr std::size_t stack_bytes = 256 * 1024;
#else
  static constexpr std::size_t stack_bytes = 64 * 1024;
#endif
  static constexpr std::size_t guard_bytes = 4096;

  explicit Fiber(void (*body)()) : body_(body) {
    void* memory = ::mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<unsigned char*>(memory);
    ::mprotect(memory_, guard_bytes, PROT_NONE);  // an overflow stops here
    reset();
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
#if defined(EMULATOR_THREAD_SANITIZER)
    __tsan_destroy_fiber(tsan_);
#endif
    ::munmap(memory_, guard_bytes + stack_bytes);
  }

  /// Forgets where it stands: the next `enter` begins anew. Nothing on its stack is destroyed.
  void reset() {
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __asan_unpoison_memory_region(memory_ + guard_bytes, stack_bytes);
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
    if (tsan_ != nullptr) __tsan_destroy_fiber(tsan_);
    tsan_ = __tsan_create_fiber(0);
#endif
#if defined(EMULATOR_UCONTEXT)
    ::getcontext(&own_);
    own_.uc_stack.ss_sp = memory_ + guard_bytes;
    own_.uc_stack.ss_size = stack_bytes;
    own_.uc_link = nullptr;
    ::makecontext(&own_, &Fiber::start, 0);
#else
    auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + guard_bytes + stack_bytes);
    *--top = 0;                                                // where `start` would return to
    *--top = reinterpret_cast<std::uintptr_t>(&Fiber::start);  // at a multiple of 16, as after a call
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    own_ = top;
#endif
  }

  /// Runs it until it leaves. To be called from outside any fiber.
  void enter() {
    starting_ = this;
#if defined(EMULATOR_ADDRESS_SANITIZER)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, memory_ + guard_bytes, stack_bytes);
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
    tsan_outside_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_, 0);
#endif
    go(&outside_, own_);
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  /// Back to whoever entered it; returns at the next `enter`. To be called from inside it.
  void leave() {
#if defined(EMULATOR_ADDRESS_SANITIZER)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, outside_bottom_, outside_bytes_);
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
    __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
    go(&own_, outside_);
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(fake, &outside_bottom_, &outside_bytes_);
#endif
  }

 private:
#if defined(EMULATOR_UCONTEXT)
  using Place = ucontext_t;
  static void go(Place* save, Place& load) { ::swapcontext(save, &load); }
#else
  using Place = void*;
  static void go(Place* save, Place load) { attend_emulator_switch(save, load); }
#endif

  static void start() {
    Fiber* self = starting_;
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(nullptr, &self->outside_bottom_, &self->outside_bytes_);
#endif
    for (;;) {
      self->body_();
      self->leave();
    }
  }

  inline static thread_local Fiber* starting_ = nullptr;

  void (*body_)();
  unsigned char* memory_ = nullptr;
  Place own_{}, outside_{};
#if defined(EMULATOR_ADDRESS_SANITIZER)
  const void* outside_bottom_ = nullptr;
  std::size_t outside_bytes_ = 0;
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
  void* tsan_ = nullptr;
  void* tsan_outside_ = nullptr;
#endif
};

/// Fibers that wait for work. Each system thread has its own.
class FiberPool {
 public:
  explicit FiberPool(void (*body)()) : body_(body) {}

  Fiber* take() {
    if (idle_.empty()) {
      all_.push_back(std::make_unique<Fiber>(body_));
      return all_.back().get();
    }
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }

  void give(Fiber* fiber) { idle_.push_back(fiber); }

 private:
  void (*body_)();
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> idle_;
};

}  // namespace emulator
