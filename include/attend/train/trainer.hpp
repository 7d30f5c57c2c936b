#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/nn/freeze.hpp"
#include "attend/nn/hidden_matrices.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/average.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/text/suspicions.hpp"
#include "attend/train/agreement.hpp"
#include "attend/train/batch_gradients.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/completed.hpp"
#include "attend/train/memory_of_ranks.hpp"
#include "attend/train/options.hpp"
#include "attend/train/pending_updates.hpp"
#include "attend/train/ranks.hpp"
#include "attend/train/reporter.hpp"
#include "attend/train/run_clock.hpp"
#include "attend/train/run_extent.hpp"
#include "attend/train/run_folder.hpp"
#include "attend/train/run_identity.hpp"
#include "attend/train/run_schedule.hpp"
#include "attend/train/step_runner.hpp"
#include "attend/train/teacher.hpp"
#include "attend/train/validation.hpp"

namespace attend::train {

/// One training run, which `fit` makes, runs and lets go. All tokenizers are one type here, so that none is a reason to compile
/// it once more.
template <class Model>
class Trainer {
 public:
  using T = typename Model::value_type;
  using D = typename Model::device_type;

  /// Throws ValueError for options out of range, and where tokenizer, sentences or teacher do not fit the model.
  template <class Corpus>
  Trainer(Model& model, const Corpus& corpus, const text::AnyTokenizer& tokenizer, const FitOptions& options,
          const Teacher<T, D>& teacher = {})
      : Trainer(model, (check(options), encode_pairs(corpus, tokenizer)), tokenizer, options, teacher) {
    if (o_.warn_of_corpus) warnings_ = text::suspicions(corpus);
  }
  Trainer(Model& model, EncodedPairs pairs, const text::AnyTokenizer& tokenizer, const FitOptions& options,
          const Teacher<T, D>& teacher = {})
      : model_(model),
        tokenizer_(tokenizer),
        ranks_(options.communicator),
        teacher_(options.distillation_weight > 0 ? teacher : Teacher<T, D>()),
        o_(options_of(ranks_, teacher_.taught(completed(check(options), run_facts(model, pairs.size()))))),
        batches_(std::move(pairs), tokenizer.bos(), tokenizer.eos(), batch_options(o_.accumulate)),
        epoch_(batches_.epoch(0)),
        optimizer_(parameters_of_rank(), *o_.optimizer),
        schedule_(run_schedule(o_, extent_.total_steps())),
        folder_(o_.output, o_.save_more),
        reporter_(o_) {
    cuts_anew_ = options.parts != automatic;
    if (o_.average_decay > 0) average_.emplace(optimizer_.parameters(), o_.average_decay);
    if (!o_.validation.empty()) validation_.emplace(o_.validation, tokenizer, batch_options(1));
    check_fits(model, tokenizer, batches_.longest());
    teacher_.check(model, tokenizer, batches_.longest());
    if (validation_) check_fits(model, tokenizer, validation_->batches().longest(), "of the validation pairs, ");
    folder_.take(o_.lock);
  }

  /// Trains until a limit is reached. Where an exception ends the training, a checkpoint is written before it goes on.
  FitReport run() {
    const GeneratorScope generator;
    const EvaluationAfterwards evaluation{model_};
    begin();
    try {
      while (true) {
        if (validation_due()) validate();
        if (keeping_due()) keep();
        if (agreed(checkpoint_due())) checkpoint();
        if (agreement_.interrupted()) return end(StopReason::interrupted);
        if (const auto reason = extent_.limit(agreement_.seconds())) return end(*reason);
        step();
      }
    } catch (...) {
      rescue();
      throw;
    }
  }

 private:
  optim::FlatParameters<T, D> parameters_of_rank() const {
    optim::FlatParameters<T, D> parameters(nn::parameters(model_), nn::hidden_matrices(model_));
    if (sharded()) parameters.share_out(ranks_.rank(), ranks_.size());
    return parameters;
  }
  /// Whether the optimizer's memory is in several ranks.
  [[nodiscard]] bool sharded() const { return o_.shard_optimizer && ranks_.size() > 1; }
  /// What rank 0 decides, if all ranks have to take part in it.
  [[nodiscard]] bool agreed(bool mine) const {
    if (sharded()) ranks_->broadcast(mine);
    return mine;
  }

  struct EvaluationAfterwards {
    Model& model;
    ~EvaluationAfterwards() { nn::set_training(model, false); }
  };
  static constexpr index_t most_skipped = 100;  // in a row
  static constexpr const char* tries_again = "; training goes on, and the next checkpoint tries again";

