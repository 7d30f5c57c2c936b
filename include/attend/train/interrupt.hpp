#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

#include "attend/core/error.hpp"

namespace attend::train {

/// While one stands in scope, Ctrl-C (SIGINT), SIGTERM, SIGUSR1 and a terminal that is closed (SIGHUP, unless `nohup` has it
/// ignored) set a flag instead of ending the program, so that training can finish its step and write a checkpoint. A second
/// Ctrl-C or SIGHUP ends the program at once. SIGTERM and SIGUSR1 may come again, as they do from launchers that pass on what the
/// process has already got, and do not. One at a time.
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
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < signals.size(); ++i) {
      action.sa_flags = SA_RESTART;
      if (!from_launchers(signals[i])) action.sa_flags |= static_cast<int>(SA_RESETHAND);  // the second has its usual effect
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
  /// For a program that has saved and is about to end: SIGTERM and SIGUSR1 are ignored once this is gone, so that one which comes
  /// late does not make a failure of it.
  void ignore_afterwards() {
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (from_launchers(signals[i])) before_[i].sa_handler = SIG_IGN, before_[i].sa_flags = 0;
  }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");
  static std::atomic<bool>& requested() {
    static constinit std::atomic<bool> flag{false};
    return flag;
  }
  static constexpr std::array<int, 4> signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  static constexpr bool from_launchers(int signal) { return signal == SIGTERM || signal == SIGUSR1; }
  std::array<struct sigaction, 4> before_{};
};

}  // namespace attend::train
