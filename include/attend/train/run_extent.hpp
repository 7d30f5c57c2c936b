#pragma once

#include <algorithm>
#include <optional>

#include "attend/train/batches.hpp"
#include "attend/train/checkpoint.hpp"
#include "attend/train/options.hpp"
#include "attend/train/run_clock.hpp"
#include "attend/train/run_schedule.hpp"

namespace attend::train {

/// How long a run is, and how much of it is over.
class RunExtent {
 public:
  /// What it is given must outlive it.
  RunExtent(const FitOptions& options, const Batches::Epoch& epoch, const TrainingState& state)
      : o_(options), epoch_(epoch), state_(state) {}

  /// 0 if it is not known.
  [[nodiscard]] index_t total_steps() const { return train::total_steps(o_, epoch_.size()); }
  [[nodiscard]] double epochs_done() const {
    return static_cast<double>(state_.epoch) + static_cast<double>(state_.position) / static_cast<double>(epoch_.size());
  }
  /// The share of the run that is over, 0 to 1; 0 if nothing but patience or an interruption ends it.
  [[nodiscard]] double done() const { return std::max(0.0, RunClock::fraction(o_, epochs_done(), state_.step, state_.seconds)); }
  /// Whether anything ends the run but patience or an interruption.
  [[nodiscard]] bool ends() const { return o_.epochs > 0 || o_.max_steps > 0 || o_.max_seconds > 0; }
  /// How many twentieths of the run are over.
  [[nodiscard]] index_t twentieths() const { return static_cast<index_t>(20 * done() + 1e-9); }
  /// Which limit is reached after so many seconds, if any is.
  [[nodiscard]] std::optional<StopReason> limit(double seconds) const {
    if (o_.patience > 0 && state_.since_best >= o_.patience) return StopReason::patience;
    if (o_.epochs > 0 && state_.epoch >= o_.epochs) return StopReason::epochs;
    if (o_.max_steps > 0 && state_.step >= o_.max_steps) return StopReason::max_steps;
    if (o_.max_seconds > 0 && seconds >= o_.max_seconds) return StopReason::max_seconds;
    return std::nullopt;
  }

 private:
  const FitOptions& o_;
  const Batches::Epoch& epoch_;
  const TrainingState& state_;
};

}  // namespace attend::train
