#if !defined(ATTEND_CPU_GEMM_PACKING) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_GEMM_PACKING

#include <algorithm>

#include "attend/core/types.hpp"
#include "attend/cpu/simd.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

/// How the operands of a matrix product lie: in memory as they came, or copied in the order in which the tiles of
/// gemm_kernel.hpp read them.
namespace attend::ATTEND_CPU {

using kernels::ConstMatrix;
using kernels::Matrix;
using kernels::ProductOptions;

/// Rows of a tile, and vectors in each: what fills the registers, with room for a row of b and a number of a.
inline constexpr int tile_rows = vector_registers == 32 ? 14 : 6;
/// Vectors in each row of a tile.
inline constexpr int tile_vectors = 2;
/// Columns of a tile, and of a panel of b.
template <class T>
inline constexpr index_t tile_columns = tile_vectors* width<T>;
/// The tile's rows, made up to whole vectors.
template <class T>
inline constexpr index_t padded_rows = (tile_rows + width<T> - 1) / width<T>* width<T>;
/// From one k to the next in a packed tile of a. If one vector has all rows of a tile, the next k's begins where these end, and
/// the tile takes less of the first-level cache; not where vectors are as long as the cache's lines, which each would then cross.
template <class T>
inline constexpr index_t packed_rows = vector_registers == 16 && tile_rows <= width<T> ? tile_rows : padded_rows<T>;
/// Numbers summed in one go. A tile of a of this depth fits into the first-level cache.
inline constexpr index_t k_block = 512;
/// From one packed tile of a to the next: a cache line more than one has, because tiles that are a power of two apart compete
/// for the same sets of the cache.
template <class T>
inline constexpr index_t tile_room = packed_rows<T>* k_block + 64 / static_cast<index_t>(sizeof(T));

/// A matrix, or the part of one from some element on: element (row, column) is data[row * row_step + column * column_step].
template <class T>
struct MatrixView {
  const T* data;
  index_t row_step, column_step;

  MatrixView(const T* at, index_t to_next_row, index_t to_next_column)
      : data(at), row_step(to_next_row), column_step(to_next_column) {}
  explicit MatrixView(const kernels::Matrix<const T>& m)
      : MatrixView(m.data, m.transposed ? 1 : m.stride, m.transposed ? m.stride : 1) {}

