#pragma once

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
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

/// What one step of Adam multiplies by, worked out once for all elements.
struct AdamStep {
  double gradient_scale;  ///< what the gradient is multiplied by first
  double l2;              ///< this times the value is added to the gradient (Adam's weight decay)
  double shrink;          ///< what the value is multiplied by first (AdamW's weight decay)
  double beta1, beta2;    ///< decay of the two moments
  double step_size;       ///< learning rate / (1 - beta1^t)
  double second_scale;    ///< 1 / sqrt(1 - beta2^t)
  double eps;
};

/// g = scale * gradient + l2 * value,  first = beta1 * first + (1 - beta1) * g,  second = beta2 * second + (1 - beta2) * g^2,
/// value = shrink * value - step_size * first / (sqrt(second) * second_scale + eps).
template <class T>
void adam_step(Cpu, index_t n, const AdamStep& step, const T* gradient, T* value, T* first, T* second) {
  const T scale = static_cast<T>(step.gradient_scale), l2 = static_cast<T>(step.l2), shrink = static_cast<T>(step.shrink);
  const T beta1 = static_cast<T>(step.beta1), rest1 = static_cast<T>(1 - step.beta1);
  const T beta2 = static_cast<T>(step.beta2), rest2 = static_cast<T>(1 - step.beta2);
  const T step_size = static_cast<T>(step.step_size), second_scale = static_cast<T>(step.second_scale);
  const T eps = static_cast<T>(step.eps);
  cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) {
    const cpu::Vector<T> p = at.of(value), g = scale * at.of(gradient) + l2 * p;
    const cpu::Vector<T> m = beta1 * at.of(first) + rest1 * g, v = beta2 * at.of(second) + rest2 * (g * g);
    at.set(first, m);
    at.set(second, v);
    at.set(value, shrink * p - step_size * m / (cpu::sqrt<T>(v) * second_scale + eps));
  });
}

/// g = scale * gradient + l2 * value,  velocity = momentum * velocity + g,
/// value -= learning_rate * (nesterov ? g + momentum * velocity : velocity).
template <class T>
void sgd_momentum_step(Cpu, index_t n, T learning_rate, T scale, T l2, T momentum, bool nesterov, const T* gradient, T* value,
                       T* velocity) {
  cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) {
    const cpu::Vector<T> p = at.of(value), g = scale * at.of(gradient) + l2 * p, v = momentum * at.of(velocity) + g;
    at.set(velocity, v);
    at.set(value, p - learning_rate * (nesterov ? g + momentum * v : v));
  });
}

/// value -= learning_rate * (scale * gradient + l2 * value).
template <class T>
void sgd_step(Cpu, index_t n, T learning_rate, T scale, T l2, const T* gradient, T* value) {
  cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) {
    const cpu::Vector<T> p = at.of(value);
    at.set(value, p - learning_rate * (scale * at.of(gradient) + l2 * p));
  });
}

}  // namespace attend
