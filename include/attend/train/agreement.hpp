#pragma once

#include <atomic>
#include <concepts>
#include <cstring>
#include <vector>

#include "attend/optim/any_optimizer.hpp"
#include "attend/train/ranks.hpp"
#include "attend/train/run_clock.hpp"

namespace attend::train {

/// What all ranks decide by: the clock of rank 0, and whether any of them is to stop.
class Agreement {
 public:
  /// What it is given must outlive it. `stop` may be null.
  Agreement(const Ranks& ranks, const RunClock& clock, const std::atomic<bool>* stop)
      : ranks_(ranks), clock_(clock), stop_(stop) {}

  /// Before the first step, with the seconds that all ranks have been told.
  void begin(double seconds) { seconds_ = seconds; }
  /// Gives all ranks the clock of rank 0 and an interruption of any of them. Throws RankError if their weights differ: it
  /// compares the sum of their squares or, on a GPU, where that would keep the host waiting, the gradients' norm.
  template <class T, Device D>
  void agree(const optim::AnyOptimizer<T, D>& optimizer, index_t step) {
    if (!ranks_) return;
    Word mine{clock_.seconds(), 0, asked()};
    const auto& values = optimizer.parameters().values();
    if constexpr (std::same_as<D, Cpu>) mine.weights = sum_of_squares(D{}, values.size(), values.data());
    else mine.weights = optimizer.record().item().norm;
    const auto words = ranks_.gather(std::vector<Word>{mine});
    if (count_of(words) != ranks_.size()) throw RankError("fit: ranks do not do the same at step ", step);
    seconds_ = words.front().seconds;
    for (std::size_t k = 0; k < words.size(); ++k) {
      interrupted_ = interrupted_ || words[k].interrupted;
      if (std::memcmp(&words[k].weights, &words.front().weights, sizeof(double)) != 0)
        throw RankError("fit: rank ", k, " has other weights than rank 0 after step ", step,
                        ": their processors or builds compute differently, or something else has changed them");
    }
  }
  /// Seconds of training.
  [[nodiscard]] double seconds() const { return ranks_ ? seconds_ : clock_.seconds(); }
  [[nodiscard]] bool interrupted() const { return ranks_ ? interrupted_ : asked(); }

 private:
  /// What ranks tell each other after each step.
  struct Word {
    double seconds, weights;
    index_t interrupted;
  };
  [[nodiscard]] bool asked() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

  const Ranks& ranks_;
  const RunClock& clock_;
  const std::atomic<bool>* stop_;
  double seconds_ = 0;
  bool interrupted_ = false;
};

}  // namespace attend::train