  [[nodiscard]] const T* at(index_t row, index_t column) const { return data + row * row_step + column * column_step; }
  [[nodiscard]] MatrixView from(index_t row, index_t column) const { return {at(row, column), row_step, column_step}; }
};

/// The rows of a that some tiles take: how many tiles, at which row tile t begins (and, one entry on, ends), and how many rows of
/// a may be read.
struct TileRows {
  static constexpr int most = 8;
  int count = 0;
  index_t begin[most + 1] = {};
  index_t readable = 0;
};

/// Copies numbers [0, k) of a vector's worth of rows, `row_step` apart from `a` on, turned: the l-th of each lie side by side at
/// to + l * step. If `rows` are fewer than that, the last one stands in for those that are missing.
template <class T>
[[gnu::always_inline]] inline void copy_turned(const T* a, index_t row_step, index_t rows, index_t k, T* to, index_t step) {
  constexpr index_t W = width<T>;
  const T* from[W];
  for (index_t r = 0; r < W; ++r) from[r] = a + std::min(r, rows - 1) * row_step;
  const auto square = [&](const T* const(&rows_of_square)[W], index_t at, index_t l, index_t deep) {
    Vector<T> v[W];
    load_turned<T>(rows_of_square, at, v);
#pragma GCC unroll 16
    for (index_t r = 0; r < W; ++r)
      if (r < deep) store<T>(to + (l + r) * step, v[r]);
  };
  index_t l = 0;
  for (; l + W <= k; l += W) square(from, l, l, W);
  if (l == k) return;
  T part[W][W];  // what is left, with zeros behind it
  const T* rows_of_part[W];
  for (index_t r = 0; r < W; ++r) {
    store<T>(part[r], load_part<T>(from[r] + l, static_cast<int>(k - l)));
    rows_of_part[r] = part[r];
  }
  square(rows_of_part, 0, l, k - l);
}

/// Copies columns [0, k) of these tiles, so that in each tile every k's numbers lie together; tile t goes to to + t * tile_room.
template <class T>
void pack_tiles(MatrixView<T> a, const TileRows& tiles, index_t k, T* to) {
  constexpr index_t W = width<T>, step = packed_rows<T>, tile = tile_room<T>;
  if (a.row_step == 1) {  // all tiles' numbers of one k at a time: they lie side by side, the next k's far away
    const int count = tiles.count;
    index_t begin[TileRows::most];  // a copy, which the compiler knows that no store below changes
    std::copy(tiles.begin, tiles.begin + count, begin);
    const index_t last = tiles.begin[count], readable = tiles.readable;
    const bool whole = begin[count - 1] + padded_rows<T> <= readable;
    constexpr index_t line = 64 / sizeof(T), ahead = 16;
    for (index_t l = 0; l < k; ++l, to += step) {
      const T* const from = a.at(0, l);
      if (l + ahead < k)
        for (index_t row = begin[0]; row < last; row += line) __builtin_prefetch(from + ahead * a.column_step + row);
      for (int t = 0; t < count; ++t)
        for (index_t i = 0; i < step; i += W) {
          const index_t row = begin[t] + i, left = readable - row;
          if (whole || left >= W) store<T>(to + t * tile + i, load<T>(from + row));
          else if (left > 0) store<T>(to + t * tile + i, load_part<T>(from + row, static_cast<int>(left)));
        }
    }
    return;
  }
  for (int t = 0; t < tiles.count; ++t, to += tile)
    for (index_t i = 0, rows = tiles.begin[t + 1] - tiles.begin[t]; i < rows; i += W)
      copy_turned(a.at(tiles.begin[t] + i, 0), a.row_step, rows - i, k, to + i, step);
}

/// Copies rows [begin, end) of b, each of which is contiguous, into its panels, `panel_step` elements apart from `to` on: row by
/// row across all `columns`, as memory likes it. The columns that the last panel lacks become 0.
template <class T>
void pack_rows(MatrixView<T> b, index_t begin, index_t end, index_t columns, T* to, index_t panel_step) {
  constexpr index_t W = width<T>, N = tile_columns<T>, ahead = 16;
  for (index_t l = begin; l < end; ++l)
    for (index_t p = 0; p * N < columns; ++p) {
      if (l + ahead < end) __builtin_prefetch(b.at(l + ahead, p * N));
      for (index_t j = p * N; j < (p + 1) * N; j += W) {
        T* const there = to + p * panel_step + l * N + j - p * N;
        if (j + W <= columns) store<T>(there, load<T>(b.at(l, j)));
        else store<T>(there, j < columns ? load_part<T>(b.at(l, j), static_cast<int>(columns - j)) : Vector<T>{});
      }
    }
}

/// Copies rows [0, k) of b, columns [0, columns), a panel's or fewer, row by row. In place of the columns that the last vector
/// lacks there is the last one again, or 0 if rows are contiguous. A second vector that has no columns may be left as it was,
/// because `detail::last_tile` then takes a tile that reads the first alone.
template <class T>
void pack_panel(MatrixView<T> b, index_t k, index_t columns, T* to) {
  constexpr index_t W = width<T>, N = tile_columns<T>;
  if (b.column_step == 1) return pack_rows(b, index_t{0}, k, columns, to, index_t{0});
  for (index_t j = 0; j < columns; j += W) copy_turned(b.at(0, j), b.column_step, columns - j, k, to + j, N);
}

/// b's panels as a product reads them: panel p begins `panel_step` elements after the one before, its row l `row_step` after the
/// row before.
template <class T>
struct Panels {
  const T* data;
  index_t panel_step, row_step;
};

}  // namespace attend::ATTEND_CPU

#define ATTEND_READ_AGAIN "attend/cpu/gemm_packing.hpp"
#include "attend/cpu/each_target.hpp"
#endif
