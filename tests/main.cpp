// The main function of every test program; compiled once, because Catch2's second version brings all of itself along here.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

// For the sanitizers, which read this at the start: a request for more memory than there is gets null, as it does without them.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }  // NOLINT(bugprone-reserved-identifier)
