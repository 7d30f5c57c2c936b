#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

#include "attend/core/error.hpp"

namespace attend::train {

/// While one stands in scope, Ctrl-C (SIGINT), SIGTERM and a terminal that is closed (SIGHUP, unless `nohup` has it ignored) set
/// a flag instead of ending the program, so that training can finish its step and write a checkpoint. A second signal of the
/// same kind ends the program at once. One at a time.
///
///     const train::StopOnInterrupt interrupt;
///     train::fit(model, corpus, tokenizer, {.output = "run", .stop = &interrupt.flag()});
class StopOnInterrupt {
 public:
  /// Throws Error if the system refuses.
  StopOnInterrupt() {
    requested().store(false);
    struct sigaction action {};
    action.sa_handler = [](int) { requested().store(true); };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;  // the second one has its usual effect
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < signals.size(); ++i) {
      if (sigaction(signals[i], &action, &before_[i]) != 0)
        throw Error("StopOnInterrupt: the system does not let signals be handled");
      if (signals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &before_[i], nullptr);
    }
  }
  ~StopOnInterrupt() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  }
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  /// Becomes true where the program is interrupted: for `FitOptions::stop`.
  [[nodiscard]] const std::atomic<bool>& flag() const { return requested(); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");
  static std::atomic<bool>& requested() {
    static constinit std::atomic<bool> flag{false};
    return flag;
  }
  static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
};

}  // namespace attend::train
