#pragma once

#include <algorithm>
#include <variant>

#include "attend/train/completed.hpp"

namespace attend::train {

/// Updates until epochs or max_steps end a run of so many batches an epoch; 0 if neither does. An estimate, since epochs may
/// differ by a batch.
inline index_t total_steps(const FitOptions& o, index_t batches_per_epoch) {
  const index_t by_epochs = o.epochs * batches_per_epoch;
  if (by_epochs == 0 || o.max_steps == 0) return std::max(by_epochs, o.max_steps);
  return std::min(by_epochs, o.max_steps);
}

/// The learning rates of a run of that many steps (0: not known), of complete options. If the options have no schedule it is
/// `automatic_schedule`, with a warm-up of at most a tenth of the run. A fall whose end is open is given one, a step after the
/// last, unless a clock may end the run; see `Schedule::at`. Throws ValueError for one that nothing ends.
inline optim::Schedule run_schedule(const FitOptions& o, index_t steps) {
  optim::ScheduleOptions schedule;
  if (o.schedule) {
    schedule = o.schedule->options();
  } else {
    schedule = automatic_schedule(o.optimizer.value(), steps > 0 || o.max_seconds > 0);
    schedule.kind = o.schedule_kind.value_or(schedule.kind);
    if (steps > 0) schedule.warmup = std::min(schedule.warmup, steps / 10);
  }
  const optim::Schedule result(schedule);
  if (!result.open() || o.max_seconds > 0) return result;
  check_value(steps > 0, "fit", "the schedule `", result.text(),
              "` has no end; give its steps, or epochs, max_steps or max_seconds");
  schedule.warmup = std::min(schedule.warmup, steps / 2);
  schedule.steps = steps + 1;  // so that the last step still moves the weights
  return optim::Schedule(schedule);
}

}  // namespace attend::train
