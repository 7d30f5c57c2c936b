#include "attend/train/deal.hpp"

#include <set>

#include "../catch.hpp"
#include "thread_ranks.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;
using test::ThreadRanks;

namespace {

/// Pieces "0", "1", ...; one that never answers at once where somebody has just asked.
struct Numbers {
  int count, next_number = 0, asked = 0;
  int throws_at = -1;
  bool ready() { return ++asked % 3 == 0; }
  bool next(std::string& piece) {
    if (next_number == count) return false;
    if (next_number == throws_at) throw IoError("the source is gone");
    piece = std::to_string(next_number++);
    return true;
  }
};

/// A result of each length, from none on; the first pieces take longest.
std::string work(const std::string& piece) {
  const int n = std::stoi(piece);
  if (n < 4) std::this_thread::sleep_for(std::chrono::milliseconds(10 * (4 - n)));
  return std::string(static_cast<std::size_t>(n % 5), 'x') + (n % 7 == 0 ? "" : piece);
}

std::vector<std::exception_ptr> dealt(index_t ranks, Numbers source,
                                      const std::function<std::string(index_t, const std::string&)>& f,
                                      std::vector<std::string>& results) {
  return ThreadRanks::run(ranks, [&](const std::shared_ptr<Communicator>& communicator) {
    deal(
        communicator.get(), source, [&](const std::string& piece) { return f(communicator->rank(), piece); },
        [&](std::string result) { results.push_back(std::move(result)); });
  });
}

/// Lets no rank go on before each of them has come.
class Meeting {
 public:
  explicit Meeting(index_t ranks) : ranks_(ranks) {}
  void come(index_t rank) {
    std::unique_lock lock(mutex_);
    come_.insert(rank);
    changed_.notify_all();
    changed_.wait(lock, [&] { return count_of(come_) == ranks_; });
  }

 private:
  index_t ranks_;
  std::set<index_t> come_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

std::string text_of(const std::exception_ptr& end) {
  if (!end) return {};
  try {
    std::rethrow_exception(end);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("deal: results come in the order of the pieces, from all ranks") {
  std::vector<std::string> expected;
  deal(nullptr, Numbers{50}, work, [&](std::string result) { expected.push_back(std::move(result)); });
  REQUIRE(expected.size() == 50);
  CHECK(expected[8] == "xxx8");
  for (const index_t ranks : {1, 2, 3, 4}) {
    std::vector<std::string> results;
    Meeting meeting(ranks);
    const auto ends = dealt(
        ranks, {50},
        [&](index_t rank, const std::string& piece) {
          meeting.come(rank);  // each has a piece
          return work(piece);
        },
        results);
    for (const auto& end : ends) CHECK(text_of(end).empty());
    CHECK(results == expected);
  }
}

TEST_CASE("deal: no pieces, and fewer than ranks") {
  for (const int count : {0, 1, 2}) {
    std::vector<std::string> results;
    const auto ends = dealt(
        4, {count}, [](index_t, const std::string& piece) { return work(piece); }, results);
    for (const auto& end : ends) CHECK(text_of(end).empty());
    CHECK(static_cast<int>(results.size()) == count);
  }
}

TEST_CASE("deal: what goes wrong on one rank ends all, and what came before it is delivered") {
  for (const index_t bad : {0, 2}) {
    std::vector<std::string> results;
    Meeting meeting(4);
    const auto ends = dealt(
        4, {1000},
        [&](index_t rank, const std::string& piece) {
          meeting.come(rank);
          if (rank == bad) throw ValueError("no memory for " + piece);
          return work(piece);
        },
        results);
    for (index_t rank = 0; rank < 4; ++rank) CHECK_THAT(text_of(nth(ends, rank)), ContainsSubstring("no memory for"));
    CHECK_THAT(text_of(nth(ends, bad)), !ContainsSubstring("failed"));
    CHECK_THAT(text_of(nth(ends, bad == 0 ? 1 : 0)), ContainsSubstring("rank " + std::to_string(bad) + " failed"));
    CHECK(results.size() < 1000);
  }
  std::vector<std::string> results;
  Numbers source{10};
  source.throws_at = 5;
  const auto ends = dealt(
      2, source, [](index_t, const std::string& piece) { return work(piece); }, results);
  CHECK(text_of(ends[0]) == "the source is gone");
  CHECK(results.size() == 5);  // what was given out before is done
  CHECK_THAT(text_of(ends[1]), ContainsSubstring("rank 0 failed: the source is gone"));
}
