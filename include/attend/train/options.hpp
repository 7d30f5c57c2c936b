#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "attend/core/options.hpp"
#include "attend/core/precision.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/schedule.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/text/corpus.hpp"
#include "attend/train/communicator.hpp"
#include "attend/train/progress.hpp"
#include "attend/train/report.hpp"

namespace attend::io {
/// See io/folder_lock.hpp.
class FolderLock;
}  // namespace attend::io

namespace attend::train {

/// For an option that is to follow from the corpus, the model and the other options: see `completed`.
inline constexpr index_t automatic = std::numeric_limits<index_t>::min();

/// The largest number of steps, tokens and their like: far beyond any run, and small enough that products of two do not overflow.
inline constexpr index_t largest_count = index_t{1} << 31;

/// What `fit` does. A limit of 0 is none; training ends at whichever limit comes first.
struct FitOptions {
  /// Passes over the corpus. Automatic: no limit where max_steps or max_seconds is one, else `automatic_epochs`.
  index_t epochs = automatic;
  index_t max_steps = 0;   ///< updates of the weights
  double max_seconds = 0;  ///< time, with that of the runs that this one resumes

  /// See `BatchOptions`.
  index_t tokens_per_batch = automatic;
  index_t accumulate = 1;
  index_t max_length = 256;
  index_t bucket_width = 8;

  /// Ranks that train together, `mpi::world()` say: all call `fit` with the same model, pairs and options. Each gets a share of
  /// every batch; rank 0 alone prints, writes and calls back. Null: this process alone.
  std::shared_ptr<Communicator> communicator = {};
  /// A batch is cut into so many parts, a power of two, each with random numbers of its own, and their gradients are added pair
  /// by pair: what comes out is the same for any number of ranks that divides it, and for one process alone. Automatic: 8 with a
  /// communicator (or as many as there are ranks, if these are more), else 1. A run that is resumed may be given another number:
  /// its sums are made otherwise from then on, and a warning says so. Of a small model (gradients of up to 32 MiB) whose type
  /// says `static constexpr bool loss_by_threads = true`, as nn::Transformer's does, threads compute parts side by side.
  index_t parts = automatic;
  /// Each rank remembers, and moves, a share of the parameters (moments, float copies of bfloat16 weights), gets the sums of that
  /// share's gradients alone, and passes what it has moved on: 1 / ranks of the optimizer's memory and of its work, for as many
  /// bytes between ranks. The bits are the same, and those of `fast_sums` are then ordered sums, too. An exception then ends the
  /// run without a checkpoint of its last step.
  bool shard_optimizer = false;

  /// Whether the gradients of ranks are added in whatever order the engine is fastest in, by any number of ranks, of which each
  /// then has one part unless `parts` says otherwise: another number of ranks gives other bits.
  bool fast_sums = false;

  double label_smoothing = 0.1;  ///< in training; the validation loss is without
  /// R-Drop's alpha: each batch passes through the model twice, with dropout of its own, and the two outcomes are drawn together.
  /// A step takes about twice the time. 0: off; 5 is the paper's for translation. It is part of the loss that is reported. See
  /// `CrossEntropyOptions::r_drop`. Not beside a teacher.
  double r_drop = 0;
  /// With a teacher (see `fit`), its share of the loss; the labels have the rest. 0: the teacher is not asked.
  double distillation_weight = 0.5;
  /// What the logits of both models are divided by before they are compared: above 1, words count for more that the teacher
  /// thinks less likely. See `DistillationOptions`.
  double distillation_temperature = 1;
  std::optional<optim::OptimizerOptions> optimizer = {};  ///< without one, as `completed` says
  /// The optimizer by its kind alone, at the rates that `completed` gives it. Not beside `optimizer`.
  std::optional<optim::OptimizerKind> optimizer_kind = {};
  /// The learning rate of each update, in place of the optimizer's. Name the optimizer with it: a rate that suits Adam does not
  /// suit Muon. Without a schedule `automatic_schedule`'s, with a warm-up of at most a tenth of the run where its steps are
  /// known. A fall with an open end ends with the training, by whichever limit; but for noam and for a fall whose end is given, a
  /// warm-up takes at most half of the run.
  std::optional<optim::Schedule> schedule = {};
  /// What the automatic schedule does after its warm-up, in place of a fall in a line: any kind but noam. Not beside `schedule`.
  std::optional<optim::ScheduleKind> schedule_kind = {};
  /// Of a moving average of the weights, 0.999 say; 0: none. The average is then what is validated, saved as the best and left in
  /// the model at the end. See `optim::WeightAverage`.
  double average_decay = 0;
  double clip_norm = 1;  ///< the gradients are clipped to this norm; 0: not at all
  /// What products compute in, for a model of floats on the CPU: full, or bf16. See `MatmulPrecision`. Weights and the optimizer
  /// are float either way. The translator in `translate` has a precision of its own. On a GPU bfloat16 is a type of model.
  Precision precision = Precision::full;
  std::uint64_t seed = 1;  ///< of the order of the pairs and of dropout

