#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "attend/core/types.hpp"
#include "attend/cpu/simd.hpp"

/// The inside of a matrix product: a tile of c in registers, and the copies of a and b that it reads one after the other.
/// Every element of c is one sum over k, of fused multiply-adds in the order of k, from zero again every `k_block`, whatever
/// tile it falls into. So its bits depend on its own row of a and column of b alone, not on what is beside them.
/// Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008, for the arrangement.
namespace attend::cpu {

/// Rows of a tile, and columns: what fills the registers, with room for a row of b and a number of a.
inline constexpr int tile_rows = vector_registers == 32 ? 14 : 6;
inline constexpr int tile_vectors = 2;
template <class T>
inline constexpr index_t tile_columns = tile_vectors* width<T>;
/// From one k to the next in a packed tile of a: whole vectors, of which the tile's rows are the first.
template <class T>
inline constexpr index_t packed_rows = (tile_rows + width<T> - 1) / width<T>* width<T>;
/// Numbers summed in one go. A tile of a of this depth stays in the first-level cache.
inline constexpr index_t k_block = 512;

/// A matrix as it lies in memory: element (row, column) is data[row * row_step + column * column_step].
template <class T>
struct MatrixView {
  const T* data;
  index_t row_step, column_step;

  [[nodiscard]] const T* at(index_t row, index_t column) const { return data + row * row_step + column * column_step; }
  [[nodiscard]] MatrixView from(index_t row, index_t column) const { return {at(row, column), row_step, column_step}; }
};

/// Memory of a thread that stays, aligned for vectors; its contents do not.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(); }

  template <class T>
  T* get(index_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > size_) {
      release();
      data_ = ::operator new (bytes, std::align_val_t{64});
      size_ = bytes;
    }
    return static_cast<T*>(data_);
  }

 private:
  void release() {
    if (data_) ::operator delete (data_, std::align_val_t{64});
    data_ = nullptr, size_ = 0;
  }
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What becomes of a sum: c = alpha * sum (+ c where `add`, + bias where there is one: a number for each column).
template <class T>
struct Outcome {
  T alpha;
  bool add;
  const T* bias;

  /// That of the sums from k = l on, for the columns from j on: what comes first sets c and brings the bias, the rest adds.
  [[nodiscard]] Outcome from(index_t l, index_t j) const { return {alpha, add || l > 0, bias && l == 0 ? bias + j : nullptr}; }
};

namespace detail {

/// Goes on to the next row, so that a compiler does not compute the addresses of all rows ahead: that costs it the registers.
template <class T>
[[gnu::always_inline]] inline void next_row(T*& row, index_t step) {
  row += step;
  asm("" : "+r"(row));
}

/// c [R, V vectors] at stride ldc, of which `columns` exist (all of them, but for the last tile of a row), from k rows of a's
/// tile and b's panels. Panels, of `tile_vectors` each, lie `panel_step` apart. Where `APacked`, a's steps are those of a packed
/// tile, known to the compiler.
template <class T, int R, int V, bool APacked>
[[gnu::noinline]] void tile(index_t k, MatrixView<T> a, const T* b, index_t b_step, index_t panel_step, Outcome<T> outcome, T* c,
                            index_t ldc, index_t columns) {
  constexpr int W = width<T>;
  const index_t row_step = APacked ? 1 : a.row_step, k_step = APacked ? packed_rows<T> : a.column_step;
  Vector<T> sum[R][V] = {};
  const T* from = a.data;
  if (V <= tile_vectors && R > 4 && k >= 64) {  // c is wanted at the end of the sums
    const T* row = c;
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i, next_row(row, ldc))
      for (int v = 0; v < V; ++v)
        if (v * W < columns) __builtin_prefetch(row + v * W, 1);
  }
  for (index_t l = 0; l < k; ++l, from += k_step, b += b_step) {
    Vector<T> row[V];
    if constexpr (V <= tile_vectors) {  // panels come from the second-level cache, a row of them at a time
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) __builtin_prefetch(b + v * W + 16 * b_step);
    }
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) row[v] = load<T>(b + v / tile_vectors * panel_step + v % tile_vectors * W);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const T x = from[i * row_step];
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[i][v] += x * row[v];
    }
  }
  if (columns >= V * W) {
    Vector<T> bias[V] = {};
    if (outcome.bias)
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) bias[v] = load<T>(outcome.bias + v * W);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i, next_row(c, ldc))
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) {
        Vector<T> y = outcome.alpha * sum[i][v] + bias[v];
        if (outcome.add) y += load<T>(c + v * W);
        store<T>(c + v * W, y);
      }
    return;
  }
  if constexpr (!APacked && V <= tile_vectors) {  // the others get whole panels only
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const int here = static_cast<int>(std::min<index_t>(W, columns - v * W));
      if (here <= 0) break;
      Vector<T> bias = {};
      if (outcome.bias) bias = here == W ? load<T>(outcome.bias + v * W) : load_part<T>(outcome.bias + v * W, here);
      T* to = c + v * W;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i, next_row(to, ldc)) {
        Vector<T> y = outcome.alpha * sum[i][v] + bias;
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

template <class T>
using Tile = void (*)(index_t, MatrixView<T>, const T*, index_t, index_t, Outcome<T>, T*, index_t, index_t);

/// Panels that a tile of R rows takes at once: with few rows, more columns keep the multipliers busy.
constexpr int panels_of(int rows) { return rows <= 1 ? (vector_registers == 32 ? 4 : 3) : rows <= 2 ? 2 : 1; }

template <class T, int... R>
constexpr auto direct_tiles(std::integer_sequence<int, R...>) {
  return std::array<Tile<T>, sizeof...(R)>{&tile<T, R + 1, panels_of(R + 1) * tile_vectors, false>...};
}
template <class T, int V, bool APacked, int... R>
constexpr auto narrow_tiles(std::integer_sequence<int, R...>) {
  return std::array<Tile<T>, sizeof...(R)>{&tile<T, R + 1, V, APacked>...};
}

}  // namespace detail

