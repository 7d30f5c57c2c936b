// One fuzz target as libFuzzer calls it; ATTEND_FUZZ_TARGET is its name.

#include <cstddef>
#include <cstdint>

#include "targets.hpp"

#if !defined(ATTEND_FUZZ_TARGET)
#error "Compile this with -DATTEND_FUZZ_TARGET=name, a name of ATTEND_FUZZ_TARGETS in targets.hpp."
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {  // NOLINT: libFuzzer's name
  return fuzz::ATTEND_FUZZ_TARGET({data, size});
}
