// Ranks that exchange what lies on devices. They are threads here, for which the emulator stands in for NCCL, too.
#include <exception>
#include <memory>

#include "attend/cuda.hpp"
#include "attend/nccl.hpp"
#include "attend/train/pairwise_sum.hpp"
#include "device.hpp"
#include "train/thread_ranks.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using test::ThreadRanks;
using Ranks = std::shared_ptr<train::Communicator>;

namespace {

/// f(ranks) in each of so many threads, with NCCL over ranks that are threads, or by itself.
template <class F>
std::vector<std::exception_ptr> run(index_t size, bool over_threads, F&& f, double timeout_seconds = 20) {
  const std::string id = over_threads ? "" : nccl::unique_id();
  return ThreadRanks::run(size, [&](const Ranks& threads) {
    f(over_threads ? nccl::world(threads, timeout_seconds) : nccl::world(id, threads->rank(), size, timeout_seconds));
  });
}
void rethrow_first(const std::vector<std::exception_ptr>& ends) {
  for (const auto& end : ends)
    if (end) std::rethrow_exception(end);
}
template <class T>
Tensor<T> numbers(index_t rank, index_t n) {
  return device::random<T>({n}, static_cast<std::uint64_t>(rank));
}
template <class T>
bool same(const Tensor<T, Cuda>& a, const std::vector<T>& b) {
  if (a.size() != static_cast<index_t>(b.size())) return false;
  return b.empty() || std::memcmp(a.values().data(), b.data(), b.size() * sizeof(T)) == 0;
}

/// What counts in a communicator whose host side is another's: that none of the device's bytes go there.
class Counting final : public train::Communicator {
 public:
  explicit Counting(Ranks other) : other_(std::move(other)) {}
  [[nodiscard]] index_t rank() const override { return other_->rank(); }
  [[nodiscard]] index_t size() const override { return other_->size(); }
  void exchange(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    other_->exchange(other, sent, received);
    bytes += sent.size();
  }
  [[nodiscard]] bool waiting(index_t other) override { return other_->waiting(other); }
  void look_for_failure() override { other_->look_for_failure(); }
  void fail(std::string_view why) noexcept override { other_->fail(why); }

  std::size_t bytes = 0;

 private:
  Ranks other_;
};

}  // namespace

TEMPLATE_TEST_CASE("nccl: sums on the device have the bits of the sums of pairs, in each of any number of ranks", "", float,
                   bfloat16) {
  using T = TestType;
  for (const index_t size : {1, 2, 4, 8})
    for (const index_t n : {0, 1, 15, 17, 1000}) {
      INFO(size << " ranks, " << n << " numbers");
      train::PairwiseSum<T, Cuda> sums;
      Tensor<T, Cuda> expected;
      for (index_t k = 0; k < size; ++k) sums.add(k, size, expected = numbers<T>(k, n).template to<Cuda>());
      const auto bits = expected.values();
      rethrow_first(run(size, n % 2 == 0, [&](const Ranks& ranks) {
        const auto x = numbers<T>(ranks->rank(), n).template to<Cuda>();
        ranks->sum(x);
        if (!same(x, bits)) throw Error("other bits");
      }));
    }
}

TEST_CASE("nccl: what lies on the device does not pass through the host") {
  rethrow_first(ThreadRanks::run(4, [&](const Ranks& threads) {
    const auto host = std::make_shared<Counting>(threads);
    const auto ranks = nccl::world(host, 20);
    host->bytes = 0;
    const auto x = numbers<float>(ranks->rank(), 5000).to<Cuda>();
    ranks->sum(x);
    ranks->sum_in_any_order(x);
    ranks->broadcast(x);
    ranks->sum_shares(x, {{{0, 1000}, {3000, 10}}, {{1000, 900}}, {}, {{4000, 1000}}});
    ranks->gather_shares(x, {{{0, 1000}, {3000, 10}}, {{1000, 900}}, {}, {{4000, 1000}}});
    if (host->bytes != 0) throw Error(host->bytes, " bytes went by the host");
  }));
}

