#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/cuda/attention/attention_step_kernels.cuh"
#include "attend/cuda/device/memory.cuh"

namespace attend::cuda {

/// The sizes of an attention step as its kernels read them.
template <class T>
StepSizes<T> step_sizes(index_t heads, index_t d_k, index_t d_v, double scale, const T* q, index_t q_stride, index_t k_offset,
                        index_t v_offset, T* out, index_t out_stride) {
  return {static_cast<int>(heads),
          static_cast<int>(d_k),
          static_cast<int>(d_v),
          static_cast<Wide<T>>(scale),
          q,
          q_stride,
          k_offset,
          v_offset,
          out,
          out_stride};
}

/// Runs an attention step over keys that `keys` finds. `packs`: their vectors begin on multiples of 16 bytes.
template <class T, class Keys>
void attention_step_rows(index_t rows, const StepSizes<T>& sizes, const Keys& keys, bool packs) {
  if (rows == 0 || sizes.heads == 0) return;
  constexpr int V = Pack<T>::count;
  const dim3 grid(static_cast<unsigned>(rows * sizes.heads));
  const auto run = [&](auto kernel) { launch("attention_step", kernel, grid, step_threads, 0, sizes, keys); };
  const int widest = std::max(sizes.d_k, sizes.d_v);
  packs = packs && sizes.d_k % V == 0 && sizes.d_v % V == 0 && sizes.q_stride % V == 0 && sizes.k_offset % V == 0 &&
          sizes.v_offset % V == 0 && aligned(sizes.q);
  if (packs && widest <= 4 * V) run(attention_step_kernel<T, 4, Keys>);
  else if (packs && widest <= 8 * V) run(attention_step_kernel<T, 8, Keys>);
  else if (packs && widest <= 16 * V) run(attention_step_kernel<T, 16, Keys>);
  else if (packs && widest <= 32 * V) run(attention_step_kernel<T, 32, Keys>);
  else
    launch("attention_step", attention_step_general_kernel<T, Keys>, grid, step_threads,
           static_cast<std::size_t>(sizes.d_v) * sizeof(Wide<T>), sizes, keys);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// Masked self-attention of each row's newest token, over a cache that is never copied: what was computed at step t stays in
/// slab t, and a table says in which row of it each prefix went on.
///   out[r] = softmax(scale * q[r] . k) v over the `steps` rows slabs[t][table[r][t]], head by head.
/// q [rows, heads * d_k], out [rows, heads * d_v]; slabs[t] [its rows, slab_stride], each row with the keys of all heads at
/// k_offset and the values at v_offset; table [rows, steps], table_stride elements from row to row.
/// slabs [steps] is device memory too. Where a row of slab_stride elements is a multiple of 16 bytes, each slab begins on one.
template <class T>
void attention_step(Cuda, index_t rows, index_t heads, index_t d_k, index_t d_v, index_t steps, double scale, const T* q,
                    index_t q_stride, const T* const* slabs, index_t k_offset, index_t v_offset, index_t slab_stride,
                    const std::int32_t* table, index_t table_stride, T* out, index_t out_stride) {
  const auto sizes = cuda::step_sizes(heads, d_k, d_v, scale, q, q_stride, k_offset, v_offset, out, out_stride);
  const cuda::SlabKeys<T> keys{slabs, table, table_stride, slab_stride, static_cast<int>(steps)};
  cuda::attention_step_rows(rows, sizes, keys, slab_stride % cuda::Pack<T>::count == 0);
}

/// Cross-attention of each row's newest token: row r attends to the rows begins[r] to begins[r] + lengths[r] of kv; rows of one
/// sentence share them. With lengths[r] = 0 the result is 0.
/// q [rows, heads * d_k], out [rows, heads * d_v]; kv [source rows, kv_stride], each row with the keys of all heads at k_offset
/// and the values at v_offset. begins and lengths are device memory too.
template <class T>
void cross_attention_step(Cuda, index_t rows, index_t heads, index_t d_k, index_t d_v, double scale, const T* q, index_t q_stride,
                          const T* kv, index_t k_offset, index_t v_offset, index_t kv_stride, const index_t* begins,
                          const index_t* lengths, T* out, index_t out_stride) {
  const auto sizes = cuda::step_sizes(heads, d_k, d_v, scale, q, q_stride, k_offset, v_offset, out, out_stride);
  const cuda::SourceKeys<T> keys{kv, kv_stride, begins, lengths};
  cuda::attention_step_rows(rows, sizes, keys, kv_stride % cuda::Pack<T>::count == 0 && cuda::aligned(kv));
}

/// The weights of such a step, mean over the heads: weights[r, j] of the j-th of row r's keys, 0 for j from lengths[r] up to
/// `longest`, which no length exceeds. weights [rows, longest].
template <class T>
void cross_attention_weights_step(Cuda, index_t rows, index_t heads, index_t d_k, double scale, const T* q, index_t q_stride,
                                  const T* kv, index_t k_offset, index_t kv_stride, const index_t* begins, const index_t* lengths,
                                  index_t longest, Wide<T>* weights) {
  if (rows == 0 || longest == 0) return;
  const auto sizes = cuda::step_sizes<T>(heads, d_k, index_t{0}, scale, q, q_stride, k_offset, index_t{0}, nullptr, index_t{0});
  const cuda::SourceKeys<T> keys{kv, kv_stride, begins, lengths};
  cuda::launch("attention_weights", cuda::attention_weights_kernel<T, cuda::SourceKeys<T>>, dim3(static_cast<unsigned>(rows)),
               cuda::step_threads, 0, sizes, keys, static_cast<int>(longest), weights);
}

/// y[r] = x[r], rows of `width` elements at these strides.
template <class T>
void copy_rows(Cuda, index_t rows, index_t width, const T* x, index_t x_stride, T* y, index_t y_stride) {
  using cuda::Pack;
  if (rows == 0 || width == 0) return;
  constexpr index_t V = Pack<T>::count;
  const auto run = [&](auto kernel, index_t count, const auto* from, auto* to) {
    cuda::launch("copy_rows", kernel, cuda::blocks_for(rows * width / count), cuda::block_threads, 0, rows, width / count, from,
                 x_stride / count, to, y_stride / count);
  };
  if (width % V == 0 && x_stride % V == 0 && y_stride % V == 0 && cuda::aligned(x, y))
    run(cuda::copy_rows_kernel<Pack<T>>, V, reinterpret_cast<const Pack<T>*>(x), reinterpret_cast<Pack<T>*>(y));
  else run(cuda::copy_rows_kernel<T>, 1, x, y);
}

/// *where = value, where a table of addresses lies on the device.
template <class T>
void store_pointer(Cuda, const T* value, const T** where) {
  cuda::launch("store_pointer", cuda::store_pointer_kernel<T>, 1, cuda::warp_threads, 0, value, where);
}

/// Row i of `to` becomes row rows[i] of `from`, for i < count: the first `steps` entries of tables with these strides. rows is
/// host memory.
inline void reorder_table(Cuda, index_t count, index_t steps, const index_t* rows, const std::int32_t* from, index_t from_stride,
                          std::int32_t* to, index_t to_stride) {
  if (count == 0 || steps == 0) return;
  const auto device_rows = cuda::upload(rows, count);
  cuda::launch("reorder_table", cuda::reorder_table_kernel<std::int32_t>, cuda::blocks_for(count * steps), cuda::block_threads, 0,
               count, steps, device_rows.data(), from, from_stride, to, to_stride);
}

/// table[r, step] = r: at its newest step, every prefix stands in its own row.
inline void begin_table_step(Cuda, index_t rows, index_t step, std::int32_t* table, index_t stride) {
  if (rows == 0) return;
  cuda::launch("begin_table_step", cuda::begin_table_step_kernel<std::int32_t>, cuda::blocks_for(rows), cuda::block_threads, 0,
               rows, step, table, stride);
}

}  // namespace attend::kernels
