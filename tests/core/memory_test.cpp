#include "attend/core/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "attend/core/tensor.hpp"
#include "catch.hpp"

using namespace attend;

#if !defined(ATTEND_NO_POOL)
namespace {

/// Runs f in a thread of another part than this one's. Of two new threads one is.
template <class F>
void elsewhere(const F& f) {
  const std::size_t part = detail::thread_part();
  bool done = false;
  do {
    std::thread([&] {
      done = detail::thread_part() != part;
      if (done) f();
    }).join();
  } while (!done);
}

}  // namespace
#endif

TEST_CASE("size classes waste at most a fifth") {
  CHECK(MemoryPool::size_class(0) == memory_alignment);
  CHECK(MemoryPool::size_class(1) == memory_alignment);
  CHECK(MemoryPool::size_class(65) == 128);
  for (std::size_t bytes = 64; bytes < 100'000'000; bytes = bytes * 9 / 8 + 1) {
    const std::size_t size = MemoryPool::size_class(bytes);
    REQUIRE(size >= bytes);
    REQUIRE(size % memory_alignment == 0);
    REQUIRE(MemoryPool::size_class(size) == size);
    if (bytes > 1024) REQUIRE(static_cast<double>(size - bytes) <= 0.2 * static_cast<double>(size));
  }
}

TEST_CASE("the pool counts what is in use, and the peak") {
  auto& pool = MemoryPool::instance();
  const auto before = pool.use().in_use;
  pool.reset_peak();
  {
    const Tensor<float> x({1000}), y({2000});
    CHECK(pool.use().in_use == before + MemoryPool::size_class(4000) + MemoryPool::size_class(8000));
  }
  CHECK(pool.use().in_use == before);
  CHECK(pool.use().peak == before + MemoryPool::size_class(4000) + MemoryPool::size_class(8000));
  pool.reset_peak();
  CHECK(pool.use().peak == before);
}

TEST_CASE("an impossible request is an error with its size, and leaves the pool as it was") {
  auto& pool = MemoryPool::instance();
  const auto before = pool.use().in_use;
  const auto impossible =  // no size class
      static_cast<std::size_t>(sizeof(std::size_t) == 8 ? (std::uint64_t{1} << 60) + 1 : std::uint64_t{0xF0000001});
  pool.deallocate(pool.allocate(1 << 20));
  pool.reset_peak();
  const auto cached = pool.use().cached;
  const auto largest = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {impossible, largest / 2 - largest / 16, largest / 2, largest / 2 + 1, largest}) {
    CHECK_THROWS_WITH(pool.allocate(bytes),
                      Catch::Matchers::ContainsSubstring(" " + std::to_string(bytes) + " bytes were asked for"));
    CHECK(pool.use().in_use == before);
    CHECK(pool.use().peak == before);
    CHECK(pool.use().cached <= cached);  // what was not handed out may have gone to make room
  }
  // Whose bytes are more than can be counted.
  for (const index_t count : {std::numeric_limits<index_t>::max(), std::numeric_limits<index_t>::max() / 4 + 1})
    CHECK_THROWS_AS(Storage<double>(count), MemoryError);
}

#if !defined(ATTEND_NO_POOL)
TEST_CASE("a freed block is used again") {
  auto& pool = MemoryPool::instance();
  pool.release_cached();
  CHECK(pool.use().cached == 0);
  const float* place = nullptr;
  {
    const Tensor<float> x({5000});
    place = x.data();
  }
  CHECK(pool.use().cached == MemoryPool::size_class(20000));
  const Tensor<float> y({4990});  // the same size class
  CHECK(y.data() == place);
  CHECK(pool.use().cached == 0);
}

