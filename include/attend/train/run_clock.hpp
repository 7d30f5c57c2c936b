#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

#include "attend/train/options.hpp"

namespace attend::train {

/// How far a run is by each of its limits, counting the time of the runs that it resumes.
class RunClock {
 public:
  /// Starts counting at `before` seconds.
  void start(double before) { before_ = before, start_ = Clock::now(); }
  [[nodiscard]] double seconds() const { return before_ + std::chrono::duration<double>(Clock::now() - start_).count(); }

  /// The part of the run that is done by the limit that is nearest, 0 to 1; negative if there is no limit.
  [[nodiscard]] static double fraction(const FitOptions& o, double epochs, index_t step, double seconds) {
    double done = -1;
    if (o.epochs > 0) done = std::max(done, epochs / static_cast<double>(o.epochs));
    if (o.max_steps > 0) done = std::max(done, static_cast<double>(step) / static_cast<double>(o.max_steps));
    if (o.max_seconds > 0) done = std::max(done, seconds / o.max_seconds);
    return std::min(done, 1.0);
  }
  /// Seconds that are left when so much is done; negative if that is not known. Judged by this run's own speed.
  [[nodiscard]] double seconds_left(double fraction_now, double seconds_now) {
    if (fraction_before_ < 0) fraction_before_ = std::max(fraction_now, 0.0), counted_from_ = seconds_now;
    const double done = fraction_now - fraction_before_;
    return done > 0 ? (seconds_now - counted_from_) * (1 - fraction_now) / done : -1;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  double before_ = 0, fraction_before_ = -1, counted_from_ = 0;
};

}  // namespace attend::train
