#if !defined(ATTEND_CPU_GEMM_KERNEL) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_GEMM_KERNEL

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "attend/core/thread_owned.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/gemm_packing.hpp"
#include "attend/cpu/scratch.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"

#endif  // ATTEND_READING

/// The inside of a matrix product: a tile of c in registers, from a and b or the copies of them in gemm_packing.hpp.
/// Every element of c is one sum over k, of fused multiply-adds in the order of k, from zero again every `k_block`, whatever
/// tile it falls into. So its bits depend on its own row of a and column of b alone, not on what is beside them.
/// Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008, for the arrangement.
namespace attend::ATTEND_CPU {

/// What becomes of the sums, and where: c = alpha * sum (+ c if `add`, + bias if there is one: a number for each column).
template <class T>
struct Outcome {
  T alpha;
  bool add;
  const T* bias;
  T* c;
  index_t ldc;

  Outcome(T factor, bool on_top, const T* column_bias, T* to, index_t stride)
      : alpha(factor), add(on_top), bias(column_bias), c(to), ldc(stride) {}
  Outcome(const ProductOptions& options, const T* column_bias, const Matrix<T>& to)
      : Outcome(static_cast<T>(options.alpha), options.add, column_bias, to.data, to.stride) {}

  /// That of c's rows from i and columns from j on.
  [[nodiscard]] Outcome at(index_t i, index_t j) const { return {alpha, add, bias ? bias + j : nullptr, c + i * ldc + j, ldc}; }
  /// That of the sums from k = l on: what comes first sets c and brings the bias, the rest adds.
  [[nodiscard]] Outcome from(index_t l) const { return {alpha, add || l > 0, l == 0 ? bias : nullptr, c, ldc}; }
};

/// Where the operands of the product that comes next lie, of which the tiles of this one fetch what they can: of small products
/// one after the other each would wait for its own. b first, which is copied before a is read. Each lies without gaps between its
/// rows.
template <class T>
struct NextOperands {
  const T *b = nullptr, *a = nullptr;
  index_t size_of_b = 0, size_of_a = 0;

  NextOperands() = default;
  NextOperands(const Matrix<const T>& left, const Matrix<const T>& right)
      : b(right.data), a(left.data), size_of_b(right.rows * right.columns), size_of_a(left.rows * left.columns) {}
};

/// A product c [m, n] = a [m, k] * b [k, n], and what becomes of its sums.
template <class T>
struct Product {
  index_t m, n, k;
  MatrixView<T> a, b;
  Outcome<T> outcome;
  NextOperands<T> next = {};

  /// A null bias adds nothing.
  Product(const Matrix<const T>& left, const Matrix<const T>& right, const T* bias, const Matrix<T>& to,
          const ProductOptions& options = {})
      : m(to.rows), n(to.columns), k(left.columns), a(left), b(right), outcome(options, bias, to) {}
};

namespace detail {

/// The bytes from one place to another, which may lie in another array.
inline index_t distance(const void* from, const void* to) {
  return static_cast<index_t>(reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from));
}
/// Fetches the cache line that lies so many bytes from `p`.
[[gnu::always_inline]] inline void fetch(const void* p, index_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(bytes)));
}

/// Goes on to the next row, hidden from the compiler, which would otherwise compute the addresses of all rows ahead and run out
/// of registers.
template <class T>
[[gnu::always_inline]] inline void next_row(T*& row, index_t step) {
  row += step;
  asm("" : "+r"(row));
}

/// Writes the sums of a tile, of which `columns` exist; all of them if `Whole`.
template <class T, int R, int V, bool Whole>
[[gnu::always_inline]] inline void finish_tile(const Vector<T> (&sum)[R][V], Outcome<T> outcome, index_t columns) {
  constexpr int W = width<T>;
  T* c = outcome.c;
  const index_t ldc = outcome.ldc;
  if (columns >= V * W) {
    Vector<T> bias[V] = {};
    if (outcome.bias)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) bias[v] = load<T>(outcome.bias + v * W);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i, next_row(c, ldc))
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) {
        Vector<T> y = bias[v];
        multiply_add<T>(y, outcome.alpha, sum[i][v]);
        if (outcome.add) y += load<T>(c + v * W);
        store<T>(c + v * W, y);
      }
    return;
  }
  if constexpr (!Whole) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const int here = static_cast<int>(std::min<index_t>(W, columns - v * W));
      if (here <= 0) break;
      Vector<T> bias = {};
      if (outcome.bias) bias = here == W ? load<T>(outcome.bias + v * W) : load_part<T>(outcome.bias + v * W, here);
      T* to = c + v * W;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i, next_row(to, ldc)) {
        Vector<T> y = bias;
        multiply_add<T>(y, outcome.alpha, sum[i][v]);
        if (here == W) {
          if (outcome.add) y += load<T>(to);
          store<T>(to, y);
        } else {
          if (outcome.add) y += load_part<T>(to, here);
          store_part<T>(to, y, here);
        }
      }
    }
  }
}

