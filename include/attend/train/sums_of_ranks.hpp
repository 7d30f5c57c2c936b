#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/optim/parameters.hpp"
#include "attend/train/communicator.hpp"
#include "attend/train/pairwise_sum.hpp"
#include "attend/train/shared_update.hpp"

namespace attend::train {

/// Adds up the gradients of all ranks, on a processor while the backward pass is still at work: parameters in the reverse of
/// their order, some megabytes at a time, as soon as the gradients of all ranks' last parts are complete. A thread of its own
/// does what waits for others. Sums are taken element by element, so the bits do not depend on when. Where ranks have a share
/// each of the optimizer, a rank gets the sums of its share alone.
template <class T, Device D>
class SumsOfRanks {
 public:
  /// `fast`: in any order, in place of that of `Communicator::sum`; sums of shares (`shared`, if not null) have that order
  /// always.
  SumsOfRanks(Communicator& ranks, const optim::FlatParameters<T, D>& parameters, bool fast,
              const SharedUpdate<T, D>* shared = nullptr)
      : ranks_(ranks), gradients_(parameters.gradients()), fast_(fast), shared_(shared) {
    // Of shares a message has whole matrices, so that more of them together are needed for ranks to have as much to send as to
    // receive.
    const index_t enough = shared ? std::max(least, std::min(least * ranks.size(), parameters.size() / 8)) : least;
    const auto places = parameters.places();
    const auto ids = parameters.ids();
    index_t end = parameters.size();
    for (std::size_t i = places.size(); i > 0; --i) {
      const auto& place = places[i - 1];
      if (pieces_.empty() || pieces_.back().size >= enough) pieces_.push_back({place.begin, 0, 0, {}});
      pieces_.back().begin = place.begin;
      pieces_.back().size += std::exchange(end, place.begin) - place.begin;
      ++pieces_.back().parameters;
      piece_of_[ids[i - 1]] = pieces_.size() - 1;
    }
    if (shared)
      for (Piece& piece : pieces_) piece.shares = shared->within(piece.begin, piece.size);
  }

  /// Before the backward pass of this rank's last part, number `k`: `parts` has the sums of those before it.
  void begin(PairwiseSum<T, D>& parts, index_t k) {
    parts_ = &parts, k_ = k, next_ = 0;
    missing_.clear();
    for (const auto& piece : pieces_) missing_.push_back(piece.parameters);
    if constexpr (std::same_as<D, Cpu>) {
      watch_.emplace([this](const void* id) { complete(id); });
      worker_.emplace([this](const Piece& piece) { sum(piece); });
    }
  }
  /// After it: until all gradients are those of all ranks. Throws what became of the sums.
  void finish() {
    watch_.reset();
    const auto begin = Clock::now();
    for (; next_ < pieces_.size(); ++next_) send(pieces_[next_]);
    if (worker_) worker_->finish();
    worker_.reset();
    waited_ += seconds_since(begin);
  }
  /// After a backward pass that has thrown, or another end: waits for what is under way, and lets the rest be.
  void abandon() noexcept {
    watch_.reset();
    worker_.reset();
  }

  /// Seconds that sums have taken, and of these the seconds in which nothing was computed.
  [[nodiscard]] double summed() const { return summed_; }
  [[nodiscard]] double waited() const { return std::min(waited_, summed_); }  // whose thread takes a moment to end besides

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }
  /// Elements: enough for a message's cost not to matter, few enough for the first to go out early. On a device, where none does,
  /// as many as there is room for.
  static constexpr index_t least = index_t{1} << (std::same_as<D, Cpu> ? 20 : 24);

  /// Parameters next to each other.
  struct Piece {
    index_t begin, size, parameters;
    Communicator::Shares shares;
  };

  /// A thread that does one thing after another; it ends with this.
  class Worker {
   public:
    template <class Do>
    explicit Worker(Do act)
        : thread_([this, act = std::move(act)] {
            std::unique_lock lock(mutex_);
            while (true) {
              changed_.wait(lock, [&] { return !waiting_.empty() || ended_; });
              if (waiting_.empty() || error_) return;
              const Piece& piece = *waiting_.front();
              waiting_.pop_front();
              lock.unlock();
              std::exception_ptr error;
              try {
                act(piece);
              } catch (...) {
                error = std::current_exception();
              }
              lock.lock();
              if (error) {
                error_ = error;
                return;
              }
            }
          }) {}
    ~Worker() { end(); }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void add(const Piece& piece) {
      {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(&piece);
      }
      changed_.notify_one();
    }
    /// Waits for all. Throws what one of them has thrown.
    void finish() {
      end();
      if (error_) std::rethrow_exception(error_);
    }

   private:
    void end() {
      {
        const std::lock_guard lock(mutex_);
        ended_ = true;
      }
      changed_.notify_one();
      if (thread_.joinable()) thread_.join();
    }
    std::deque<const Piece*> waiting_;
    bool ended_ = false;
    std::exception_ptr error_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;  // last: it uses the others
  };

  void complete(const void* id) {
    const auto found = piece_of_.find(id);
    if (found == piece_of_.end()) return;
    --missing_[found->second];
    for (; next_ < pieces_.size() && missing_[next_] == 0; ++next_) send(pieces_[next_]);
  }
  /// All ranks do it in the order of the pieces.
  void send(const Piece& piece) {
    parts_->finish(k_, gradients_, piece.begin, piece.size);
    if (worker_) worker_->add(piece);
    else sum(piece);
  }
  void sum(const Piece& piece) {
    const auto begin = Clock::now();
    const auto part = gradients_.rows(piece.begin, piece.size);
    if (shared_) ranks_.sum_shares(part, piece.shares);
    else if (fast_) ranks_.sum_in_any_order(part);
    else ranks_.sum(part);
    summed_ += seconds_since(begin);
  }

  Communicator& ranks_;
  const Tensor<T, D> gradients_;
  const bool fast_;
  const SharedUpdate<T, D>* const shared_;
  std::vector<Piece> pieces_;  // the last parameters first
  std::unordered_map<const void*, std::size_t> piece_of_;
  PairwiseSum<T, D>* parts_ = nullptr;
  index_t k_ = 0;
  std::vector<index_t> missing_;  // parameters of each piece that are not complete
  std::size_t next_ = 0;          // piece
  std::optional<GradientWatch> watch_;
  std::optional<Worker> worker_;
  double summed_ = 0, waited_ = 0;
};

}  // namespace attend::train
