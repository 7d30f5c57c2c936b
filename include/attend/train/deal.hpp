#pragma once

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "attend/train/communicator.hpp"

namespace attend::train {

/// Where pieces of work come from. `next` gives one, for which it may wait; false at the end. `ready` says whether it would
/// answer at once; rank 0 of several asks it first, so as to keep nobody waiting.
template <class S>
concept PieceSource = requires(S& s, std::string& piece) {
  { s.next(piece) } -> std::same_as<bool>;
  { s.ready() } -> std::same_as<bool>;
};

namespace detail {

/// A thread of rank 0 that works while the main one deals.
class OwnWorker {
 public:
  template <class Work>
  explicit OwnWorker(Work& work)
      : thread_([this, &work] {
          std::unique_lock lock(mutex_);
          while (true) {
            changed_.wait(lock, [&] { return state_ == State::given || state_ == State::ended; });
            if (state_ == State::ended) return;
            lock.unlock();
            std::exception_ptr error;
            std::string result;
            try {
              result = work(std::as_const(text_));
            } catch (...) {
              error = std::current_exception();
            }
            lock.lock();
            text_ = std::move(result), error_ = error;
            if (state_ == State::given) state_ = State::done;
          }
        }) {}
  ~OwnWorker() {
    {
      const std::lock_guard lock(mutex_);
      state_ = State::ended;
    }
    changed_.notify_one();
    thread_.join();
  }
  OwnWorker(const OwnWorker&) = delete;
  OwnWorker& operator=(const OwnWorker&) = delete;

  void give(std::string piece) {
    {
      const std::lock_guard lock(mutex_);
      text_ = std::move(piece), state_ = State::given;
    }
    changed_.notify_one();
  }
  /// Whether the piece is done; what came of it is in `result` then. Throws what the work has thrown.
  bool done(std::string& result) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::done) return false;
    state_ = State::idle;
    if (error_) std::rethrow_exception(error_);
    result = std::move(text_);
    return true;
  }

 private:
  enum class State { idle, given, done, ended };
  State state_ = State::idle;
  std::string text_;  // a piece, then what came of it
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // last: it uses the others
};

/// Rank 0's side of `deal`.
template <class Source, class Work, class Sink>
class Dealer {
 public:
  Dealer(Communicator& ranks, Source& source, Work& work, Sink& sink)
      : ranks_(ranks), source_(source), sink_(sink), own_(work), holds_(ranks.size(), none) {}

  void run() {
    auto moved = Clock::now(), encouraged = moved;
    while (!ended_ || delivered_ < given_) {
      const auto now = Clock::now();
      ranks_.look_for_failure();
      const bool collected = collect(), given = give();
      if (collected || given) moved = now;
      else
        std::this_thread::sleep_for(now - moved < std::chrono::seconds(1) ? std::chrono::microseconds(200)
                                                                          : std::chrono::milliseconds(5));
      if (now - encouraged > std::chrono::seconds(1)) encourage(), encouraged = now;
    }
    if (error_) std::rethrow_exception(error_);
    for (index_t other = 1; other < ranks_.size(); ++other) ranks_.send(other, "");
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr index_t none = -1;

  /// Tells those that wait for a piece that there is none yet, lest they take this rank for lost.
  void encourage() {
    for (index_t other = 1; other < ranks_.size(); ++other)
      if (nth(holds_, other) == none) ranks_.send(other, ".");
  }

  /// Takes what is done, and hands on what is next in the order of the pieces.
  bool collect() {
    bool moved = false;
    for (index_t rank = 0; rank < ranks_.size(); ++rank) {
      index_t& piece = nth(holds_, rank);
      if (piece == none) continue;
      std::string result;
      if (rank == 0 ? !own_.done(result) : !ranks_.waiting(rank)) continue;
      if (rank > 0) result = ranks_.receive(rank);
      results_[std::exchange(piece, none)] = std::move(result);
      moved = true;
    }
    for (auto first = results_.find(delivered_); first != results_.end(); first = results_.find(++delivered_)) {
      sink_(std::move(first->second));
      results_.erase(first);
    }
    return moved;
  }
  /// Gives a piece to each rank that has none, in turn, as long as there are pieces; pauses before results pile up behind a slow
  /// one.
  bool give() {
    bool moved = false;
    for (index_t turn = 0; turn < ranks_.size(); ++turn) {
      const index_t rank = (first_ + turn) % ranks_.size();
      if (ended_ || nth(holds_, rank) != none || given_ - delivered_ >= 8 * ranks_.size()) continue;
      std::string piece;
      if (!next(piece)) break;
      nth(holds_, rank) = given_++;
      first_ = (rank + 1) % ranks_.size();
      if (rank == 0) own_.give(std::move(piece));
      else ranks_.send(rank, "+" + piece);
      moved = true;
    }
    return moved;
  }

  /// A piece if there is one now. An error waits until all that was given is done.
  bool next(std::string& piece) {
    try {
      if (!source_.ready()) return false;
      ended_ = !source_.next(piece);
    } catch (...) {
      error_ = std::current_exception();
      ended_ = true;
    }
    return !ended_;
  }

  Communicator& ranks_;
  Source& source_;
  Sink& sink_;
  OwnWorker own_;
  std::vector<index_t> holds_;              // the piece that each rank works on
  std::map<index_t, std::string> results_;  // whose predecessors are not there yet
  index_t given_ = 0, delivered_ = 0, first_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;  // of the source
};

}  // namespace detail

/// Work on many pieces, each of which needs nothing of the others, such as the lines of a text to translate: rank 0 deals them
/// out to the ranks, itself among them, as they become free, and gets the results in the order of the pieces. `ranks` may be
/// null: then it works alone.
///
/// `source` (rank 0's) has the pieces; `work(const std::string& piece)` makes a result of one, on any rank, on a thread of its
/// own on rank 0; `sink(std::string result)` (rank 0's) takes it. Pieces and results are bytes, of which the caller knows the
/// meaning. Throws what any of the three throws, and RankError if another rank has failed.
template <PieceSource Source, class Work, class Sink>
void deal(Communicator* ranks, Source&& source, Work&& work, Sink&& sink) {
  if (ranks == nullptr || ranks->size() == 1) {
    for (std::string piece; source.next(piece);) sink(work(std::as_const(piece)));
    return;
  }
  try {
    if (ranks->rank() == 0) {
      detail::Dealer(*ranks, source, work, sink).run();
      return;
    }
    while (true) {
      const std::string piece = ranks->receive(0);
      if (piece.empty()) return;
      if (piece[0] == '+') ranks->send(0, work(piece.substr(1)));
    }
  } catch (const std::exception& e) {
    ranks->fail(e.what());
    throw;
  }
}

}  // namespace attend::train