  [[nodiscard]] BatchOptions batch_options(index_t accumulate) const {
    return {.tokens_per_batch = o_.tokens_per_batch,
            .accumulate = accumulate,
            .max_length = o_.max_length,
            .bucket_width = o_.bucket_width,
            .seed = o_.seed,
            .source_end = tokenizer_.source_end()};
  }

  /// All that must be the same in a run that goes on with another's state.
  [[nodiscard]] RunIdentity identity() const {
    auto identity = run_identity(o_, tokenizer_, batches_.pairs(), validation_ ? &validation_->batches().pairs() : nullptr);
    identity["frozen"] = list_identity(nn::frozen_names(model_));
    teacher_.add_to(identity, o_);
    return identity;
  }

  void begin() {
    check_ranks();
    if (!ranks_.leads()) {  // rank 0 tells the others where it begins
    } else if (o_.resume) {
      load();
    } else {
      check_value(o_.overwrite || !folder_.holds_run(), "fit", o_.output.string(),
                  " holds another run: resume it, overwrite it, or choose another output");
      if (o_.overwrite) folder_.clear();
      default_generator().restore(o_.seed ^ 0x64726f706f7574, 0);  // a key of its own: not the numbers of the initial weights
    }
    share_state();
    nn::set_training(model_, true);
    clock_.start(state_.seconds);
    checkpoint_time_ = state_.seconds;
    reporter_.begin(state_);
    for (const auto& warning : warnings_) reporter_.warn(warning);
    reporter_.opening(model_, batches_, epoch_.size(), state_.step, schedule_, validation_ ? &validation_->batches() : nullptr);
    say_warmup();
    if (state_.step > 0) rate_ = schedule_.at(state_.step, extent_.done());
  }

  void load() {
    folder_.load_last([&](const std::filesystem::path& path) {
      auto wanted = identity();
      if (cuts_anew_)
        if (const auto change = accept_parts(path, wanted); !change.empty()) warnings_.push_back(change);
      state_ = memory_.read(path, wanted, model_);
      epoch_ = batches_.epoch(state_.epoch);
      if (state_.position >= epoch_.size())
        throw FormatError("resume: ", path.string(), ": position is ", state_.position, " in an epoch of ", epoch_.size(),
                          " batches");
      state_.twentieths = std::min(state_.twentieths, extent_.twentieths());  // of this run, which may be longer
    });
    state_.restore_generator();
    saved_step_ = state_.step;
  }

  /// Throws ValueError on all ranks if one of them would do something else than rank 0.
  void check_ranks() const {
    if (!ranks_) return;
    auto ours = identity();
    ours["schedule"] = schedule_.text();
    ours["parameters"] = optimizer_.parameters().layout();
    ours["held weights"] = detail::Fingerprint(model_, detail::is_held).text();  // which are not sent around
    check_same_run(ranks_, o_, std::move(ours));
  }
  /// Gives the other ranks what rank 0 has: the numbers of the state, the weights, the optimizer's memory.
  void share_state() {
    if (!ranks_) return;
    state_.note_generator();
    detail::for_numbers(state_, [&](const char*, auto& value) { ranks_->broadcast(value); });
    state_.restore_generator();
    for (const auto& t : nn::state(model_))
      if (!t.value.instead()) ranks_->broadcast(t.value);
    memory_.share();
    if (average_) ranks_->broadcast(average_->values());
    weights_changed();
    if (!ranks_.leads()) epoch_ = batches_.epoch(state_.epoch);
    agreement_.begin(state_.seconds);
  }
  /// Where the run stands; what a step has come to is added later.
  [[nodiscard]] CurvePoint here() const {
    return {.step = state_.step,
            .epoch = extent_.epochs_done(),
            .seconds = state_.seconds,
            .tokens = state_.tokens,
            .learning_rate = rate_};
  }
  /// One update of the weights.
  void step() {
    state_.note_generator();
    const auto batch = epoch_[state_.position];
    const index_t labels = batches_.labels(batch);
    say_warmup();
    rate_ = schedule_.at(state_.step + 1, extent_.done());
    auto losses = gradients_(batches_, batch, labels, state_, optimizer_);
    agreement_.agree(optimizer_, state_.step);  // of what stands before the update, so that nothing is lost if it fails
    sound_ = false;
    const auto& shared = gradients_.shared();
    if (shared) optimizer_.update(rate_, o_.clip_norm, shared->squares());
    else optimizer_.update(rate_, o_.clip_norm);
    ++state_.step;
    if (shared) shared->gather_weights();
    if (average_) average_->update(state_.step, optimizer_.record().data());
    state_.tokens += labels;
    if (++state_.position == epoch_.size()) {
      state_.position = 0;
      epoch_ = batches_.epoch(++state_.epoch);
    }
    state_.seconds = agreement_.seconds();
    updates_.add(here(), labels, std::move(losses), optimizer_.record());
    state_.note_generator();
    sound_ = true;
    conclude_but(StepRunner<Model>::most_under_way);
  }

