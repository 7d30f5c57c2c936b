#include "attend/core/threads.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <ctime>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "attend/core/error.hpp"
#include "catch.hpp"
#include "sanitized.hpp"
#include "with_threads.hpp"

using namespace attend;

namespace {

#if !defined(_WIN32)
/// While it lives, this process can have so many bytes of addresses more than now.
class LimitedMemory {
 public:
  explicit LimitedMemory(rlim_t bytes) {
    const auto pages = static_cast<rlim_t>(detail::number_at(detail::system_text("/proc/self/statm")));
    getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;
  ~LimitedMemory() { setrlimit(RLIMIT_AS, &before_); }

  /// Whether the system keeps to it: an emulator may not.
  [[nodiscard]] static bool refuses(std::size_t bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return true;
    ::munmap(at, bytes);
    return false;
  }

 private:
  rlimit before_{};
};

std::size_t stack_size() {
  pthread_attr_t attributes;
  std::size_t size = 0;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &size);
  pthread_attr_destroy(&attributes);
  return size;
}
#endif

/// How often each index of [0, n) was visited by a loop.
std::vector<int> visits(index_t n, index_t grain) {
  std::vector<int> count(static_cast<std::size_t>(n), 0);
  parallel_for(n, grain, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) ++count[static_cast<std::size_t>(i)];
  });
  return count;
}

}  // namespace

TEST_CASE("a loop visits every index once") {
  for (const int n : {1, 2, 3, 8}) {
    const WithThreads set(n);
    CHECK(threads() == n);
    for (const index_t size : {0, 1, 2, 7, 100, 10007})
      for (const index_t grain : {1, 3, 1000000})
        REQUIRE(visits(size, grain) == std::vector<int>(static_cast<std::size_t>(size), 1));
  }
}

TEST_CASE("many short loops one after another") {
  const WithThreads set(4);
  std::atomic<index_t> sum{0};
  for (int turn = 0; turn < 20000; ++turn)
    parallel_for(8, 1, [&](index_t begin, index_t end) { sum.fetch_add(end - begin, std::memory_order_relaxed); });
  CHECK(sum.load() == 160000);
}

TEST_CASE("a thread whose share is done takes what others have left") {
  const WithThreads set(2);
  const auto caller = std::this_thread::get_id();
  for (int turn = 0; turn < 200; ++turn) {
    std::atomic<int> done{0};
    parallel_for(4, 1, [&](index_t, index_t) {
      if (std::this_thread::get_id() != caller)  // stays at its first part until all others are done
        while (done.load() < 3) std::this_thread::yield();
      ++done;
    });
    REQUIRE(done.load() == 4);
  }
}

TEST_CASE("as many parts of a loop run at the same time as there are threads, or parts") {
  const WithThreads set(5);
  for (int turn = 0; turn < 200; ++turn) {
    std::atomic<int> begun{0};
    parallel_for(4, 1, [&](index_t, index_t) {  // each stays until all have begun
      ++begun;
      while (begun.load() < 4) std::this_thread::yield();
    });
    REQUIRE(begun.load() == 4);
  }
}

TEST_CASE("parts are as long as asked for") {
  const WithThreads set(4);
  std::atomic<bool> good{true};
  parallel_for(1000, 100, [&](index_t begin, index_t end) {
    if (end - begin < 100 && end != 1000) good = false;
  });
  CHECK(good.load());
  parallel_rows(1000, 81920, [&](index_t begin, index_t end) {
    if (begin >= end) good = false;
  });
  CHECK(good.load());
}

TEST_CASE("an exception reaches the caller, and the next loop runs as ever") {
  const WithThreads set(3);
  for (int turn = 0; turn < 50; ++turn) {
    CHECK_THROWS_WITH(parallel_for(100, 1,
                                   [](index_t begin, index_t end) {
                                     for (index_t i = begin; i < end; ++i)
                                       if (i == 57) throw std::runtime_error("at 57");
                                   }),
                      "at 57");
    REQUIRE(visits(500, 1) == std::vector<int>(500, 1));
  }
  CHECK_THROWS_AS(parallel_for(100, 1, [](index_t, index_t) { throw std::string("all"); }), std::string);
}

