#pragma once

#include "attend/core/threads.hpp"

/// A number of threads for a scope. Without one, the scope may set what it likes.
class WithThreads {
 public:
  WithThreads() = default;
  explicit WithThreads(int n) { attend::set_threads(n); }
  ~WithThreads() { attend::set_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_ = attend::threads();
};
