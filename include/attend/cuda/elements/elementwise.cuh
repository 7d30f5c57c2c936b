#pragma once

#include <cstdint>
#include <type_traits>

#include "attend/core/types.hpp"
#include "attend/cuda/device/device.cuh"
#include "attend/cuda/device/launch.cuh"

/// One kernel for all that goes number by number through whole arrays: y[i] = keep * y[i] + f(x[i] ...), with the factors of a
/// dropout if there is one. A thread takes 16 bytes at a time if the addresses allow it.
namespace attend::cuda {

/// The arrays that a kernel reads side by side.
template <class T, int n>
struct Inputs {
  const T* p[n];
};

/// Elements that a thread takes at a time: whole packs of either type, and whole counters of random numbers.
template <class X, class Y>
inline constexpr int elements_at_once = 16 / (sizeof(X) < sizeof(Y) ? sizeof(X) : sizeof(Y)) < 4
                                            ? 4
                                            : 16 / (sizeof(X) < sizeof(Y) ? sizeof(X) : sizeof(Y));

/// v[j] = the numbers of a pack.
template <int n, class T>
__device__ inline void widen(const Pack<T>& pack, Wide<T> (&v)[n]) {
  static_assert(n == Pack<T>::count);
#pragma unroll
  for (int j = 0; j < n; ++j) v[j] = static_cast<Wide<T>>(pack.x[j]);
}
/// v[j] = p[j]: one number, or several from a multiple of 16 bytes on.
template <int n, class T>
__device__ inline void load_values(const T* p, Wide<T> (&v)[n]) {
  if constexpr (n == 1) {
    v[0] = static_cast<Wide<T>>(*p);
  } else {
    constexpr int count = Pack<T>::count;
    static_assert(n % count == 0);
#pragma unroll
    for (int k = 0; k < n; k += count) {
      const Pack<T> pack = load_pack(p + k);
#pragma unroll
      for (int j = 0; j < count; ++j) v[k + j] = static_cast<Wide<T>>(pack.x[j]);
    }
  }
}
/// p[j] = v[j], likewise.
template <int n, class T, class W>
__device__ inline void store_values(T* p, const W (&v)[n]) {
  if constexpr (n == 1) {
    *p = static_cast<T>(v[0]);
  } else {
    constexpr int count = Pack<T>::count;
    static_assert(n % count == 0);
#pragma unroll
    for (int k = 0; k < n; k += count) {
      Pack<T> pack;
#pragma unroll
      for (int j = 0; j < count; ++j) pack.x[j] = static_cast<T>(v[k + j]);
      store_pack(p + k, pack);
    }
  }
}
/// p[j] = keep * p[j] + v[j], likewise; for keep = 0, p need not hold anything yet.
template <int n, class T>
__device__ inline void add_values(Wide<T> keep, T* p, Wide<T> (&v)[n]) {
  if (keep != Wide<T>(0)) {
    Wide<T> old[n];
    load_values(p, old);
#pragma unroll
    for (int j = 0; j < n; ++j) v[j] += keep * old[j];
  }
  store_values(p, v);
}

/// Nothing is dropped: f takes the inputs alone.
struct NoMask {
  static constexpr int group = 1;
  template <class W, int n>
  __device__ void factors(index_t, W (&)[n]) const {}
};

/// The factors of a dropout, which f takes before the inputs: `scale` if an element's random word is at least `threshold`,
/// otherwise 0.
template <class W>
struct DropoutFactors {
  static constexpr int group = 4;  ///< elements that share a counter, of which the first has a number that is a multiple of this
  RandomStream random;
  std::uint32_t threshold;
  W scale;

