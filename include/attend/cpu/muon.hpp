#if !defined(ATTEND_CPU_MUON) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_MUON

#include <algorithm>
#include <atomic>
#include <cmath>

#include "attend/cpu/optimizer.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"

#endif  // ATTEND_READING

/// What Muon does to matrices besides multiplying them.
namespace attend::kernels {

/// g = record's gradient_scale * gradient, velocity = momentum * velocity + g, direction = g + momentum * velocity (Nesterov's).
/// Does nothing if the record says that the update is left out.
template <class T>
void muon_momentum(Cpu, index_t n, double momentum, const UpdateRecord* record, const T* gradient, T* velocity, T* direction) {
  ATTEND_FASTEST(muon_momentum, n, momentum, record, gradient, velocity, direction);
  if (!record->taken) return;
  const T scale = static_cast<T>(record->gradient_scale), keep = static_cast<T>(momentum);
  cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) {
    const cpu::Vector<T> g = scale * at.of(gradient), v = keep * at.of(velocity) + g;
    at.set(velocity, v);
    at.set(direction, g + keep * v);
  });
}

/// Divides each of `count` matrices of n numbers, which lie end to end, by its Frobenius norm, or by 1e-7 if that is less.
template <class T>
void unit_norm(Cpu, index_t count, index_t n, T* x) {
  ATTEND_FASTEST(unit_norm, count, n, x);
  parallel_rows(count, n, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      T* matrix = x + i * n;
      const double squares = cpu::sum_over<double>(n, [=](index_t j) {
        const auto v = static_cast<double>(matrix[j]);
        return v * v;
      });
      const T factor = static_cast<T>(1 / std::max(std::sqrt(squares), 1e-7));
      for (index_t j = 0; j < n; ++j) matrix[j] *= factor;
    }
  });
}

/// y = a * I + b * x for `count` square matrices [size, size].
template <class T>
void scaled_plus_identity(Cpu, index_t count, index_t size, T a, T b, const T* x, T* y) {
  ATTEND_FASTEST(scaled_plus_identity, count, size, a, b, x, y);
  parallel_rows(count * size, size, [=](index_t begin, index_t end) {
    for (index_t row = begin; row < end; ++row) {
      for (index_t j = 0; j < size; ++j) y[row * size + j] = b * x[row * size + j];
      y[row * size + row % size] += a;
    }
  });
}

/// direction[i] = 0 where direction[i] * gradient[i] is not more than 0: a step along it would not go downhill there. Adds to
/// *kept the number of places where it is more than 0.
template <class T>
void keep_descending(Cpu, index_t n, const T* gradient, T* direction, index_t* kept) {
  ATTEND_FASTEST(keep_descending, n, gradient, direction, kept);
  std::atomic<index_t> all = 0;  // whole numbers: the order in which they are added does not show
  parallel_for(n, 8192, [&](index_t begin, index_t end) {
    index_t count = 0;
    for (index_t i = begin; i < end; ++i) {
      const T d = direction[i];
      const bool descends = d * gradient[i] > T(0);
      direction[i] = cpu::select(descends, d, T(0));
      count += descends;
    }
    all += count;
  });
  *kept += all;
}

/// Moves n values by that step. `rounded` as for update_by.
template <class T>
void muon_apply(Cpu, index_t n, const MuonStep& by, const T* direction, T* value, [[maybe_unused]] T* rounded) {
  ATTEND_FASTEST(muon_apply, n, by, direction, value, rounded);
  if (!by.record->taken) return;
  double rate = by.rate;
  if (by.kept) rate *= std::min(most_cautious, static_cast<double>(n) / static_cast<double>(std::max<index_t>(1, *by.kept)));
  const T step = static_cast<T>(rate), keep = static_cast<T>(by.shrink);
  cpu::parallel_vectors<T>(n, [=](cpu::Place<T> at) { at.set(value, keep * at.of(value) - step * at.of(direction)); });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/muon.hpp"
#include "attend/cpu/each_target.hpp"
#endif
