#if !defined(ATTEND_CPU_POSITIONS) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_POSITIONS

#include <algorithm>

#include "attend/core/segments.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::kernels {

/// y = x + table[position], where the rows of each sentence count from 0. x, y [rows, width]; y may be x.
template <class T>
void add_positions_forward(Cpu, const Segments& segments, index_t width, const T* x, const T* table, T* y) {
  ATTEND_FASTEST(add_positions_forward, segments, width, x, table, y);
  parallel_for(segments.count(), 1 + 8192 / std::max<index_t>(1, width * segments.longest()), [&](index_t begin, index_t end) {
    for (index_t s = begin; s < end; ++s) {
      const index_t first = segments.begin(s) * width, n = segments.length(s) * width;
      for (index_t i = 0; i < n; ++i) y[first + i] = x[first + i] + table[i];
    }
  });
}

/// dtable = the sum over the sentences of dy at each position; `size`: elements of dtable.
template <class T>
void add_positions_backward_table(Cpu, const Segments& segments, index_t width, index_t size, const T* dy, Gradient<T> dtable) {
  ATTEND_FASTEST(add_positions_backward_table, segments, width, size, dy, dtable);
  if (!dtable.add) std::fill(dtable.data, dtable.data + size, T(0));
  for (index_t s = 0; s < segments.count(); ++s) {
    const index_t first = segments.begin(s) * width, n = segments.length(s) * width;
    for (index_t i = 0; i < n; ++i) dtable.data[i] += dy[first + i];
  }
}

/// x[r] += table[step], rows of `width`.
template <class T>
void add_row_at(Cpu, index_t rows, index_t width, const T* table, const index_t* step, T* x) {
  ATTEND_FASTEST(add_row_at, rows, width, table, step, x);
  const T* const row = table + *step * width;
  for (index_t i = 0; i < rows * width; ++i) x[i] += row[i % width];
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/positions.hpp"
#include "attend/cpu/each_target.hpp"
#endif