  __device__ W factor(std::uint32_t word) const { return word >= threshold ? scale : W(0); }
  /// m[j]: the factor of element i + j; i is a multiple of `group`.
  template <int n>
  __device__ void factors(index_t i, W (&m)[n]) const {
    static_assert(n % group == 0);
#pragma unroll
    for (int k = 0; k < n; k += group) {
      const uint4 words = random.words(static_cast<std::uint64_t>((i + k) / group));
      m[k] = factor(words.x), m[k + 1] = factor(words.y), m[k + 2] = factor(words.z), m[k + 3] = factor(words.w);
    }
  }
};

/// f of the factor, if `M` has one, and of the inputs x[.][j].
template <class M, class F, class W, int inputs, int n>
__device__ inline auto apply(const F& f, const W (&m)[n], const W (&x)[inputs][n], int j) {
  static_assert(inputs <= 3);
  if constexpr (M::group == 1) {
    if constexpr (inputs == 1) return f(x[0][j]);
    else if constexpr (inputs == 2) return f(x[0][j], x[1][j]);
    else return f(x[0][j], x[1][j], x[2][j]);
  } else {
    if constexpr (inputs == 1) return f(m[j], x[0][j]);
    else if constexpr (inputs == 2) return f(m[j], x[0][j], x[1][j]);
    else return f(m[j], x[0][j], x[1][j], x[2][j]);
  }
}

/// A function that takes the factor of a mask before its inputs.
template <class M, class F>
struct MaskedFunction {
  M mask;
  F f;
};
template <class M, class F>
MaskedFunction(M, F) -> MaskedFunction<M, F>;

/// `packs`: how many times `elements_at_once` elements are taken; those after them go one by one, or by the counters of the mask.
template <class M, class F, class X, int inputs, class Y>
__global__ void __launch_bounds__(block_threads)
    elementwise_kernel(index_t n, index_t packs, MaskedFunction<M, F> of, Inputs<X, inputs> in, Wide<Y> keep, Y* y) {
  const M& mask = of.mask;
  const F& f = of.f;
  constexpr int count = elements_at_once<X, Y>, group = M::group;
  using W = Wide<X>;
  for (index_t p = grid_thread(); p < packs; p += grid_threads()) {
    const index_t i = p * count;
    W x[inputs][count], m[count];
    Wide<Y> out[count], old[count];
#pragma unroll
    for (int k = 0; k < inputs; ++k) load_values(in.p[k] + i, x[k]);
    if (keep != Wide<Y>(0)) load_values(y + i, old);
    mask.factors(i, m);
#pragma unroll
    for (int j = 0; j < count; ++j) out[j] = static_cast<Wide<Y>>(apply<M>(f, m, x, j));
    if (keep != Wide<Y>(0)) {
#pragma unroll
      for (int j = 0; j < count; ++j) out[j] += keep * old[j];
    }
    store_values(y + i, out);
  }
#pragma unroll 1
  for (index_t i = packs * count + grid_thread() * group; i < n; i += grid_threads() * group) {
    W x[inputs][group], m[group];
    mask.factors(i, m);
#pragma unroll
    for (int j = 0; j < group; ++j) {
      if (i + j >= n) break;
#pragma unroll
      for (int k = 0; k < inputs; ++k) x[k][j] = static_cast<W>(in.p[k][i + j]);
      auto out = static_cast<Wide<Y>>(apply<M>(f, m, x, j));
      if (keep != Wide<Y>(0)) out += keep * static_cast<Wide<Y>>(y[i + j]);
      y[i + j] = static_cast<Y>(out);
    }
  }
}

/// y[i] = keep * y[i] + f(x[i] ...); with keep = 0, y need not hold anything yet. y may be one of the inputs.
template <class M, class F, class X, int inputs, class Y>
void elementwise(const char* operation, index_t n, const MaskedFunction<M, F>& f, const Inputs<X, inputs>& in,
                 std::type_identity_t<Wide<Y>> keep, Y* y) {
  if (n == 0) return;
  constexpr int count = elements_at_once<X, Y>;
  bool good = aligned(y);
  for (const X* p : in.p) good = good && aligned(p);
  const index_t packs = good ? n / count : 0, steps = packs > 0 ? packs : (n + M::group - 1) / M::group;
  launch(operation, elementwise_kernel<M, F, X, inputs, Y>, blocks_for(steps), block_threads, 0, n, packs, f, in, keep, y);
}
/// The same without a mask.
template <class F, class X, int inputs, class Y>
void elementwise(const char* operation, index_t n, const F& f, const Inputs<X, inputs>& in, std::type_identity_t<Wide<Y>> keep,
                 Y* y) {
  elementwise(operation, n, MaskedFunction{NoMask{}, f}, in, keep, y);
}

/// factor * x.
template <class W>
struct Times {
  W factor;
  __device__ W operator()(W x) const { return factor * x; }
};
/// x in another type.
template <class To>
struct As {
  template <class W>
  __device__ To operator()(W x) const {
    return static_cast<To>(x);
  }
};

}  // namespace attend::cuda
