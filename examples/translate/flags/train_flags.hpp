#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <variant>

#include "attend/train/completed.hpp"
#include "option_flags.hpp"

namespace translate {

/// The options of training on the command line.
struct TrainFlags {
  OptionFlags<attend::train::FitOptions> fit{{.best_by = attend::train::Metric::bleu}};
  std::string optimizer, schedule;
  std::optional<double> learning_rate, matrix_rate, weight_decay, momentum;
  std::optional<attend::index_t> warmup;
  std::optional<bool> cautious;
  double minutes = 0;

  void add_to(CLI::App& app) {
    const std::string group = "Training";
    fit.add_to(app, group, true);
    app.add_option("--minutes", minutes, "Time, with that of the runs that --resume goes on from; 0: no limit")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str()
        ->group(group);
    app.add_option("--optimizer", optimizer,
                   "How the gradient moves the weights: muon where a batch has eight tokens for each channel of the model, else "
                   "adam, as always with --init")
        ->check(CLI::IsMember({"muon", "adam", "adamw", "sgd"}))
        ->group(group);
    app.add_option("--learning-rate", learning_rate,
                   "The highest, at the end of the warm-up; by the width with muon and adam, else 0.001; not with noam")
        ->check(CLI::Range(1e-12, 1e3))
        ->group(group);
    app.add_option("--matrix-rate", matrix_rate, "Of muon: the matrices' learning rate as a share of the others' (0.8)")
        ->check(CLI::Range(1e-6, 1e3))
        ->group(group);
    app.add_option("--weight-decay", weight_decay, "Of muon, adamw and sgd (0.2, 0.01 and 0)")
        ->check(CLI::Range(0.0, 1e9))
        ->group(group);
    app.add_option("--cautious", cautious, "Of muon: no step moves a matrix's number uphill, by the batch's gradient (true)")
        ->type_name("BOOL")
        ->group(group);
    app.add_option("--momentum", momentum, "Of muon and sgd (0.95 and 0.9)")->check(CLI::Range(0.0, 0.9999))->group(group);
    app.add_option("--schedule", schedule,
                   "How the learning rate goes on after the warm-up; linear and cosine fall to 0 at the end of the run (linear)")
        ->check(CLI::IsMember({"inverse_sqrt", "cosine", "linear", "constant", "noam"}))
        ->group(group);
    app.add_option("--warmup", warmup,
                   "Steps in which the learning rate rises, but with noam at most half of the run (100 with muon, else 400, at "
                   "most a tenth of the run)")
        ->check(CLI::Range(0, 1 << 30))
        ->group(group);
  }

  /// Whether it is clear before the corpus is read that Adam takes the steps: a model that has learnt already goes on with it.
  [[nodiscard]] bool takes_adam(bool has_learnt) const { return optimizer == "adam" || (optimizer.empty() && has_learnt); }

  /// Throws ValueError if an option does not go with the others.
  void check(bool has_learnt) const {
    using attend::check_value;
    const auto goes_with = [](bool given, const char* option, bool fits, const char* with) {
      check_value(!given || fits, "train", option, " goes with ", with);
    };
    goes_with(learning_rate.has_value(), "--learning-rate", schedule != "noam",
              "every --schedule but noam, which has a rate of its own");
    goes_with(weight_decay.has_value(), "--weight-decay", !takes_adam(has_learnt), "--optimizer muon, adamw or sgd");
    const bool may_be_muon = optimizer == "muon" || (optimizer.empty() && !has_learnt);
    goes_with(matrix_rate.has_value(), "--matrix-rate", may_be_muon, "--optimizer muon");
    goes_with(cautious.has_value(), "--cautious", may_be_muon, "--optimizer muon");
    goes_with(fit.given.keep_checkpoints > 0, "--keep-checkpoints", fit.given.checkpoint_every > 0, "--checkpoint-every");
    goes_with(momentum.has_value(), "--momentum", !takes_adam(has_learnt) && optimizer != "adamw", "--optimizer muon or sgd");
  }

  /// What `fit` is to do with such a model and corpus. Throws ValueError if an option does not go with the others.
  /// A model that has learnt already is trained on by Adam, gently and ten times over the pairs, if nothing else is said.
  /// `d_model` is what noam goes by.
  [[nodiscard]] attend::train::FitOptions options(const attend::train::RunFacts& facts, bool has_learnt,
                                                  attend::index_t d_model) const {
    using namespace attend;
    check(has_learnt);
    train::FitOptions o = fit.given;
    o.max_seconds = minutes * 60;
    if (optimizer == "sgd") o.optimizer = optim::SgdOptions{.learning_rate = 1e-3, .momentum = 0.9};
    if (optimizer == "adamw") o.optimizer = optim::AdamWOptions{.learning_rate = 1e-3, .beta2 = 0.98, .eps = 1e-9};
    if (takes_adam(has_learnt)) o.optimizer = train::automatic_adam(facts);
    if (optimizer == "muon") o.optimizer = train::automatic_muon(facts);
    if (has_learnt && o.epochs == train::automatic && o.max_steps == 0 && minutes == 0) o.epochs = 10;
    o = train::completed(o, facts);
    std::visit(
        [&](auto& chosen) {
          chosen.learning_rate = learning_rate.value_or(chosen.learning_rate * (has_learnt ? 0.2 : 1.0));
          // Adam has a weight decay too, but of another kind.
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(chosen)>, optim::AdamOptions>)
            check_value(!weight_decay, "train",
                        "--weight-decay goes with --optimizer muon, adamw or sgd, and this run takes adam");
          else chosen.weight_decay = weight_decay.value_or(chosen.weight_decay);
          if constexpr (requires { chosen.cautious; }) chosen.cautious = cautious.value_or(chosen.cautious);
          else check_value(!cautious, "train", "--cautious goes with --optimizer muon, and this run takes another");
          if constexpr (requires { chosen.matrix_rate; }) chosen.matrix_rate = matrix_rate.value_or(chosen.matrix_rate);
          else check_value(!matrix_rate, "train", "--matrix-rate goes with --optimizer muon, and this run takes another");
          if constexpr (requires { chosen.momentum; }) chosen.momentum = momentum.value_or(chosen.momentum);
          else check_value(!momentum, "train", "--momentum goes with --optimizer muon or sgd, and this run takes adam");
        },
        *o.optimizer);
    if (warmup || schedule == "noam") {
      auto how = train::automatic_schedule(*o.optimizer, o.epochs > 0 || o.max_steps > 0 || o.max_seconds > 0);
      if (!schedule.empty()) how.kind = from_name<optim::ScheduleKind>("schedule", schedule);
      how.warmup = warmup.value_or(how.warmup);
      how.d_model = d_model;
      o.schedule = how;
    } else if (!schedule.empty()) {
      o.schedule_kind = from_name<optim::ScheduleKind>("schedule", schedule);
    }
    return o;
  }
};

}  // namespace translate
