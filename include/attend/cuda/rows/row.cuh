#pragma once

#include "attend/cuda/elements/elementwise.cuh"

/// What kernels over rows share. A row belongs to a team of threads, a warp or a block, which goes over it V numbers a thread at
/// a time: V is 1, or as many as 16 bytes hold if every row begins on a multiple of 16 bytes.
namespace attend::cuda {

/// The V numbers at p as they stand in memory: V is 1 or that of a Pack.
template <class T, int V>
struct Piece {
  static_assert(V == 1 || V == Pack<T>::count);
  Pack<T> pack;
  __device__ void load(const T* p) {
    if constexpr (V == 1) pack.x[0] = *p;
    else pack = load_pack(p);
  }
  __device__ Wide<T> operator[](int i) const { return static_cast<Wide<T>>(pack.x[i]); }
};

/// x = the V numbers at p.
template <int V, class T>
__device__ void load_wide(const T* p, Wide<T> (&x)[V]) {
  if constexpr (V == 1) x[0] = static_cast<Wide<T>>(*p);
  else load_values<V>(p, x);
}
/// The V numbers at p become x, rounded to T.
template <int V, class T>
__device__ void store_narrow(T* p, const Wide<T> (&x)[V]) {
  if constexpr (V == 1) *p = static_cast<T>(x[0]);
  else store_values<V>(p, x);
}
/// The V numbers at p become keep * what they are + x; with keep = 0 they are not read.
template <int V, class T>
__device__ void keep_and_store(T* p, const Wide<T> (&x)[V], Wide<T> keep) {
  Wide<T> y[V];
  if (keep != Wide<T>(0)) {
    load_wide<V>(p, y);
#pragma unroll
    for (int i = 0; i < V; ++i) y[i] = keep * y[i] + x[i];
    store_narrow<V>(p, y);
  } else {
    store_narrow<V>(p, x);
  }
}

/// The sum of the values of a team: of a warp if `threads` is 32, otherwise of the block of so many threads. In every thread.
template <int threads, class W>
__device__ W team_sum(W value, W* room) {
  if constexpr (threads == warp_threads) return warp_sum(value);
  else return block_sum(value, room);
}
/// The largest of the values of a team, in every thread.
template <int threads, class W>
__device__ W team_max(W value, W* room) {
  if constexpr (threads == warp_threads) return warp_max(value);
  else return block_max(value, room);
}
/// Two sums at the price of one wait. `room` holds two values a warp.
template <int threads, class W>
__device__ void team_sums(W& a, W& b, W* room) {
  a = warp_sum(a), b = warp_sum(b);
  if constexpr (threads > warp_threads) {
    constexpr int warps = threads / warp_threads;
    if (lane() == 0) room[warp()] = a, room[warps + warp()] = b;
    __syncthreads();
    a = warp_sum(lane() < warps ? room[lane()] : W(0));
    b = warp_sum(lane() < warps ? room[warps + lane()] : W(0));
    __syncthreads();  // so that `room` may be used again
  }
}

/// Threads of a block that has a row of a vocabulary's width.
inline constexpr int wide_row_threads = 512;

/// How a team goes over a row of n elements that begins `begin` after a multiple of 16 bytes: V at a time in between, those
/// before the first multiple of V and after the last one by one. If `packs` is false, all go one by one.
template <int V>
struct RowParts {
  int n, head, packs;
  __device__ RowParts(index_t begin, int size, bool aligned)
      : n(size), head(aligned ? static_cast<int>((V - begin % V) % V) : size), packs(0) {
    if (head > n) head = n;
    packs = (n - head) / V;
  }
  [[nodiscard]] __device__ int tail() const { return head + packs * V; }
};

/// Calls f(c, v) for all parts of a row that this thread of the team gets: v[0] ... are the elements from column c, 1 or V of
/// them. The row is read at each call. It may have more than 2^31 bytes, but not more than 2^31 elements.
template <class T, int threads>
struct ReadRow {
  static constexpr int V = Pack<T>::count, blocks = 1;
  const T* row;
  RowParts<V> parts;
  __device__ ReadRow(const T* x, index_t begin, int n, bool packs) : row(x + begin), parts(begin, n, packs) {}

  template <class F>
  __device__ void for_each(F&& f) const {
    visit(static_cast<int>(threadIdx.x) % threads, threads, f);
  }
  /// The same for every `step`-th piece of the row from the `first` on; those of a thread are every `threads`-th.
  template <class F>
  __device__ void visit(int first, int step, F&& f) const {
    Wide<T> one[1], v[V];
    for (int c = first; c < parts.head; c += step) load_wide<1>(row + c, one), f(c, one);
#pragma unroll 4
    for (int p = first; p < parts.packs; p += step) {
      const int c = parts.head + p * V;
      load_wide<V>(row + c, v);
      f(c, v);
    }
    for (int c = parts.tail() + first; c < parts.n; c += step) load_wide<1>(row + c, one), f(c, one);
  }
};

/// The same for rows of up to threads * V * P elements on a tensor that begins on a multiple of 16 bytes, read once and held.
template <class T, int threads, int P>
struct HeldRow {
  static constexpr int V = Pack<T>::count;
  static constexpr int blocks = P <= 8 && sizeof(T) < 8 ? 2 : 1;  // that should find room on a multiprocessor
  RowParts<V> parts;
  int edge;  // the column of this thread's element before or after the packs; n if it has none
  Piece<T, V> pieces[P];
  Piece<T, 1> one;

  __device__ HeldRow(const T* x, index_t begin, int n, bool) : parts(begin, n, true) {
    const int thread = static_cast<int>(threadIdx.x) % threads;
    edge = thread < parts.head ? thread : parts.tail() + thread - parts.head;
    if (edge < n) one.load(x + begin + edge);
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int at = p * threads + thread; at < parts.packs) pieces[p].load(x + begin + parts.head + at * V);
  }

  template <class F>
  __device__ void for_each(F&& f) const {
    const int thread = static_cast<int>(threadIdx.x) % threads;
    if (edge < parts.n) {
      Wide<T> v[1] = {one[0]};
      f(edge, v);
    }
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int at = p * threads + thread; at < parts.packs) {
        Wide<T> v[V];
#pragma unroll
        for (int i = 0; i < V; ++i) v[i] = pieces[p][i];
        f(parts.head + at * V, v);
      }
  }
};

/// log(sum(exp(x))) of numbers that come a few at a time, as the largest of them and the sum of exp(x - largest).
template <class W>
struct LogSum {
  W top = -infinity<W>(), sum = W(0);

  /// What may be subtracted from every number: the largest, or 0 if that is minus infinity.
  [[nodiscard]] __device__ W shift() const { return top == -infinity<W>() ? W(0) : top; }
  template <int n>
  __device__ void add(const W (&x)[n]) {
    W most = x[0];
#pragma unroll
    for (int i = 1; i < n; ++i) most = x[i] > most ? x[i] : most;
    if (most > top) {
      sum *= exp(top - most);
      top = most;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) sum += exp(x[i] - shift());
  }
  /// Joins the numbers of all threads of a team.
  template <int threads>
  __device__ void join(W* room) {
    const W own = top;
    top = team_max<threads>(top, room);
    sum = team_sum<threads>(sum * exp(own - shift()), room);
  }
};

/// True if rows of `width` elements can be gone over 16 bytes at a time from these addresses.
template <class T, class... P>
bool rows_of_packs(index_t width, const T* first, const P*... others) {
  return width % Pack<T>::count == 0 && aligned(first, others...);
}

}  // namespace attend::cuda
