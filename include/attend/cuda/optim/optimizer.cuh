#pragma once

#include <type_traits>

#include "attend/cuda/device/device.cuh"
#include "attend/cuda/elements/basic.cuh"
#include "attend/kernels/optimizer.hpp"

/// One optimizer step over all parameters of a model at once, which lie end to end in one buffer.
namespace attend::cuda {

// Templates, because a kernel that is none cannot stand in a header that two files include.
/// Begins an update from the sum of the gradients' squares: norm, clipping, and whether it is taken.
template <class Record>
__global__ void begin_update_kernel(const double* squares, double max_norm, Record* record) {
  if (threadIdx.x > 0) return;
  const double norm = ::sqrt(*squares);
  const bool taken = norm - norm == 0;
  record->norm = norm;
  record->taken = taken;
  record->gradient_scale = max_norm > 0 && max_norm < norm + 1e-6 ? max_norm / (norm + 1e-6) : 1.0;
  if (taken) ++record->steps;
  else ++record->skipped;
}
/// Begins an update whose gradients are multiplied by `gradient_scale`, left out where that makes their norm more than `largest`.
template <class Record>
__global__ void begin_update_scaled_kernel(const double* squares, double gradient_scale, double largest, Record* record) {
  if (threadIdx.x > 0) return;
  const double norm = ::sqrt(*squares);
  const bool taken = norm * gradient_scale <= largest;
  record->norm = norm;
  record->taken = taken;
  record->gradient_scale = gradient_scale;
  if (taken) ++record->steps;
  else ++record->skipped;
}
/// Counts an update of which the host knows that it is left out.
template <class Record>
__global__ void begin_update_left_out_kernel(double norm, Record* record) {
  if (threadIdx.x > 0) return;
  record->norm = norm;
  record->taken = false;
  ++record->skipped;
}

/// The number that an optimizer works on. Where it keeps wider copies of its own, somebody else may have changed the parameter
/// meanwhile: then that counts.
template <class T, class W>
__device__ W current(const W& own, const T& rounded) {
  return static_cast<W>(static_cast<T>(own)) == static_cast<W>(rounded) ? own : static_cast<W>(rounded);
}

/// Packs that follow each other.
template <class W, int parts>
struct Packs {
  Pack<W> part[parts];
};
/// Those at p.
template <int parts, class W>
__device__ Packs<W, parts> load_packs(const W* p) {
  Packs<W, parts> packs;
#pragma unroll
  for (int i = 0; i < parts; ++i) packs.part[i] = load_pack(p + i * Pack<W>::count);
  return packs;
}
/// Those at p become `packs`.
template <class W, int parts>
__device__ void store_packs(W* p, const Packs<W, parts>& packs) {
#pragma unroll
  for (int i = 0; i < parts; ++i) store_pack(p + i * Pack<W>::count, packs.part[i]);
}

/// An update by a rule, 16 bytes of gradients a thread at a time. All that is read of them is on its way before any is written.
template <class T, class W, class Rule, class... Memory>
__global__ void rule_kernel(index_t n, Rule rule, const UpdateRecord* record, const T* gradient, W* value, T* rounded,
                            Memory*... memory) {
  static_assert((std::is_same_v<Memory, W> && ...));
  static __shared__ typename Rule::template Update<W> shared;
  if (!record->taken) return;  // all threads alike
  if (threadIdx.x == 0) shared = rule.template prepare<W>(*record);
  __syncthreads();
  const auto update = shared;
  constexpr int count = Pack<T>::count, wide = Pack<W>::count, parts = count / wide;  // the buffers are made of whole cache lines
  for (index_t i = count * grid_thread(); i < n; i += count * grid_threads()) {
    const Pack<T> g = load_pack(gradient + i);
    Pack<T> r{};
    if (rounded) r = load_pack(rounded + i);
    const auto move = [&](Packs<W, parts> values, auto... remembered) {
#pragma unroll
      for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int k = 0; k < wide; ++k) {
          W& p = values.part[part].x[k];
          if (rounded) p = current(p, r.x[part * wide + k]);
          update(static_cast<W>(g.x[part * wide + k]), p, remembered.part[part].x[k]...);
          if (rounded) r.x[part * wide + k] = static_cast<T>(p);
        }
      (store_packs(memory + i, remembered), ...);
      store_packs(value + i, values);
    };
    move(load_packs<parts>(value + i), load_packs<parts>(memory + i)...);
    if (rounded) store_pack(rounded + i, r);
  }
}

