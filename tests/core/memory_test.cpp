#include "attend/core/memory.hpp"

#include "attend/core/tensor.hpp"
#include "catch.hpp"

using namespace attend;

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
  CHECK_THROWS_WITH(pool.allocate(impossible),
                    Catch::Matchers::ContainsSubstring(" " + std::to_string(impossible) + " bytes were asked for"));
  CHECK(pool.use().in_use == before);
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
#endif
