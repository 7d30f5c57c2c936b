#pragma once
/// \file
/// Fibers: a thread of a block is one, so that it can stand still in the middle of a kernel while others run. On x86-64 a switch
/// is a dozen instructions; elsewhere it is swapcontext. The address and the thread sanitizer are told of every switch.

#include <sys/mman.h>

#include <atomic>
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
  static constexpr std::size_t stack_bytes = 80 * 1024;
#endif
  static constexpr std::size_t guard_bytes = 4096;

  explicit Fiber(void (*body)()) : body_(body) {
    void* memory = ::mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    static std::atomic<std::size_t> made{0};
    first_ = made++ % 64 * 192;
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
    own_.uc_stack.ss_size = stack_bytes - first_;
    own_.uc_link = nullptr;
    ::makecontext(&own_, &Fiber::start, 0);
#else
    auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + guard_bytes + stack_bytes - first_);
    *--top = 0;                                                // where `start` would return to
    *--top = reinterpret_cast<std::uintptr_t>(&Fiber::start);  // at a multiple of 16, as after a call
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    own_ = top;
#endif
  }

  /// Runs it, and those it passes on to, until one leaves. To be called from outside any fiber.
  void enter() {
    from_outside_ = true;
#if defined(EMULATOR_THREAD_SANITIZER)
    tsan_outside_ = __tsan_get_current_fiber();
#endif
    [[maybe_unused]] void* const fake = announce();
    go(&outside_, own_);
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  /// Back to whoever entered; returns at the next `enter` of this fiber or `pass_to` it. To be called from inside it.
  void leave() {
    void* fake = nullptr;
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(&fake, outside_bottom_, outside_bytes_);
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
    __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
    go(&own_, outside_);
    arrive(fake);
  }

  /// The same, but the other goes on first, before whoever entered.
  void pass_to(Fiber& other) {
    from_outside_ = false;
    void* const fake = other.announce();
    go(&own_, other.own_);
    arrive(fake);
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
    arrive(nullptr);
    for (;;) {
      self->body_();
      self->leave();
    }
  }

  /// That it goes on next. What this returns is for `arrive`, once the one that calls now goes on.
  void* announce() {
    starting_ = this;
    void* fake = nullptr;
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(&fake, memory_ + guard_bytes, stack_bytes);
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
    __tsan_switch_to_fiber(tsan_, 0);
#endif
    return fake;
  }
  /// That the fiber that calls goes on.
  static void arrive([[maybe_unused]] void* fake) {
#if defined(EMULATOR_ADDRESS_SANITIZER)
    if (from_outside_) __sanitizer_finish_switch_fiber(fake, &outside_bottom_, &outside_bytes_);
    else __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  inline static thread_local Fiber* starting_ = nullptr;
  inline static thread_local bool from_outside_ = false;
  inline static thread_local Place outside_{};
#if defined(EMULATOR_ADDRESS_SANITIZER)
  inline static thread_local const void* outside_bottom_ = nullptr;
  inline static thread_local std::size_t outside_bytes_ = 0;
#endif
#if defined(EMULATOR_THREAD_SANITIZER)
  inline static thread_local void* tsan_outside_ = nullptr;
  void* tsan_ = nullptr;
#endif

  void (*body_)();
  unsigned char* memory_ = nullptr;
  std::size_t first_ = 0;  ///< left free, another number in each, so that stacks do not compete for the same lines of the cache
  Place own_{};
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