/// average = keep * average + (1 - keep) * value, unless the record, if not null, says that no update was taken.
template <class T, class W>
__global__ void average_kernel(index_t n, W keep, const UpdateRecord* record, const T* value, W* average) {
  if (record && !record->taken) return;
  for (index_t i = grid_thread(); i < n; i += grid_threads())
    average[i] = (W(1) - keep) * static_cast<W>(value[i]) + keep * average[i];
}

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's. The sum and the record lie on the device.
inline void begin_update_from(Cuda, const double* squares, double max_norm, UpdateRecord* record) {
  cuda::launch("update", cuda::begin_update_kernel<UpdateRecord>, 1, 32, 0, squares, max_norm, record);
}
/// See the CPU's. The record lies on the device.
template <class T>
void begin_update(Cuda, index_t n, const T* gradient, double max_norm, UpdateRecord* record) {
  const cuda::Buffer<double> squares(1);
  cuda::sum_of_squares_into(n, gradient, squares.data());
  begin_update_from(Cuda{}, squares.data(), max_norm, record);
}
/// See the CPU's. The record lies on the device.
template <class T>
void begin_update_scaled(Cuda, index_t n, const T* gradient, double gradient_scale, UpdateRecord* record) {
  const cuda::Buffer<double> squares(1);
  cuda::sum_of_squares_into(n, gradient, squares.data());
  cuda::launch("update", cuda::begin_update_scaled_kernel<UpdateRecord>, 1, 32, 0, squares.data(), gradient_scale,
               largest_norm<T>, record);
}
/// See the CPU's. The record lies on the device.
inline void begin_update_left_out(Cuda, UpdateRecord* record) {
  cuda::launch("update", cuda::begin_update_left_out_kernel<UpdateRecord>, 1, 32, 0, std::numeric_limits<double>::quiet_NaN(),
               record);
}

/// See the CPU's. The arrays are made of whole 16 bytes and begin on them, as those of FlatParameters do. `rounded`, where not
/// null, receives the values in the type of the model.
template <class T, UpdateRule Rule, class... Memory>
void update_by(Cuda, index_t n, const Rule& rule, const UpdateRecord* record, const T* gradient, Wide<T>* value, T* rounded,
               Memory*... memory) {
  constexpr index_t count = cuda::Pack<T>::count;
  check_value(n % count == 0, "optimizer", n, " numbers, expected a multiple of ", count);
  if (n == 0) return;
  cuda::launch("optimizer", cuda::rule_kernel<T, Wide<T>, Rule, Memory...>, cuda::blocks_for(n / count), cuda::block_threads, 0,
               n, rule, record, gradient, value, rounded, memory...);
}
/// See the CPU's.
template <class T>
void average_step(Cuda, index_t n, std::type_identity_t<Wide<T>> keep, const UpdateRecord* record, const T* value,
                  Wide<T>* average) {
  if (n == 0) return;
  cuda::launch("average", cuda::average_kernel<T, Wide<T>>, cuda::blocks_for(n), cuda::block_threads, 0, n, keep, record, value,
               average);
}

/// y[i] = x[i] in another type.
template <class From, class To>
void convert(Cuda, index_t n, const From* x, To* y) {
  cuda::convert(n, x, y);
}

}  // namespace attend::kernels