/// Some tiles' rows of a: how many tiles, where tile t begins (the last entry: where it ends), and rows that may be read.
struct TileRows {
  static constexpr int most = 8;
  int count = 0;
  index_t begin[most + 1] = {};
  index_t readable = 0;
};

/// Copies columns [0, k) of these tiles, so that in each tile every k's numbers lie together; tile t goes to
/// to + t * packed_rows * k_block.
template <class T>
void pack_tiles(MatrixView<T> a, const TileRows& tiles, index_t k, T* to) {
  constexpr index_t W = width<T>, step = packed_rows<T>, tile = step * k_block;
  if (a.row_step == 1) {  // all tiles' numbers of one k at a time: they lie side by side, the next k's far away
    for (index_t l = 0; l < k; ++l)
      for (int t = 0; t < tiles.count; ++t)
        for (index_t i = 0; i < step; i += W) {
          const index_t row = tiles.begin[t] + i, left = tiles.readable - row;
          if (left >= W) store<T>(to + t * tile + l * step + i, load<T>(a.at(row, l)));
          else if (left > 0) store<T>(to + t * tile + l * step + i, load_part<T>(a.at(row, l), static_cast<int>(left)));
        }
    return;
  }
  for (int t = 0; t < tiles.count; ++t, to += tile)
    for (index_t i = 0, rows = tiles.begin[t + 1] - tiles.begin[t]; i < rows; i += W) {
      const T* from[W];
      for (index_t r = 0; r < W; ++r) from[r] = a.at(tiles.begin[t] + std::min(i + r, rows - 1), 0);
      const index_t whole = a.column_step == 1 ? k / W * W : 0;  // what goes by squares of W
      for (index_t l = 0; l < whole; l += W) {
        Vector<T> v[W];
#pragma GCC unroll 16
        for (index_t r = 0; r < W; ++r) v[r] = load<T>(from[r] + l);
        transpose<T>(v);
#pragma GCC unroll 16
        for (index_t r = 0; r < W; ++r) store<T>(to + (l + r) * step + i, v[r]);
      }
      for (index_t l = whole; l < k; ++l)
        for (index_t r = 0; r < W; ++r) to[l * step + i + r] = from[r][l * a.column_step];
    }
}

/// Copies rows [begin, end) of a b whose rows are contiguous into its panels, `panel_step` apart, from `to` on: row by row across
/// all `columns`, as memory likes it. The columns that the last panel lacks become 0.
template <class T>
void pack_rows(MatrixView<T> b, index_t begin, index_t end, index_t columns, T* to, index_t panel_step) {
  constexpr index_t W = width<T>, N = tile_columns<T>;
  for (index_t l = begin; l < end; ++l)
    for (index_t p = 0; p * N < columns; ++p)
      for (index_t j = p * N; j < (p + 1) * N; j += W) {
        T* const there = to + p * panel_step + l * N + j - p * N;
        if (j + W <= columns) store<T>(there, load<T>(b.at(l, j)));
        else store<T>(there, j < columns ? load_part<T>(b.at(l, j), static_cast<int>(columns - j)) : Vector<T>{});
      }
}

/// Copies rows [0, k) of b, columns [0, columns), a panel's or fewer, row by row; the columns that are missing become 0.
template <class T>
void pack_panel(MatrixView<T> b, index_t k, index_t columns, T* to) {
  constexpr index_t W = width<T>, step = tile_columns<T>;
  if (b.column_step == 1) {
    pack_rows(b, index_t{0}, k, columns, to, index_t{0});
    return;
  }
  for (index_t j = 0; j < step; j += W) {
    const index_t here = std::min(W, columns - j);
    index_t l = 0;
    for (; b.row_step == 1 && l + W <= k && here == W; l += W) {
      Vector<T> v[W];
#pragma GCC unroll 16
      for (index_t r = 0; r < W; ++r) v[r] = load<T>(b.at(l, j + r));
      transpose<T>(v);
#pragma GCC unroll 16
      for (index_t r = 0; r < W; ++r) store<T>(to + (l + r) * step + j, v[r]);
    }
    for (; b.row_step == 1 && l < k; l += W) {  // at the edges
      const index_t deep = std::min(W, k - l);
      Vector<T> v[W] = {};
      for (index_t r = 0; r < here; ++r) v[r] = load_part<T>(b.at(l, j + r), static_cast<int>(deep));
      transpose<T>(v);
      for (index_t r = 0; r < deep; ++r) store<T>(to + (l + r) * step + j, v[r]);
    }
    for (; l < k; ++l)
      for (index_t r = 0; r < W; ++r) to[l * step + j + r] = r < here ? *b.at(l, j + r) : T(0);
  }
}