  /// Whether to warn of what is odd about the pairs, before the first step: see `text::suspicions`.
  bool warn_of_corpus = true;

  /// Pairs to measure progress with; training never sees them. Empty: no validation. Those that are too long for `max_length` are
  /// left out and counted, as in training.
  text::Corpus validation = {};
  /// Steps; 0: at the end of each epoch; automatic: at each twentieth of the run, but where the clock ends it no more often than
  /// lets validation take a tenth of the time, and where nothing ends it at the end of each epoch. Needs validation pairs.
  index_t validate_every = automatic;
  /// Translates sentences with the model as it is at that moment, for the validation BLEU: `decode::Translator(model, tokenizer,
  /// {.beam = 1})` fits, with the `precision` of the steps if BLEU is to be theirs. Empty: no BLEU is computed.
  std::function<std::vector<std::string>(const std::vector<std::string>& sources)> translate = {};
  Metric best_by = Metric::loss;  ///< what the best model is best by
  index_t patience = 0;           ///< stop after so many validations in a row without a better one; 0: never

  /// Where checkpoints go: `best/` and `last/`, both model folders; `last/training.safetensors` is what `resume` goes on from.
  /// Empty: none are written. One that cannot be written is a warning, and the next tries again; the last must be written.
  std::filesystem::path output = {};
  /// The lock on `output`, where the caller has it already; null: `fit` takes it.
  const io::FolderLock* lock = nullptr;
  /// Writes what else each of these folders is to have, beside model and tokenizer: how it is to be searched, say, by
  /// `decode::save_search(folder, search)`. Empty: nothing.
  std::function<void(const std::filesystem::path& folder)> save_more = {};
  index_t checkpoint_every = 0;     ///< steps; 0: by time alone
  double checkpoint_seconds = 600;  ///< 0: by steps alone. There is one at each best validation, at the end and on `stop` too
  /// The last so many checkpoints that `checkpoint_every` asks for stay, as model folders `step-1000/` in `output`, for
  /// `io::average`; 0: none. They hold the weights themselves, not their moving average.
  index_t keep_checkpoints = 0;
  bool resume = false;     ///< go on from the last checkpoint in `output`
  bool overwrite = false;  ///< begin anew where `output` holds another run's checkpoint, which is otherwise refused

  ProgressOptions progress = {};
  index_t curve_every = 10;  ///< steps that a point of the curve is the mean of
  /// The curve as a file: see `CurveCsv`. A run that goes on replaces it by one with all of its curve; one that begins refuses a
  /// file that is there unless `overwrite`. What is no curve is never replaced. Empty: none.
  std::filesystem::path csv = {};
  /// A folder for TensorBoard: `train/loss`, `train/learning_rate`, `train/gradient_norm`, `train/tokens_per_second`,
  /// `validation/loss`, `validation/bleu` and some translations. Empty: none. Where this folder or `csv` cannot be written,
  /// training goes on without it and says so; see `FitReport::warnings`.
  std::filesystem::path tensorboard = {};
  std::function<void(const CurvePoint&)> on_step = {};
  /// Called after each validation, with the translations if there are some: one for each pair of `validation`, empty for one
  /// that was left out.
  std::function<void(const ValidationPoint&, const std::vector<std::string>& translations)> on_validation = {};
  /// Where this becomes true, training ends after the step under way, with a checkpoint. See `StopOnInterrupt`.
  const std::atomic<bool>* stop = nullptr;

