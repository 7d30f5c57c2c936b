#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "attend/core/number_text.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/types.hpp"

namespace attend::optim {

enum class ScheduleKind { constant, linear, cosine, inverse_sqrt, noam };

/// How the learning rate moves in training. A kind takes what its line names and ignores the rest.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::inverse_sqrt;
  double learning_rate = 1e-3;  ///< the highest rate, reached at the end of the warm-up (all but noam)
  index_t warmup = 0;           ///< steps in which the rate rises linearly from 0 (all kinds)
  index_t steps = 0;            ///< the step at which the fall ends; 0: open, `ending_at` sets it (linear, cosine)
  double final_rate = 0;        ///< the rate from then on (linear, cosine)
  index_t d_model = 512;        ///< the model's width (noam)
  double factor = 1;            ///< what its rate is multiplied by (noam)
};

/// The learning rate of each step. Steps count from 1. Within the warm-up (step < warmup) the rate is rate(warmup) *
/// step / warmup; after it, with p = (step - warmup) / (steps - warmup), at most 1:
///
/// | kind         | rate |
/// |--------------|------|
/// | constant     | learning_rate |
/// | linear       | learning_rate + (final_rate - learning_rate) * p |
/// | cosine       | final_rate + (learning_rate - final_rate) * (1 + cos(pi p)) / 2 |
/// | inverse_sqrt | learning_rate * sqrt(max(warmup, 1) / step) |
/// | noam         | factor * d_model^-0.5 * step^-0.5  (Vaswani et al. 2017, section 5.3) |
class Schedule {
 public:
  /// Throws ValueError for a rate that is negative or not finite, a negative count, a fall that ends within the warm-up.
  Schedule(const ScheduleOptions& options = {}) : o_(options) {  // NOLINT(google-explicit-constructor): options are a schedule
    const auto rate = [](double value, const char* name) {
      check_value(value >= 0 && std::isfinite(value), "schedule",
                  std::string(name) + " is " + number_text(value) + ", expected 0 or more");
    };
    rate(o_.learning_rate, "learning_rate");
    rate(o_.final_rate, "final_rate");
    rate(o_.factor, "factor");
    check_value(o_.warmup >= 0, "schedule", "warmup is " + std::to_string(o_.warmup) + ", expected 0 or more");
    check_value(o_.d_model > 0, "schedule", "d_model is " + std::to_string(o_.d_model) + ", expected 1 or more");
    check_value(o_.steps >= 0, "schedule", "steps is " + std::to_string(o_.steps) + ", expected 0 or more");
    check_value(!falls() || o_.steps == 0 || o_.steps > o_.warmup, "schedule",
                std::string(name(o_.kind)) + " ends at step " + std::to_string(o_.steps) + ", expected more than its warmup of " +
                    std::to_string(o_.warmup));
  }

  [[nodiscard]] const ScheduleOptions& options() const { return o_; }

  /// True where the rate falls to an end that is not set yet.
  [[nodiscard]] bool open() const { return falls() && o_.steps == 0; }
  /// The same with the fall, where there is one, ending at that step. Throws ValueError where that is within the warm-up.
  [[nodiscard]] Schedule ending_at(index_t steps) const {
    check_value(steps >= 1, "schedule", "it cannot end at step " + std::to_string(steps));
    ScheduleOptions options = o_;
    options.steps = steps;
    return Schedule(options);
  }

  /// The learning rate of that step, counted from 1. Throws ValueError for a step before the first, and while `open`.
  [[nodiscard]] double at(index_t step) const {
    check_value(!open(), "schedule", std::string(name(o_.kind)) + " has no steps, expected the step at which it ends");
    check_step(step);
    const auto s = static_cast<double>(step), warmup = static_cast<double>(o_.warmup);
    if (step < o_.warmup) return after_warmup(warmup) * s / warmup;
    return after_warmup(s);
  }
  /// The same in a run of which the share `done`, 0 to 1, is over, by the clock for instance: an open fall ends with the run (p
  /// in the table is `done`), and a warm-up that is not over by half of the run ends there (see `cuts_warmup`). Throws ValueError
  /// for a step before the first.
  [[nodiscard]] double at(index_t step, double done) const {
    if (!cuts_warmup()) return at(step);
    check_step(step);
    done = std::clamp(done, 0.0, 1.0);
    const auto s = static_cast<double>(step), warmup = static_cast<double>(o_.warmup);
    const double risen = step < o_.warmup ? std::min(1.0, std::max(s / warmup, 2 * done)) : 1.0;
    return risen * (falls() ? fallen(done) : after_warmup(std::max(s, warmup)));
  }
  /// Whether a warm-up ends by half of a run. Not where the end of a fall is given, which then says how long the run is, nor for
  /// noam, whose highest rate depends on the warm-up.
  [[nodiscard]] bool cuts_warmup() const { return o_.kind != ScheduleKind::noam && (!falls() || open()); }

