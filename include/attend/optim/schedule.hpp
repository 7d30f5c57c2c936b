#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "attend/core/number_text.hpp"
#include "attend/core/options.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/types.hpp"

namespace attend::optim {

/// How the rate goes on after the warm-up: see the table at Schedule.
enum class ScheduleKind { constant, linear, cosine, inverse_sqrt, noam };
/// The names of its values.
constexpr auto names_of(ScheduleKind) {
  using enum ScheduleKind;
  return std::to_array<Named<ScheduleKind>>(
      {{constant, "constant"}, {linear, "linear"}, {cosine, "cosine"}, {inverse_sqrt, "inverse_sqrt"}, {noam, "noam"}});
}

/// How the learning rate moves in training. A kind takes the options whose lines name it and ignores the rest.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::inverse_sqrt;
  double learning_rate = 1e-3;  ///< the highest rate, reached at the end of the warm-up (all but noam)
  index_t warmup = 0;           ///< steps in which the rate rises linearly from 0 (all kinds)
  index_t steps = 0;            ///< the step at which the fall ends; 0: open, `ending_at` sets it (linear, cosine)
  double final_rate = 0;        ///< the rate from then on (linear, cosine)
  index_t d_model = 512;        ///< the model's width (noam)
  double factor = 1;            ///< what its rate is multiplied by (noam)

  template <class F>
  static void fields(F&& field) {
    using O = ScheduleOptions;
    // On the command line this is the optimizer's too.
    field("learning_rate", &O::learning_rate, at_least(0),
          Flag{.text = "The highest, at the end of the warm-up; by the width with muon and adam, else 0.001; not with noam",
               .within = between(1e-12, 1e3)});
    field(
        "warmup", &O::warmup, at_least(0),
        Flag{.text = "Steps in which the learning rate rises, but with noam at most half of the run (100 with muon, else 400, at "
                     "most a tenth of the run)",
             .within = between(0, 1 << 30)});
    field("steps", &O::steps, at_least(0));
    field("final_rate", &O::final_rate, at_least(0));
    field("d_model", &O::d_model, at_least(1));
    field("factor", &O::factor, at_least(0));
  }
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
    check_fields("schedule", o_);
    check_value(!falls() || o_.steps == 0 || o_.steps > o_.warmup, "schedule", name_of(o_.kind), " ends at step ", o_.steps,
                ", expected more than its warmup of ", o_.warmup);
  }

  /// What it was made of.
  [[nodiscard]] const ScheduleOptions& options() const { return o_; }

  /// True if the rate falls to an end that is not set yet.
  [[nodiscard]] bool open() const { return falls() && o_.steps == 0; }
  /// The same with the fall, if there is one, ending at that step. Throws ValueError if that is within the warm-up.
  [[nodiscard]] Schedule ending_at(index_t steps) const {
    check_value(steps >= 1, "schedule", "it cannot end at step ", steps);
    ScheduleOptions options = o_;
    options.steps = steps;
    return Schedule(options);
  }

  /// The learning rate of that step, counted from 1. Throws ValueError for a step before the first, and while `open`.
  [[nodiscard]] double at(index_t step) const {
    check_value(!open(), "schedule", name_of(o_.kind), " has no steps, expected the step at which it ends");
    check_step(step);
    const auto s = static_cast<double>(step), warmup = static_cast<double>(o_.warmup);
    if (step < o_.warmup) return after_warmup(warmup) * s / warmup;
    return after_warmup(s);
  }
  /// The same in a run of which the share `done`, 0 to 1, is over, by the clock for instance: an open fall ends with the run (p
  /// in the table is `done`), and a warm-up that is not over by the middle of the run ends there (see `cuts_warmup`). Throws
  /// ValueError for a step before the first.
  [[nodiscard]] double at(index_t step, double done) const {
    if (!cuts_warmup()) return at(step);
    check_step(step);
    done = std::clamp(done, 0.0, 1.0);
    const auto s = static_cast<double>(step), warmup = static_cast<double>(o_.warmup);
    const double risen = step < o_.warmup ? std::min(1.0, std::max(s / warmup, 2 * done)) : 1.0;
    return risen * (falls() ? fallen(done) : after_warmup(std::max(s, warmup)));
  }
  /// Whether a warm-up ends by the middle of a run at the latest. Not if the end of a fall is given, which then says how long the
  /// run is, nor for noam, whose highest rate depends on the warm-up.
  [[nodiscard]] bool cuts_warmup() const { return o_.kind != ScheduleKind::noam && (!falls() || open()); }

  /// `cosine:learning_rate=0.001,warmup=4000,steps=100000,final_rate=0`: what `parse` reads back to an equal schedule.
  [[nodiscard]] std::string text() const {
    std::string s = name_of(o_.kind);
    char separator = ':';
    ScheduleOptions::fields([&](std::string_view key, auto member, const auto&...) {
      if (!takes(o_.kind, key)) return;
      s += separator + std::string(key) + "=" + number_text(o_.*member);
      separator = ',';
    });
    return s;
  }

  /// Reads `KIND` or `KIND:name=value,...`, as `text` writes it; what is not named keeps its value of `defaults`.
  /// Throws a ValueError that names what cannot be read.
  static Schedule parse(std::string_view text, ScheduleOptions defaults = {}) {
    const auto fail = [&](const std::string& message) {
      throw ValueError("schedule: `", attend::detail::printable(text), "`: ", message);
    };
    const std::size_t colon = text.find(':');
    defaults.kind = from_name<ScheduleKind>("schedule", text.substr(0, colon));
    std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest = item.size() == rest.size() ? std::string_view() : rest.substr(item.size() + 1);
      const std::size_t equals = item.find('=');
      if (equals == std::string_view::npos) fail("`" + attend::detail::printable(item) + "` is not of the form name=value");
      const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
      bool known = false;
      ScheduleOptions::fields([&](std::string_view field, auto member, const auto&...) {
        if (field != key || !takes(defaults.kind, key)) return;
        known = true;
        if (!parse_number(value, defaults.*member))
          fail("`" + attend::detail::printable(value) + "` is not a number for " + std::string(key));
      });
      if (!known) fail(name_of(defaults.kind) + " has no `" + attend::detail::printable(key) + "`");
    }
    return Schedule(defaults);
  }

  friend bool operator==(const Schedule& a, const Schedule& b) { return a.text() == b.text(); }

 private:
  [[nodiscard]] bool falls() const { return o_.kind == ScheduleKind::linear || o_.kind == ScheduleKind::cosine; }

  static void check_step(index_t step) { check_value(step >= 1, "schedule", "step is ", step, ", expected 1 or more"); }

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
