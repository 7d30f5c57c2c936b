#pragma once

#include <algorithm>
#include <type_traits>

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/walk.cuh"
#include "attend/kernels/matrix.hpp"

/// Sums over some dimensions of an array, of terms that a functor makes from what stands there. Few sums of many terms are cut
/// into parts, so that all of the device works on them. How, and so the order of the additions, follows from the sizes and from
/// whether packs can be read, not from the device.
namespace attend::cuda {

/// What stands at p and after it if p moves on, otherwise p[0] over and over.
template <class T>
__device__ inline Pack<T> load_or_repeat(const T* p, bool moves) {
  if (moves) return load_pack(p);
  Pack<T> pack;
  const T one = *p;
#pragma unroll
  for (int j = 0; j < Pack<T>::count; ++j) pack.x[j] = one;
  return pack;
}

/// scale * x.
template <class T>
struct ScaledTerms {
  using Number = T;
  static constexpr int ahead = 4;  ///< packs that a thread reads before it uses the first
  const T* x;
  Wide<T> scale;

  __device__ Wide<T> one(const Place& at) const { return scale * static_cast<Wide<T>>(x[at.y]); }
  /// Packs along a dimension in which x moves, and a and b do or do not. To be read before any is used, so that reading them
  /// overlaps.
  struct Loaded {
    Pack<T> x;
  };
  __device__ Loaded load(const Place& at, bool, bool) const { return {load_pack(x + at.y)}; }
  /// sums[j] += term j of a pack.
  template <int n>
  __device__ void add(const Loaded& in, Wide<T> (&sums)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) sums[j] += scale * static_cast<Wide<T>>(in.x.x[j]);
  }
  /// True if packs may be read from places that lie whole packs apart.
  [[nodiscard]] bool packs(bool, bool) const { return aligned(x); }
};

/// f(dy, a, b).
template <class T, class F>
struct ZippedTerms {
  using Number = T;
  static constexpr int ahead = 2;
  F f;
  const T *dy, *a, *b;

  __device__ Wide<T> one(const Place& at) const { return value(dy[at.y], a[at.a], b[at.b]); }
  struct Loaded {
    Pack<T> dy, a, b;
  };
  __device__ Loaded load(const Place& at, bool a_moves, bool b_moves) const {
    return {load_pack(dy + at.y), load_or_repeat(a + at.a, a_moves), load_or_repeat(b + at.b, b_moves)};
  }
  template <int n>
  __device__ void add(const Loaded& in, Wide<T> (&sums)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) sums[j] += value(in.dy.x[j], in.a.x[j], in.b.x[j]);
  }
  [[nodiscard]] bool packs(bool a_moves, bool b_moves) const {
    return aligned(dy) && (!a_moves || aligned(a)) && (!b_moves || aligned(b));
  }

 private:
  __device__ Wide<T> value(T g, T u, T v) const {
    return f(static_cast<Wide<T>>(g), static_cast<Wide<T>>(u), static_cast<Wide<T>>(v));
  }
};

/// What is summed over what.
struct SumOver {
  Walk kept, summed;     ///< `kept` without the innermost dimension if it is kept; `summed` with it if it is summed
  index_t inner = 1;     ///< size of the innermost dimension if it is kept
  bool b_moves = false;  ///< along the innermost dimension
  bool again = false;    ///< the terms are parts of sums
};
/// The same, and by whom.
struct SumPlan : SumOver {
  int pack = 1;       ///< elements of the innermost dimension that a thread takes at a time
  int across = 1;     ///< threads side by side along a kept innermost dimension, a power of two
  int team = 1;       ///< threads that share a sum, a power of two
  index_t tiles = 1;  ///< of `across` packs
  index_t parts = 1;  ///< that a sum is cut into
  index_t part = 0;   ///< terms of such a part
  index_t blocks = 0;
};

/// Blocks that a multiprocessor is to hold. Without a number the compiler saves registers instead of reading ahead.
inline constexpr int sum_resident = 3;

/// Adds the terms first, first + step ... before `last` to sums[0], or, if packs are read, the j-th of each to sums[j].
template <bool linear, class Terms, class W, int n>
__device__ inline void add_terms(const Terms& terms, const SumPlan& plan, const Place& base, index_t first, index_t last,
                                 index_t step, bool a_moves, W (&sums)[n]) {
  constexpr int ahead = linear ? Terms::ahead : 1;
  const auto at = [&](index_t i) { return base + (linear ? plan.summed.at_linear(i) : plan.summed.at(i)); };
  index_t i = first;
  if (plan.pack == 1) {
#pragma unroll ahead
    for (; i < last; i += step) sums[0] += terms.one(at(i));
    return;
  }
  for (; i + (ahead - 1) * step < last; i += ahead * step) {
    typename Terms::Loaded in[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) in[k] = terms.load(at(i + k * step), a_moves, plan.b_moves);
#pragma unroll
    for (int k = 0; k < ahead; ++k) terms.add(in[k], sums);
  }
#pragma unroll 1
  for (; i < last; i += step) terms.add(terms.load(at(i), a_moves, plan.b_moves), sums);
}

