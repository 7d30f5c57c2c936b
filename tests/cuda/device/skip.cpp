// If there is no device, the whole program says so and passes, before any test begins.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#if __has_include(<catch2/reporters/catch_reporter_event_listener.hpp>)
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
#else
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif
#include <cstdio>
#include <cstdlib>

#include "attend/cuda/device/runtime.cuh"

namespace skip {

struct WithoutDevice : Listener {
  using Listener::Listener;
  void testRunStarting(const Catch::TestRunInfo& /*run*/) override {
    const std::string why = attend::cuda::unavailable();
    if (why.empty()) return;
    std::printf("skipped: %s\n", why.c_str());
    std::exit(EXIT_SUCCESS);
  }
};

CATCH_REGISTER_LISTENER(WithoutDevice)

}  // namespace skip
