#pragma once

/// Ranks that are processes of MPI, `mpirun -n 8 program`: `mpi::world()` goes into `train::FitOptions::communicator`. Comes with
/// the target `attend::mpi`; MPI-3 in its C form, without the C++ bindings.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::mpi"
#else

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/train/communicator.hpp"

namespace attend::mpi {

/// Throws RankError with MPI's own words unless `code` says that all went well.
inline void check(const char* call, int code) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw train::RankError(call, ": ", std::string(text.data(), length));
}

/// Whether something like `mpirun` or `srun` started this process as one of several. Asks no MPI, and so costs nothing.
inline bool launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

/// The MPI that this program was compiled and linked with, in its own words: `Open MPI v4.1.4`.
inline std::string library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check("MPI_Get_library_version", MPI_Get_library_version(text.data(), &length));
  std::string name(text.data(), std::min(std::string_view(text.data()).find_first_of(",\n"), static_cast<std::size_t>(length)));
  std::replace(name.begin(), name.end(), '\t', ' ');
  return name;
}

/// What a rank calls, with one line that says so, where rank 0 is lost, which otherwise says why all end.
using LostLeader = std::function<void(const std::string& line)>;

/// All processes that were started together. There is one in a process; it ends MPI at the end of the program if it began it.
///
/// `timeout_seconds` is how long a rank may keep the others waiting before it counts as lost; the environment's
/// ATTEND_RANK_SECONDS overrides it. `lost_leader` may be empty.
class World final : public train::Communicator {
 public:
  explicit World(double timeout_seconds = 1800, LostLeader lost_leader = {})
      : timeout_(train::rank_seconds("mpi::world", timeout_seconds)), lost_leader_(std::move(lost_leader)) {
    int initialized = 0;
    check("MPI_Initialized", MPI_Initialized(&initialized));
    if (!initialized) {
      int provided = 0;
      check("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
      ends_mpi_ = true;
    }
    int threads = 0;
    check("MPI_Query_thread", MPI_Query_thread(&threads));
    check_value(threads >= MPI_THREAD_SERIALIZED, "mpi::world",
                initialized ? "MPI was begun without threads that take turns: call MPI_Init_thread with MPI_THREAD_SERIALIZED"
                            : "this MPI does not let threads take turns (MPI_THREAD_SERIALIZED)");
    for (MPI_Comm* ranks : {&ranks_, &signals_}) {
      check("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, ranks));
      check("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(*ranks, MPI_ERRORS_RETURN));
    }
    int number = 0;
    check("MPI_Comm_rank", MPI_Comm_rank(ranks_, &number));
    rank_ = number;
    check("MPI_Comm_size", MPI_Comm_size(ranks_, &number));
    size_ = number;
    unfinished_.reserve(3 * static_cast<std::size_t>(size_) + most_under_way);
    asked_since_.resize(size_);
    find_neighbours();
  }
  ~World() override {
    int finalized = 0;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized || !ends_mpi_) return;
    if (broken_) part();  // what is still under way would keep MPI_Finalize waiting for ever
    else MPI_Finalize();
  }

  [[nodiscard]] index_t rank() const override { return rank_; }
  [[nodiscard]] index_t size() const override { return size_; }

  void exchange(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    std::array<Messages, most_under_way> messages;
    try {
      const std::size_t both_ways = nth(neighbours_, other) ? most_near : most_far;
      std::size_t turn = 0;
      for (; !sent.empty() || !received.empty(); ++turn) {
        const std::size_t most = sent.empty() || received.empty() ? largest : both_ways;
        Messages& next = messages[turn % most_under_way];
        wait(next, other);
        begin(next, other, sent, received, most);
        sent = sent.subspan(std::min(most, sent.size()));
        received = received.subspan(std::min(most, received.size()));
      }
      for (std::size_t i = 0; i < most_under_way; ++i) wait(messages[(turn + i) % most_under_way], other);
    } catch (const train::RankError& e) {
      for (Messages& left : messages) cancel(left);
      fail(e.what());
      throw;
    }
  }

  void look_for_failure() override {
    int found = 0;
    MPI_Status status;
    check("MPI_Iprobe", MPI_Iprobe(MPI_ANY_SOURCE, tag_failure, signals_, &found, &status));
    if (!found) return;
    int length = 0;
    check("MPI_Get_count", MPI_Get_count(&status, MPI_CHAR, &length));
    std::string why(length, ' ');
    check("MPI_Recv", MPI_Recv(why.data(), length, MPI_CHAR, status.MPI_SOURCE, tag_failure, signals_, MPI_STATUS_IGNORE));
    broken_ = true;  // the others know
    leader_spoke_ = status.MPI_SOURCE == 0;
    if (rank_ == 0) tell_all(tag_alive);
    throw train::RankError("rank ", status.MPI_SOURCE, " failed: ", why);
  }
  [[nodiscard]] bool waiting(index_t other) override {
    look_for_failure();
    int found = 0;
    check("MPI_Iprobe", MPI_Iprobe(static_cast<int>(other), MPI_ANY_TAG, ranks_, &found, MPI_STATUS_IGNORE));
    auto& since = nth(asked_since_, other);
    if (found) since.reset();
    else if (!since) since = Clock::now();
    else if (seconds_since(*since) > timeout_) waiting_since_ = since, throw_silent(other);
    return found != 0;
  }

  void fail(std::string_view why) noexcept override {
    if (broken_) return;
    broken_ = true;
    const std::size_t n = std::min(why.size(), why_.size());
    std::copy_n(why.begin(), n, why_.begin());
    for (index_t other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;  // the message is short, and goes out while nobody waits for it
      if (MPI_Isend(why_.data(), static_cast<int>(n), MPI_CHAR, static_cast<int>(other), tag_failure, signals_, &request) ==
          MPI_SUCCESS)
        unfinished_.push_back(request);
    }
    progress(0.2);
  }

 protected:
  bool sum_by_engine(std::span<float> x) override { return all_reduce(x, MPI_FLOAT); }
  bool sum_by_engine(std::span<double> x) override { return all_reduce(x, MPI_DOUBLE); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int tag_last = 1, tag_more = 2;                      // the last message of an exchange, or one before it
  static constexpr int tag_failure = 3, tag_parted = 4, tag_alive = 5;  // of signals_

  static double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

  /// By way of memory of its own, into which MPI may write even after a failure.
  template <class T>
  bool all_reduce(std::span<T> x, MPI_Datatype type) {
    constexpr std::size_t most = (std::size_t{1} << 24) / sizeof(T);
    try {
      for (; !x.empty(); x = x.subspan(std::min(most, x.size()))) {
        const auto part = std::as_writable_bytes(x.first(std::min(most, x.size())));
        reduced_.resize(std::max(reduced_.size(), part.size()));
        std::copy(part.begin(), part.end(), reduced_.begin());
        std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        std::array<MPI_Status, 2> statuses;
        check("MPI_Iallreduce", MPI_Iallreduce(MPI_IN_PLACE, reduced_.data(), static_cast<int>(part.size() / sizeof(T)), type,
                                               MPI_SUM, ranks_, &requests[0]));
        poll(requests, statuses, (rank_ + 1) % size_);
        std::copy_n(reduced_.begin(), part.size(), part.begin());
      }
    } catch (const train::RankError& e) {
      fail(e.what());
      throw;
    }
    return true;
  }

  /// Whether a rank is one of this host's.
  void find_neighbours() {
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Group here = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
    check("MPI_Comm_split_type", MPI_Comm_split_type(ranks_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    check("MPI_Comm_group", MPI_Comm_group(host, &here));
    check("MPI_Comm_group", MPI_Comm_group(ranks_, &all));
    std::vector<int> numbers(static_cast<std::size_t>(size_)), found(numbers.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    check("MPI_Group_translate_ranks",
          MPI_Group_translate_ranks(all, static_cast<int>(size_), numbers.data(), here, found.data()));
    for (const int number : found) neighbours_.push_back(number != MPI_UNDEFINED);
    MPI_Group_free(&here), MPI_Group_free(&all), MPI_Comm_free(&host);
  }

  /// A message to another rank and one from it, or one of them.
  struct Messages {
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};  // that which receives, that which sends
    std::size_t expected = 0;                                                 // bytes that come
    int tag = tag_last;                                                       // with which they come
  };
  /// Bytes of a message at most: as MPI counts in int; and of messages that meet. Those between hosts are short enough to be sent
  /// at once: longer ones Open MPI sends and receives in turn over TCP, at half of the line's rate. Several are under way, so
  /// that the line is busy.
  static constexpr std::size_t largest = std::size_t{1} << 30, most_near = std::size_t{1} << 20, most_far = 60 << 10,
                               most_under_way = 8;

  /// Begins to exchange the first `most` bytes. The tag says whether they are all, so that ranks that do not mean the same are
  /// told.
  void begin(Messages& m, index_t other, std::span<const std::byte> sent, std::span<std::byte> received, std::size_t most) {
    const int rank = static_cast<int>(other);
    const auto out = sent.first(std::min(most, sent.size()));
    const auto in = received.first(std::min(most, received.size()));
    m.expected = in.size(), m.tag = in.size() < received.size() ? tag_more : tag_last;
    if (!in.empty())
      check("MPI_Irecv", MPI_Irecv(in.data(), static_cast<int>(in.size()), MPI_BYTE, rank, MPI_ANY_TAG, ranks_, &m.requests[0]));
    if (!out.empty())
      check("MPI_Isend", MPI_Isend(out.data(), static_cast<int>(out.size()), MPI_BYTE, rank,
                                   out.size() < sent.size() ? tag_more : tag_last, ranks_, &m.requests[1]));
  }
  /// Until both are done. A message comes within microseconds or after a pass through the model: the first are worth waiting for
  /// without a rest, the others are not.
  void wait(Messages& m, index_t other) {
    std::array<MPI_Status, 2> statuses;
    poll(m.requests, statuses, other);
    const std::size_t expected = std::exchange(m.expected, 0);
    if (expected == 0) return;
    int received = 0;
    check("MPI_Get_count", MPI_Get_count(&statuses[0], MPI_BYTE, &received));
    if (static_cast<std::size_t>(received) != expected || statuses[0].MPI_TAG != m.tag)
      throw train::RankError("rank ", other, " sent ", received, " bytes", statuses[0].MPI_TAG == tag_more ? " and more" : "",
                             ", expected ", expected, m.tag == tag_more ? " and more" : "", ": the ranks do not do the same");
  }
  /// Nothing is written any more afterwards; what is still being sent ends while the others are told of the failure.
  void cancel(Messages& m) {
    for (MPI_Request& request : m.requests)
      if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
    if (m.requests[0] != MPI_REQUEST_NULL) MPI_Wait(&m.requests[0], MPI_STATUS_IGNORE);
    if (m.requests[1] != MPI_REQUEST_NULL) unfinished_.push_back(m.requests[1]);
  }
  void poll(std::array<MPI_Request, 2>& requests, std::array<MPI_Status, 2>& statuses, index_t other) {
    const auto begin = Clock::now();
    waiting_since_ = begin;
    for (index_t turn = 0;; ++turn) {
      int done = 0;
      if (const int code = MPI_Testall(2, requests.data(), &done, statuses.data()); code == MPI_ERR_IN_STATUS)
        for (const MPI_Status& status : statuses)
          check("MPI_Testall", status.MPI_ERROR == MPI_ERR_PENDING ? MPI_SUCCESS : status.MPI_ERROR);
      else check("MPI_Testall", code);
      if (done) {
        waiting_since_.reset();
        return;
      }
      if (turn < 200) continue;
      if (turn % 64 == 0) look_for_failure();
      const double waited = seconds_since(begin);
      if (waited > timeout_) throw_silent(other);
      if (waited < 0.001) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(waited < 0.1 ? 20 : waited < 1 ? 200 : 1000));
    }
  }
  [[noreturn]] void throw_silent(index_t other) const {
    throw train::RankError("rank ", other, " has kept rank ", rank_, " waiting for ", timeout_, " seconds");
  }
  /// Lets MPI work on what is under way.
  void progress(double seconds) noexcept {
    for (const auto begin = Clock::now(); seconds_since(begin) < seconds;) {
      int done = 0;
      if (MPI_Testall(static_cast<int>(unfinished_.size()), unfinished_.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS ||
          done)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// The end of a run that has failed: launchers take away all ranks as soon as one is gone, so rank 0, which may be writing a
  /// checkpoint, goes first. It tells the others at once that it knows of the failure; if it does not, it is lost itself, and
  /// they need not wait for it.
  void part() noexcept {
    if (rank_ == 0) {
      tell_all(tag_parted);
      progress(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // for what the others still have to put away
    } else if (leader_lives()) {
      for (const auto begin = Clock::now(); seconds_since(begin) < timeout_;) {
        int found = 0;
        if (MPI_Iprobe(0, tag_parted, signals_, &found, MPI_STATUS_IGNORE) != MPI_SUCCESS || found) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    } else if (lost_leader_) {
      lost_leader_(
          Error("rank ", rank_, ": rank 0 has been silent for ", timeout_, " seconds and counts as lost, so all end").what());
    }
    MPI_Abort(ranks_, 1);
  }
  /// Whether rank 0 says anything after a failure, while it still may: the seconds that it has for an answer count from when this
  /// one began to wait. Ranks give up one after the other, so that the first speaks for all.
  [[nodiscard]] bool leader_lives() noexcept {
    const auto now = Clock::now();
    const double over = waiting_since_ ? seconds_since(*waiting_since_) : 0;
    const double left = std::max(timeout_ - over, std::min(timeout_, 1 + 0.25 * static_cast<double>(rank_)));
    while (!leader_spoke_ && seconds_since(now) < left) {
      int found = 0;
      if (MPI_Iprobe(0, MPI_ANY_TAG, signals_, &found, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      leader_spoke_ = found;
      if (!found) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return leader_spoke_;
  }
  /// Rank 0's word to all others, which nobody waits for.
  void tell_all(int tag) noexcept {
    static constexpr std::byte word{};
    for (index_t other = 1; other < size_; ++other) {
      unfinished_.push_back(MPI_REQUEST_NULL);
      if (MPI_Isend(&word, 1, MPI_BYTE, static_cast<int>(other), tag, signals_, &unfinished_.back()) != MPI_SUCCESS) break;
    }
    progress(0.2);
  }

  MPI_Comm ranks_ = MPI_COMM_NULL;    // for what is exchanged
  MPI_Comm signals_ = MPI_COMM_NULL;  // for words on failures, which no exchange may take for its own
  std::vector<bool> neighbours_;      // who is on this host
  index_t rank_ = 0, size_ = 1;
  double timeout_;
  LostLeader lost_leader_;
  bool ends_mpi_ = false;
  bool broken_ = false;        // a rank has failed or is lost
  bool leader_spoke_ = false;  // rank 0, since then
  std::array<char, 2000> why_{};
  std::vector<MPI_Request> unfinished_;
  std::vector<std::byte> reduced_;
  std::vector<std::optional<Clock::time_point>> asked_since_;  // for what a rank sends
  std::optional<Clock::time_point> waiting_since_;             // for what is exchanged
};

/// The processes that were started together, this one alone if nothing started several. What the first call says counts. Throws
/// RankError if MPI cannot be had.
inline std::shared_ptr<train::Communicator> world(double timeout_seconds = 1800, const LostLeader& lost_leader = {}) {
  static const auto all = std::make_shared<World>(timeout_seconds, lost_leader);
  return all;
}

}  // namespace attend::mpi

#endif  // C++20
