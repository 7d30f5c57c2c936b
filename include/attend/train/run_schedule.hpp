#pragma once

#include <algorithm>
#include <variant>

#include "attend/train/options.hpp"

namespace attend::train {

/// Updates until epochs or max_steps end a run of so many batches an epoch; 0 where neither does. Epochs may differ by a batch:
/// an estimate.
inline index_t total_steps(const FitOptions& o, index_t batches_per_epoch) {
  const index_t by_epochs = o.epochs * batches_per_epoch;
  if (by_epochs == 0 || o.max_steps == 0) return std::max(by_epochs, o.max_steps);
  return std::min(by_epochs, o.max_steps);
}

/// The learning rates of a run of that many steps (0: not known). Throws ValueError for a fall that has no end.
inline optim::Schedule run_schedule(const FitOptions& o, index_t steps) {
  if (!o.schedule) {
    const double rate = std::visit([](const auto& options) { return options.learning_rate; }, o.optimizer);
    return optim::Schedule({.kind = optim::ScheduleKind::inverse_sqrt, .learning_rate = rate, .warmup = 500});
  }
  if (!o.schedule->open()) return *o.schedule;
  check_value(steps > 0, "fit", "the schedule `" + o.schedule->text() + "` has no end; give its steps, or epochs or max_steps");
  return o.schedule->ending_at(steps);
}

}  // namespace attend::train
