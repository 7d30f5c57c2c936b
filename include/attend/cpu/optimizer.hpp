#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/simd.hpp"

/// One optimizer step over all parameters of a model at once, which lie end to end in one buffer.
namespace attend {

namespace cpu {

/// A vector's place in every array of a step: `count` numbers from `begin` on, fewer than a vector's at the arrays' end.
template <class T>
struct Place {
  index_t begin;
  int count;

  [[gnu::always_inline]] Vector<T> of(const T* x) const {
    return count == width<T> ? load<T>(x + begin) : load_part<T>(x + begin, count);
  }
  [[gnu::always_inline]] void set(T* x, Vector<T> v) const {
    if (count == width<T>) store<T>(x + begin, v);
    else store_part<T>(x + begin, v, count);
  }
};

/// body(place) for all vectors of [0, n). The arithmetic is the same for all, so that the rounding of an element depends neither
/// on where it stands nor on the number of threads.
template <class T, class F>
void parallel_vectors(index_t n, F&& body) {
  constexpr index_t W = width<T>;
  parallel_for((n + W - 1) / W, 8192 / W, [&](index_t begin, index_t end) {
    const index_t whole = std::min(end, n / W);
    for (index_t i = begin; i < whole; ++i) body(Place<T>{i * W, static_cast<int>(W)});
    if (whole < end) body(Place<T>{whole * W, static_cast<int>(n - whole * W)});
  });
}

}  // namespace cpu

/// What is known of an optimizer's updates, where the parameters are: on a device the host need not wait for it.
struct UpdateRecord {
  double norm = 0;                 ///< of the last gradients, before clipping
  double gradient_scale = 1;       ///< what they are multiplied by
  index_t steps = 0, skipped = 0;  ///< updates so far; those left out because the gradients were not finite
  bool taken = false;              ///< whether the last was not left out
};

/// What to multiply gradients of that norm by so that their norm is at most `max_norm`.
inline double clip_scale(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

/// The largest norm of gradients whose numbers all fit into what an optimizer of parameters in T computes in.
template <class T>
inline constexpr double largest_norm = static_cast<double>(std::numeric_limits<Wide<T>>::max());

/// Begins an update: the gradients' norm, and with max_norm > 0 the scale that cuts it down to that, min(1, max_norm / (norm +
/// 1e-6)); counts the update, or where the norm is not finite that it is left out.
template <class T>
void begin_update(Cpu, index_t n, const T* gradient, double max_norm, UpdateRecord* record) {
  record->norm = std::sqrt(sum_of_squares(Cpu{}, n, gradient));
  record->taken = std::isfinite(record->norm);
  record->gradient_scale = max_norm > 0 ? clip_scale(record->norm, max_norm) : 1.0;
  ++(record->taken ? record->steps : record->skipped);
}
/// The same for gradients that count `gradient_scale` times what they are, a positive number: left out too where that makes their
/// norm more than T has.
template <class T>
void begin_update_scaled(Cpu, index_t n, const T* gradient, double gradient_scale, UpdateRecord* record) {
  record->norm = std::sqrt(sum_of_squares(Cpu{}, n, gradient));
  record->taken = record->norm * gradient_scale <= largest_norm<T>;
  record->gradient_scale = gradient_scale;
  ++(record->taken ? record->steps : record->skipped);
}
/// The same for gradients of which the host knows that they are not finite.
inline void begin_update_left_out(Cpu, UpdateRecord* record) {
  record->norm = std::numeric_limits<double>::quiet_NaN();
  record->taken = false;
  ++record->skipped;
}

/// One step of Adam, but for what its record says.
struct AdamStep {
  double learning_rate;
  double l2;            ///< this times the value is added to the gradient (Adam's weight decay)
  double shrink;        ///< what the value is multiplied by first (AdamW's weight decay)
  double beta1, beta2;  ///< decay of the two moments
  double eps;
};

/// g = gradient_scale * gradient + l2 * value,  first = beta1 * first + (1 - beta1) * g,
/// second = beta2 * second + (1 - beta2) * g^2,
/// value = shrink * value - learning_rate / (1 - beta1^t) * first / (sqrt(second / (1 - beta2^t)) + eps),  t = record->steps.
/// Does nothing where the record says that the update is left out. `rounded` is for types that keep their values in a wider one.
template <class T>
void adam_step(Cpu, index_t n, const AdamStep& step, const UpdateRecord* record, const T* gradient, T* value, T* first, T* second,
               T* /*rounded*/) {
  if (!record->taken) return;
  const auto t = static_cast<double>(record->steps);
  const T scale = static_cast<T>(record->gradient_scale), l2 = static_cast<T>(step.l2), shrink = static_cast<T>(step.shrink);
  const T beta1 = static_cast<T>(step.beta1), rest1 = static_cast<T>(1 - step.beta1);
  const T beta2 = static_cast<T>(step.beta2), rest2 = static_cast<T>(1 - step.beta2);
  const T step_size = static_cast<T>(step.learning_rate / (1 - std::pow(step.beta1, t)));
  const T second_scale = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, t)));
  const T eps = static_cast<T>(step.eps);
  cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) {
    const cpu::Vector<T> p = at.of(value), g = scale * at.of(gradient) + l2 * p;
    const cpu::Vector<T> m = beta1 * at.of(first) + rest1 * g, v = beta2 * at.of(second) + rest2 * (g * g);
    at.set(first, m);
    at.set(second, v);
    at.set(value, shrink * p - step_size * m / (cpu::sqrt<T>(v) * second_scale + eps));
  });
}

/// One step of gradient descent, but for what its record says.
struct SgdStep {
  double learning_rate, l2, momentum;
  bool nesterov;
};

/// g = gradient_scale * gradient + l2 * value; without a velocity (null), value -= learning_rate * g; else
/// velocity = momentum * velocity + g,  value -= learning_rate * (nesterov ? g + momentum * velocity : velocity).
/// Does nothing where the record says that the update is left out. `rounded` as for adam_step.
template <class T>
void sgd_step(Cpu, index_t n, const SgdStep& step, const UpdateRecord* record, const T* gradient, T* value, T* velocity,
              T* /*rounded*/) {
  if (!record->taken) return;
  const T learning_rate = static_cast<T>(step.learning_rate), scale = static_cast<T>(record->gradient_scale);
  const T l2 = static_cast<T>(step.l2), momentum = static_cast<T>(step.momentum);
  if (!velocity) {
    cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) {
      const cpu::Vector<T> p = at.of(value);
      at.set(value, p - learning_rate * (scale * at.of(gradient) + l2 * p));
    });
    return;
  }
  const bool nesterov = step.nesterov;
  cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) {
    const cpu::Vector<T> p = at.of(value), g = scale * at.of(gradient) + l2 * p, v = momentum * at.of(velocity) + g;
    at.set(velocity, v);
    at.set(value, p - learning_rate * (nesterov ? g + momentum * v : v));
  });
}

/// average = keep * average + (1 - keep) * value. Does nothing where there is a record that says that the update was left out.
template <class T>
void average_step(Cpu, index_t n, T keep, const UpdateRecord* record, const T* value, T* average) {
  if (record && !record->taken) return;
  scale_add(Cpu{}, n, T(1) - keep, value, keep, average);
}

}  // namespace attend