  template <class F>
  static void fields(F&& field) {
    using O = FitOptions;
    constexpr Except if_automatic{automatic};
    field("epochs", &O::epochs, between(0, largest_count), if_automatic,
          Flag{"Passes over the pairs; 0: no limit. By the number of pairs (10 with --init) where nothing else ends it"});
    field("max_steps", &O::max_steps, between(0, largest_count), Flag{"Updates; 0: no limit"});
    field("max_seconds", &O::max_seconds, at_least(0), or_infinite());
    field("tokens_per_batch", &O::tokens_per_batch, between(1, largest_count), if_automatic,
          Flag{"The most tokens of a batch on either side, by the number of pairs"});
    field("accumulate", &O::accumulate, between(1, largest_count), Flag{"Batches per update"});
    field("parts", &O::parts, between(1, 1 << 16), if_automatic,
          Flag{"A batch is cut into so many parts, which ranks share: the same number gives the same model by any number of "
               "ranks. 8 under mpirun, else 1"});
    field("shard_optimizer", &O::shard_optimizer,
          Flag{"Each rank keeps and moves a share of what the optimizer remembers, and passes the weights on"});
    field("fast_sums", &O::fast_sums,
          Flag{"Ranks add their gradients in whatever order is fastest, a part for each rank, and any number of them: another "
               "number of ranks gives another model"});
    field("max_length", &O::max_length, at_least(1));
    field("bucket_width", &O::bucket_width, at_least(0));
    field("label_smoothing", &O::label_smoothing, less_than_1(), Flag{"Share of the target spread over all words"});
    field("r_drop", &O::r_drop, at_least(0),
          Flag{"R-Drop: each batch passes twice, with dropout of its own, and the two outcomes are drawn together by this factor "
               "(5 is usual); 0: off"});
    field("distillation_weight", &O::distillation_weight, between(0, 1),
          Flag{"Share of the loss that a teacher has by its distributions over words; the pairs' own words have the rest"});
    field("distillation_temperature", &O::distillation_temperature, between(0.01, 100),
          Flag{"What logits are divided by for that: above 1, less likely words count more"});
    field("optimizer_kind", &O::optimizer_kind,
          Flag{"How the gradient moves the weights: muon where a batch has eight tokens for each channel of the model, else "
               "adam, as always with --init",
               "--optimizer"});
    field("schedule_kind", &O::schedule_kind,
          Flag{"How the learning rate goes on after the warm-up; linear and cosine fall to 0 at the end of the run (linear)",
               "--schedule"});
    field("average_decay", &O::average_decay, less_than_1(),
          Flag{"Of a moving average of the weights, which is what is validated and saved as best; 0: none"});
    field("clip_norm", &O::clip_norm, at_least(0), or_infinite(), Flag{"Gradients are clipped to this norm; 0: not at all"});
    field("precision", &O::precision);
    field("seed", &O::seed, Flag{"Of weights, order and dropout"});
    field("validate_every", &O::validate_every, between(0, largest_count), if_automatic,
          Flag{"Steps; 0: at the end of each epoch. Up to twenty times where not given"});
    field("best_by", &O::best_by, Flag{"What the best model is best by, on the validation pairs"});
    field("patience", &O::patience, between(0, largest_count),
          Flag{"Stop after so many validations without a better one; 0: never"});
    field("checkpoint_every", &O::checkpoint_every, between(0, largest_count),
          Flag{"Steps between checkpoints, besides one every ten minutes; 0: those alone"});
    field("checkpoint_seconds", &O::checkpoint_seconds, at_least(0), or_infinite());
    field("keep_checkpoints", &O::keep_checkpoints, between(0, largest_count),
          Flag{"Of --checkpoint-every, the last so many stay as models in --out, for translate average"});
    field("curve_every", &O::curve_every, at_least(1));
    field("csv", &O::csv, Flag{"Write the curve of the training to this file, a row for each ten steps and validation"});
    field("tensorboard", &O::tensorboard, Flag{"The same and some translations for TensorBoard", nullptr, "FOLDER"});
  }
};

/// Throws ValueError if options are out of range or do not fit each other.
inline const FitOptions& check(const FitOptions& o) {
  check_fields("fit", o);
  check_value(o.keep_checkpoints == 0 || (o.checkpoint_every > 0 && !o.output.empty()), "fit",
              "keep_checkpoints needs checkpoint_every and an output folder");
  check_value(o.precision != Precision::int8, "fit", "precision is int8, expected full or bf16");
  check_value(!o.optimizer || !o.optimizer_kind, "fit", "optimizer and optimizer_kind exclude each other");
  check_value(!o.schedule || !o.schedule_kind, "fit", "schedule and schedule_kind exclude each other");
  check_value(o.schedule_kind != optim::ScheduleKind::noam, "fit",
              "schedule_kind is noam, which wants a schedule with its d_model");
  const index_t ranks = o.communicator ? o.communicator->size() : 1;
  const auto power_of_two = [](index_t n) { return std::has_single_bit(static_cast<std::uint64_t>(n)); };
  check_value(power_of_two(ranks) || (o.fast_sums && !o.shard_optimizer), "fit", "there are ", ranks,
              " ranks, expected a power of two; any number with fast_sums and without shard_optimizer");
  if (o.parts != automatic) {
    check_value(o.parts >= ranks, "fit", "parts is ", o.parts, ", expected one or more for each of ", ranks, " ranks",
                o.resume ? ": give the run that is resumed more (--parts), and its sums are made otherwise from here on" : "");
    check_value(o.parts % ranks == 0 && power_of_two(o.parts / ranks), "fit", "parts is ", o.parts,
                ", expected a power of two, or that times the number of ranks, ", ranks);
  }
  check_value(o.patience == 0 || !o.validation.empty(), "fit", "patience needs validation pairs");
  check_value(!o.translate || !o.validation.empty(), "fit", "translate needs validation pairs");
  check_value(o.validate_every == automatic || !o.validation.empty(), "fit", "validate_every needs validation pairs");
  check_value(o.best_by == Metric::loss || o.translate, "fit", "best_by BLEU needs `translate`");
  check_value(!o.resume || !o.output.empty(), "fit", "resume needs the output folder of the run to go on with");
  check_value(!o.resume || !o.overwrite, "fit", "resume and overwrite exclude each other");
  check_value(o.epochs != 0 || o.max_steps > 0 || o.max_seconds > 0 || o.patience > 0 || o.stop != nullptr, "fit",
              "nothing would ever end it: give epochs, max_steps, max_seconds, patience or stop");
  std::error_code ignored;
  check_value(o.csv.empty() || o.resume || o.overwrite || !std::filesystem::exists(o.csv, ignored), "fit", o.csv.string(),
              " is there already: resume, overwrite it, or choose another csv");
  return o;
}

/// Throws ValueError if the tokenizer or a sentence of `longest` tokens does not fit the model, which would otherwise be found
/// out when the first such token or sentence comes, perhaps after an hour. The message on a sentence begins with `where`.
template <class Model>
void check_fits(const Model& model, const text::AnyTokenizer& tokenizer, index_t longest, const std::string& where = {}) {
  check_value(tokenizer.bos() >= 0 && tokenizer.eos() >= 0, "fit", "the tokenizer has no token for the begin or the end");
  check_value(!tokenizer.source_end().empty(), "fit", "the tokenizer ends sources with nothing");
  if constexpr (requires { model.options.encoder.vocabulary, model.options.decoder.max_length; })
    for (const auto* stack : {&model.options.encoder, &model.options.decoder}) {
      const auto tokens = stack == &model.options.encoder ? tokenizer.size() : tokenizer.target_size();
      check_value(tokens <= stack->vocabulary, "fit", "the tokenizer has ", tokens, " tokens, the model's vocabulary ",
                  stack->vocabulary);
      check_value(longest <= stack->max_length, "fit", where, "a sentence has ", longest, " tokens, the model takes ",
                  stack->max_length, "; set max_length");
    }
}

}  // namespace attend::train
