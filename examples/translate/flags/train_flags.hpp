#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "attend/train/completed.hpp"
#include "option_flags.hpp"

namespace translate {

/// The options of training on the command line.
struct TrainFlags {
  OptionFlags<attend::train::FitOptions> fit{{.best_by = attend::train::Metric::bleu}};
  OptionFlags<attend::optim::ScheduleOptions> schedule;
  OptionFlags<attend::optim::MuonOptions> of_optimizer;  ///< those that the other optimizers have go to them too
  double minutes = 0;

  void add_to(CLI::App& app) {
    const std::string group = "Training";
    fit.add_to(app, group, true);
    app.add_option("--minutes", minutes, "Time, with that of the runs that --resume goes on from; 0: no limit")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str()
        ->group(group);
    schedule.add_to(app, group, false);
    of_optimizer.add_to(app, group, false);
  }

  /// Whether it is clear before the corpus is read that Adam takes the steps: a model that has learnt already goes on with it.
  [[nodiscard]] bool takes_adam(bool has_learnt) const {
    const auto& kind = fit.given.optimizer_kind;
    return kind ? *kind == attend::optim::OptimizerKind::adam : has_learnt;
  }

  /// Numbers that are kept at least for each weight, besides the weight itself: its gradient, what its optimizer remembers of it,
  /// which is not counted if ranks may have a share each, and its moving average.
  [[nodiscard]] int kept_for_a_weight() const {
    const bool descends = fit.given.optimizer_kind == attend::optim::OptimizerKind::sgd;
    const int remembered = descends ? of_optimizer.given.momentum > 0 : 2;
    return 1 + (fit.given.shard_optimizer ? 0 : remembered) + (fit.given.average_decay > 0);
  }

  /// Throws ValueError if an option does not go with the others.
  void check(bool has_learnt) const {
    using attend::check_value;
    const auto goes_with = [](bool given, const char* option, bool fits, const char* with) {
      check_value(!given || fits, "train", option, " goes with ", with);
    };
    goes_with(schedule.has("--learning-rate"), "--learning-rate", !takes_noam(),
              "every --schedule but noam, which has a rate of its own");
    if (takes_adam(has_learnt)) check_optimizer("adam");
    else if (fit.given.optimizer_kind) check_optimizer(attend::name_of(*fit.given.optimizer_kind));
    goes_with(fit.given.keep_checkpoints > 0, "--keep-checkpoints", fit.given.checkpoint_every > 0, "--checkpoint-every");
  }

  /// What `fit` is to do with such a model and corpus. Throws ValueError if an option does not go with the others.
  /// A model that has learnt already is trained on by Adam, gently and ten times over the pairs, unless told otherwise. The noam
  /// schedule goes by `d_model`.
  [[nodiscard]] attend::train::FitOptions options(const attend::train::RunFacts& facts, bool has_learnt,
                                                  attend::index_t d_model) const {
    using namespace attend;
    check(has_learnt);
    train::FitOptions o = fit.given;
    o.max_seconds = minutes * 60;
    if (takes_adam(has_learnt)) o.optimizer_kind = optim::OptimizerKind::adam;
    if (has_learnt && o.epochs == train::automatic && o.max_steps == 0 && minutes == 0) o.epochs = 10;
    o = train::completed(o, facts);
    std::visit(
        [&](auto& chosen) {
          if (schedule.has("--learning-rate")) chosen.learning_rate = schedule.given.learning_rate;
          else if (has_learnt && !facts.adapters) chosen.learning_rate *= 0.2;  // adapters have not learnt yet
          if constexpr (takes_flags<std::remove_cvref_t<decltype(chosen)>>) of_optimizer.put_into(chosen);
        },
        *o.optimizer);
    const std::string kind(optim::optimizer_name(*o.optimizer));
    check_optimizer(kind, ", and this run takes " + kind);
    if (schedule.has("--warmup") || takes_noam()) {
      auto how = schedule.over(train::automatic_schedule(*o.optimizer, o.epochs > 0 || o.max_steps > 0 || o.max_seconds > 0));
      how.kind = std::exchange(o.schedule_kind, {}).value_or(how.kind);
      how.d_model = d_model;
      o.schedule = how;
    }
    return o;
  }

 private:
  [[nodiscard]] bool takes_noam() const { return fit.given.schedule_kind == attend::optim::ScheduleKind::noam; }
  /// Throws ValueError, which ends with `more`, if an option is given that such an optimizer does not have.
  void check_optimizer(const std::string& kind, const std::string& more = {}) const {
    of_optimizer.for_each_given([&](const std::string& flag, const std::string& field) {
      const auto takers = takers_of(field);
      attend::check_value(std::find(takers.begin(), takers.end(), kind) != takers.end(), "train", flag, " goes with ",
                          list_of(takers), more);
    });
  }
  /// Whether flags may set options of that optimizer. Adam has a weight decay too, but of another kind.
  template <class O>
  static constexpr bool takes_flags = !std::is_same_v<O, attend::optim::AdamOptions>;
  /// The optimizers that a flag of that field may set.
  static std::vector<std::string> takers_of(const std::string& field) {
    std::vector<std::string> takers;
    const auto ask = [&]<class O>(const O& options) {
      if (takes_flags<O> && decltype(of_optimizer)::shares<O>(field)) takers.emplace_back(attend::optim::optimizer_name(options));
    };
    [&]<class... O>(std::type_identity<std::variant<O...>>) {
      (ask(O{}), ...);
    }(std::type_identity<attend::optim::OptimizerOptions>{});
    return takers;
  }
  /// `--optimizer muon, adamw or sgd`.
  static std::string list_of(const std::vector<std::string>& optimizers) {
    std::string list = "--optimizer ";
    for (std::size_t i = 0; i < optimizers.size(); ++i)
      list += (i == 0 ? "" : i + 1 == optimizers.size() ? " or " : ", ") + optimizers[i];
    return list;
  }
};

}  // namespace translate
