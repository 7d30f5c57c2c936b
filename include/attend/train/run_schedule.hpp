#pragma once

#include <algorithm>
#include <string>
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

/// What to say where the warm-up of the schedule that was asked for is more than half of a run, and so is cut; empty where it is
/// not, or that is not known yet. It is by the number of steps (0: not known) from the beginning on, by the clock once half of
/// the run is `done`, at `step`.
inline std::string cut_warmup(const optim::Schedule& asked, index_t steps, double done, index_t step) {
  if (!asked.cuts_warmup()) return {};
  const index_t wanted = asked.options().warmup, half = steps / 2;
  const bool by_steps = half > 0 && wanted > half, by_clock = done >= 0.5 && step < wanted;
  if (!by_steps && !by_clock) return {};
  return "a warm-up of " + std::to_string(wanted) + " steps is more than half of the run; it is cut to " +
         std::to_string(by_steps ? half : step);
}

}  // namespace attend::train