TEST_CASE("a loop inside a loop runs in the thread that meets it") {
  const WithThreads set(3);
  std::vector<std::vector<int>> counts(20);
  std::atomic<bool> same_thread{true};
  parallel_for(20, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      counts[static_cast<std::size_t>(i)] = visits(100, 1);
      const auto here = std::this_thread::get_id();
      parallel_for(10, 1, [&](index_t, index_t) {
        if (std::this_thread::get_id() != here) same_thread = false;
      });
    }
  });
  for (const auto& count : counts) CHECK(count == std::vector<int>(100, 1));
  CHECK(same_thread.load());
}

TEST_CASE("several threads may run loops at the same time") {
  const WithThreads set(3);
  std::atomic<int> bad{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn)
        if (visits(300, 7) != std::vector<int>(300, 1)) ++bad;
    });
  for (auto& caller : callers) caller.join();
  CHECK(bad.load() == 0);
}

TEST_CASE("the number of threads can change between loops") {
  const WithThreads set(1);
  for (const int n : {4, 1, 2, 8, 3}) {
    set_threads(n);
    CHECK(threads() == n);
    CHECK(visits(1000, 1) == std::vector<int>(1000, 1));
  }
  for (const int n : {0, -1, 1025}) {
    CHECK_THROWS_AS(set_threads(n), ValueError);
    CHECK_THROWS_WITH(set_threads(n), "set_threads: got " + std::to_string(n) + ", expected 1 to 1024");
  }
  CHECK(threads() == 3);
  CHECK(visits(100, 1) == std::vector<int>(100, 1));
}

TEST_CASE("ATTEND_THREADS is a number, or an error that says what it is") {
  CHECK(detail::threads_from("ATTEND_THREADS", "1") == 1);
  CHECK(detail::threads_from("ATTEND_THREADS", "1024") == 1024);
  for (const char* text : {"abc", "0", "-2", "1025", "99999999999999999999", "2x", " 2", "2 ", "1.5", ""}) {
    CHECK_THROWS_AS(detail::threads_from("ATTEND_THREADS", text), ValueError);
    CHECK_THROWS_WITH(detail::threads_from("ATTEND_THREADS", text),
                      std::string("ATTEND_THREADS is '") + text + "', expected a number from 1 to 1024");
  }
}

TEST_CASE("a loop wants as many sleeping threads as it has chunks for") {
  const auto to_wake = ThreadPool::to_wake;
  CHECK(to_wake(8, 2, 7) == 1);
  CHECK(to_wake(8, 7, 7) == 6);
  CHECK(to_wake(8, 8, 7) == 7);
  CHECK(to_wake(8, 100, 7) == 7);
  CHECK(to_wake(8, 3, 5) == 0);  // three are awake
  CHECK(to_wake(8, 4, 5) == 1);
  CHECK(to_wake(8, 8, 0) == 0);
  CHECK(to_wake(2, 2, 1) == 1);
}

TEST_CASE("sleeping workers wake up for a loop") {
  const WithThreads set(2);
  for (int turn = 0; turn < 5; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than the workers spin
    REQUIRE(visits(1000, 1) == std::vector<int>(1000, 1));
  }
}

TEST_CASE("a caller that waits long for the last part sleeps, and wakes up when it is done") {
  const WithThreads set(2);
  const auto caller = std::this_thread::get_id();
  for (const int milliseconds : {0, 1, 3, 30}) {
    [[maybe_unused]] const std::clock_t begin = std::clock();
    std::atomic<bool> begun{false};
    parallel_for(2, 1, [&](index_t, index_t) {
      if (std::this_thread::get_id() == caller) {
        while (!begun.load()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      } else {
        begun.store(true);
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      }
    });
#if !defined(_WIN32)  // where std::clock counts sleep too
    if (milliseconds == 30) CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 0.015);
#endif
  }
}

#if !defined(_WIN32)
TEST_CASE("threads that the system does not let the process have are refused, and those before go on") {
  constexpr std::size_t room = std::size_t{400} << 20;
  if (sanitized || 1024 * stack_size() < 2 * room) return;
  const WithThreads set(3);
  {
    const LimitedMemory limit(room);
    if (!LimitedMemory::refuses(2 * room)) return;
    CHECK_THROWS_WITH(set_threads(1024), Catch::Matchers::StartsWith("set_threads: the system lets this process have ") &&
                                             Catch::Matchers::EndsWith(" of 1024 threads"));
    CHECK(threads() == 3);
    CHECK(visits(1000, 1) == std::vector<int>(1000, 1));
  }
  set_threads(40);
  CHECK(threads() == 40);
  CHECK(visits(1000, 1) == std::vector<int>(1000, 1));
}
#endif
