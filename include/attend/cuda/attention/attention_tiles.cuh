#pragma once

#include <type_traits>
#include <utility>

#include "attend/cuda/attention/attention_sizes.cuh"
#include "attend/cuda/attention/mma.cuh"

/// What the attention of bfloat16 on tensor cores is made of. A block of `warps` warps looks at a tile of 16 * warps queries and
/// as many keys at a time; a warp has 16 rows of it, and a thread the elements of two of them: lane / 4 and that plus 8.
/// Rows in shared memory have `width` columns, with zeros where the matrix has fewer.
namespace attend::cuda {

/// From one row of a tile to the next: so that eight rows' 16 bytes lie in different banks.
template <int width>
inline constexpr int tile_pitch = width + 8;

/// exp(x - shift), exactly 1 if the two are equal. The difference comes first: log2(e) x - log2(e) shift, which the device takes
/// in one instruction, would be off by the rounding of the second product: by dozens if a bias of -1e9 hides keys.
__device__ inline float exp_of_difference(float x, float shift) {
  constexpr float log2_of_e = 1.4426950408889634f;
  return exp2_approximate((x - shift) * log2_of_e);
}

/// Begins to copy rows of `columns` elements to a tile, with zeros beyond up to a whole number of 16 rows. For a whole block.
template <int width, int warps>
__device__ void load_tile(bfloat16* tile, const bfloat16* x, index_t stride, int rows, int columns) {
  constexpr int packs = width / 8, step = warps * warp_threads / packs;
  const int column = static_cast<int>(threadIdx.x) % packs * 8, whole = (rows + 15) / 16 * 16;
  for (int row = static_cast<int>(threadIdx.x) / packs; row < whole; row += step) {
    const bool inside = row < rows && column < columns;
    cp_async_16(tile + row * tile_pitch<width> + column, inside ? x + row * stride + column : x, inside);
  }
}

/// c = x y^T for 16 rows x and 16 * steps rows y. c[n][i]: columns 8 n to 8 n + 7, as mma_16x8x16 has them; what is beyond the
/// steps becomes 0.
template <int width, int blocks>
__device__ void multiply_rows(const bfloat16* x, const bfloat16* y, int steps, float (&c)[blocks][4]) {
  constexpr int pitch = tile_pitch<width>;
#pragma unroll
  for (int n = 0; n < blocks; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) c[n][i] = 0.0f;
  const bfloat16* const x_row = x + lane() % 16 * pitch + lane() / 16 * 8;
  const bfloat16* const y_row = y + (lane() / 16 * 8 + lane() % 8) * pitch + lane() / 8 % 2 * 8;
  constexpr int part = 32;  // columns of x that a warp holds at a time
#pragma unroll
  for (int first = 0; first < width; first += part) {
    std::uint32_t a[part / 16][4], b[4];
#pragma unroll
    for (int d = 0; d < part; d += 16) ldmatrix_x4(a[d / 16], x_row + first + d);
#pragma unroll
    for (int step = 0; step < blocks / 2; ++step)
      if (step < steps) {
#pragma unroll
        for (int d = 0; d < part; d += 16) {
          ldmatrix_x4(b, y_row + step * 16 * pitch + first + d);
          mma_16x8x16(c[2 * step], a[d / 16], b[0], b[1]);
          mma_16x8x16(c[2 * step + 1], a[d / 16], b[2], b[3]);
        }
      }
  }
}

/// acc += p y for p [16, 16], as mma_16x8x16 takes it, and 16 rows y.
template <int width>
__device__ void add_product(const std::uint32_t (&p)[4], const bfloat16* y, float (&acc)[width / 8][4]) {
  const bfloat16* const row = y + lane() % 16 * tile_pitch<width> + lane() / 16 * 8;
#pragma unroll
  for (int n = 0; n < width / 16; ++n) {
    std::uint32_t b[4];
    ldmatrix_x4_transposed(b, row + n * 16);
    mma_16x8x16(acc[2 * n], p, b[0], b[1]);
    mma_16x8x16(acc[2 * n + 1], p, b[2], b[3]);
  }
}

/// out[r][c] = factor * acc for `rows` of a warp's 16 rows. `room`: as many rows of a tile, for this warp alone. For a whole
/// warp.
template <int width>
__device__ void store_rows(const float (&acc)[width / 8][4], const float (&factor)[2], bfloat16* room, bfloat16* out,
                           index_t stride, int rows, int columns) {
  constexpr int pitch = tile_pitch<width>, packs = width / 8;
  __syncwarp();  // all lanes are done with what was there
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      *reinterpret_cast<std::uint32_t*>(room + (lane() / 4 + r * 8) * pitch + n * 8 + lane() % 4 * 2) =
          pack_bfloat16(factor[r] * acc[n][2 * r], factor[r] * acc[n][2 * r + 1]);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * packs / warp_threads; ++i) {
    const int e = i * warp_threads + lane(), row = e / packs, column = e % packs * 8;
    if (row < rows && column < columns) store_pack(out + row * stride + column, load_pack(room + row * pitch + column));
  }
}

