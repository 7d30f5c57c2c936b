#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "attend/train/options.hpp"

namespace translate {

/// The options of training on the command line.
struct TrainFlags {
  attend::train::FitOptions fit;
  std::string optimizer = "adam", schedule = "inverse_sqrt", best_by = "bleu";
  std::optional<double> learning_rate, weight_decay, momentum;  // where not given, those of `options`
  double minutes = 0;
  attend::index_t warmup = 1000;

  TrainFlags() {
    fit.epochs = 20;
    fit.patience = 10;
  }

  void add_to(CLI::App& app) {
    const std::string group = "Training";
    app.add_option("--epochs", fit.epochs, "Passes over the pairs; 0: no limit")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str()
        ->group(group);
    app.add_option("--max-steps", fit.max_steps, "Updates; 0: no limit")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str()
        ->group(group);
    app.add_option("--minutes", minutes, "Time, with that of the runs that --resume goes on from; 0: no limit")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str()
        ->group(group);
    app.add_option("--tokens-per-batch", fit.tokens_per_batch, "The most tokens of a batch on either side")
        ->check(CLI::Range(1, 1 << 24))
        ->capture_default_str()
        ->group(group);
    app.add_option("--accumulate", fit.accumulate, "Batches per update")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str()
        ->group(group);
    app.add_option("--label-smoothing", fit.label_smoothing, "Share of the target spread over all words")
        ->check(CLI::Range(0.0, 0.99))
        ->capture_default_str()
        ->group(group);
    app.add_option("--optimizer", optimizer, "How the gradient moves the weights")
        ->check(CLI::IsMember({"adam", "adamw", "sgd"}))
        ->capture_default_str()
        ->group(group);
    app.add_option("--learning-rate", learning_rate, "The highest, at the end of the warm-up; not with noam (0.001)")
        ->check(CLI::Range(1e-12, 1e3))
        ->group(group);
    app.add_option("--weight-decay", weight_decay, "Of adamw and sgd (0.01 and 0)")->check(CLI::Range(0.0, 1e9))->group(group);
    app.add_option("--momentum", momentum, "Of sgd (0.9)")->check(CLI::Range(0.0, 0.9999))->group(group);
    app.add_option("--schedule", schedule, "How the learning rate goes on after the warm-up")
        ->check(CLI::IsMember({"inverse_sqrt", "cosine", "linear", "constant", "noam"}))
        ->capture_default_str()
        ->group(group);
    app.add_option("--warmup", warmup, "Steps in which the learning rate rises")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str()
        ->group(group);
    app.add_option("--clip-norm", fit.clip_norm, "Gradients are cut down to this norm; 0: not at all")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str()
        ->group(group);
    app.add_option("--average-decay", fit.average_decay,
                   "Of a moving average of the weights, which is what is validated and saved as best; 0: none")
        ->check(CLI::Range(0.0, 0.999999))
        ->capture_default_str()
        ->group(group);
    app.add_option("--seed", fit.seed, "Of weights, order and dropout")->capture_default_str()->group(group);
    app.add_option("--validate-every", fit.validate_every, "Steps; 0: at the end of each epoch")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str()
        ->group(group);
    app.add_option("--best-by", best_by, "What the best model is best by, on the validation pairs")
        ->check(CLI::IsMember({"bleu", "loss"}))
        ->capture_default_str()
        ->group(group);
    app.add_option("--patience", fit.patience, "Stop after so many validations without a better one; 0: never")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str()
        ->group(group);
    app.add_option("--checkpoint-every", fit.checkpoint_every,
                   "Steps between checkpoints, besides one every ten minutes; 0: those alone")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str()
        ->group(group);
    app.add_option("--keep-checkpoints", fit.keep_checkpoints,
                   "Of --checkpoint-every, the last so many stay as models in --out, for translate average")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str()
        ->group(group);
    app.add_option("--csv", fit.csv, "Write the curve of the training to this file, a row for each ten steps and validation")
        ->type_name("FILE")
        ->group(group);
    app.add_option("--tensorboard", fit.tensorboard, "The same and some translations for TensorBoard")
        ->type_name("FOLDER")
        ->group(group);
  }

  /// What `fit` is to do with a model of this width. Throws ValueError where an option does not go with the others.
  [[nodiscard]] attend::train::FitOptions options(attend::index_t d_model) const {
    using namespace attend;
    const auto goes_with = [](bool given, const char* option, bool fits, const char* with) {
      check_value(!given || fits, "train", std::string(option) + " goes with " + with);
    };
    const bool noam = schedule == "noam";
    goes_with(learning_rate.has_value(), "--learning-rate", !noam, "every --schedule but noam, which has a rate of its own");
    goes_with(weight_decay.has_value(), "--weight-decay", optimizer != "adam", "--optimizer adamw or sgd");
    goes_with(fit.keep_checkpoints > 0, "--keep-checkpoints", fit.checkpoint_every > 0, "--checkpoint-every");
    goes_with(momentum.has_value(), "--momentum", optimizer == "sgd", "--optimizer sgd");
    const double rate = learning_rate.value_or(1e-3);
    train::FitOptions o = fit;
    o.max_seconds = minutes * 60;
    o.best_by = best_by == "bleu" ? train::Metric::bleu : train::Metric::loss;
    if (optimizer == "sgd")
      o.optimizer =
          optim::SgdOptions{.learning_rate = rate, .momentum = momentum.value_or(0.9), .weight_decay = weight_decay.value_or(0)};
    else if (optimizer == "adamw")
      o.optimizer =
          optim::AdamWOptions{.learning_rate = rate, .beta2 = 0.98, .eps = 1e-9, .weight_decay = weight_decay.value_or(0.01)};
    else o.optimizer = optim::AdamOptions{.learning_rate = rate, .beta2 = 0.98, .eps = 1e-9};
    o.schedule =
        optim::Schedule({.kind = optim::Schedule::kind(schedule), .learning_rate = rate, .warmup = warmup, .d_model = d_model});
    return o;
  }
};

}  // namespace translate
