#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "attend/core/bfloat16.hpp"
#include "attend/core/random.hpp"
#include "attend/core/types.hpp"
#include "attend/cuda/device/runtime.cuh"

/// What kernels are written with. Everything here runs on the device.
namespace attend::cuda {

/// Threads of a warp, and a mask of all of them.
inline constexpr int warp_threads = 32;
/// A mask of all lanes.
inline constexpr unsigned all_lanes = 0xffffffffu;

/// Plus infinity.
template <class W>
__device__ inline W infinity();
template <>
__device__ inline float infinity<float>() {
  return __int_as_float(0x7f800000);
}
template <>
__device__ inline double infinity<double>() {
  return __longlong_as_double(0x7ff0000000000000ll);
}

/// The block's dynamic shared memory.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char attend_dynamic_shared[];
  return reinterpret_cast<T*>(attend_dynamic_shared);
}

/// This thread among all of a one-dimensional grid, and how many there are: for loops that stride over an array.
__device__ inline index_t grid_thread() { return static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
/// Threads of the grid.
__device__ inline index_t grid_threads() { return static_cast<index_t>(gridDim.x) * blockDim.x; }
/// This thread in its warp, and its warp in the block.
__device__ inline int lane() { return static_cast<int>(threadIdx.x) % warp_threads; }
/// This warp in its block.
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / warp_threads; }

/// The sum of all lanes' values, in every lane, added up in a fixed order.
template <class W>
__device__ W warp_sum(W value) {
  for (int step = warp_threads / 2; step > 0; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
  return value;
}
/// The largest of all lanes' values, in every lane.
template <class W>
__device__ W warp_max(W value) {
  for (int step = warp_threads / 2; step > 0; step /= 2) {
    const W other = __shfl_xor_sync(all_lanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}
/// The sum of all threads' values of a block, in every thread. `room` is shared memory for a value a warp. To be called by all
/// threads together.
template <class W>
__device__ W block_sum(W value, W* room) {
  value = warp_sum(value);
  if (lane() == 0) room[warp()] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / warp_threads;
  value = warp_sum(lane() < warps ? room[lane()] : W(0));
  __syncthreads();  // so that `room` may be used again
  return value;
}
/// The largest of all threads' values of a block, in every thread.
template <class W>
__device__ W block_max(W value, W* room) {
  value = warp_max(value);
  if (lane() == 0) room[warp()] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / warp_threads;
  value = warp_max(lane() < warps ? room[lane()] : -infinity<W>());
  __syncthreads();
  return value;
}

/// 16 bytes of numbers, which a thread reads and writes at a time.
template <class T>
struct alignas(16) Pack {
  static constexpr int count = 16 / static_cast<int>(sizeof(T));
  T x[count];
};
/// The pack at p, which must lie on a multiple of 16 bytes.
template <class T>
__device__ Pack<T> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T>*>(p);
}
/// Writes a pack to such a place in global memory.
template <class T>
__device__ void store_pack(T* p, const Pack<T>& pack) {
#if defined(__CUDA_ARCH__)
  // By an instruction: nvcc 13 takes an assignment apart, down to single numbers, unless it sees how p came about.
  uint4 words;
  memcpy(&words, &pack, sizeof(words));
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(p)), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
#else
  *reinterpret_cast<Pack<T>*>(p) = pack;
#endif
}
/// *p = value, in device memory, a pack in one piece.
template <class E>
__device__ void put(E* p, const E& value) {
  *p = value;
}
/// The same of a pack, at once.
template <class T>
__device__ void put(Pack<T>* p, const Pack<T>& value) {
  store_pack(reinterpret_cast<T*>(p), load_pack(value.x));  // at once: nvcc fetches a pack behind a reference byte by byte
}
/// True if all these addresses lie on multiples of 16 bytes, null included. For the host, before it chooses a kernel.
template <class... T>
bool aligned(const T*... p) {
  return ((reinterpret_cast<std::uintptr_t>(p) % 16 == 0) && ...);
}

/// Functions of C by one name for both types.
__device__ inline float exp(float x) { return ::expf(x); }
__device__ inline double exp(double x) { return ::exp(x); }
__device__ inline float log(float x) { return ::logf(x); }
__device__ inline double log(double x) { return ::log(x); }
__device__ inline float tanh(float x) { return ::tanhf(x); }
__device__ inline double tanh(double x) { return ::tanh(x); }
__device__ inline float sqrt(float x) { return ::sqrtf(x); }
__device__ inline double sqrt(double x) { return ::sqrt(x); }

/// Records what a kernel found wrong; only the first report counts.
__device__ inline void report(Fault* fault, int kind, int operation, long long at, long long value, long long limit) {
  if (atomicCAS(&fault->kind, static_cast<int>(Fault::none), kind) != Fault::none) return;
  fault->operation = operation;
  fault->at = at, fault->value = value, fault->limit = limit;
  __threadfence_system();
}

/// A stream of random numbers as a kernel takes it: what `Generator::Stream` gives on the host, bit for bit.
struct RandomStream {
  std::uint64_t key, stream;
  const std::uint64_t* offset;  ///< see Context::stream_offset

  /// The four words that elements 4 * index to 4 * index + 3 get.
  __device__ uint4 words(std::uint64_t index) const {
    const std::uint64_t number = stream + *offset;
    std::uint32_t c0 = static_cast<std::uint32_t>(index), c1 = static_cast<std::uint32_t>(index >> 32);
    std::uint32_t c2 = static_cast<std::uint32_t>(number), c3 = static_cast<std::uint32_t>(number >> 32);
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint32_t a_high = __umulhi(0xD2511F53u, c0), a_low = 0xD2511F53u * c0;
      const std::uint32_t b_high = __umulhi(0xCD9E8D57u, c2), b_low = 0xCD9E8D57u * c2;
      c0 = b_high ^ c1 ^ k0;
      c1 = b_low;
      c2 = a_high ^ c3 ^ k1;
      c3 = a_low;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
  }
};
/// The stream for a kernel.
inline RandomStream random_stream(const Generator::Stream& s) { return {s.key, s.stream, Context::instance().stream_offset()}; }

}  // namespace attend::cuda
