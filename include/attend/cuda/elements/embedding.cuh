#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/cuda/search/sort.cuh"
#include "attend/kernels/embedding.hpp"
#include "attend/kernels/matrix.hpp"

namespace attend::cuda {

/// Warps of a block.
inline constexpr int embedding_warps = block_threads / warp_threads;

/// This warp among all of the grid, and how many there are.
__device__ inline index_t grid_warp() { return static_cast<index_t>(blockIdx.x) * embedding_warps + warp(); }
/// Warps of the grid.
__device__ inline index_t grid_warps() { return static_cast<index_t>(gridDim.x) * embedding_warps; }

/// y[i] = scale * table[tokens[i]], a warp a row, `count` columns a lane at a time.
template <int count, class T>
__global__ void __launch_bounds__(block_threads)
    embedding_kernel(kernels::TokenList tokens, index_t width, Wide<T> scale, const T* table, T* y, Fault* fault) {
  const index_t vocabulary = tokens.vocabulary;
  for (index_t i = grid_warp(); i < tokens.count; i += grid_warps()) {
    const token_t token = tokens.data[i];
    const bool good = token >= 0 && token < vocabulary;
    if (!good && lane() == 0) report(fault, Fault::token, Context::embedding, i, token, vocabulary);
    const T* row = table + (good ? token : 0) * width;
#pragma unroll 2
    for (index_t j = lane() * count; j < width; j += warp_threads * count) {
      Wide<T> v[count] = {};
      if (good) load_values(row + j, v);
#pragma unroll
      for (int k = 0; k < count; ++k) v[k] *= scale;
      store_values(y + i * width + j, v);
    }
  }
}

/// The rows of dy by the token that they belong to. All rows of a token are a run, which is cut at every multiple of `chunk`
/// sorted positions: its pieces are added up by different warps, so that a frequent token takes no longer than others.
template <class T>
struct EmbeddingRuns {
  static constexpr int chunk = warp_threads;
  index_t n, vocabulary, width, tiles;  ///< tiles: of the columns that a warp takes
  const std::uint32_t* keys;            ///< [n], sorted
  const std::int32_t* positions;        ///< [n]
  const T* dy;                          ///< [n, width]
  Wide<T>* pieces;                      ///< [chunks, 2, width]: the sums of a run's piece that goes on from the chunk before, and
                                        ///< of one that begins here and goes on into the next
  Wide<T> scale;
  kernels::Gradient<T> dtable;  ///< [vocabulary, width]

  [[nodiscard]] __device__ index_t chunks() const { return (n + chunk - 1) / chunk; }
  [[nodiscard]] __device__ Wide<T>* piece(index_t at, bool begins, index_t column) const {
    return pieces + (at * 2 + (begins ? 1 : 0)) * width + column;
  }
  /// True if the run of chunk `at`'s last row goes on into the next chunk.
  [[nodiscard]] __device__ bool goes_on(index_t at) const {
    const index_t end = (at + 1) * chunk;
    return end < n && keys[end] == keys[end - 1];
  }
  template <int count>
  __device__ void finish(std::uint32_t key, index_t column, Wide<T> (&sum)[count]) const {
    if (key >= vocabulary || column >= width) return;
#pragma unroll
    for (int j = 0; j < count; ++j) sum[j] *= scale;
    add_values(Wide<T>(dtable.add), dtable.data + static_cast<index_t>(key) * width + column, sum);
  }
};

/// Adds up the runs within chunks: a warp a chunk, `count` columns a lane.
template <int count, class T>
__global__ void __launch_bounds__(block_threads, 3) embedding_chunks_kernel(EmbeddingRuns<T> runs) {
  constexpr int ahead = 4;  // rows that are read before the first is used
  for (index_t task = grid_warp(); task < runs.chunks() * runs.tiles; task += grid_warps()) {
    const index_t chunk = task / runs.tiles, begin = chunk * runs.chunk;
    const index_t column = ((task - chunk * runs.tiles) * warp_threads + lane()) * count;
    const int rows = static_cast<int>(runs.n - begin < runs.chunk ? runs.n - begin : runs.chunk);
    // Lanes without a row or a column of their own read others', for nothing: so there is no branch between the reads below.
    const T* in = runs.dy + (column < runs.width ? column : 0);
    const index_t own = begin + (lane() < rows ? lane() : 0);
    const std::uint32_t own_key = runs.keys[own];
    const std::int32_t own_position = runs.positions[own];
    bool continued = chunk > 0 && runs.goes_on(chunk - 1);  // the run at hand began in an earlier chunk
    Wide<T> sum[count] = {};
    for (int first = 0; first < rows; first += ahead) {
      Wide<T> row[ahead][count];
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        const std::int32_t position = __shfl_sync(all_lanes, own_position, first + k);
        load_values(in + static_cast<index_t>(position) * runs.width, row[k]);
      }
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        const int r = first + k;
        const std::uint32_t key = __shfl_sync(all_lanes, own_key, r);
        const std::uint32_t next = __shfl_sync(all_lanes, own_key, (r + 1) % warp_threads);
#pragma unroll
        for (int j = 0; j < count; ++j) sum[j] += row[k][j];
        if (r >= rows || (r + 1 < rows && next == key)) continue;
        const bool on = r + 1 == rows && runs.goes_on(chunk);
        if (!continued && !on) runs.finish(key, column, sum);
        else if (column < runs.width) store_values(runs.piece(chunk, !continued, column), sum);
        continued = false;
#pragma unroll
        for (int j = 0; j < count; ++j) sum[j] = 0;
      }
    }
  }
}

