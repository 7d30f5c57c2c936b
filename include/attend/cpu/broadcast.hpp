#if !defined(ATTEND_CPU_BROADCAST) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_BROADCAST

#include <algorithm>
#include <array>
#include <vector>

#include "attend/core/broadcast.hpp"
#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// y[i] = f(i) or y[i] += f(i).
template <class T, class F>
[[gnu::flatten]] void write_row(index_t n, bool add, const F& f, T* y) {
  if (add)
    for (index_t i = 0; i < n; ++i) y[i] += f(i);
  else
    for (index_t i = 0; i < n; ++i) y[i] = f(i);
}

/// row(y, a, b, n) for pieces of n elements along the innermost dimension, in parallel; y, a, b: where the piece begins.
template <class F>
void for_each_row(const Strides& s, F&& row) {
  if (s.count() == 0) return;
  const index_t n = s.inner(), rows = s.count() / n;
  if (rows == 1) {
    parallel_rows(n, 1, [&](index_t begin, index_t end) { row(begin, begin * s.inner_a(), begin * s.inner_b(), end - begin); });
    return;
  }
  parallel_rows(rows, n, [&](index_t begin, index_t end) {
    StridedWalk walk = RowWalks(s).all;
    walk.go_to(begin);
    for (index_t r = begin; r < end; ++r, walk.next()) row(walk.y, walk.a, walk.b, n);
  });
}