/// c [R, V vectors] at stride ldc, of which `columns` exist (all of them, but for the last tile of a row), from k rows of a's
/// tile and b's panels. Panels, of `tile_vectors` each, lie `panel_step` apart. With each row of b, a panel's row is fetched that
/// lies `ahead` bytes further on, unless the tile is wider. If `APacked`, a's steps are those of a packed tile, known to the
/// compiler. What it is told by reference would, by value, be copied in wider pieces than it was just written in, for which
/// processors wait: with 16 products to a sum, a quarter of the time.
template <class T, int R, int V, bool APacked>
[[gnu::noinline]] void tile(index_t k, const MatrixView<T>& a, const T* b, index_t b_step, index_t panel_step,
                            const Outcome<T>& outcome, index_t columns, index_t ahead) {
  constexpr int W = width<T>;
  T* c = outcome.c;
  const index_t ldc = outcome.ldc;
  const index_t row_step = APacked ? 1 : a.row_step, k_step = APacked ? packed_rows<T> : a.column_step;
  const bool turned = row_step == 1 && k >= 64;  // transposed, and too deep to stay in the first-level cache
  Vector<T> sum[R][V] = {};
  const T* from = a.data;
  // c is wanted at the end of the sums. Tiles of the longest vectors, which write most of it, wait for it after short sums too.
  if (V <= tile_vectors && R > 4 && k >= (vector_bytes == 64 ? 16 : 64)) {
    const T* row = c;
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i, next_row(row, ldc))
      for (int v = 0; v < V; ++v)
        if (v * W < columns) __builtin_prefetch(row + v * W, 1);
  }
  for (index_t l = 0; l < k; ++l, from += k_step, b += b_step) {
    Vector<T> row[V];
    if constexpr (V <= tile_vectors) {
#pragma GCC unroll 16
      for (index_t line = 0; line < V * static_cast<index_t>(sizeof(Vector<T>)); line += 64) fetch(b, ahead + line);
    }
    if constexpr (!APacked && R > 4)
      if (turned) fetch(from, (2 * R - 1) * static_cast<index_t>(sizeof(T)));  // the last number of the next tile
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      row[v] = load<T>(b + v / tile_vectors * panel_step + v % tile_vectors * W);
      if constexpr (R > 1 && R < 5) hold(row[v]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const T x = from[i * row_step];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) multiply_add<T>(sum[i][v], x, row[v]);
    }
  }
  finish_tile<T, R, V, APacked || (V > tile_vectors)>(sum, outcome, columns);
}

/// A `tile` of so many rows.
template <class T>
using Tile = void (*)(index_t, const MatrixView<T>&, const T*, index_t, index_t, const Outcome<T>&, index_t, index_t);

/// Panels that a tile of R rows takes at once: with few rows, more columns keep the multipliers busy.
constexpr int panels_of(int rows) { return rows <= 1 ? (vector_registers == 32 ? 4 : 3) : rows <= 2 ? 2 : 1; }

/// Those of 1, 2, ... rows, which read a where it lies.
template <class T, int... R>
constexpr auto direct_tiles(std::integer_sequence<int, R...>) {
  return std::array<Tile<T>, sizeof...(R)>{&tile<T, R + 1, panels_of(R + 1) * tile_vectors, false>...};
}
/// Those of 1, 2, ... rows and V vectors.
template <class T, int V, bool APacked, int... R>
constexpr auto narrow_tiles(std::integer_sequence<int, R...>) {
  return std::array<Tile<T>, sizeof...(R)>{&tile<T, R + 1, V, APacked>...};
}

/// The tiles that take one panel, by their rows less one.
template <class T, bool APacked>
inline constexpr auto one_panel_tiles = narrow_tiles<T, tile_vectors, APacked>(std::make_integer_sequence<int, tile_rows>{});
/// Those that take its first vector and read no further.
template <class T>
inline constexpr auto one_vector_tiles = narrow_tiles<T, 1, false>(std::make_integer_sequence<int, tile_rows>{});