TEST_CASE("a freed block serves a somewhat smaller tensor, but not one of less than half its size") {
  auto& pool = MemoryPool::instance();
  pool.release_cached();
  const float* place = nullptr;
  {
    const Tensor<float> x({100'000});
    place = x.data();
  }
  {
    const Tensor<float> smaller({70'000});
    CHECK(smaller.data() == place);
    CHECK(pool.use().cached == 0);
  }
  const auto in_use = pool.use().in_use;
  {
    const Tensor<float> small({40'000});
    CHECK(small.data() != place);
  }
  CHECK(pool.use().in_use == in_use);
}

TEST_CASE("blocks that nobody has wanted for long go back, and those that are used now and then stay") {
  MemoryPool pool;
  const std::size_t large = 1 << 20, rare = 1 << 18, small = 1024;
  const auto first = pool.allocate(large), second = pool.allocate(large), now_and_then = pool.allocate(rare);
  for (const auto& block : {first, second, now_and_then}) pool.deallocate(block);
  for (std::uint64_t i = 0; i < HostMemory::unused_after / 2; ++i) pool.deallocate(pool.allocate(small));
  CHECK(pool.use().cached == 2 * large + rare + small);
  const auto again = pool.allocate(large);  // what was freed last
  CHECK(again.data == second.data);
  pool.deallocate(again);
  for (std::uint64_t i = 0; i < HostMemory::unused_after * 3 / 4; ++i) {
    pool.deallocate(pool.allocate(small));
    if (i % 10'000 == 0) {
      const auto block = pool.allocate(rare);
      CHECK(block.data == now_and_then.data);
      pool.deallocate(block);
    }
  }
  CHECK(pool.use().cached == large + rare + small);  // one of the two large ones is gone
  for (std::uint64_t i = 0; i < HostMemory::unused_after * 5 / 4; ++i) pool.deallocate(pool.allocate(small));
  CHECK(pool.use().cached == small);
  CHECK(pool.use().in_use == 0);
  pool.release_cached();
}

TEST_CASE("a loop of the same tensors asks the system for nothing after its first turn") {
  auto& pool = MemoryPool::instance();
  const auto turn = [] {
    const Tensor<float> a({300, 7}), b({17}), c({40000});
    return a.size() + b.size() + c.size();
  };
  turn();
  const auto first = pool.use();
  for (int i = 0; i < 10; ++i) turn();
  CHECK(pool.use().cached == first.cached);
  CHECK(pool.use().in_use == first.in_use);
  pool.release_cached();
  CHECK(pool.use().cached == 0);
}

TEST_CASE("a thread gets the small blocks again that it has freed, and others get them once they go back") {
  MemoryPool pool;
  constexpr std::size_t small = 4096;
  const auto mine = pool.allocate(small);
  pool.deallocate(mine);
  void* theirs = nullptr;
  elsewhere([&] {
    const auto first = pool.allocate(small);
    pool.deallocate(first);
    const auto again = pool.allocate(small);
    CHECK(again.data == first.data);
    pool.deallocate(again);
    theirs = first.data;
  });
  CHECK(theirs != mine.data);
  CHECK(pool.use().cached == 2 * small);
  const auto again = pool.allocate(small);
  CHECK(again.data == mine.data);
  pool.deallocate(again);

  // Of many blocks only so many wait for this thread that the others are not worth keeping from another one.
  std::vector<MemoryPool::Block> many;
  for (int i = 0; i < 200; ++i) many.push_back(pool.allocate(small));
  for (const auto& block : many) pool.deallocate(block);
  CHECK(pool.use().cached == 201 * small);
  elsewhere([&] {
    std::vector<MemoryPool::Block> taken;
    for (int i = 0; i < 100; ++i) taken.push_back(pool.allocate(small));
    for (const auto& block : taken) pool.deallocate(block);
  });
  CHECK(pool.use().cached == 201 * small);  // none was new
  CHECK(pool.use().in_use == 0);
  CHECK(pool.use().peak == 200 * small);
  pool.release_cached();
  CHECK(pool.use().cached == 0);
}

TEST_CASE("of large blocks freed shortly before, a thread gets its own") {
  MemoryPool pool;
  constexpr std::size_t large = 1 << 20;
  const auto first = pool.allocate(large), second = pool.allocate(large);
  pool.deallocate(first);
  elsewhere([&] { pool.deallocate(second); });
  CHECK(pool.allocate(large).data == first.data);
  CHECK(pool.allocate(large).data == second.data);  // better than a new one
  pool.deallocate(first);
  pool.deallocate(second);
  CHECK(pool.use().in_use == 0);
  pool.release_cached();
}

TEST_CASE("small blocks of a thread that asks for none any more go back") {
  MemoryPool pool;
  elsewhere([&] { pool.deallocate(pool.allocate(4096)); });
  CHECK(pool.use().cached == 4096);
  for (std::uint64_t i = 0; i < 4 * HostMemory::unused_after; ++i) pool.deallocate(pool.allocate(64));
  CHECK(pool.use().cached == 64);
  pool.release_cached();
}

TEST_CASE("threads that hand blocks to one another get each of them once, and the pool's count is right in the end") {
  MemoryPool pool;
  struct Mark {
    MemoryPool::Block block;
    unsigned char value;
  };
  std::deque<Mark> handed;
  std::mutex mutex;
  const auto work = [&](unsigned seed) {
    for (unsigned i = 0; i < 4000; ++i) {
      seed = seed * 1664525u + 1013904223u;
      if (seed % 5 < 3) {
        const Mark mark{pool.allocate(seed % 97 == 0 ? 200'000 : 1 + (seed >> 8) % 9000), static_cast<unsigned char>(seed >> 16)};
        std::fill_n(static_cast<unsigned char*>(mark.block.data), mark.block.size, mark.value);
        const std::lock_guard lock(mutex);
        handed.push_back(mark);
      } else {
        Mark mark{};
        {
          const std::lock_guard lock(mutex);
          if (handed.empty()) continue;
          mark = handed.front();
          handed.pop_front();
        }
        const auto* bytes = static_cast<const unsigned char*>(mark.block.data);
        if (std::any_of(bytes, bytes + mark.block.size, [&](unsigned char b) { return b != mark.value; })) {
          const std::lock_guard lock(mutex);
          FAIL_CHECK("a block of " << mark.block.size << " bytes was handed out twice");
        }
        pool.deallocate(mark.block);
      }
      if (i % 1000 == 999) pool.release_cached();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, 7 * t + 1);
  for (auto& thread : threads) thread.join();
  std::size_t left = 0;
  for (const auto& mark : handed) left += mark.block.size;
  CHECK(pool.use().in_use == left);
  CHECK(pool.use().peak >= left);
  for (const auto& mark : handed) pool.deallocate(mark.block);
  CHECK(pool.use().in_use == 0);
  pool.release_cached();
  CHECK(pool.use().cached == 0);
}
#endif

TEST_CASE("a shelf has a place for each small size class, and tells what has happened there once") {
  detail::MemoryShelf shelf;
  std::set<std::size_t> sizes;
  for (std::size_t bytes = 1; bytes <= detail::MemoryShelf::largest; ++bytes)
    if (MemoryPool::size_class(bytes) <= detail::MemoryShelf::largest) sizes.insert(MemoryPool::size_class(bytes));
  CHECK(sizes.size() == 35);
  std::deque<std::vector<std::uint64_t>> memory;
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) {
    CHECK(shelf.take(size) == nullptr);
    memory.emplace_back(size / sizeof(std::uint64_t));
    shelf.put(memory.back().data(), size);
    bytes += size;
  }
  CHECK(shelf.is_full() == (bytes > std::size_t{1} << 19));
  auto news = shelf.news();
  CHECK(news.in_use == -static_cast<std::ptrdiff_t>(bytes));
  CHECK(news.cached == static_cast<std::ptrdiff_t>(bytes));
  CHECK(news.most == 0);
  CHECK_FALSE(shelf.has_news());
  auto own = memory.begin();
  for (const std::size_t size : sizes) {
    CHECK(shelf.take(size) == own->data());
    CHECK(shelf.take(size) == nullptr);
    shelf.put((own++)->data(), size);
  }
  news = shelf.news();
  CHECK(news.in_use == 0);
  CHECK(news.most == 57344);
  CHECK(news.allocations == 35);
  CHECK(shelf.news().allocations == 0);
  std::vector<std::pair<void*, std::size_t>> cleared;
  shelf.clear([&](void* block, std::size_t size) { cleared.emplace_back(block, size); });
  REQUIRE(cleared.size() == sizes.size());
  for (const auto& [block, size] : cleared)
    CHECK(std::any_of(memory.begin(), memory.end(), [&, b = block, n = size](const auto& m) {
      return m.data() == b && m.size() * sizeof(std::uint64_t) == n;
    }));
  CHECK(shelf.take(64) == nullptr);
}
