#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/cuda/attention/attention_step_kernels.cuh"
#include "attend/cuda/device/memory.cuh"

namespace attend::cuda {

/// Runs an attention step over keys that `keys` finds. `packs`: their vectors begin on multiples of 16 bytes.
template <class T, class Keys>
void attention_step_rows(index_t rows, const StepSizes<T>& sizes, const Keys& keys, bool packs) {
  if (rows == 0 || sizes.heads == 0) return;
  constexpr int V = Pack<T>::count;
  const dim3 grid(static_cast<unsigned>(rows * sizes.heads));
  const auto run = [&](auto kernel) { launch("attention_step", kernel, grid, step_threads, 0, sizes, keys); };
  const int widest = std::max(sizes.d_k, sizes.d_v);
  packs = packs && sizes.d_k % V == 0 && sizes.d_v % V == 0 && sizes.q_stride % V == 0 && sizes.k_offset % V == 0 &&
          sizes.v_offset % V == 0 && sizes.out_stride % V == 0 && aligned(sizes.q, sizes.out);
  if (packs && widest <= 4 * V) run(attention_step_kernel<T, 4, Keys>);
  else if (packs && widest <= 8 * V) run(attention_step_kernel<T, 8, Keys>);
  else if (packs && widest <= 16 * V) run(attention_step_kernel<T, 16, Keys>);
  else if (packs && widest <= 32 * V) run(attention_step_kernel<T, 32, Keys>);
  else
    launch("attention_step", attention_step_general_kernel<T, Keys>, grid, step_threads, sizes.d_v * sizeof(Wide<T>), sizes,
           keys);
}

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's; `keys` and its table lie on the device too. Where a row is a multiple of 16 bytes, each slab begins on one.
template <class T>
void attention_step(Cuda, const StepHeads& heads, ConstMatrix<T> q, const SlabRows<T>& keys, Matrix<T> out) {
  cuda::attention_step_rows(out.rows, cuda::StepSizes<T>(heads, q, keys.layout, out, keys.bias), cuda::SlabKeys<T>{keys},
                            keys.layout.stride % cuda::Pack<T>::count == 0);
}

/// See the CPU's; `keys` with its lengths lies on the device too.
template <class T>
void cross_attention_step(Cuda, const StepHeads& heads, ConstMatrix<T> q, const SourceRows<T>& keys, Matrix<T> out) {
  cuda::attention_step_rows(out.rows, cuda::StepSizes<T>(heads, q, keys.layout, out), cuda::SourceKeys<T>{keys},
                            keys.layout.stride % cuda::Pack<T>::count == 0 && cuda::aligned(keys.data));
}

/// See the CPU's.
template <class T>
void cross_attention_weights_step(Cuda, const StepHeads& heads, ConstMatrix<T> q, const SourceRows<T>& keys,
                                  Matrix<Wide<T>> weights) {
  if (weights.rows == 0 || weights.columns == 0) return;
  cuda::launch("attention_weights", cuda::attention_weights_kernel<T, cuda::SourceKeys<T>>,
               dim3(static_cast<unsigned>(weights.rows)), cuda::step_threads, 0,
               cuda::StepSizes<T>(heads, q, keys.layout, Matrix<T>{}), cuda::SourceKeys<T>{keys}, weights);
}

/// *where = value, where a table of addresses lies on the device.
template <class T>
void store_pointer(Cuda, const T* value, const T** where) {
  cuda::launch("store_pointer", cuda::store_pointer_kernel<T>, 1, cuda::warp_threads, 0, value, where);
}

/// See the CPU's. rows is host memory.
inline void reorder_table(Cuda, const index_t* rows, Matrix<const std::int32_t> from, Matrix<std::int32_t> to) {
  if (to.rows == 0 || to.columns == 0) return;
  const auto device_rows = cuda::upload(rows, to.rows);
  cuda::launch("reorder_table", cuda::reorder_table_kernel<std::int32_t>, cuda::blocks_for(to.rows * to.columns),
               cuda::block_threads, 0, device_rows.data(), from, to);
}

/// See the CPU's.
inline void begin_table_step(Cuda, Matrix<std::int32_t> table, index_t step) {
  if (table.rows == 0) return;
  cuda::launch("begin_table_step", cuda::begin_table_step_kernel<std::int32_t>, cuda::blocks_for(table.rows), cuda::block_threads,
               0, table, step);
}

}  // namespace attend::kernels