/// Those that take two panels side by side, for 32 registers.
inline constexpr int wide_tile_rows = 6;
template <class T>
inline constexpr auto wide_tiles = narrow_tiles<T, 2 * tile_vectors, false>(std::make_integer_sequence<int, wide_tile_rows>{});

/// What each tile fetches of the product that comes next: a stretch of as many numbers as its panel has, or nothing. A tile of
/// one vector as long as a cache line fetches every other line of it: both would cost those that read b in place more.
template <class T>
class Stretches {
 public:
  Stretches(const NextOperands<T>& next, index_t tiles, index_t length)
      : next_(next),
        tiles_(tiles),
        length_(length),
        of_b_((next.size_of_b + length - 1) / length),
        count_(of_b_ + (next.size_of_a + length - 1) / length) {}

  /// That of the next tile, or null. They are spread evenly, so that memory has something to do all the time.
  const T* take() {
    owed_ += count_;
    if (owed_ < tiles_ || taken_ == count_) return nullptr;
    owed_ -= tiles_;
    const index_t i = taken_++;
    return i < of_b_ ? next_.b + i * length_ : next_.a + (i - of_b_) * length_;
  }

 private:
  NextOperands<T> next_;
  index_t tiles_, length_, of_b_, count_, owed_ = 0, taken_ = 0;
};

/// The tile for the last `columns` columns of b, with as many vectors as they need.
template <class T>
Tile<T> last_tile(index_t rows, index_t columns) {
  const auto at = static_cast<std::size_t>(rows - 1);
  return columns <= width<T> ? one_vector_tiles<T>[at] : one_panel_tiles<T, false>[at];
}

}  // namespace detail

/// How many bytes ahead a tile fetches the rows of its panel, which are `row_step` numbers apart. In a copy, where they lie side
/// by side, so many that they come in time from the third-level cache; otherwise 16 rows.
template <class T>
index_t rows_ahead(index_t row_step) {
  return row_step == tile_columns<T> ? 6144 : 16 * row_step * static_cast<index_t>(sizeof(T));
}

/// f(row, rows, column) for each tile of c [m, n], row of tiles by row of tiles: at most `tall` rows, spread evenly over the
/// tiles, and `wide` columns, or what is left of them.
template <class F>
void for_each_tile(index_t m, index_t n, index_t tall, index_t wide, const F& f) {
  for (index_t left = m <= tall ? 1 : (m + tall - 1) / tall, row = 0; left > 0; --left) {
    const index_t rows = left == 1 ? m - row : (m - row) / left;  // a division takes as long as a small tile
    for (index_t column = 0; column < n; column += wide) f(row, rows, column);
    row += rows;
  }
}

/// The same as `multiply_panels` for when nothing is worth a copy: little to multiply, and rows of b in whole vectors, which are
/// read where they lie. From far away they come at full speed if they are read in the order in which they lie: by tiles as wide
/// as can be, or with the lines beside a tile's fetched. If what is beside them is not b's, rows to come are fetched.
template <class T>
void multiply_in_place(index_t m, index_t n, index_t k, const MatrixView<T>& a, const MatrixView<T>& b,
                       const Outcome<T>& outcome) {
  constexpr index_t N = tile_columns<T>;
  if constexpr (vector_registers == 32)
    if (n % (2 * N) == 0)
      return for_each_tile(m, n, detail::wide_tile_rows, 2 * N, [&](index_t i, index_t rows, index_t j) {
        const detail::Tile<T> tile = detail::wide_tiles<T>[static_cast<std::size_t>(rows - 1)];
        tile(k, a.from(i, 0), b.at(0, j), b.row_step, N, outcome.at(i, j), n - j, 0);
      });
  const bool alone = vector_bytes == 64 && n <= N && b.row_step >= 3 * n;  // tried with the longest vectors alone
  const index_t ahead = alone ? rows_ahead<T>(b.row_step) : N * static_cast<index_t>(sizeof(T));
  if (m <= tile_rows && n <= N) return detail::last_tile<T>(m, n)(k, a, b.data, b.row_step, N, outcome, n, ahead);
  for_each_tile(m, n, tile_rows, N, [&](index_t i, index_t rows, index_t j) {
    const detail::Tile<T> tile = detail::last_tile<T>(rows, n - j);
    tile(k, a.from(i, 0), b.at(0, j), b.row_step, N, outcome.at(i, j), n - j, ahead);
  });
}

