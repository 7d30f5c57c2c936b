#pragma once

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "attend/core/options.hpp"
#include "attend/train/progress.hpp"

namespace attend::train {

/// What a validation is judged by.
enum class Metric {
  loss,  ///< lower is better
  bleu,  ///< higher is better
};
/// The names of its values.
constexpr auto names_of(Metric) { return std::to_array<Named<Metric>>({{Metric::bleu, "bleu"}, {Metric::loss, "loss"}}); }

/// Why training ended.
enum class StopReason { epochs, max_steps, max_seconds, patience, interrupted };

/// `all epochs are done` and its like.
inline const char* stop_text(StopReason reason) {
  switch (reason) {
    case StopReason::epochs:
      return "all epochs are done";
    case StopReason::max_steps:
      return "max_steps is reached";
    case StopReason::max_seconds:
      return "max_seconds is reached";
    case StopReason::patience:
      return "validation no longer improves";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

/// Training at one moment. In the curve, loss and gradient norm are means since the point before.
struct CurvePoint {
  index_t step = 0;          ///< updates done
  double epoch = 0;          ///< passes over the corpus done, with the part of the present one
  double seconds = 0;        ///< since training began, resumed runs included
  index_t tokens = 0;        ///< target tokens seen
  double loss = 0;           ///< per target token, label smoothing and R-Drop included
  double learning_rate = 0;  ///< of the last update
  double gradient_norm = 0;  ///< before clipping
};

/// The steps that are to make up the next point of the curve.
struct CurveSum {
  double loss = 0, norm = 0;  ///< sums, over tokens and over steps
  index_t tokens = 0, steps = 0;

  /// Adds a step of so many target tokens; a step whose loss or gradient is not finite adds nothing.
  void add(const CurvePoint& step, index_t labels) {
    if (!std::isfinite(step.loss) || !std::isfinite(step.gradient_norm)) return;
    loss += step.loss * static_cast<double>(labels), tokens += labels;
    norm += step.gradient_norm, ++steps;
  }
  /// The point of the curve that these steps make, `now` being the last of them.
  [[nodiscard]] CurvePoint mean(CurvePoint now) const {
    if (steps == 0) return now;
    now.loss = loss / static_cast<double>(tokens);
    now.gradient_norm = norm / static_cast<double>(steps);
    return now;
  }
};

/// One validation.
struct ValidationPoint {
  index_t step = 0;
  double seconds = 0;
  double loss = 0;                                         ///< cross-entropy per target token, without label smoothing
  double bleu = std::numeric_limits<double>::quiet_NaN();  ///< 0 to 100; NaN if nothing was translated
  bool best = false;                                       ///< better than all before, and in `best/` if there is an output

  /// `loss 2.345 (perplexity 10.43), BLEU 23.45, the best so far`.
  [[nodiscard]] std::string text() const {
    std::string s = detail::formatted("loss %.4f (perplexity %.2f)", loss, std::exp(loss));
    if (!std::isnan(bleu)) s += detail::formatted(", BLEU %.2f", bleu);
    return best ? s + ", the best so far" : s;
  }
};

/// What came of a training run, the runs that it resumed included.
struct FitReport {
  std::vector<CurvePoint> curve;
  std::vector<ValidationPoint> validations;
  index_t steps = 0;    ///< updates, skipped ones included
  index_t skipped = 0;  ///< updates left out because the gradient was not finite
  index_t epochs = 0;   ///< whole passes over the corpus
  index_t tokens = 0;   ///< target tokens seen
  double seconds = 0;
  index_t pairs = 0;               ///< sentence pairs trained on
  index_t dropped = 0;             ///< pairs left out because a side is too long
  index_t validation_dropped = 0;  ///< the same of the validation pairs
  double summed = 0;               ///< seconds that the sums of ranks' gradients took
  double waited = 0;               ///< of these, seconds in which nothing else was computed
  StopReason stopped = StopReason::epochs;
  /// What is odd about the corpus, and what went wrong without ending the run: a CSV file or a checkpoint that could not be
  /// written.
  std::vector<std::string> warnings = {};

  /// The best validation; null if there was none.
  [[nodiscard]] const ValidationPoint* best() const {
    for (std::size_t i = validations.size(); i > 0; --i)
      if (validations[i - 1].best) return &validations[i - 1];
    return nullptr;
  }
  /// One line that sums it up.
  [[nodiscard]] std::string text() const {
    std::string s = std::to_string(steps) + " steps, " + std::to_string(epochs) + " epochs, " +
                    count_text(static_cast<double>(tokens)) + " target tokens in " + duration_text(seconds);
    if (seconds > 0) s += " (" + count_text(static_cast<double>(tokens) / seconds) + " tokens/s)";
    if (const ValidationPoint* point = best())
      s += "; best at step " + std::to_string(point->step) + ": " + [&] {
        ValidationPoint plain = *point;
        plain.best = false;
        return plain.text();
      }();
    if (skipped > 0) s += "; " + std::to_string(skipped) + " steps skipped for gradients that were not finite";
    if (summed > 0) {
      char figures[96];
      std::snprintf(figures, sizeof figures, "; sums of ranks took %.1f s, %.1f s of it with nothing to do beside", summed,
                    waited);
      s += figures;
    }
    return s + "; " + stop_text(stopped);
  }
};

}  // namespace attend::train
