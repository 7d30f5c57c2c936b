#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "attend/nn/adapters.hpp"
#include "attend/nn/hidden_matrices.hpp"
#include "attend/train/options.hpp"

namespace attend::train {

/// What the automatic options of a run follow from.
struct RunFacts {
  index_t pairs = 0;      ///< to train on
  index_t width = 512;    ///< of the model: d_model
  bool matrices = true;   ///< whether the model has hidden matrices
  bool adapters = false;  ///< whether low-rank adapters learn; the width is then that of the matrices beside them
};

/// The facts of a run that trains `model` on so many pairs.
template <class Model>
RunFacts run_facts(const Model& model, index_t pairs) {
  RunFacts facts{.pairs = pairs, .width = 0};
  const auto matrices = nn::hidden_matrices(model);
  for (const auto& m : matrices) facts.width = std::max(facts.width, std::min(m.dim(0), m.dim(1)));
  facts.matrices = !matrices.empty() && facts.width > 1;
  for (const auto& m : nn::adaptables(model)) {
    if (!m.adapter) continue;
    facts.adapters = true;
    facts.width = std::max(facts.width, std::min(m.rows.count, m.rows.packed.dim(1)));
  }
  facts.width = std::max<index_t>(facts.width, 1);
  return facts;
}

/// Epochs of a run that nothing else limits: 100 over the cube root of the thousands of pairs, from 5 to 200. 100 for 1,000
/// pairs, 32 for 30,000, 20 for 120,000, 10 for 1,000,000.
inline index_t automatic_epochs(index_t pairs) {
  const double thousands = static_cast<double>(std::max<index_t>(pairs, 1)) / 1000;
  return std::clamp<index_t>(std::llround(100 / std::cbrt(thousands)), 5, 200);
}

/// Tokens of a batch: 2,048 for 30,000 pairs, growing with the fourth root of the pairs, from 1,024 to 8,192, in multiples of 64.
/// The same on every device, so that a run may be resumed on another; a GPU would like more.
inline index_t automatic_tokens(const RunFacts& facts) {
  const double tokens = 2048 * std::pow(static_cast<double>(facts.pairs) / 30'000, 0.25);
  return std::clamp<index_t>(std::llround(tokens / 64) * 64, 1024, 8192);
}

/// 128 over the model's width, which counts as 64 at least.
inline double narrowness(const RunFacts& facts) { return 128 / static_cast<double>(std::max<index_t>(facts.width, 64)); }

/// Muon at rates that suit the width: those of 128 channels over the square root of how much wider it is, so that the norm of a
/// matrix's step, about 0.2 rate sqrt(width), stays the same.
inline optim::MuonOptions automatic_muon(const RunFacts& facts) {
  return {.learning_rate = 0.008 * std::sqrt(narrowness(facts))};
}
/// Adam at rates that suit the width: those of 128 channels over how much wider it is.
inline optim::AdamOptions automatic_adam(const RunFacts& facts) {
  return {.learning_rate = 0.004 * narrowness(facts), .beta2 = 0.98, .eps = 1e-9};
}

/// An optimizer of that kind, at rates that suit the width in Muon and Adam, and of 0.001 in the others.
inline optim::OptimizerOptions automatic_optimizer(optim::OptimizerKind kind, const RunFacts& facts) {
  switch (kind) {
    case optim::OptimizerKind::adam:
      return automatic_adam(facts);
    case optim::OptimizerKind::adamw:
      return optim::AdamWOptions{.learning_rate = 1e-3, .beta2 = 0.98, .eps = 1e-9};
    case optim::OptimizerKind::sgd:
      return optim::SgdOptions{.learning_rate = 1e-3, .momentum = 0.9};
    case optim::OptimizerKind::muon:
      break;
  }
  return automatic_muon(facts);
}

/// The optimizer if none is given: Muon if a batch has at least eight tokens for each channel of the model, so that its cost is
/// small beside that of the step; otherwise Adam.
inline optim::OptimizerOptions automatic_optimizer(const RunFacts& facts, double tokens) {
  if (facts.matrices && tokens >= 8 * static_cast<double>(facts.width)) return automatic_muon(facts);
  return automatic_adam(facts);
}

/// The learning rate of a run without a schedule: the optimizer's after a warm-up of 100 steps (Muon) or 400 (others), then a
/// linear fall to 0 that ends with the run, or the inverse square root if nothing `ends` it but patience or an interruption.
inline optim::ScheduleOptions automatic_schedule(const optim::OptimizerOptions& optimizer, bool ends) {
  return {.kind = ends ? optim::ScheduleKind::linear : optim::ScheduleKind::inverse_sqrt,
          .learning_rate = std::visit([](const auto& o) { return o.learning_rate; }, optimizer),
          .warmup = std::holds_alternative<optim::MuonOptions>(optimizer) ? 100 : 400};
}

/// The options with a value in place of each that is automatic, but for the schedule and the validations, which `run_schedule`
/// and the run itself see to.
inline FitOptions completed(FitOptions o, const RunFacts& facts) {
  const index_t ranks = o.communicator ? o.communicator->size() : 0;
  if (o.parts == automatic) o.parts = ranks == 0 ? 1 : o.fast_sums ? ranks : std::max<index_t>(8, ranks);
  if (o.tokens_per_batch == automatic) o.tokens_per_batch = automatic_tokens(facts);
  if (o.optimizer_kind) o.optimizer = automatic_optimizer(*std::exchange(o.optimizer_kind, {}), facts);
  if (!o.optimizer)
    o.optimizer = automatic_optimizer(facts, static_cast<double>(o.tokens_per_batch) * static_cast<double>(o.accumulate));
  if (o.epochs == automatic) o.epochs = o.max_steps == 0 && o.max_seconds == 0 ? automatic_epochs(facts.pairs) : 0;
  return o;
}

}  // namespace attend::train
