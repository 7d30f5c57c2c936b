#pragma once

#include <algorithm>
#include <concepts>
#include <limits>

#include "attend/core/functor.hpp"
#include "attend/core/types.hpp"

/// What optimizers tell their kernels, and the kernels tell them.
namespace attend {

/// What is known of an optimizer's updates. It lies on the parameters' device, so that the host need not wait for it.
struct UpdateRecord {
  double norm = 0;                 ///< of the last gradients, before clipping
  double gradient_scale = 1;       ///< what they are multiplied by
  index_t steps = 0, skipped = 0;  ///< updates so far; those left out because the gradients were not finite
  bool taken = false;              ///< whether the last update was taken, not left out
};

/// What to multiply gradients of that norm by so that their norm is at most `max_norm`.
inline double clip_scale(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

/// The largest norm at which no gradient can overflow Wide<T>, which an optimizer of parameters in T computes in.
template <class T>
inline constexpr double largest_norm = static_cast<double>(std::numeric_limits<Wide<T>>::max());

/// The rule of an optimizer that treats all numbers alike: `prepare<W>(record)` gives one update as a function object, with all
/// that is the same for every number computed in W, and `update(g, p, memory...)` moves a parameter p, and what is remembered of
/// it, by its gradient g, not yet multiplied by the record's gradient_scale. Functions of numbers are those of `attend::math`
/// (ops/math.hpp); on a processor, what has no branches becomes vector instructions.
///
///     struct SignDescent {
///       static constexpr int memories = 0;
///       double learning_rate;
///       template <class W>
///       struct Update {
///         W rate;
///         ATTEND_FUNCTOR void operator()(W g, W& p) const { p -= rate * math::sign(g); }
///       };
///       template <class W>
///       ATTEND_FUNCTOR Update<W> prepare(const UpdateRecord&) const { return {static_cast<W>(learning_rate)}; }
///     };
template <class Rule>
concept UpdateRule = requires(const Rule& rule, const UpdateRecord& record) {
  { Rule::memories } -> std::convertible_to<int>;
  rule.template prepare<float>(record);
};

/// The most that the numbers which keep_descending left are multiplied by: see MuonStep.
inline constexpr double most_cautious = 2;

namespace kernels {

/// A step of Muon's along a direction: value = shrink * value - rate * direction, if the record says that the update is taken;
/// with `kept` (null for none) the rate is min(2, n / *kept) times as high. Record and kept lie on the parameters' device.
struct MuonStep {
  double rate = 0, shrink = 1;
  const UpdateRecord* record = nullptr;
  const index_t* kept = nullptr;
};

}  // namespace kernels

}  // namespace attend
