#pragma once

#include <atomic>
#include <csignal>

#include "attend/core/error.hpp"

namespace attend::train {

/// While one stands in scope, Ctrl-C (SIGINT) and SIGTERM set a flag instead of ending the program, so that training can finish
/// its step and write a checkpoint. A second signal ends the program at once. One at a time.
///
///     const train::StopOnInterrupt interrupt;
///     train::fit(model, corpus, tokenizer, {.output = "run", .stop = &interrupt.flag()});
class StopOnInterrupt {
 public:
  /// Throws Error where the system refuses.
  StopOnInterrupt() {
    requested().store(false);
    struct sigaction action {};
    action.sa_handler = [](int) { requested().store(true); };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;  // the second one has its usual effect
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, &action, &interrupt_before_) != 0 || sigaction(SIGTERM, &action, &terminate_before_) != 0)
      throw Error("StopOnInterrupt: the system does not let signals be handled");
  }
  ~StopOnInterrupt() {
    sigaction(SIGINT, &interrupt_before_, nullptr);
    sigaction(SIGTERM, &terminate_before_, nullptr);
  }
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  [[nodiscard]] const std::atomic<bool>& flag() const { return requested(); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");
  static std::atomic<bool>& requested() {
    static constinit std::atomic<bool> flag{false};
    return flag;
  }
  struct sigaction interrupt_before_ {
  }, terminate_before_{};
};

}  // namespace attend::train
