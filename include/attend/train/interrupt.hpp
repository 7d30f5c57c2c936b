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
/// process has already got, and do not. On Windows it is Ctrl-C and Ctrl-Break. One at a time.
///
///     const train::StopOnInterrupt interrupt;
///     train::fit(model, corpus, tokenizer, {.output = "run", .stop = &interrupt.flag()});
class StopOnInterrupt {
 public:
  /// Throws Error if the system refuses.
  StopOnInterrupt() {
    requested().store(false);
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (!handle(signals[i], before_[i])) throw Error("StopOnInterrupt: the system does not let signals be handled");
  }
  ~StopOnInterrupt() {
    for (std::size_t i = 0; i < signals.size(); ++i) restore(signals[i], before_[i]);
  }
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  /// Becomes true where the program is interrupted: for `FitOptions::stop`.
  [[nodiscard]] const std::atomic<bool>& flag() const { return requested(); }
  /// For a program that has saved and is about to end: SIGTERM and SIGUSR1 are ignored once this is gone, so that one which comes
  /// late does not make a failure of it.
  void ignore_afterwards() {
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (from_launchers(signals[i])) ignore(before_[i]);
  }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");
  static std::atomic<bool>& requested() {
    static constinit std::atomic<bool> flag{false};
    return flag;
  }
  static void request(int) { requested().store(true); }

#if defined(_WIN32)
  static constexpr std::array<int, 2> signals{SIGINT, SIGBREAK};
  static constexpr bool from_launchers(int) { return false; }
  using Handling = void (*)(int);
  /// Windows forgets the handler when it calls it, so that the second has its usual effect.
  static bool handle(int signal, Handling& before) { return (before = std::signal(signal, request)) != SIG_ERR; }
  static void restore(int signal, Handling before) { std::signal(signal, before); }
  static void ignore(Handling& handling) { handling = SIG_IGN; }
#else
  static constexpr std::array<int, 4> signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  static constexpr bool from_launchers(int signal) { return signal == SIGTERM || signal == SIGUSR1; }
  using Handling = struct sigaction;
  static bool handle(int signal, Handling& before) {
    Handling action{};
    action.sa_handler = request;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    if (!from_launchers(signal)) action.sa_flags |= static_cast<int>(SA_RESETHAND);  // the second has its usual effect
    if (sigaction(signal, &action, &before) != 0) return false;
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) sigaction(SIGHUP, &before, nullptr);
    return true;
  }
  static void restore(int signal, const Handling& before) { sigaction(signal, &before, nullptr); }
  static void ignore(Handling& handling) { handling.sa_handler = SIG_IGN, handling.sa_flags = 0; }
#endif

  std::array<Handling, signals.size()> before_{};
};

}  // namespace attend::train
