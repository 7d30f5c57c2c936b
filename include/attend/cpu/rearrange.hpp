#if !defined(ATTEND_CPU_REARRANGE) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_REARRANGE

#include <algorithm>

#include "attend/core/broadcast.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/broadcast.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::kernels {

/// y = x, or y += x if `add`. Neither is transposed.
template <class T>
void copy_runs(Cpu, ConstMatrix<T> x, Matrix<T> y, bool add = false) {
  ATTEND_FASTEST(copy_runs, x, y, add);
  const index_t outer = y.rows, length = y.columns;
  const auto run = [=](index_t o, index_t begin, index_t end) {
    const T* in = x.data + o * x.stride;
    T* out = y.data + o * y.stride;
    if (!add) std::copy(in + begin, in + end, out + begin);
    else
      for (index_t i = begin; i < end; ++i) out[i] += in[i];
  };
  if (outer == 1) parallel_rows(length, 1, [=](index_t begin, index_t end) { run(0, begin, end); });
  else
    parallel_rows(outer, length, [=](index_t begin, index_t end) {
      for (index_t o = begin; o < end; ++o) run(o, 0, length);
    });
}

/// y = 0.
template <class T>
void clear_runs(Cpu, Matrix<T> y) {
  ATTEND_FASTEST(clear_runs, y);
  parallel_rows(y.rows, y.columns, [=](index_t begin, index_t end) {
    for (index_t o = begin; o < end; ++o) std::fill_n(y.data + o * y.stride, y.columns, T(0));
  });
}

/// y = x with x's dimensions in another order: `s.size` are the sizes of y's dimensions, `s.a` x's strides along them.
template <class T>
void permute_copy(Cpu, const Strides& s, const T* x, Gradient<T> y) {
  ATTEND_FASTEST(permute_copy, s, x, y);
  if (s.count() == 0) return;
  const auto inner = static_cast<std::size_t>(s.rank - 1);
  std::size_t along = inner;  // y's dimension along which x is consecutive
  for (std::size_t d = 0; d < inner; ++d)
    if (s.a[d] == 1) along = d;
  if (along == inner) {
    const index_t step = s.a[inner];
    cpu::for_each_row(s, [=](index_t at, index_t from, index_t, index_t n) {
      cpu::write_row(
          n, y.add, [in = x + from, step](index_t i) { return in[i * step]; }, y.data + at);
    });
    return;
  }
  // A transposition of the dimensions `along` and innermost, in tiles of which both sides fit into the cache.
  constexpr index_t tile = 32;
  const index_t m = s.size[along], n = s.size[inner], x_step = s.a[inner];
  StridedWalk outer;  // over all other dimensions
  index_t y_step = 0, step = s.count();
  for (std::size_t d = 0; d < inner; ++d) {
    step /= s.size[d];
    if (d == along) y_step = step;
    else outer.append(s.size[d], step, s.a[d], 0);
  }
  const index_t tiles = (m + tile - 1) / tile;
  parallel_rows(outer.count() * tiles, tile * n, [=](index_t begin, index_t end) {
    StridedWalk walk = outer;
    for (index_t task = begin; task < end; ++task) {
      walk.go_to(task / tiles);
      const T* in = x + walk.a;
      T* out = y.data + walk.y;
      const index_t i0 = task % tiles * tile, i1 = std::min(i0 + tile, m);
      for (index_t j0 = 0; j0 < n; j0 += tile) {
        const index_t j1 = std::min(j0 + tile, n);
        for (index_t i = i0; i < i1; ++i)
          if (!y.add)
            for (index_t j = j0; j < j1; ++j) out[i * y_step + j] = in[i + j * x_step];
          else
            for (index_t j = j0; j < j1; ++j) out[i * y_step + j] += in[i + j * x_step];
      }
    }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/rearrange.hpp"
#include "attend/cpu/each_target.hpp"
#endif
