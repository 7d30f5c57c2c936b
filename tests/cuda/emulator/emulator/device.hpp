#pragma once
/// \file
/// What a kernel calls: its place, barriers, exchanges within a warp, atomics, loads.

#include <array>
#include <cstring>
#include <type_traits>

#include "emulator/block.hpp"

// Names of the block and of dynamic shared memory as the library's own header declares it, within a function of this namespace.
namespace attend::cuda {
/// 227 KiB and a margin in which writes past the end are noticed.
inline constexpr unsigned long emulated_shared_bytes = 227 * 1024;
alignas(1024) inline unsigned char attend_dynamic_shared[emulated_shared_bytes + 1024];
}  // namespace attend::cuda

inline const uint3& threadIdx = emulator::place.thread;
inline const uint3& blockIdx = emulator::place.block;
inline const dim3& blockDim = emulator::place.block_size;
inline const dim3& gridDim = emulator::place.grid_size;
inline constexpr int warpSize = 32;

// The place of a call is part of what threads must agree in.
#define EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace emulator {

/// The dynamic shared memory of the block that runs.
inline unsigned char* dynamic_shared() { return attend::cuda::attend_dynamic_shared; }

/// Every lane of the warp brings `value`, all meet, and each gets all 32 values. For operations of a whole warp, such as a
/// product on matrix units.
template <class T>
std::array<T, 32> warp_gather(const T& value, EMULATOR_SITE) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::array<T, 32> all;
  Block::here().combine({"warp_gather", file, line}, 0xffffffffU, &value, &all, [](const void* const* in, void* const* out) {
    std::array<T, 32> values;
    for (std::size_t lane = 0; lane < 32; ++lane) std::memcpy(&values[lane], in[lane], sizeof(T));
    for (std::size_t lane = 0; lane < 32; ++lane) std::memcpy(out[lane], &values, sizeof(values));
  });
  return all;
}

/// Every lane of the warp brings `in`, all meet, and `together` makes of what they brought what is left in `out` of each.
template <class In, class Out>
void warp_combine(const In& in, Out& out, Block::Together together, EMULATOR_SITE) {
  Block::here().combine({"warp_combine", file, line}, 0xffffffffU, &in, &out, together);
}

/// What CUDA's shuffles take: numbers of 32 and 64 bits.
template <class T>
concept Shuffled = std::is_arithmetic_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

template <class T>
T shuffle(const char* name, unsigned mask, T value, int source, const char* file, int line) {
  T result;
  Block::here().exchange({name, file, line}, mask, &value, &result, sizeof(T), source);
  return result;
}

/// The first and the last lane of this lane's part of a warp that is cut into parts of `width`.
inline int part_begin(int width) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0)
    throw Fault("the width of a shuffle must be a power of two up to 32");
  return static_cast<int>(Block::here().lane()) & ~(width - 1);
}

}  // namespace emulator

inline void __syncthreads(EMULATOR_SITE) { emulator::Block::here().barrier({"__syncthreads", file, line}, 0); }
inline int __syncthreads_count(int predicate, EMULATOR_SITE) {
  return emulator::Block::here().barrier({"__syncthreads_count", file, line}, predicate);
}
inline int __syncthreads_or(int predicate, EMULATOR_SITE) {
  return emulator::Block::here().barrier({"__syncthreads_or", file, line}, predicate) != 0;
}
inline int __syncthreads_and(int predicate, EMULATOR_SITE) {
  emulator::Block& block = emulator::Block::here();
  return block.barrier({"__syncthreads_and", file, line}, predicate) == static_cast<int>(block.size());
}
inline void __syncwarp(unsigned mask = 0xffffffffU, EMULATOR_SITE) {
  emulator::Block::here().combine({"__syncwarp", file, line}, mask, nullptr, nullptr, nullptr);
}

template <emulator::Shuffled T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMULATOR_SITE) {
  return emulator::shuffle("__shfl_sync", mask, value, emulator::part_begin(width) | (lane & (width - 1)), file, line);
}
template <emulator::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, EMULATOR_SITE) {
  const int lane = static_cast<int>(emulator::Block::here().lane());
  const int from = (lane ^ lane_mask) & 31;
  return emulator::shuffle("__shfl_xor_sync", mask, value, from < emulator::part_begin(width) + width ? from : lane, file, line);
}
template <emulator::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_SITE) {
  const int lane = static_cast<int>(emulator::Block::here().lane());
  const int from = lane + static_cast<int>(delta & 31U);
  return emulator::shuffle("__shfl_down_sync", mask, value, from < emulator::part_begin(width) + width ? from : lane, file, line);
}
template <emulator::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_SITE) {
  const int lane = static_cast<int>(emulator::Block::here().lane());
  const int from = lane - static_cast<int>(delta & 31U);
  return emulator::shuffle("__shfl_up_sync", mask, value, from >= emulator::part_begin(width) ? from : lane, file, line);
}