/// b's panels as a product reads them: panel p begins `panel_step` elements after the last, its row l `row_step` after the row
/// before.
template <class T>
struct Panels {
  const T* data;
  index_t panel_step, row_step;
};

namespace detail {
/// The tiles that take one panel, by their rows less one.
template <class T, bool APacked>
inline constexpr auto one_panel_tiles = narrow_tiles<T, tile_vectors, APacked>(std::make_integer_sequence<int, tile_rows>{});
/// Those that take its first vector and read no further.
template <class T>
inline constexpr auto one_vector_tiles = narrow_tiles<T, 1, false>(std::make_integer_sequence<int, tile_rows>{});

/// The tile for `columns` that are left of b, as many vectors as these need.
template <class T>
Tile<T> last_tile(index_t rows, index_t columns) {
  const auto at = static_cast<std::size_t>(rows - 1);
  return columns <= width<T> ? one_vector_tiles<T>[at] : one_panel_tiles<T, false>[at];
}
}  // namespace detail

/// The same as `multiply_panels` where nothing is worth a copy: few rows, and b's in whole vectors that are read where they lie.
template <class T>
void multiply_in_place(index_t m, index_t n, index_t k, MatrixView<T> a, MatrixView<T> b, Outcome<T> outcome, T* c, index_t ldc) {
  for (index_t left = (m + tile_rows - 1) / tile_rows, i = 0; left > 0; --left) {
    const index_t count = (m - i) / left;
    for (index_t j = 0; j < n; j += tile_columns<T>)
      detail::last_tile<T>(count, n - j)(k, a.from(i, 0), b.at(0, j), b.row_step, 0, outcome.from(0, j), c + i * ldc + j, ldc,
                                         n - j);
    i += count;
  }
}

/// c [m, n] from rows of a and the panels of b, at most `k_block` deep.
template <class T>
void multiply_panels(index_t m, index_t n, index_t k, MatrixView<T> a, Panels<T> b, Outcome<T> outcome, T* c, index_t ldc) {
  static constexpr auto direct = detail::direct_tiles<T>(std::make_integer_sequence<int, tile_rows>{});
  constexpr index_t N = tile_columns<T>;
  // Packing costs as much as reading a once more for some panels; without it, rows a power of two apart share cache lines.
  // Several tiles together only where their numbers lie side by side: a single one stays in the first-level cache.
  const int most = a.row_step == 1 ? TileRows::most : 1;
  T* rows = nullptr;
  const bool far = a.row_step == 1 && a.column_step * static_cast<index_t>(sizeof(T)) >= 4096;  // every k on a page of its own
  if (m > 2 && (far || n > (a.row_step == 1 ? 3 : 4) * N)) {
    thread_local Scratch scratch;
    rows = scratch.get<T>(most * packed_rows<T> * k_block);
  }
  index_t tiles = (m + tile_rows - 1) / tile_rows;
  for (index_t i = 0; i < m;) {
    TileRows group;
    group.begin[0] = i, group.readable = m;
    for (; tiles > 0 && group.count < most; --tiles, ++group.count)  // rows spread evenly over the tiles
      group.begin[group.count + 1] = group.begin[group.count] + (m - group.begin[group.count]) / tiles;
    if (rows) pack_tiles(a, group, k, rows);
    for (int t = 0; t < group.count; ++t) {
      i = group.begin[t];
      const index_t count = group.begin[t + 1] - i;
      const auto at = static_cast<std::size_t>(count - 1);
      const MatrixView<T> part = rows ? MatrixView<T>{rows + t * packed_rows<T> * k_block, 1, packed_rows<T>} : a.from(i, 0);
      const auto multiply = [&](detail::Tile<T> tile, index_t p) {
        tile(k, part, b.data + p * b.panel_step, b.row_step, b.panel_step, outcome.from(0, p * N), c + i * ldc + p * N, ldc,
             n - p * N);
      };
      const detail::Tile<T> usual = rows ? detail::one_panel_tiles<T, true>[at] : direct[at];
      const index_t together = rows ? 1 : detail::panels_of(static_cast<int>(count));
      index_t p = 0;
      for (; p + together <= n / N; p += together) multiply(usual, p);
      for (; p * N < n; ++p) multiply(detail::last_tile<T>(count, n - p * N), p);
    }
    i = group.begin[group.count];
  }
}

}  // namespace attend::cpu