/// into[a] = the sum of load(y, a, b) over all elements that share the position a; `load` takes positions in y, a, b.
/// The order of a sum is given by the sizes alone.
template <class T, class F>
void sum_where_still(const Strides& s, const F& load, kernels::Gradient<T> into) {
  T* const out = into.data;
  const bool add = into.add;
  const RowWalks walks(s);
  const index_t n = s.inner(), step_a = s.inner_a(), step_b = s.inner_b();
  const index_t kept = walks.kept.count(), summed = walks.summed.count();
  if (step_a != 0) {  // sums of rows: column by column, and threads split the columns too
    if (n == 0 || kept == 0) return;
    const index_t piece = std::min<index_t>(n, std::max<index_t>(256, 8192 / std::max<index_t>(1, summed)));
    const index_t pieces = (n + piece - 1) / piece;
    parallel_rows(kept * pieces, piece * std::max<index_t>(1, summed), [&](index_t begin, index_t end) {
      StridedWalk outer = walks.kept, inner = walks.summed;
      for (index_t task = begin; task < end; ++task) {
        const index_t first = task % pieces * piece, count = std::min(piece, n - first);
        outer.go_to(task / pieces);
        T* row = out + outer.a + first;
        if (summed == 0 && !add) std::fill(row, row + count, T(0));
        inner.go_to(0);
        for (index_t k = 0; k < summed; ++k, inner.next()) {
          const index_t y = outer.y + inner.y + first, a = outer.a + first, b = outer.b + inner.b + first * step_b;
          if (step_b == 0)
            write_row(
                count, k > 0 || add, [=](index_t j) { return load(y + j, a + j, b); }, row);
          else
            write_row(
                count, k > 0 || add, [=](index_t j) { return load(y + j, a + j, b + j); }, row);
        }
      }
    });
    return;
  }
  // Sums along the innermost dimension, in parts if they are few and long.
  constexpr index_t part = 4096;
  const bool few = kept < 64;
  const index_t parts = few ? std::max<index_t>(1, (n + part - 1) / part) : 1, length = parts == 1 ? n : part;
  const index_t tasks = summed * parts;
  const auto sum_part = [&](const StridedWalk& outer, const StridedWalk& inner, index_t first) {
    const index_t y = outer.y + inner.y + first, a = outer.a, b = outer.b + inner.b + first * step_b;
    const index_t count = std::min(length, n - first);
    if (step_b == 0) return sum_over<T>(count, [=](index_t j) { return load(y + j, a, b); });
    return sum_over<T>(count, [=](index_t j) { return load(y + j, a, b + j); });
  };
  const auto put = [=](index_t a, double sum) { out[a] = (add ? out[a] : T(0)) + static_cast<T>(sum); };
  if (!few || tasks <= 1) {
    parallel_rows(kept, summed * n, [&](index_t begin, index_t end) {
      StridedWalk outer = walks.kept, inner = walks.summed;
      outer.go_to(begin);
      for (index_t i = begin; i < end; ++i, outer.next()) {
        double sum = 0;
        inner.go_to(0);
        for (index_t k = 0; k < summed; ++k, inner.next()) sum += static_cast<double>(sum_part(outer, inner, 0));
        put(outer.a, sum);
      }
    });
    return;
  }
  std::vector<double> sums(kept * tasks);
  parallel_rows(kept * tasks, length, [&](index_t begin, index_t end) {
    StridedWalk outer = walks.kept, inner = walks.summed;
    for (index_t i = begin; i < end; ++i) {
      outer.go_to(i / tasks);
      inner.go_to(i % tasks / parts);
      nth(sums, i) = static_cast<double>(sum_part(outer, inner, i % parts * length));
    }
  });
  StridedWalk outer = walks.kept;
  outer.go_to(0);
  for (index_t i = 0; i < kept; ++i, outer.next()) {
    double sum = 0;
    for (index_t k = 0; k < tasks; ++k) sum += nth(sums, i * tasks + k);
    put(outer.a, sum);
  }
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y = f.value(a, b), number by number, a and b broadcast as `s` says.
template <class T, class F>
void zip_forward(Cpu, const Strides& s, const F& f, const T* a, const T* b, T* y) {
  ATTEND_FASTEST(zip_forward, s, f, a, b, y);
  const index_t step_a = s.inner_a(), step_b = s.inner_b();
  cpu::for_each_row(s, [=](index_t at, index_t at_a, index_t at_b, index_t n) {
    const T *in_a = a + at_a, *in_b = b + at_b;
    T* out = y + at;
    if (step_a != 0 && step_b != 0)
      cpu::write_row(
          n, false, [=](index_t i) { return f.value(in_a[i], in_b[i]); }, out);
    else if (step_a != 0)
      cpu::write_row(
          n, false, [=, v = *in_b](index_t i) { return f.value(in_a[i], v); }, out);
    else
      cpu::write_row(
          n, false, [=, u = *in_a](index_t i) { return f.value(u, in_b[i * step_b]); }, out);
  });
}

/// da = f(dy, a, b), summed wherever a is broadcast.
template <class T, class F>
void zip_backward(Cpu, const Strides& s, const F& f, const T* dy, const T* a, const T* b, Gradient<T> da) {
  ATTEND_FASTEST(zip_backward, s, f, dy, a, b, da);
  cpu::sum_where_still(
      s, [=](index_t i, index_t j, index_t k) { return f(dy[i], a[j], b[k]); }, da);
}

/// a = scale * x, summed wherever a stands still.
template <class T>
void sum_broadcast(Cpu, const Strides& s, T scale, const T* x, Gradient<T> a) {
  ATTEND_FASTEST(sum_broadcast, s, scale, x, a);
  cpu::sum_where_still(
      s, [=](index_t i, index_t, index_t) { return scale * x[i]; }, a);
}

/// y = scale * a, a repeated wherever it stands still.
template <class T>
void repeat_broadcast(Cpu, const Strides& s, T scale, const T* a, Gradient<T> y) {
  ATTEND_FASTEST(repeat_broadcast, s, scale, a, y);
  const index_t step = s.inner_a();
  cpu::for_each_row(s, [=](index_t at, index_t at_a, index_t, index_t n) {
    const T* in = a + at_a;
    if (step != 0)
      cpu::write_row(
          n, y.add, [=](index_t i) { return scale * in[i]; }, y.data + at);
    else
      cpu::write_row(
          n, y.add, [v = scale * *in](index_t) { return v; }, y.data + at);
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/broadcast.hpp"
#include "attend/cpu/each_target.hpp"
#endif
