#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "attend/autograd/gradient_room.hpp"
#include "attend/core/precision.hpp"
#include "attend/core/random.hpp"
#include "attend/core/threads.hpp"
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
    // Of one part, what its passes came to.
    const auto compute = [&](index_t part, bool sums_go_out) {
      std::vector<PartLoss> losses;
      if (o_.parts > 1) draw_for(part, state);
      const auto passes = batches.passes(nth(parts, part), o_.parts);
      if (sums_go_out && passes.empty()) sums_of_ranks_->begin(sums_, part - first);
      for (const auto& pass : passes) {
        if (sums_go_out && &pass == &passes.back()) sums_of_ranks_->begin(sums_, part - first);
        const double share = static_cast<double>(batches.labels(pass)) / static_cast<double>(labels);
        const auto mean = runner_.run(model_, batches, pass, {.smoothing = o_.label_smoothing, .r_drop = o_.r_drop}, share);
        losses.push_back({share, Arriving<Wide<T>, D>(mean)});
      }
      return losses;
    };
    std::vector<PartLoss> losses;
    const auto add = [&](std::vector<PartLoss> more) { std::move(more.begin(), more.end(), std::back_inserter(losses)); };
    for (index_t part = first, count; part < last; part += count) {
      // The last part of a rank goes by itself: while it is computed, its gradients go out.
      const bool sums_go_out = ranks_ && part + 1 == last;
      count = side_by_side(ranks_ ? last - 1 - part : last - part, gradients);
      optimizer.zero_grad();
      if (count == 1) {
        add(compute(part, sums_go_out));
        if (!sums_go_out) sums_.add(part - first, last - first, gradients);
        continue;
      }
      auto of_parts = at_once(count, gradients, [&](index_t k) { return compute(part + k, false); });
      for (index_t k = 0; k < count; ++k) {
        add(std::move(nth(of_parts, k)));
        sums_.add(part + k - first, last - first, k + 1 < count ? nth(rooms_, k) : gradients);
      }
    }
    if (o_.parts > 1) state.restore_generator();
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
  /// How many of the next `left` parts threads compute at the same time, each by one. The bits are the same anyhow. Operations of
  /// small models are too short to be shared among threads; of large ones gradients would fill the memory. All parts at work have
  /// no more tokens than one of the passes that `accumulate` asks for, and most threads must have one.
  index_t side_by_side(index_t left, const Tensor<T, D>& gradients) const {
    const index_t bytes = gradients.size() * static_cast<index_t>(sizeof(T));
    const index_t count = std::min({left, index_t{threads()}, o_.parts / o_.accumulate, 1 + most_rooms / bytes});
    const bool worth_it = count > 1 && bytes <= most_side_by_side && 2 * count >= threads() && !ThreadPool::within_loop();
    return worth_it && runner_.by_threads() ? count : 1;
  }
  /// Bytes of a model's gradients, and of all rooms.
  static constexpr index_t most_side_by_side = index_t{32} << 20, most_rooms = index_t{128} << 20;

  /// compute(k) of so many parts, each by a thread. The gradients of the last are then in `gradients`, those of the others in
  /// rooms_.
  template <class F>
  std::vector<std::vector<PartLoss>> at_once(index_t count, const Tensor<T, D>& gradients, F&& compute) {
    std::vector<std::vector<PartLoss>> losses(count);
    while (count_of(rooms_) < count - 1) rooms_.emplace_back(gradients.shape());
    ThreadPool::instance().run(count, 1, [&](index_t begin, index_t end) {
      const MatmulPrecision precision(o_.precision);
      const GeneratorScope generator;
      for (index_t k = begin; k < end; ++k) {
        const auto& room = k + 1 < count ? nth(rooms_, k) : gradients;
        if (k + 1 < count) room.fill(T(0));
        const GradientRoom<T, D> scope(gradients, room);
        nth(losses, k) = compute(k);
      }
    });
    return losses;
  }

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
  std::vector<Tensor<T, D>> rooms_;           // for gradients of parts that are computed side by side, but for the last
  std::optional<SharedUpdate<T, D>> shared_;  // that sums_of_ranks_ looks at
  std::optional<SumsOfRanks<T, D>> sums_of_ranks_;
};

}  // namespace attend::train