/// Adds up the pieces of the runs that go over several chunks: a warp for each that begins in its chunk.
template <int count, class T>
__global__ void __launch_bounds__(block_threads, 3) embedding_pieces_kernel(EmbeddingRuns<T> runs) {
  constexpr int ahead = 4;
  for (index_t task = grid_warp(); task < runs.chunks() * runs.tiles; task += grid_warps()) {
    const index_t chunk = task / runs.tiles, begin = chunk * runs.chunk, last = begin + runs.chunk - 1;
    const index_t column = ((task - chunk * runs.tiles) * warp_threads + lane()) * count;
    if (!runs.goes_on(chunk)) continue;
    const std::uint32_t key = runs.keys[last];
    if (begin > 0 && runs.keys[begin - 1] == key) continue;
    const index_t from = column < runs.width ? column : 0;  // see above
    Wide<T> sum[count];
    load_values(runs.piece(chunk, true, from), sum);
    for (index_t next = chunk + 1, more = warp_threads; more == warp_threads; next += warp_threads) {
      const index_t at = (next + lane()) * runs.chunk;
      more = __popc(__ballot_sync(all_lanes, at < runs.n && runs.keys[at] == key));  // of the next 32 chunks, those that go on
      index_t k = 0;
      for (; k + ahead <= more; k += ahead) {
        Wide<T> v[ahead][count];
#pragma unroll
        for (int i = 0; i < ahead; ++i) load_values(runs.piece(next + k + i, false, from), v[i]);
#pragma unroll
        for (int i = 0; i < ahead; ++i)
#pragma unroll
          for (int j = 0; j < count; ++j) sum[j] += v[i][j];
      }
      for (; k < more; ++k) {
        Wide<T> v[count];
        load_values(runs.piece(next + k, false, from), v);
#pragma unroll
        for (int j = 0; j < count; ++j) sum[j] += v[j];
      }
    }
    runs.finish(key, column, sum);
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// As if all tokens were good, their number: the kernels check the tokens themselves.
inline index_t find_invalid_token(Cuda, const TokenList& tokens) { return tokens.count; }

/// y[i] = scale * table[tokens[i]], rows of `width`. For a token outside the vocabulary the row is 0, and an IndexError is thrown
/// when the host next waits.
template <class T>
void embedding_forward(Cuda, const TokenList& tokens, index_t width, std::type_identity_t<Wide<T>> scale, const T* table, T* y) {
  if (tokens.count == 0) return;
  constexpr int pack = cuda::Pack<T>::count;
  const bool good = width % pack == 0 && cuda::aligned(table, y);
  cuda::launch("embedding", good ? cuda::embedding_kernel<pack, T> : cuda::embedding_kernel<1, T>,
               cuda::blocks_for(tokens.count, cuda::embedding_warps), cuda::block_threads, 0, tokens, width, scale, table, y,
               cuda::Context::instance().fault());
}

/// dtable[t] = scale * the sum of dy[i] over all i with tokens[i] = t, in an order that the tokens determine. Those outside the
/// vocabulary are left out. Throws ValueError for more than 2^31 tokens.
template <class T>
void embedding_backward(Cuda, const TokenList& tokens, index_t width, std::type_identity_t<Wide<T>> scale, const T* dy,
                        Gradient<T> dtable) {
  using Runs = cuda::EmbeddingRuns<T>;
  const index_t n = tokens.count, vocabulary = tokens.vocabulary;
  if (!dtable.add) fill(Cuda{}, vocabulary * width, T(0), dtable.data);
  if (n == 0 || width == 0) return;
  constexpr int pack = cuda::Pack<T>::count;
  const bool good = width % pack == 0 && cuda::aligned(dy, dtable.data);
  const index_t columns = index_t{cuda::warp_threads} * (good ? pack : 1), tiles = (width + columns - 1) / columns;
  const index_t chunks = (n + Runs::chunk - 1) / Runs::chunk;
  const cuda::SortedTokens sorted = cuda::sort_tokens("embedding", n, vocabulary, tokens.data);
  const cuda::Buffer<Wide<T>> pieces(chunks * 2 * width);
  const Runs runs{n, vocabulary, width, tiles, sorted.keys.data(), sorted.positions.data(), dy, pieces.data(), scale, dtable};
  const unsigned blocks = cuda::blocks_for(chunks * tiles, cuda::embedding_warps);
  cuda::launch("embedding", good ? cuda::embedding_chunks_kernel<pack, T> : cuda::embedding_chunks_kernel<1, T>, blocks,
               cuda::block_threads, 0, runs);
  cuda::launch("embedding", good ? cuda::embedding_pieces_kernel<pack, T> : cuda::embedding_pieces_kernel<1, T>, blocks,
               cuda::block_threads, 0, runs);
}

}  // namespace attend::kernels