/// The same as `multiply_panels` for little to multiply, while what is `next` comes from memory, unless there is one tile alone,
/// which could fetch half of it.
template <class T>
void multiply_and_fetch(index_t m, index_t n, index_t k, const MatrixView<T>& a, const Panels<T>& b, const Outcome<T>& outcome,
                        const NextOperands<T>& next) {
  constexpr index_t N = tile_columns<T>;
  const index_t tiles = (m + tile_rows - 1) / tile_rows * ((n + N - 1) / N);
  detail::Stretches<T> stretches(tiles > 1 ? next : NextOperands<T>(), tiles, k * N);
  const bool near = k * N * static_cast<index_t>(sizeof(T)) <= 32768;  // was just copied, and is in the first-level cache
  const index_t ahead = near ? 0 : rows_ahead<T>(b.row_step);
  for_each_tile(m, n, tile_rows, N, [&](index_t i, index_t rows, index_t j) {
    const T *const panel = b.data + j / N * b.panel_step, *const stretch = stretches.take();
    detail::last_tile<T>(rows, n - j)(k, a.from(i, 0), panel, b.row_step, 0, outcome.at(i, j), n - j,
                                      stretch ? detail::distance(panel, stretch) : ahead);
  });
}

/// c [m, n] from rows of a and the panels of b, at most `k_block` deep.
template <class T>
void multiply_panels(index_t m, index_t n, index_t k, MatrixView<T> a, Panels<T> b, Outcome<T> outcome) {
  static constexpr auto direct = detail::direct_tiles<T>(std::make_integer_sequence<int, tile_rows>{});
  constexpr index_t N = tile_columns<T>;
  // Packing costs about as much as reading a once more for a few panels; without it, rows a power of two apart compete for the
  // same sets of the cache. Several tiles together only if their numbers lie side by side; otherwise one at a time, which stays
  // in the first-level cache.
  const int most = a.row_step == 1 ? TileRows::most : 1;
  T* rows = nullptr;
  const bool apart = a.row_step == 1 && a.column_step * static_cast<index_t>(sizeof(T)) >= 4096;  // every k on a page of its own
  if (m > 2 && (apart || n > (a.row_step == 1 ? 3 : 4) * N)) {
    ATTEND_THREAD_OWNED(Scratch, scratch);
    rows = scratch.get<T>(most * tile_room<T>);
  }
  index_t tiles = (m + tile_rows - 1) / tile_rows;
  for (index_t i = 0; i < m;) {
    TileRows group;
    group.begin[0] = i, group.readable = m;
    for (; tiles > 0 && group.count < most; --tiles, ++group.count)  // rows spread evenly over the tiles
      group.begin[group.count + 1] = group.begin[group.count] + (m - group.begin[group.count]) / tiles;
    if (rows) pack_tiles(a, group, k, rows);
    // Tile t by panel p, and by those after it that it takes at once; returns how many these were.
    const auto multiply = [&](int t, index_t p) {
      const index_t begin = group.begin[t], count = group.begin[t + 1] - begin;
      const auto at = static_cast<std::size_t>(count - 1);
      const MatrixView<T> part = rows ? MatrixView<T>{rows + t * tile_room<T>, 1, packed_rows<T>} : a.from(begin, 0);
      const index_t together = rows ? 1 : detail::panels_of(static_cast<int>(count));
      const bool whole = p + together <= n / N;
      const detail::Tile<T> tile = !whole ? detail::last_tile<T>(count, n - p * N)
                                   : rows ? detail::one_panel_tiles<T, true>[at]
                                          : direct[at];
      tile(k, part, b.data + p * b.panel_step, b.row_step, b.panel_step, outcome.at(begin, p * N), n - p * N,
           rows_ahead<T>(b.row_step));
      return whole ? together : 1;
    };
    if (group.count == 1)
      for (index_t p = 0; p * N < n;) p += multiply(0, p);
    else if (k <= k_block / 2)  // short panels stay near while one tile goes through them
      for (int t = 0; t < group.count; ++t)
        for (index_t p = 0; p * N < n; ++p) multiply(t, p);
    else  // each panel comes from far away once for all of them; having three rows or more, they take one at a time
      for (index_t p = 0; p * N < n; ++p)
        for (int t = 0; t < group.count; ++t) multiply(t, p);
    i = group.begin[group.count];
  }
}

}  // namespace attend::ATTEND_CPU

#define ATTEND_READ_AGAIN "attend/cpu/gemm_kernel.hpp"
#include "attend/cpu/each_target.hpp"
#endif
