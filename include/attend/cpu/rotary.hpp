#if !defined(ATTEND_CPU_ROTARY) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_ROTARY

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/rotary.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// One row; see kernels::rotary_turn. `turns`: those of its place.
template <class T>
void rotary_row(const kernels::RotaryLayout& a, const T* turns, T sign, const T* x, T* y) {
  const index_t pairs = a.turned / 2;
  const T *const cosine = turns, *const sine = turns + pairs;
  for (index_t h = 0; h < a.heads; ++h, x += a.width, y += a.width) {
    if (a.order == RotaryOrder::halves) {
      for (index_t i = 0; i < pairs; ++i) {
        const T first = x[i], second = x[i + pairs], s = sign * sine[i];
        y[i] = first * cosine[i] - second * s;
        y[i + pairs] = second * cosine[i] + first * s;
      }
    } else {
      for (index_t i = 0; i < pairs; ++i) {
        const T first = x[2 * i], second = x[2 * i + 1], s = sign * sine[i];
        y[2 * i] = first * cosine[i] - second * s;
        y[2 * i + 1] = second * cosine[i] + first * s;
      }
    }
    std::copy(x + a.turned, x + a.width, y + a.turned);
  }
  std::copy(x, x + (a.columns - a.heads * a.width), y);
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y = x with the pairs (a, b) of each head turned by the angle of their row's place: (a cos - b sin, b cos + a sin); other
/// columns are copied. `sign` -1 turns back. x, y [rows, columns]; turns [places, turned], half of a row the cosines of its
/// pairs, half the sines.
template <class T>
void rotary_turn(Cpu, const Places& places, index_t rows, const RotaryLayout& layout, const T* turns, T sign, const T* x, T* y) {
  ATTEND_FASTEST(rotary_turn, places, rows, layout, turns, sign, x, y);
  const index_t columns = layout.columns;
  if (!places.sentences) {
    const T* const turn = turns + (places.place + (places.step ? *places.step : 0)) * layout.turned;
    parallel_rows(rows, columns, [&](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) cpu::rotary_row(layout, turn, sign, x + r * columns, y + r * columns);
    });
    return;
  }
  const Segments& segments = *places.sentences;
  const index_t cost = std::max<index_t>(1, columns * segments.longest());
  parallel_for(segments.count(), 1 + 8192 / cost, [&](index_t begin, index_t end) {
    for (index_t s = begin; s < end; ++s)
      for (index_t i = 0; i < segments.length(s); ++i) {
        const index_t at = (segments.begin(s) + i) * columns;
        cpu::rotary_row(layout, turns + i * layout.turned, sign, x + at, y + at);
      }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/rotary.hpp"
#include "attend/cpu/each_target.hpp"
#endif