/// The sum and the largest of the four lanes that have the same rows.
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(all_lanes, value, 1);
  return value + __shfl_xor_sync(all_lanes, value, 2);
}
/// See quad_sum.
__device__ inline float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(all_lanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(all_lanes, value, 2));
}

/// Bit 4 n + i: whether dropout keeps element i of a lane's four in piece n of up to 8 pieces [16 queries, 8 keys], side by side,
/// the first of which begins at this query and key. The words of four keys come together; each lane draws one of its two rows'
/// and tells its neighbour, which has the other two of these keys. For a whole warp.
__device__ inline unsigned kept_by_queries(const AttentionSizes<float>& a, const AttentionBlock& b, int query, int key,
                                           int pieces) {
  if (!a.dropout) return 0xffffffffu;
  const int odd = lane() % 2;
  unsigned bits = 0;
#pragma unroll 2
  for (int n = 0; n < pieces; ++n) {
    const unsigned mine = b.kept(a, query + lane() / 4 + odd * 8, key + n * 8 + lane() % 4 / 2 * 4);
    const unsigned other = __shfl_xor_sync(all_lanes, mine, 1);
    const unsigned upper = (odd ? other : mine) >> (2 * odd) & 3u, lower = (odd ? mine : other) >> (2 * odd) & 3u;
    bits |= (upper | lower << 2) << (4 * n);
  }
  return bits;
}
/// The same for two pieces [16 keys, 8 queries]. Four lanes have the four keys of each of four draws.
__device__ inline unsigned kept_by_keys(const AttentionSizes<float>& a, const AttentionBlock& b, int query, int key) {
  if (!a.dropout) return 0xffffffffu;
  const int draw = lane() / 4 % 4, first = lane() - draw * 4;
  unsigned bits = 0;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const unsigned mine = b.kept(a, query + n * 8 + lane() % 4 * 2 + draw % 2, key + draw / 2 * 8 + lane() / 16 * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= (__shfl_sync(all_lanes, mine, first + 4 * i) >> draw & 1u) << (4 * n + i);
  }
  return bits;
}
/// Adds the bias to the scores of a thread's two queries, `query` and that plus 8, each of which sees the keys before `end`.
/// c[n]: of the keys from first + 8 n on, up to `pieces` of them.
template <int blocks>
__device__ void add_bias(const bfloat16* bias, index_t stride, int query, const int (&end)[2], int first, int pieces,
                         float (&c)[blocks][4]) {
#pragma unroll
  for (int n = 0; n < blocks; ++n)
    if (n < pieces) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + n * 8 + lane() % 4 * 2 + i % 2;
        if (key < end[i / 2]) c[n][i] += bias[(query + i / 2 * 8) * stride + key];
      }
    }
}

/// True if the kernels on tensor cores can do it: rows and heads of whole packs of eight, at most 128 wide.
template <class... T>
bool fits_tiles(const AttentionLayout& a, const T*... matrices) {
  if constexpr ((std::is_same_v<T, bfloat16> && ...))
    return a.d_k > 0 && a.d_v > 0 && a.d_k <= 128 && a.d_v <= 128 && (a.d_k | a.d_v) % 8 == 0 &&
           (a.q_stride | a.k_stride | a.v_stride | a.out_stride) % 8 == 0 && aligned(matrices...);
  else return false;
}
/// Calls f with the width of the tiles for these heads: an std::integral_constant.
template <class F>
void with_tile_width(const AttentionLayout& a, F&& f) {
  const index_t widest = std::max(a.d_k, a.d_v);
  if (widest <= 32) f(std::integral_constant<int, 32>{});
  else if (widest <= 64) f(std::integral_constant<int, 64>{});
  else f(std::integral_constant<int, 128>{});
}

}  // namespace attend::cuda