namespace emulator {
inline unsigned ballot(const char* name, unsigned mask, int predicate, const char* file, int line) {
  const unsigned char mine = predicate != 0;
  unsigned bits = 0;
  Block::here().combine({name, file, line}, mask, &mine, &bits, [](const void* const* in, void* const* out) {
    unsigned all = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
      if (in[lane] != nullptr) all |= static_cast<unsigned>(*static_cast<const unsigned char*>(in[lane])) << lane;
    for (unsigned lane = 0; lane < 32; ++lane)
      if (out[lane] != nullptr) *static_cast<unsigned*>(out[lane]) = all;
  });
  return bits;
}
}  // namespace emulator

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATOR_SITE) {
  return emulator::ballot("__ballot_sync", mask, predicate, file, line);
}
inline int __any_sync(unsigned mask, int predicate, EMULATOR_SITE) {
  return emulator::ballot("__any_sync", mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMULATOR_SITE) {
  return emulator::ballot("__all_sync", mask, predicate, file, line) == mask;
}
/// The lanes that have not ended. On hardware it may be fewer.
inline unsigned __activemask() { return emulator::Block::here().alive(); }

#undef EMULATOR_SITE

// One thread runs at a time, so these are atomic as they stand.
#define EMULATOR_ATOMICS(T)                        \
  inline T atomicAdd(T* at, T value) {             \
    const T old = *at;                             \
    *at = static_cast<T>(old + value);             \
    return old;                                    \
  }                                                \
  inline T atomicExch(T* at, T value) {            \
    const T old = *at;                             \
    *at = value;                                   \
    return old;                                    \
  }                                                \
  inline T atomicCAS(T* at, T expected, T value) { \
    const T old = *at;                             \
    if (old == expected) *at = value;              \
    return old;                                    \
  }                                                \
  inline T atomicMin(T* at, T value) {             \
    const T old = *at;                             \
    if (value < old) *at = value;                  \
    return old;                                    \
  }                                                \
  inline T atomicMax(T* at, T value) {             \
    const T old = *at;                             \
    if (value > old) *at = value;                  \
    return old;                                    \
  }                                                \
  inline T atomicOr(T* at, T value) {              \
    const T old = *at;                             \
    *at = old | value;                             \
    return old;                                    \
  }                                                \
  inline T atomicAnd(T* at, T value) {             \
    const T old = *at;                             \
    *at = old & value;                             \
    return old;                                    \
  }
EMULATOR_ATOMICS(int)
EMULATOR_ATOMICS(unsigned)
EMULATOR_ATOMICS(unsigned long long)
#undef EMULATOR_ATOMICS
/// CUDA has these, but a sum that they make depends on the order of threads: results would differ from run to run.
float atomicAdd(float* at, float value) = delete;
double atomicAdd(double* at, double value) = delete;
/// Counts up, and from `limit` back to 0.
inline unsigned atomicInc(unsigned* at, unsigned limit) {
  const unsigned old = *at;
  *at = old >= limit ? 0 : old + 1;
  return old;
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
/// Ends the kernel with a Fault.
[[noreturn]] inline void __trap() { throw emulator::Fault("a kernel called __trap"); }
/// Only rises; it measures nothing.
inline long long clock64() {
  static long long ticks = 0;
  return ++ticks;
}

namespace emulator {
template <class T>
const T* aligned(const T* at) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(T) != 0) throw Fault("a load or store of a vector that is not aligned");
  return at;
}
}  // namespace emulator

// Loads and stores with a hint to the caches: plain ones, that look at the alignment.
template <class T>
T __ldg(const T* at) {
  return *emulator::aligned(at);
}
template <class T>
T __ldca(const T* at) {
  return *emulator::aligned(at);
}
template <class T>
T __ldcg(const T* at) {
  return *emulator::aligned(at);
}
template <class T>
T __ldcs(const T* at) {
  return *emulator::aligned(at);
}
template <class T>
void __stcg(T* at, std::type_identity_t<T> value) {
  *const_cast<T*>(emulator::aligned(at)) = value;
}
template <class T>
void __stcs(T* at, std::type_identity_t<T> value) {
  *const_cast<T*>(emulator::aligned(at)) = value;
}
template <class T>
void __stwt(T* at, std::type_identity_t<T> value) {
  *const_cast<T*>(emulator::aligned(at)) = value;
}