  /// `cosine:learning_rate=0.001,warmup=4000,steps=100000,final_rate=0`: what `parse` reads back to an equal schedule.
  [[nodiscard]] std::string text() const {
    std::string s(name(o_.kind));
    char separator = ':';
    for_fields(o_, [&](std::string_view key, const auto& value) {
      if (!takes(o_.kind, key)) return;
      s += separator + std::string(key) + "=" + number_text(value);
      separator = ',';
    });
    return s;
  }

  /// Reads `KIND` or `KIND:name=value,...`, as `text` writes it; what is not named keeps its value of `defaults`.
  /// Throws ValueError that names what cannot be read.
  static Schedule parse(std::string_view text, ScheduleOptions defaults = {}) {
    const auto fail = [&](const std::string& message) {
      throw ValueError("schedule: `" + attend::detail::printable(text) + "`: " + message);
    };
    const std::size_t colon = text.find(':');
    defaults.kind = kind(text.substr(0, colon));
    std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest = item.size() == rest.size() ? std::string_view() : rest.substr(item.size() + 1);
      const std::size_t equals = item.find('=');
      if (equals == std::string_view::npos) fail("`" + attend::detail::printable(item) + "` is not of the form name=value");
      const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
      bool known = false;
      for_fields(defaults, [&](std::string_view field, auto& target) {
        if (field != key || !takes(defaults.kind, key)) return;
        known = true;
        if (!parse_number(value, target))
          fail("`" + attend::detail::printable(value) + "` is not a number for " + std::string(key));
      });
      if (!known) fail(std::string(name(defaults.kind)) + " has no `" + attend::detail::printable(key) + "`");
    }
    return Schedule(defaults);
  }

  /// `cosine` for ScheduleKind::cosine.
  static std::string_view name(ScheduleKind kind) { return names[static_cast<std::size_t>(kind)]; }
  /// The kind of that name. Throws ValueError that lists the names.
  static ScheduleKind kind(std::string_view name) {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) return static_cast<ScheduleKind>(i);
    throw ValueError("schedule: `" + attend::detail::printable(name) +
                     "` is none of constant, linear, cosine, inverse_sqrt, noam");
  }

  friend bool operator==(const Schedule& a, const Schedule& b) { return a.text() == b.text(); }

 private:
  static constexpr std::array<std::string_view, 5> names = {"constant", "linear", "cosine", "inverse_sqrt", "noam"};

  [[nodiscard]] bool falls() const { return o_.kind == ScheduleKind::linear || o_.kind == ScheduleKind::cosine; }

  static void check_step(index_t step) {
    check_value(step >= 1, "schedule", "step is " + std::to_string(step) + ", expected 1 or more");
  }

  /// p of the table, of a fall whose end is set.
  [[nodiscard]] double progress(double step) const {
    const auto warmup = static_cast<double>(o_.warmup), steps = static_cast<double>(o_.steps);
    return std::min(1.0, (step - warmup) / (steps - warmup));
  }
  /// The rate of a fall at p.
  [[nodiscard]] double fallen(double p) const {
    if (o_.kind == ScheduleKind::linear) return o_.learning_rate + (o_.final_rate - o_.learning_rate) * p;
    return o_.final_rate + (o_.learning_rate - o_.final_rate) * (1 + std::cos(std::numbers::pi * p)) / 2;
  }

  [[nodiscard]] double after_warmup(double step) const {
    const auto warmup = static_cast<double>(o_.warmup);
    switch (o_.kind) {
      case ScheduleKind::constant:
        return o_.learning_rate;
      case ScheduleKind::linear:
      case ScheduleKind::cosine:
        return fallen(progress(step));
      case ScheduleKind::inverse_sqrt:
        return o_.learning_rate * std::sqrt(std::max(warmup, 1.0) / step);
      case ScheduleKind::noam:
        return o_.factor / std::sqrt(static_cast<double>(o_.d_model) * step);
    }
    return 0;
  }

  template <class Options, class F>
  static void for_fields(Options& o, F&& field) {
    field("learning_rate", o.learning_rate);
    field("warmup", o.warmup);
    field("steps", o.steps);
    field("final_rate", o.final_rate);
    field("d_model", o.d_model);
    field("factor", o.factor);
  }
  static bool takes(ScheduleKind kind, std::string_view field) {
    if (field == "warmup") return true;
    const bool noam = kind == ScheduleKind::noam;
    if (field == "d_model" || field == "factor") return noam;
    if (field == "learning_rate") return !noam;
    return kind == ScheduleKind::linear || kind == ScheduleKind::cosine;
  }

  ScheduleOptions o_;
};

}  // namespace attend::optim
