#pragma once
/// \file
/// What the emulator says when a kernel or a host program does what hardware leaves undefined.

#include <cstdio>
#include <stdexcept>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define EMULATOR_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EMULATOR_THREAD_SANITIZER 1
#endif
#endif

namespace emulator {

/// A kernel did what real hardware answers with a hang, wrong numbers or an abort. Thrown on the host, by the call that made the
/// kernel run (a wait, as streams are lazy); the text goes to stderr as well, for where nobody can catch it.
class Fault : public std::logic_error {
 public:
  explicit Fault(const std::string& what) : std::logic_error("emulated CUDA: " + what) {}
};

/// As long as one of these lives, refusals are not explained on stderr: for tests that provoke them.
class Quiet {
 public:
  Quiet() { ++depth(); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { --depth(); }
  static int& depth() {
    static int count = 0;
    return count;
  }
};

/// Says on stderr why a call was refused: the error code alone rarely tells.
inline void complain(const std::string& why) {
  if (Quiet::depth() == 0) std::fprintf(stderr, "emulated CUDA: %s\n", why.c_str());
}

}  // namespace emulator