/// *part = sum if there is a part, otherwise y gets it.
template <class W, class Y>
__device__ inline void put_sum(W sum, W* part, kernels::Gradient<Y> y) {
  if (part) {
    *part = sum;
    return;
  }
  Wide<Y> v[1] = {static_cast<Wide<Y>>(sum)};
  add_values(Wide<Y>(y.add), y.data, v);
}

/// Sums column by column: the innermost dimension is kept. A block's threads stand `across` a tile, `team` of them to a column,
/// and for as many rows of the outer kept dimensions as are left over. Sums that are cut go to partial[part, .].
template <bool linear, class Terms, class Y>
__global__ void __launch_bounds__(block_threads, sum_resident)
    sum_columns_kernel(Terms terms, SumPlan plan, kernels::Gradient<Y> y, Wide<typename Terms::Number>* partial) {
  using T = typename Terms::Number;
  using W = Wide<T>;
  constexpr int count = Pack<T>::count;
  static __shared__ W room[count][block_threads];
  const int thread = static_cast<int>(threadIdx.x), across = plan.across, team = plan.team;
  const int column_thread = thread % across, member = thread / across % team, outer_thread = thread / (across * team);
  const int outers = block_threads / (across * team);
  const index_t tile = blockIdx.x % plan.tiles, part = blockIdx.x / plan.tiles % plan.parts;
  const index_t outer = blockIdx.x / (plan.tiles * plan.parts) * outers + outer_thread;
  const index_t column = (tile * across + column_thread) * plan.pack;
  const bool active = outer < plan.kept.count && column < plan.inner;
  W sum[count] = {};
  Place base;
  if (active) {
    base = plan.kept.at(outer);
    base = base + Place{column, column, plan.b_moves ? column : 0};
    const index_t first = part * plan.part + member, end = first - member + plan.part;
    const index_t last = end < plan.summed.count ? end : plan.summed.count;
    add_terms<linear>(terms, plan, base, first, last, team, true, sum);
  }
#pragma unroll
  for (int j = 0; j < count; ++j) room[j][thread] = sum[j];
  for (int half = team / 2; half > 0; half /= 2) {
    __syncthreads();
    if (member < half) {
#pragma unroll
      for (int j = 0; j < count; ++j) {
        sum[j] += room[j][thread + half * across];
        room[j][thread] = sum[j];
      }
    }
  }
  if (active && member == 0) {
    W* const to = partial ? partial + part * plan.kept.count * plan.inner + base.a : nullptr;
#pragma unroll
    for (int j = 0; j < count; ++j)
      if (j < plan.pack) put_sum(sum[j], to ? to + j : nullptr, y.from(base.a + j));
  }
}

/// Sums along the innermost dimension: `team` neighbours, at most a warp, or a whole block share a sum. Sums that are cut go to
/// partial[., part].
template <bool linear, class Terms, class Y>
__global__ void __launch_bounds__(block_threads, sum_resident)
    sum_along_kernel(Terms terms, SumPlan plan, kernels::Gradient<Y> y, Wide<typename Terms::Number>* partial) {
  using T = typename Terms::Number;
  using W = Wide<T>;
  constexpr int count = Pack<T>::count;
  static __shared__ W room[warp_threads];
  const int team = plan.team, member = static_cast<int>(threadIdx.x) % team, teams = block_threads / team;
  const index_t index = static_cast<index_t>(blockIdx.x) * teams + static_cast<int>(threadIdx.x) / team;
  const index_t outer = index / plan.parts, part = index % plan.parts;
  const bool active = outer < plan.kept.count;
  W sum = 0;
  Place base;
  if (active) {
    base = plan.kept.at(outer);
    const index_t first = part * plan.part, end = first + plan.part;
    const index_t last = end < plan.summed.count ? end : plan.summed.count;
    W sums[count] = {};
    add_terms<linear>(terms, plan, base, first + member * plan.pack, last, team * plan.pack, false, sums);
#pragma unroll
    for (int j = 0; j < count; ++j) sum += sums[j];
  }
  if (team > warp_threads) sum = block_sum(sum, room);
  else
    for (int step = team / 2; step > 0; step /= 2) sum += __shfl_xor_sync(all_lanes, sum, step);
  if (active && member == 0) put_sum(sum, partial ? partial + base.a * plan.parts + part : nullptr, y.from(base.a));
}

