#pragma once

#include <cstddef>
#include <type_traits>

#include "attend/core/broadcast.hpp"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/elements/sum.cuh"
#include "attend/cuda/elements/walk.cuh"

namespace attend::cuda {

/// f.value(a, b).
template <class F>
struct ValueOfTwo {
  F f;
  template <class W>
  __device__ W operator()(W a, W b) const {
    return f.value(a, b);
  }
};

/// f of what stands at a place: of a; of a and b; of dy, which stands where y does, a and b.
template <class F, class T, int inputs>
struct AtPlace {
  F f;
  Inputs<T, inputs> in;

  __device__ auto one(const Place& at) const {
    const auto get = [](const T* p, index_t i) { return static_cast<Wide<T>>(p[i]); };
    if constexpr (inputs == 1) return f(get(in.p[0], at.a));
    else if constexpr (inputs == 2) return f(get(in.p[0], at.a), get(in.p[1], at.b));
    else return f(get(in.p[0], at.y), get(in.p[1], at.a), get(in.p[2], at.b));
  }
  template <int n>
  __device__ void several(const Place& at, bool a_moves, bool b_moves, Wide<T> (&v)[n]) const {
    constexpr int first = inputs == 3 ? 1 : 0;
    Wide<T> x[inputs][n];
    if constexpr (inputs == 3) load_values(in.p[0] + at.y, x[0]);
    widen(load_or_repeat(in.p[first] + at.a, a_moves), x[first]);
    if constexpr (inputs > 1) widen(load_or_repeat(in.p[first + 1] + at.b, b_moves), x[first + 1]);
    const Wide<T> none[n] = {};
#pragma unroll
    for (int j = 0; j < n; ++j) v[j] = apply<NoMask>(f, none, x, j);
  }
  /// True if packs may be read from places that lie whole packs apart.
  [[nodiscard]] bool packs(bool a_moves, bool b_moves) const {
    constexpr int first = inputs == 3 ? 1 : 0;
    bool good = (first == 0 || aligned(in.p[0])) && (!a_moves || aligned(in.p[first]));
    if constexpr (inputs > 1) good = good && (!b_moves || aligned(in.p[first + 1]));
    return good;
  }
};

/// y[i] = f(...), y contiguous. `steps`: the walk over y in steps of `pack` elements along the innermost dimension.
template <class F, class T, int inputs>
__global__ void __launch_bounds__(block_threads)
    broadcast_kernel(Walk steps, int pack, bool a_moves, bool b_moves, AtPlace<F, T, inputs> f, kernels::Gradient<T> y) {
#pragma unroll 1
  for (index_t i = grid_thread(); i < steps.count; i += grid_threads()) {
    const Place at = steps.at(i);
    if (pack == 1) {
      Wide<T> v[1] = {f.one(at)};
      add_values(Wide<T>(y.add), y.data + at.y, v);
    } else {
      Wide<T> v[Pack<T>::count];
      f.several(at, a_moves, b_moves, v);
      add_values(Wide<T>(y.add), y.data + at.y, v);
    }
  }
}

/// y = f of a, or of a and b, or of dy, a and b, which are broadcast as `s` says.
template <class F, class T, int inputs>
void broadcast(const char* operation, const Strides& s, const F& f, const Inputs<T, inputs>& in,
               std::type_identity_t<kernels::Gradient<T>> y) {
  const index_t n = s.count();
  if (n == 0) return;
  const index_t a = s.inner_a(), b = s.inner_b();
  if (s.rank == 1 && a == 1 && (inputs == 1 || b == 1)) return elementwise(operation, n, f, in, Wide<T>(y.add), y.data);
  constexpr int count = Pack<T>::count;
  const AtPlace<F, T, inputs> at{f, in};
  Walk walk = walk_of(s);
  const int outer = walk.rank - 1;
  int pack = 1;
  if (s.inner() % count == 0 && (a == 0 || a == 1) && (inputs == 1 || b == 0 || b == 1) && aligned(y.data) &&
      whole_packs(walk, outer, count, a != 0, inputs > 1 && b != 0) && at.packs(a != 0, b != 0))
    pack = count;
  walk.size[outer] /= pack, walk.count /= pack;
  walk.step[outer] = {pack, a * pack, b * pack};
  launch(operation, broadcast_kernel<F, T, inputs>, blocks_for(walk.count), block_threads, 0, walk, pack, a != 0, b != 0, at, y);
}

/// a[.] = the sum of the terms over the dimensions in which a stands still.
template <class Terms, class T>
void sum_where_still(const char* operation, const Strides& s, const Terms& terms, kernels::Gradient<T> a) {
  const Walk all = walk_of(s);
  const bool along = s.inner_a() == 0;
  Walk kept, summed;
  for (int d = 0; d + 1 < all.rank; ++d) (all.step[d].a == 0 ? summed : kept).append(all.size[d], all.step[d]);
  if (along) {
    summed.append(s.inner(), all.step[all.rank - 1]);
    sum_along(operation, terms, {kept, summed, 1, s.inner_b() != 0}, a);
  } else {
    sum_columns(operation, terms, {kept, summed, s.inner(), s.inner_b() != 0}, a);
  }
}

/// True if a stands still in no dimension.
inline bool always_moves(const Strides& s) {
  for (index_t d = 0; d < s.rank; ++d)
    if (s.a[static_cast<std::size_t>(d)] == 0) return false;
  return true;
}

}  // namespace attend::cuda

namespace attend::kernels {

/// y = f.value(a, b), number by number, a and b broadcast as `s` says.
template <class T, class F>
void zip_forward(Cuda, const Strides& s, const F& f, const T* a, const T* b, T* y) {
  cuda::broadcast("zip", s, cuda::ValueOfTwo<F>{f}, cuda::Inputs<T, 2>{{a, b}}, {y});
}

/// da = f(dy, a, b), summed wherever a is broadcast.
template <class T, class F>
void zip_backward(Cuda, const Strides& s, const F& f, const T* dy, const T* a, const T* b, Gradient<T> da) {
  if (cuda::always_moves(s)) cuda::broadcast("zip", s, f, cuda::Inputs<T, 3>{{dy, a, b}}, da);
  else cuda::sum_where_still("zip", s, cuda::ZippedTerms<T, F>{f, dy, a, b}, da);
}

/// a = scale * x, summed wherever a stands still.
template <class T>
void sum_broadcast(Cuda, const Strides& s, std::type_identity_t<Wide<T>> scale, const T* x, Gradient<T> a) {
  if (cuda::always_moves(s)) cuda::broadcast("sum", s, cuda::Times<Wide<T>>{scale}, cuda::Inputs<T, 1>{{x}}, a);
  else cuda::sum_where_still("sum", s, cuda::ScaledTerms<T>{x, scale}, a);
}

/// y = scale * a, a repeated wherever it stands still.
template <class T>
void repeat_broadcast(Cuda, const Strides& s, std::type_identity_t<Wide<T>> scale, const T* a, Gradient<T> y) {
  cuda::broadcast("repeat", s, cuda::Times<Wide<T>>{scale}, cuda::Inputs<T, 1>{{a}}, y);
}

}  // namespace attend::kernels
