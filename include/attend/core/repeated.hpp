#pragma once

#include <utility>

#include "attend/core/types.hpp"

namespace attend {

/// Work that is done again and again on other numbers in the same memory. On the processor that is to do it; on a device it may
/// be recorded once and then run as a whole, which spares the host its many small calls.
template <Device D>
class Repeated {
 public:
  /// Whether recording is worth arranging the numbers for it.
  static constexpr bool records = false;

  template <class F>
  void run(F&& work) {
    std::forward<F>(work)();
  }
};

}  // namespace attend