namespace detail {

/// The most blocks that share sums among them: so many fill any device.
inline constexpr index_t sum_blocks = 2048;

/// How many pieces of `size` n has.
inline index_t pieces(index_t n, index_t size) { return (n + size - 1) / size; }

/// The least power of two from n on, but at most `most`, which is one.
inline int power_of_two(index_t n, int most) {
  int power = 1;
  while (power < n && power < most) power *= 2;
  return power;
}

/// Cuts the sums into at most `most` parts of whole packs, each of at least 16 packs for each thread.
inline void cut(SumPlan& plan, index_t most, int pack) {
  const index_t parts = std::max<index_t>(1, std::min(most, plan.summed.count / (index_t{16} * plan.team * pack)));
  plan.part = pieces(pieces(plan.summed.count, parts), pack) * pack;
  if (plan.summed.count > 0) plan.parts = pieces(plan.summed.count, plan.part);
}

/// Launches the kernel of a plan; `partial` receives the sums of its parts if it has several.
template <class Terms, class Y>
void launch_sum(const char* operation, bool columns, const Terms& terms, const SumPlan& plan, kernels::Gradient<Y> y,
                Wide<typename Terms::Number>* partial) {
  const bool linear = plan.summed.rank <= 1;
  const auto go = [&](auto* kernel) {
    launch(operation, kernel, static_cast<unsigned>(plan.blocks), block_threads, 0, terms, plan, y, partial);
  };
  if (columns) go(linear ? sum_columns_kernel<true, Terms, Y> : sum_columns_kernel<false, Terms, Y>);
  else go(linear ? sum_along_kernel<true, Terms, Y> : sum_along_kernel<false, Terms, Y>);
}

}  // namespace detail

/// y[.] = the sums of the terms over `summed`, for each place of `kept` and each column of an innermost dimension of `inner`
/// elements. y is contiguous, and a's steps are those through it.
template <class Terms, class Y>
void sum_columns(const char* operation, const Terms& terms, const SumOver& over, kernels::Gradient<Y> y) {
  const Walk &kept = over.kept, &summed = over.summed;
  const index_t inner = over.inner;
  const bool b_moves = over.b_moves, again = over.again;
  using W = Wide<typename Terms::Number>;
  constexpr int count = Pack<typename Terms::Number>::count;
  const index_t sums = kept.count * inner;
  if (sums == 0) return;
  SumPlan plan{over};
  if (inner % count == 0 && whole_packs(kept, kept.rank, count, true, b_moves) &&
      whole_packs(summed, summed.rank, count, true, b_moves) && terms.packs(true, b_moves))
    plan.pack = count;
  const index_t packs = inner / plan.pack;
  // 8 packs are a cache line. With no more threads side by side teams are large, and few rows need no second kernel; with very
  // few rows a team leaves room for more.
  const int few = std::min<int>(warp_threads, block_threads / detail::power_of_two(summed.count, block_threads / 8));
  const int most = again ? 8 : summed.count < 16 * (block_threads / 8) ? few : warp_threads;
  plan.across = detail::power_of_two(packs, most);
  plan.team = detail::power_of_two(summed.count, block_threads / plan.across);
  plan.tiles = detail::pieces(packs, plan.across);
  const index_t groups = detail::pieces(kept.count, block_threads / (plan.across * plan.team));
  detail::cut(plan, again ? 1 : detail::sum_blocks / (groups * plan.tiles), 1);
  plan.blocks = groups * plan.parts * plan.tiles;
  if (plan.parts == 1) return detail::launch_sum(operation, true, terms, plan, y, nullptr);
  const Buffer<W> partial(plan.parts * sums);
  detail::launch_sum(operation, true, terms, plan, y, partial.data());
  Walk parts;
  parts.append(plan.parts, {sums, 0, 0});
  sum_columns(operation, ScaledTerms<W>{partial.data(), W(1)}, {Walk{}, parts, sums, false, true}, y);
}

/// The same if the innermost dimension is the innermost of `summed`.
template <class Terms, class Y>
void sum_along(const char* operation, const Terms& terms, const SumOver& over, kernels::Gradient<Y> y) {
  const Walk &kept = over.kept, &summed = over.summed;
  const bool b_moves = over.b_moves, again = over.again;
  using W = Wide<typename Terms::Number>;
  constexpr int count = Pack<typename Terms::Number>::count;
  if (kept.count == 0) return;
  SumPlan plan{over};
  if (summed.size[summed.rank - 1] % count == 0 && whole_packs(kept, kept.rank, count, false, b_moves) &&
      whole_packs(summed, summed.rank - 1, count, false, b_moves) && terms.packs(false, b_moves))
    plan.pack = count;
  const index_t packs = summed.count / plan.pack;
  plan.team = packs > 1024 ? block_threads : detail::power_of_two(packs, warp_threads);
  if (plan.team == block_threads) detail::cut(plan, again ? 1 : detail::sum_blocks / kept.count, plan.pack);
  else plan.part = summed.count;
  plan.blocks = detail::pieces(kept.count * plan.parts, block_threads / plan.team);
  if (plan.parts == 1) return detail::launch_sum(operation, false, terms, plan, y, nullptr);
  const Buffer<W> partial(kept.count * plan.parts);
  detail::launch_sum(operation, false, terms, plan, y, partial.data());
  Walk sums, parts;
  sums.append(kept.count, {plan.parts, 1, 0});
  parts.append(plan.parts, {1, 0, 0});
  sum_along(operation, ScaledTerms<W>{partial.data(), W(1)}, {sums, parts, 1, false, true}, y);
}

}  // namespace attend::cuda
