#include "attend/core/read_mostly_mutex.hpp"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "catch.hpp"

using namespace attend;

TEST_CASE("readers of any number see what a writer wrote as a whole, and writers exclude one another") {
  detail::ReadMostlyMutex mutex;
  long first = 0, second = 0;
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i)
        if (t < 2 && i % 10 == 0) {
          const std::unique_lock lock(mutex);
          ++first;
          if (i % 100 == 0) std::this_thread::yield();
          ++second;
        } else {
          const std::shared_lock lock(mutex);
          if (first != second) ++torn;
        }
    });
  for (auto& thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(first == 400);
  CHECK(second == 400);
}

TEST_CASE("readers do not wait for one another") {
  detail::ReadMostlyMutex mutex;
  const std::shared_lock lock(mutex);
  bool read = false;
  std::thread([&] {
    const std::shared_lock theirs(mutex);
    read = true;
  }).join();
  CHECK(read);
}

TEST_CASE("a writer has its turn among readers that come all the time") {  // otherwise this does not end
  detail::ReadMostlyMutex mutex;
  std::atomic<bool> written{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 40; ++t)
    readers.emplace_back([&] {
      while (!written) {
        const std::shared_lock lock(mutex);
        for (int i = 0; i < 20; ++i) std::this_thread::yield();
      }
    });
  {
    const std::unique_lock lock(mutex);
    written = true;
  }
  for (auto& reader : readers) reader.join();
  CHECK(written);
}