  /// Reads what came of the updates that are still under way on a device, but for the last so many.
  void conclude_but(std::size_t remaining) {
    while (const auto outcome = updates_.next(remaining)) {
      nan_steps_ = outcome->taken ? 0 : nan_steps_ + 1;
      if (nan_steps_ >= most_skipped) {
        sound_ = false;
        throw Error("fit: the gradient was not finite in the last ", nan_steps_, " steps, to step ", outcome->point.step,
                    "; a lower learning rate or a longer warm-up may help");
      }
      if (state_.add(outcome->point, outcome->labels, o_.curve_every)) reporter_.point(state_.curve.back());
      reporter_.step(outcome->point, extent_.total_steps(), clock_);
    }
  }

  [[nodiscard]] bool validation_due() const {
    if (!validation_ || state_.step == 0 || state_.validated == state_.step) return false;
    if (o_.validate_every > 0) return state_.step % o_.validate_every == 0;
    if (o_.validate_every == 0 || !extent_.ends()) return state_.position == 0;
    // Where the clock ends the run, it also says how much of it validation may have.
    const bool affordable = o_.max_seconds == 0 || agreement_.seconds() - validation_end_ >= 9 * validation_seconds_;
    return extent_.twentieths() > state_.twentieths && affordable;
  }
  void validate() {
    conclude_but(0);
    const double begin = agreement_.seconds();
    typename optim::WeightAverage<T, D>::Scope averaged(average_ ? &*average_ : nullptr);
    const auto measured = in_context("fit: validation at step " + std::to_string(state_.step) + ": ",
                                     [&] { return validation_->measure(model_, o_.translate, o_.stop, ranks_, o_.precision); });
    agreement_.agree(optimizer_, state_.step);
    if (!measured) return;  // interrupted; the run that resumes this one begins with this validation
    if (!std::isfinite(measured->loss)) {
      sound_ = false;
      throw Error("fit: the validation loss is not finite at step ", state_.step,
                  "; a lower learning rate or a longer warm-up may help");
    }
    ValidationPoint point{.step = state_.step, .loss = measured->loss, .bleu = measured->bleu};
    const double value = o_.best_by == Metric::loss ? point.loss : -point.bleu;  // lower is better
    const bool better = !(value >= state_.best_value) && !std::isnan(value);
    point.seconds = state_.seconds = agreement_.seconds();
    validation_end_ = point.seconds, validation_seconds_ = point.seconds - begin;
    // If it cannot be written, the best stays what best/ has, so that the next that is better than that is written.
    point.best = better && (!folder_.used() || reporter_.try_save(tries_again, [&] { folder_.save_best(model_, tokenizer_); }));
    if (ranks_) ranks_->broadcast(point.best);
    if (point.best) state_.best_value = value;
    state_.since_best = better ? 0 : state_.since_best + 1;
    state_.validated = state_.step;
    state_.twentieths = extent_.twentieths();
    state_.validations.push_back(point);
    reporter_.validation(point, measured->translations, validation_->batches().kept());
    saved_step_ = -1;  // what was saved does not know of this
    if (point.best && agreed(folder_.used())) {
      averaged.end();
      checkpoint();  // so that a run that goes on from `last` knows of this best
    }
    if (o_.on_validation) o_.on_validation(point, measured->translations);
  }

  /// At each step that `checkpoint_every` names, a checkpoint for a better validation there or not.
  [[nodiscard]] bool keeping_due() const {
    return o_.keep_checkpoints > 0 && state_.step > 0 && state_.step % o_.checkpoint_every == 0 && kept_step_ != state_.step;
  }
  void keep() {
    conclude_but(0);
    reporter_.try_save(tries_again, [&] { folder_.keep(model_, tokenizer_, state_.step, o_.keep_checkpoints); });
    kept_step_ = state_.step;
  }

