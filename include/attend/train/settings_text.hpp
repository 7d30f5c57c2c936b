#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/train/options.hpp"

namespace attend::train {

/// A line of the block that says how a run is made: `  batches     at most 2048 tokens on a side`.
inline std::string setting_line(const std::string& name, const std::string& value) {
  return "  " + name + std::string(name.size() < 11 ? 11 - name.size() : 1, ' ') + value;
}

/// ` (3 left out: longer than 256 tokens)` of so many pairs; nothing if none is.
inline std::string dropped_text(index_t dropped, const FitOptions& o) {
  if (dropped == 0) return {};
  return " (" + std::to_string(dropped) + " left out: longer than " + std::to_string(std::min(o.max_length, o.tokens_per_batch)) +
         " tokens)";
}

/// How a run of complete options is made, a line for each matter. It is validated with so many pairs, without those that are too
/// long.
inline std::vector<std::string> settings_text(const FitOptions& o, const optim::Schedule& schedule, index_t validation_pairs,
                                              index_t validation_dropped) {
  std::vector<std::string> lines;
  std::string text = "at most " + std::to_string(o.tokens_per_batch) + " tokens on a side";
  if (o.accumulate > 1) text += ", " + std::to_string(o.accumulate) + " batches an update";
  lines.push_back(setting_line("batches", text));

  const auto& s = schedule.options();
  const bool noam = s.kind == optim::ScheduleKind::noam;
  text = std::string(optim::optimizer_name(o.optimizer.value()));
  text += noam ? ", learning rate by noam" : detail::formatted(", learning rate %.2g", s.learning_rate);
  double weight_decay = 0;
  std::visit(
      [&](const auto& chosen) {
        if constexpr (requires { chosen.matrix_rate; })
          if (!noam) text += detail::formatted(" (matrices %.2g)", s.learning_rate * chosen.matrix_rate);
        if constexpr (requires { chosen.weight_decay; }) weight_decay = chosen.weight_decay;
      },
      *o.optimizer);
  if (s.warmup > 0) text += " after " + std::to_string(s.warmup) + " steps of warm-up";
  if (!noam && s.kind != optim::ScheduleKind::constant) text += ", then " + name_of(s.kind);
  if (weight_decay > 0) text += ", weight decay " + number_text(weight_decay);
  if (o.clip_norm > 0) text += detail::formatted(", gradients clipped to norm %.3g", o.clip_norm);
  lines.push_back(setting_line("optimizer", text));

  if (o.precision != Precision::full) lines.push_back(setting_line("products", "in " + name_of(o.precision)));

  text = "label smoothing " + number_text(o.label_smoothing);
  if (o.r_drop > 0) text += ", R-Drop " + number_text(o.r_drop);
  if (o.distillation_weight > 0) {
    text += ", the teacher's share " + number_text(o.distillation_weight);
    if (o.distillation_temperature != 1) text += " at temperature " + number_text(o.distillation_temperature);
  }
  text += o.average_decay > 0 ? ", weights averaged with decay " + number_text(o.average_decay) : ", weights not averaged";
  lines.push_back(setting_line("loss", text));

  text.clear();
  const auto add = [&](const std::string& limit) { text += (text.empty() ? "" : ", ") + limit; };
  if (o.max_seconds > 0) add(duration_text(o.max_seconds));
  if (o.max_steps > 0) add(std::to_string(o.max_steps) + " steps");
  if (o.epochs > 0) add(std::to_string(o.epochs) + (o.epochs == 1 ? " epoch" : " epochs"));
  if (o.patience > 0) add(std::to_string(o.patience) + " validations without a better one");
  lines.push_back(setting_line("length", text.empty() ? "until it is interrupted" : text));

  if (validation_pairs > 0) {
    text = std::to_string(validation_pairs) + " pairs" + dropped_text(validation_dropped, o) + ", ";
    const bool ends = o.max_seconds > 0 || o.max_steps > 0 || o.epochs > 0;
    if (o.validate_every > 0) text += "every " + std::to_string(o.validate_every) + " steps";
    else if (o.validate_every == automatic && ends) text += "up to twenty times";
    else text += "at the end of each epoch";
    lines.push_back(setting_line("validation", text));
  }
  return lines;
}

}  // namespace attend::train
