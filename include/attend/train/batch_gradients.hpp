#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "attend/core/precision.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/checkpoint.hpp"
#include "attend/train/options.hpp"
#include "attend/train/pairwise_sum.hpp"
#include "attend/train/pending_updates.hpp"
#include "attend/train/ranks.hpp"
#include "attend/train/shared_update.hpp"
#include "attend/train/step_runner.hpp"
#include "attend/train/sums_of_ranks.hpp"
#include "attend/train/teacher.hpp"

namespace attend::train {

/// Computes the gradients of batches, part by part, and sums them over parts and ranks.
template <class Model>
class BatchGradients {
 public:
  using T = typename Model::value_type;
  using D = typename Model::device_type;
  using PartLoss = typename PendingUpdates<T, D>::PartLoss;

  /// What it is given must outlive it. Throws ValueError if the model's numbers have no products of this precision.
  BatchGradients(const Model& model, const Ranks& ranks, const FitOptions& options, const Teacher<T, D>& teacher = {})
      : model_(model),
        ranks_(ranks),
        o_(options),
        runner_({.teacher = teacher, .weight = options.distillation_weight, .temperature = options.distillation_temperature}) {
    check_value(o_.precision == Precision::full || (std::same_as<T, float> && std::same_as<D, Cpu>), "fit", "precision is ",
                name_of(o_.precision), ", which is for models of floats on the CPU; on a GPU bfloat16 is a type of model");
  }

  /// Puts the gradients of a batch of so many labels into the optimizer's, and returns the losses of its passes. With several
  /// parts, what is drawn depends on the step and the part alone, and the generator is afterwards as `state` has it.
  std::vector<PartLoss> operator()(const Batches& batches, std::span<const index_t> batch, index_t labels,
                                   const TrainingState& state, optim::AnyOptimizer<T, D>& optimizer) {
    const MatmulPrecision precision(o_.precision);
    const auto& parameters = optimizer.parameters();
    const auto parts = batches.cut(batch, o_.parts);
    const index_t first = ranks_.first(o_.parts), last = ranks_.last(o_.parts);
    const auto& gradients = parameters.gradients();
    if (ranks_ && !sums_of_ranks_) {
      if (o_.shard_optimizer && ranks_.size() > 1) shared_.emplace(*ranks_, parameters);
      sums_of_ranks_.emplace(*ranks_, parameters, o_.fast_sums, shared_ ? &*shared_ : nullptr);
    }
    const AbandonedSums abandoned{sums_of_ranks_};
    std::vector<PartLoss> losses;
    for (index_t part = first; part < last; ++part) {
      if (o_.parts > 1) draw_for(part, state);
      optimizer.zero_grad();
      const bool is_last = part + 1 == last;
      const auto passes = batches.passes(nth(parts, part), o_.parts);
      if (ranks_ && is_last && passes.empty()) sums_of_ranks_->begin(sums_, part - first);
      for (const auto& pass : passes) {
        if (ranks_ && is_last && &pass == &passes.back()) sums_of_ranks_->begin(sums_, part - first);
        const double share = static_cast<double>(batches.labels(pass)) / static_cast<double>(labels);
        const auto mean = runner_.run(model_, batches, pass, {.smoothing = o_.label_smoothing, .r_drop = o_.r_drop}, share);
        losses.push_back({share, Arriving<Wide<T>, D>(mean)});
      }
      if (!(ranks_ && is_last)) sums_.add(part - first, last - first, gradients);
    }
    if (o_.parts > 1) default_generator().restore(state.generator_seed, state.generator_drawn);
    if (!ranks_) return losses;
    sums_of_ranks_->finish();
    return gathered(std::move(losses));
  }

  /// The sums over ranks, if there have been any.
  [[nodiscard]] const std::optional<SumsOfRanks<T, D>>& sums_of_ranks() const { return sums_of_ranks_; }
  /// What an update takes besides where ranks have a share each of the optimizer, from the first batch on.
  [[nodiscard]] const std::optional<SharedUpdate<T, D>>& shared() const { return shared_; }

 private:
  /// Sums under way when an exception is thrown must not go on while it is handled.
  struct AbandonedSums {
    std::optional<SumsOfRanks<T, D>>& sums;
    ~AbandonedSums() {
      if (sums) sums->abandon();
    }
  };
  /// Lets what is drawn next depend on the step and the part alone. The key stays, because recorded work has it.
  void draw_for(index_t part, const TrainingState& state) const {
    const auto number = static_cast<std::uint64_t>(state.step * o_.parts + part + 1);
    default_generator().restore(state.generator_seed, number << 16);
  }
  /// The losses of all ranks' passes, in the order of the ranks.
  std::vector<PartLoss> gathered(std::vector<PartLoss> losses) const {
    struct Loss {
      double share;
      Wide<T> mean;
    };
    std::vector<Loss> all;
    for (auto& loss : losses) all.push_back({loss.share, loss.mean.values().front()});
    all = ranks_.gather(all);
    losses.clear();
    for (const auto& [share, mean] : all) losses.push_back({share, Arriving<Wide<T>, D>(Tensor<Wide<T>, D>({1}, mean))});
    return losses;
  }

  const Model& model_;
  const Ranks& ranks_;
  const FitOptions& o_;
  StepRunner<Model> runner_;
  PairwiseSum<T, D> sums_;                    // of the gradients of a batch's parts
  std::optional<SharedUpdate<T, D>> shared_;  // that sums_of_ranks_ looks at
  std::optional<SumsOfRanks<T, D>> sums_of_ranks_;
};

}  // namespace attend::train
