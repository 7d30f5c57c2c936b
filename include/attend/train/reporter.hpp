#pragma once

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/cpu/processor.hpp"
#include "attend/nn/fields.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/checkpoint.hpp"
#include "attend/train/curve_csv.hpp"
#include "attend/train/options.hpp"
#include "attend/train/progress.hpp"
#include "attend/train/run_clock.hpp"
#include "attend/train/settings_text.hpp"
#include "attend/train/tensorboard.hpp"

namespace attend::train {

/// Tells the world how a run goes: on the screen, to the callbacks, in a CSV file, to TensorBoard. A file that cannot be written
/// costs the run nothing: a warning says so once, and the file is given up.
class Reporter {
 public:
  /// Of a run with these options, which must outlive it.
  explicit Reporter(const FitOptions& options) : o_(options), progress_(options.progress) {}

  /// The run begins, or goes on, from this state.
  void begin(const TrainingState& state) {
    speed_ = Speed(state.seconds, static_cast<double>(state.tokens));
    before_ = state.curve.empty() ? CurvePoint{} : state.curve.back();
    if (!o_.csv.empty()) attempt(csv_, [&] { csv_.emplace(o_.csv, state.curve, state.validations); });
    if (!o_.tensorboard.empty()) attempt(tensorboard_, [&] { tensorboard_.emplace(o_.tensorboard, state.step); });
  }
  void message(const std::string& text) { progress_.message(text); }
  /// Something that does not end the run.
  void warn(const std::string& text) {
    warnings_.push_back(text);
    progress_.message("warning: " + text);
  }
  /// What is to be trained, on what, how, and from which step on.
  template <class Model>
  void opening(const Model& model, const Batches& batches, index_t steps_an_epoch, index_t from, const optim::Schedule& schedule,
               const Batches* validation) {
    const index_t trained = nn::parameter_count(model);
    index_t frozen = -trained;
    for (const auto& p : nn::parameters(model)) frozen += p.size();
    std::string text = "train: " + std::to_string(batches.size()) + " pairs" + dropped_text(batches.dropped(), o_);
    text += ", " + std::to_string(steps_an_epoch) + " steps an epoch, " + std::to_string(trained) + " parameters";
    if (frozen > 0) text += " and " + std::to_string(frozen) + " frozen ones";
    if (o_.resume) text += "; going on from step " + std::to_string(from);
    progress_.message(text);
    for (const auto& line :
         settings_text(o_, schedule, validation ? validation->size() : 0, validation ? validation->dropped() : 0))
      progress_.message(line);
    if (o_.precision == Precision::bf16 && !bf16_is_fast())
      warn("products are computed in bf16, for which this processor has no fast instructions: training takes longer for it");
  }

  /// A step was taken, of `steps` in all (0: not known).
  void step(const CurvePoint& now, index_t steps, RunClock& clock) {
    if (std::isfinite(now.loss)) shown_loss_ = shown_loss_ ? *shown_loss_ + (now.loss - *shown_loss_) * 0.1 : now.loss;
    if (o_.on_step) o_.on_step(now);
    const double done = RunClock::fraction(o_, now.epoch, now.step, now.seconds);
    progress_.update(now.seconds, {.step = now.step,
                                   .steps = steps,
                                   .epoch = static_cast<index_t>(std::ceil(now.epoch)),
                                   .epochs = o_.epochs,
                                   .fraction = done,
                                   .loss = shown_loss_.value_or(now.loss),
                                   .learning_rate = now.learning_rate,
                                   .tokens_per_second = speed_.update(now.seconds, static_cast<double>(now.tokens)),
                                   .seconds_left = clock.seconds_left(done, now.seconds)});
  }
  /// The curve has a new point.
  void point(const CurvePoint& now) {
    if (csv_) attempt(csv_, [&] { csv_->add(now); });
    if (tensorboard_)
      attempt(tensorboard_, [&] {
        tensorboard_->scalars(now.step, {{"train/loss", now.loss},
                                         {"train/learning_rate", now.learning_rate},
                                         {"train/gradient_norm", now.gradient_norm},
                                         {"train/tokens_per_second", tokens_per_second(before_, now)}});
      });
    before_ = now;
  }
  /// A validation is done; there may be translations, one for each validation pair of the options, of which only those in `kept`
  /// count.
  void validation(const ValidationPoint& now, const std::vector<std::string>& translations, std::span<const index_t> kept) {
    progress_.message("validation at step " + std::to_string(now.step) + ": " + now.text());
    if (csv_) attempt(csv_, [&] { csv_->add(now); });
    if (tensorboard_)
      attempt(tensorboard_, [&] {
        tensorboard_->scalars(now.step, {{"validation/loss", now.loss}, {"validation/bleu", now.bleu}});
        if (!translations.empty()) tensorboard_->text(now.step, "validation/translations", samples(translations, kept));
      });
  }

  /// Writes a checkpoint, which a run can do without for now. If a full disk or the like prevents it, a warning says so and ends
  /// with `otherwise`: what happens instead.
  template <class F>
  bool try_save(const char* otherwise, F&& write) {
    try {
      write();
      return true;
    } catch (const IoError& e) {
      warn(e.what() + std::string(otherwise));
    } catch (const MemoryError& e) {
      warn(e.what() + std::string(otherwise));
    } catch (const std::bad_alloc&) {
      warn("out of memory while writing a checkpoint" + std::string(otherwise));
    }
    return false;
  }

  /// What went wrong without ending the run.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  /// Opens a log or writes to it, or does without it from now on.
  template <class Log, class F>
  void attempt(std::optional<Log>& log, F&& write) {
    try {
      write();
    } catch (const std::exception& e) {
      log.reset();
      warn(std::string(e.what()) + "; training goes on without it");
    }
  }

  /// The first translations as a table in Markdown.
  [[nodiscard]] std::string samples(const std::vector<std::string>& translations, std::span<const index_t> kept) const {
    constexpr std::size_t shown = 10;
    const auto cell = [](const std::string& text) {
      std::string safe;
      for (const char c : text) {
        if (std::string("\\`*_{}[]<>()#|~").find(c) != std::string::npos) safe += '\\';
        safe += c == '\n' || c == '\r' ? ' ' : c;
      }
      return safe;
    };
    std::string table = "| source | translation | reference |\n|---|---|---|\n";
    for (const index_t i : kept.first(std::min(shown, kept.size()))) {
      const auto& pair = o_.validation[i];
      table += "| " + cell(pair.source) + " | " + cell(nth(translations, i)) + " | " + cell(pair.target) + " |\n";
    }
    return table;
  }

  const FitOptions& o_;
  Progress progress_;
  Speed speed_{0, 0};
  std::optional<double> shown_loss_;  // smoothed
  CurvePoint before_;                 // of the curve
  std::optional<CurveCsv> csv_;
  std::optional<TensorBoard> tensorboard_;
  std::vector<std::string> warnings_;
};

}  // namespace attend::train
