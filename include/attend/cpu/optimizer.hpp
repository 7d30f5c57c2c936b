#if !defined(ATTEND_CPU_OPTIMIZER) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_OPTIMIZER

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/optimizer.hpp"

#endif  // ATTEND_READING

/// One optimizer step over all parameters of a model at once, which lie end to end in one buffer.
namespace attend::ATTEND_CPU {

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

/// A rule's update of numbers `begin` to `end`. The loop becomes vector instructions. (The rule itself cannot take vectors: it is
/// a device's too, which has none.)
template <class T, class Update, std::size_t memories, std::size_t... k>
[[gnu::flatten]] inline void update_range(const Update& update, index_t begin, index_t end, const T* gradient, T* value,
                                          const std::array<T*, memories> memory, std::index_sequence<k...>) {
#ifndef __clang__  // which finds out by itself, and would warn of a rule that it cannot vectorise
#pragma GCC ivdep
#endif
  for (index_t i = begin; i < end; ++i) {
    T p = value[i];
    std::array<T, memories> m{memory[k][i]...};
    update(gradient[i], p, m[k]...);
    ((memory[k][i] = m[k]), ...);
    value[i] = p;
  }
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// Begins an update from the sum of the gradients' squares: their norm, and with max_norm > 0 the scale that cuts it down to
/// that, min(1, max_norm / (norm + 1e-6)); counts the update, or where the norm is not finite that it is left out.
inline void begin_update_from(Cpu, const double* squares, double max_norm, UpdateRecord* record) {
  record->norm = std::sqrt(*squares);
  record->taken = std::isfinite(record->norm);
  record->gradient_scale = max_norm > 0 ? clip_scale(record->norm, max_norm) : 1.0;
  ++(record->taken ? record->steps : record->skipped);
}
/// The same of these gradients.
template <class T>
void begin_update(Cpu, index_t n, const T* gradient, double max_norm, UpdateRecord* record) {
  ATTEND_FASTEST(begin_update, n, gradient, max_norm, record);
  const double squares = sum_of_squares(Cpu{}, n, gradient);
  begin_update_from(Cpu{}, &squares, max_norm, record);
}
/// The same for gradients that count `gradient_scale` times what they are, a positive number: left out too where that makes their
/// norm more than T has.
template <class T>
void begin_update_scaled(Cpu, index_t n, const T* gradient, double gradient_scale, UpdateRecord* record) {
  ATTEND_FASTEST(begin_update_scaled, n, gradient, gradient_scale, record);
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

/// Moves `n` parameters by a rule; see `UpdateRule`. Does nothing where the record says that the update is left out. `rounded` is
/// for types that keep their values in a wider one.
template <class T, UpdateRule Rule, class... Memory>
void update_by(Cpu, index_t n, const Rule& rule, const UpdateRecord* record, const T* gradient, T* value,
               [[maybe_unused]] T* rounded, Memory*... memory) {
  ATTEND_FASTEST(update_by, n, rule, record, gradient, value, rounded, memory...);
  if (!record->taken) return;
  const auto update = rule.template prepare<T>(*record);
  const std::array<T*, sizeof...(Memory)> remembered{memory...};
  constexpr index_t W = cpu::width<T>;
  parallel_for((n + W - 1) / W, 8192 / W, [&](index_t begin, index_t end) {
    cpu::update_range<T>(update, begin * W, std::min(end * W, n), gradient, value, remembered,
                         std::make_index_sequence<sizeof...(Memory)>());
  });
}

/// average = keep * average + (1 - keep) * value. Does nothing where there is a record that says that the update was left out.
template <class T>
void average_step(Cpu, index_t n, T keep, const UpdateRecord* record, const T* value, T* average) {
  ATTEND_FASTEST(average_step, n, keep, record, value, average);
  if (record && !record->taken) return;
  scale_add(Cpu{}, n, T(1) - keep, value, keep, average);
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/optimizer.hpp"
#include "attend/cpu/each_target.hpp"
#endif