TEST_CASE("nccl: sums in any order, also of three ranks, are the same in all") {
  for (const index_t size : {2, 3, 4}) {
    std::vector<double> expected(300, 0);
    for (index_t k = 0; k < size; ++k) {
      const auto x = numbers<float>(k, 300);
      for (index_t i = 0; i < 300; ++i) expected[static_cast<std::size_t>(i)] += x.data()[i];
    }
    std::vector<std::vector<float>> found(static_cast<std::size_t>(size));
    rethrow_first(run(size, true, [&](const Ranks& ranks) {
      const auto x = numbers<float>(ranks->rank(), 300).to<Cuda>();
      ranks->sum_in_any_order(x);
      nth(found, ranks->rank()) = x.values();
    }));
    for (const auto& values : found) CHECK(values == found.front());
    for (std::size_t i = 0; i < 300; ++i) CHECK(found.front()[i] == Approx(expected[i]).margin(1e-5));
  }
}

TEST_CASE("nccl: broadcasts, shares and messages, over other ranks and by itself") {
  for (const bool over_threads : {true, false})
    rethrow_first(run(4, over_threads, [&](const Ranks& ranks) {
      const auto x = numbers<float>(ranks->rank(), 700).to<Cuda>();
      ranks->broadcast(x);
      if (!same(x, numbers<float>(0, 700).values())) throw Error("broadcast: other numbers");
      x.fill(static_cast<float>(ranks->rank()));
      const train::Communicator::Shares shares{{{0, 100}, {600, 7}}, {{100, 300}}, {{400, 1}}, {{500, 99}}};
      ranks->gather_shares(x, shares);
      for (index_t rank = 0; rank < 4; ++rank)
        for (const auto& [begin, n] : nth(shares, rank))
          if (x.values()[static_cast<std::size_t>(begin + n - 1)] != static_cast<float>(rank)) throw Error("gather_shares");
      std::string text = ranks->rank() == 0 ? std::string(100'000, 'x') : "";
      ranks->broadcast(text);
      if (text != std::string(100'000, 'x')) throw Error("another text");
      const auto all = ranks->gather(std::string(static_cast<std::size_t>(ranks->rank()), 'y'));
      if (count_of(all) != 4 || all[3] != "yyy") throw Error("gather: other texts");
      if (ranks->rank() == 1) ranks->send(2, numbers<float>(9, 50).to<Cuda>());
      if (ranks->rank() == 2) {
        ranks->receive(1, x.rows(0, 50));
        if (!same(x.rows(0, 50), numbers<float>(9, 50).values())) throw Error("receive: other numbers");
      }
    }));
}

TEST_CASE("nccl: where a rank fails the others end with what it said, and a rank is spent") {
  const auto ends = run(4, true, [](const Ranks& ranks) {
    const Tensor<float, Cuda> x({10}, 1.0f);
    ranks->sum(x);
    if (ranks->rank() == 2) {
      ranks->fail("out of luck");
      CHECK_THROWS_WITH(ranks->sum(x), ContainsSubstring("out of luck"));
      throw Error("out of luck");
    }
    ranks->sum(x);
  });
  for (index_t k = 0; k < 4; ++k) {
    REQUIRE(nth(ends, k));
    CHECK_THROWS_WITH(std::rethrow_exception(nth(ends, k)),
                      ContainsSubstring("out of luck") || ContainsSubstring("remote process exited"));
  }
}

TEST_CASE("nccl: without other ranks to say it, a rank that has ended is a remote error, with whom it was") {
  const auto ends = run(2, false, [](const Ranks& ranks) {
    ranks->sum(Tensor<float, Cuda>({10}, 1.0f));
    if (ranks->rank() == 1) return ranks->fail("gone");
    ranks->sum(Tensor<float, Cuda>({10}, 1.0f));
  });
  REQUIRE(ends[0]);
  CHECK_THROWS_AS(std::rethrow_exception(ends[0]), train::RankError);
  CHECK_THROWS_WITH(std::rethrow_exception(ends[0]),
                    ContainsSubstring("remote process exited or there was a network error, while rank 0 exchanged with rank 1"));
}

TEST_CASE("nccl: a rank that keeps silent counts as lost") {
  const std::string id = nccl::unique_id();
  std::atomic<bool> over{false};
  const auto ends = ThreadRanks::run(2, [&](const Ranks& threads) {
    const auto ranks = nccl::world(id, threads->rank(), 2, 0.3);
    if (threads->rank() == 1) {
      while (!over) std::this_thread::yield();
      return;
    }
    try {
      ranks->sum(Tensor<float, Cuda>({10}, 1.0f));
    } catch (...) {
      over = true;
      throw;
    }
    over = true;
  });
  REQUIRE(ends[0]);
  CHECK_THROWS_WITH(std::rethrow_exception(ends[0]), ContainsSubstring("rank 1 has kept rank 0 waiting for 0.3 seconds"));
  // One that never comes.
  CHECK_THROWS_WITH(nccl::world(nccl::unique_id(), 0, 2, 0.2),
                    ContainsSubstring("one of the 2 ranks has kept rank 0 waiting for 0.2 seconds"));
}

TEST_CASE("nccl: ranks that do not do the same are told") {
  const emulator::Quiet quiet;
  const auto ends = run(
      2, true, [](const Ranks& ranks) { ranks->sum(Tensor<float, Cuda>({ranks->rank() == 0 ? 100 : 200}, 1.0f)); }, 1);
  for (const auto& end : ends) {
    REQUIRE(end);
    CHECK_THROWS_AS(std::rethrow_exception(end), train::RankError);
  }
}

TEST_CASE("nccl: an id, a number and a file that cannot be are refused") {
  CHECK_THROWS_WITH(nccl::world("short", 0, 1), ContainsSubstring("the id has 5 bytes, expected 128"));
  CHECK_THROWS_WITH(nccl::world(nccl::unique_id(), 2, 2), ContainsSubstring("rank is 2 of 2"));
  CHECK_THROWS_WITH(nccl::world(nccl::unique_id(), 0, 1, 0), ContainsSubstring("timeout_seconds is 0"));
  CHECK_THROWS_WITH(nccl::world(nullptr), ContainsSubstring("the communicator is null"));
  const auto alone = nccl::world(nccl::unique_id(), 0, 1);
  CHECK_THROWS_WITH(alone->waiting(0), ContainsSubstring("NCCL does not know what waits"));
  const auto file = std::filesystem::temp_directory_path() / ("attend-nccl-" + std::to_string(::getpid()));
  rethrow_first(ThreadRanks::run(2, [&](const Ranks& threads) {
    const auto ranks = nccl::world_by_file(file, threads->rank(), 2, 20);
    const Tensor<float, Cuda> x({3}, 2.0f);
    ranks->sum(x);
    if (x.values() != std::vector<float>(3, 4.0f)) throw Error("another sum");
  }));
  CHECK_FALSE(std::filesystem::exists(file));
  io::write_file_atomically(file, "left by another");
  CHECK_THROWS_WITH(nccl::world_by_file(file, 0, 2), ContainsSubstring("is there already"));
  std::filesystem::remove(file);
  CHECK_THROWS_WITH(nccl::world_by_file(file, 1, 2, 0.1), ContainsSubstring("rank 0 has not written"));
}

TEST_CASE("nccl: ranks of one machine are numbered on it, and take a GPU each") {
  rethrow_first(ThreadRanks::run(4, [&](const Ranks& threads) {
    if (nccl::local_rank(*threads) != threads->rank()) throw Error("another number");
  }));
}
