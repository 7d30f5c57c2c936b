#pragma once

#include <type_traits>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/eigen.hpp"

/// One optimizer step over all parameters of a model at once, which lie end to end in one buffer. Eigen's arrays rather than
/// plain loops, because a compiler that must set errno leaves a square root scalar.
namespace attend {

namespace cpu {

/// body(first, count) over [0, n) in parts of fixed size, so that where a part begins, and with it the rounding of every
/// element, does not depend on the number of threads. A part of five arrays stays in the first-level cache.
template <class F>
void parallel_parts(index_t n, F&& body) {
  constexpr index_t part = 1024;
  parallel_for((n + part - 1) / part, 8, [&](index_t begin, index_t end) {
    for (index_t p = begin; p < end; ++p) body(p * part, p * part + part < n ? part : n - p * part);
  });
}

template <class T>
auto array(T* data, index_t count) {
  using Array = Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>;
  return Eigen::Map<std::conditional_t<std::is_const_v<T>, const Array, Array>>(data, count);
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
  cpu::parallel_parts(n, [=](index_t begin, index_t count) {
    const auto g = cpu::array(gradient + begin, count);
    auto p = cpu::array(value + begin, count), m = cpu::array(first + begin, count), v = cpu::array(second + begin, count);
    m = beta1 * m + rest1 * (scale * g + l2 * p);
    v = beta2 * v + rest2 * (scale * g + l2 * p).square();
    p = shrink * p - step_size * m / (v.sqrt() * second_scale + eps);
  });
}

/// g = scale * gradient + l2 * value,  velocity = momentum * velocity + g,
/// value -= learning_rate * (nesterov ? g + momentum * velocity : velocity).
template <class T>
void sgd_momentum_step(Cpu, index_t n, T learning_rate, T scale, T l2, T momentum, bool nesterov, const T* gradient, T* value,
                       T* velocity) {
  cpu::parallel_parts(n, [=](index_t begin, index_t count) {
    const auto g = cpu::array(gradient + begin, count);
    auto p = cpu::array(value + begin, count), v = cpu::array(velocity + begin, count);
    v = momentum * v + (scale * g + l2 * p);
    if (nesterov) p -= learning_rate * (scale * g + l2 * p + momentum * v);
    else p -= learning_rate * v;
  });
}

/// value -= learning_rate * (scale * gradient + l2 * value).
template <class T>
void sgd_step(Cpu, index_t n, T learning_rate, T scale, T l2, const T* gradient, T* value) {
  cpu::parallel_parts(n, [=](index_t begin, index_t count) {
    const auto g = cpu::array(gradient + begin, count);
    auto p = cpu::array(value + begin, count);
    p -= learning_rate * (scale * g + l2 * p);
  });
}

}  // namespace attend