  [[nodiscard]] bool checkpoint_due() const {
    if (!folder_.used() || state_.step == 0 || saved_step_ == state_.step) return false;
    if (o_.checkpoint_every > 0 && state_.step % o_.checkpoint_every == 0) return true;
    return o_.checkpoint_seconds > 0 && clock_.seconds() - checkpoint_time_ >= o_.checkpoint_seconds;
  }
  void checkpoint() {
    conclude_but(0);
    state_.note_generator();
    reporter_.try_save(tries_again, [&] { save(); });
    checkpoint_time_ = clock_.seconds();
  }
  void save() {
    if (!ranks_) state_.seconds = clock_.seconds();
    memory_.gather([&](const auto& memory) {
      if (!folder_.used()) return;
      folder_.save_last(model_, tokenizer_, [&](const std::filesystem::path& path) {
        write_training_state(path, state_, identity(), model_, memory, optimizer_.parameters().layout());
      });
      saved_step_ = state_.step;
    });
  }
  /// Saves what there is where an exception ends the run, but for a run that has diverged, whose last checkpoint is better.
  void rescue() noexcept {
    if (!folder_.used() || !sound_ || state_.step == 0 || saved_step_ == state_.step || sharded()) return;
    try {
      while (const auto outcome = updates_.next(0)) state_.add(outcome->point, outcome->labels, o_.curve_every);
      if (reporter_.try_save("; the run ends without a checkpoint of its last step", [&] { save(); }))
        reporter_.message("train: an error ends the run; the checkpoint of step " + std::to_string(state_.step) +
                          " is written, from which a run that resumes it goes on");
    } catch (...) {  // a device that has failed, say: what ends the run tells more
    }
  }

  FitReport end(StopReason reason) {
    conclude_but(0);
    const bool validated = !validation_ || state_.validated == state_.step || state_.step == 0;
    if (reason != StopReason::interrupted && !validated) validate();
    if (agreed(folder_.used() && saved_step_ != state_.step)) {
      state_.note_generator();
      sound_ = false;  // what cannot be written now will not be a moment later
      in_context("fit: the last checkpoint: ", [&] { save(); });
    }
    if (average_) average_->exchange();
    if (!ranks_) state_.seconds = clock_.seconds();
    FitReport report{.curve = state_.curve,
                     .validations = state_.validations,
                     .steps = state_.step,
                     .skipped = optimizer_.skipped(),
                     .epochs = state_.epoch,
                     .tokens = state_.tokens,
                     .seconds = state_.seconds,
                     .pairs = batches_.size(),
                     .dropped = batches_.dropped(),
                     .validation_dropped = validation_ ? validation_->batches().dropped() : 0,
                     .stopped = reason,
                     .warnings = reporter_.warnings()};
    if (const auto& sums = gradients_.sums_of_ranks()) report.summed = sums->summed(), report.waited = sums->waited();
    if (state_.sum.steps > 0) report.curve.push_back(state_.sum.mean(here()));  // a run that goes on has them in its next point
    reporter_.message("train: " + report.text());
    return report;
  }

  /// Says that the warm-up is cut short, once that is known.
  void say_warmup() {
    if (warmup_said_) return;
    const auto text = cut_warmup(o_.schedule ? *o_.schedule : schedule_, extent_.total_steps(), extent_.done(), state_.step);
    warmup_said_ = !text.empty();
    if (warmup_said_) reporter_.message("train: " + text);
  }

  Model& model_;
  const text::AnyTokenizer tokenizer_;
  const Ranks ranks_;
  const Teacher<T, D> teacher_;
  const FitOptions o_;
  Batches batches_;
  Batches::Epoch epoch_;
  TrainingState state_;
  const RunExtent extent_{o_, epoch_, state_};
  std::optional<Validation> validation_;
  optim::AnyOptimizer<T, D> optimizer_;
  std::optional<optim::WeightAverage<T, D>> average_;
  optim::Schedule schedule_;
  RunFolder folder_;
  Reporter reporter_;
  BatchGradients<Model> gradients_{model_, ranks_, o_, teacher_};
  MemoryOfRanks<T, D> memory_{ranks_, sharded(), optimizer_, average_};
  PendingUpdates<T, D> updates_;

  std::vector<std::string> warnings_;                   // to begin with
  bool cuts_anew_ = false;                              // whether a run that is resumed may get another number of parts
  double rate_ = 0;                                     // of the last update
  bool warmup_said_ = false;                            // that it is cut short
  double validation_end_ = 0, validation_seconds_ = 0;  // when the last one was done, and what it took
  index_t saved_step_ = -1;                             // of the last checkpoint
  index_t kept_step_ = -1;                              // of the last one that is kept
  index_t nan_steps_ = 0;                               // skipped in a row
  bool sound_ = true;                                   // whether weights and state belong together and are worth a checkpoint
  RunClock clock_;
  Agreement agreement_{ranks_, clock_, o_.stop};
  double checkpoint_time_ = 0;
};

}  // namespace attend::train
