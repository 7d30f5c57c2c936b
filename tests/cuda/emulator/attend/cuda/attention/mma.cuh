#pragma once
/// \file
/// Stands in for include/attend/cuda/attention/mma.cuh: the same functions in plain C++.

#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "attend/core/bfloat16.hpp"

namespace attend::cuda {

namespace emulated {

inline float half_of(std::uint32_t packed, int half) {
  return bfloat16::from_bits(static_cast<std::uint16_t>(packed >> (16 * half)));
}

/// Copies that a thread has begun. What was there goes at once, and the new bytes come when the thread waits for them: whoever
/// still reads the old or already reads the new finds NaN.
struct Copies {
  struct Copy {
    void* to;
    const void* from;
    bool inside;
  };
  std::size_t launch = 0;
  uint3 block{};
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> open;

  static Copies& of_thread() {
    static std::vector<Copies> all(1024);
    Copies& mine = all[threadIdx.x];
    const std::size_t launch = emulator::launches_run();
    const uint3 at = blockIdx;
    if (mine.launch == launch && mine.block.x == at.x && mine.block.y == at.y && mine.block.z == at.z) return mine;
    bool left = !mine.open.empty();
    for (const auto& group : mine.groups) left = left || !group.empty();
    mine = {launch, at, {}, {}};
    if (left) throw emulator::Fault("a block ended before its asynchronous copies");
    return mine;
  }
  void wait(std::size_t pending) {
    const std::size_t done = groups.size() > pending ? groups.size() - pending : 0;
    for (std::size_t i = 0; i < done; ++i)
      for (const Copy& copy : groups[i]) {
        if (copy.inside) std::memcpy(copy.to, copy.from, 16);
        else std::memset(copy.to, 0, 16);
      }
    groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(done));
  }
};

struct alignas(16) Row {
  std::uint16_t x[8];
};
/// Row j of piece i in place 8 * i + j. Every lane reads its row before any goes on.
inline std::array<Row, 32> gather_rows(const void* row) {
  return emulator::warp_gather(*emulator::aligned(static_cast<const Row*>(row)));
}

}  // namespace emulated

inline void mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  struct Registers {
    std::uint32_t a[4], b[2];
  };
  emulator::warp_combine(Registers{{a[0], a[1], a[2], a[3]}, {b0, b1}}, c, [](const void* const* in, void* const* out) {
    const auto of = [&](int lane) -> const Registers& { return *static_cast<const Registers*>(in[lane]); };
    float left[16][16], right[8][16];
    for (int k = 0; k < 16; ++k) {
      for (int m = 0; m < 16; ++m) left[m][k] = emulated::half_of(of(m % 8 * 4 + k % 8 / 2).a[m / 8 + k / 8 * 2], k % 2);
      for (int n = 0; n < 8; ++n) right[n][k] = emulated::half_of(of(n * 4 + k % 8 / 2).b[k / 8], k % 2);
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        const float* const row = left[lane / 4 + i / 2 * 8];
        const float* const column = right[lane % 4 * 2 + i % 2];
        float& sum = static_cast<float*>(out[lane])[i];
        for (int k = 0; k < 16; ++k) sum += row[k] * column[k];
      }
  });
}

inline void ldmatrix_x4(std::uint32_t (&pieces)[4], const void* row) {
  const auto rows = emulated::gather_rows(row);
  const std::size_t lane = threadIdx.x % 32;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint16_t* x = rows[8 * i + lane / 4].x + lane % 4 * 2;
    pieces[i] = x[0] | std::uint32_t{x[1]} << 16;
  }
}
inline void ldmatrix_x4_transposed(std::uint32_t (&pieces)[4], const void* row) {
  const auto rows = emulated::gather_rows(row);
  const std::size_t lane = threadIdx.x % 32;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t first = 8 * i + lane % 4 * 2;
    pieces[i] = rows[first].x[lane / 4] | std::uint32_t{rows[first + 1].x[lane / 4]} << 16;
  }
}

inline void cp_async_16(void* shared, const void* global, bool inside) {
  (void)emulator::aligned(static_cast<const emulated::Row*>(shared));
  (void)emulator::aligned(static_cast<const emulated::Row*>(global));
  emulated::Copies::of_thread().open.push_back({shared, global, inside});
  std::memset(shared, 0xff, 16);
}
inline void cp_async_commit() {
  auto& copies = emulated::Copies::of_thread();
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}
template <int pending>
void cp_async_wait() {
  emulated::Copies::of_thread().wait(pending);
}

inline std::uint32_t pack_bfloat16(float low, float high) {
  return bfloat16(low).bits | static_cast<std::uint32_t>(bfloat16(high).bits) << 16;
}
inline float exp2_approximate(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}

}  // namespace attend::cuda
