#pragma once

#include <utility>

#include "attend/core/error.hpp"
#include "attend/core/types.hpp"

namespace attend {

/// Work that is being recorded did what a recording cannot repeat. `Repeated` catches this and goes on without a recording.
struct RecordingError : Error {
  using Error::Error;
};

namespace kernels {

/// Whether this thread records what it gives the device, rather than having it done. The processor does everything at once.
constexpr bool recording(Cpu) { return false; }
/// Makes sure that what is being recorded is discarded. To be called before a RecordingError is thrown, since the work itself may
/// catch that.
inline void spoil_recording(Cpu) {}

}  // namespace kernels

/// Work that is done again and again on other numbers in the same memory. On the processor it is simply done each time; on a
/// device it may be recorded once and then run as a whole, which spares the host its many small calls.
template <Device D>
class Repeated {
 public:
  /// Whether the device records, which makes it worth keeping the numbers in one place.
  static constexpr bool records = false;

  /// Does it.
  template <class F>
  void run(F&& work) {
    std::forward<F>(work)();
  }
};

}  // namespace attend
