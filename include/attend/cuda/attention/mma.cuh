#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// Instructions of the device that C++ has no words for: products on tensor cores, and copies to shared memory that go on while
/// the threads do something else. From compute capability 8.0.
///
/// Tensor cores work on pieces of a matrix that the 32 lanes of a warp hold together. With g = lane / 4 and t = lane % 4:
/// - a piece of 8 x 8 bfloat16: a lane has a register with the elements (g, 2t) and (g, 2t + 1), the first in the lower half;
/// - a[4] of 16 x 16, [m, k]: the pieces (0, 0), (8, 0), (0, 8), (8, 8), each by its first row and column;
/// - b0, b1 of 16 x 8, [k, n]: the pieces (0, 0) and (8, 0), each transposed: a lane has (2t, g) and (2t + 1, g);
/// - c[4] of 16 x 8 floats, [m, n]: the elements (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
/// So the c[4] of two neighbouring pieces, packed pair by pair, are the a[4] of the next product.
namespace attend::cuda {

/// c += a b. For a whole warp.
__device__ inline void mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Loads four pieces of 8 x 8 from shared memory: lane 8 * i + j says where row j of piece i begins, on a multiple of 16 bytes.
/// For a whole warp.
__device__ inline void ldmatrix_x4(std::uint32_t (&pieces)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
/// The same, each piece transposed on the way.
__device__ inline void ldmatrix_x4_transposed(std::uint32_t (&pieces)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Begins to copy 16 bytes to shared memory, or, if not `inside`, to put zeros there; then `global` is not read. Both addresses
/// are multiples of 16 bytes.
__device__ inline void cp_async_16(void* shared, const void* global, bool inside) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(__cvta_generic_to_global(global)), "r"(inside ? 16 : 0)
      : "memory");
}
/// Makes one group of the copies that this thread has begun since the last group.
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for this thread's groups but the last `pending` ones. Other threads see the bytes after the next barrier.
template <int pending>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Two numbers rounded to bfloat16, the first in the lower half.
__device__ inline std::uint32_t pack_bfloat16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
/// 2^x to within two units in the last place; 0 if that is denormal.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace attend::cuda
