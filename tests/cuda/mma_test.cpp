#include "attend/cuda/attention/mma.cuh"

#include <cmath>
#include <limits>
#include <vector>

#include "attend/cuda/device/device.cuh"
#include "attend/cuda/device/launch.cuh"
#include "cuda/device.hpp"

using namespace attend;

namespace mma_test {  // nvcc takes no kernels in an unnamed namespace with Catch's test cases

constexpr int pitch = 24;  // of rows of 16 in shared memory

/// z = x y^T + x y for matrices of 16 x 16, of whose rows those from `rows` on count as zeros.
__global__ void products_kernel(const bfloat16* x, const bfloat16* y, int rows, float* z) {
  alignas(16) static __shared__ bfloat16 x_tile[16 * pitch], y_tile[16 * pitch];
  const int row = cuda::lane() / 2, column = cuda::lane() % 2 * 8;
  cuda::cp_async_16(x_tile + row * pitch + column, x + row * 16 + column, row < rows);
  cuda::cp_async_commit();
  cuda::cp_async_16(y_tile + row * pitch + column, y + row * 16 + column, row < rows);
  cuda::cp_async_commit();
  cuda::cp_async_wait<1>();
  __syncthreads();
  std::uint32_t a[4], b[4];
  cuda::ldmatrix_x4(a, x_tile + cuda::lane() % 16 * pitch + cuda::lane() / 16 * 8);
  cuda::cp_async_wait<0>();
  __syncthreads();
  float c[2][4] = {};
  cuda::ldmatrix_x4(b, y_tile + (cuda::lane() / 16 * 8 + cuda::lane() % 8) * pitch + cuda::lane() / 8 % 2 * 8);
  cuda::mma_16x8x16(c[0], a, b[0], b[1]);
  cuda::mma_16x8x16(c[1], a, b[2], b[3]);
  cuda::ldmatrix_x4_transposed(b, y_tile + cuda::lane() % 16 * pitch + cuda::lane() / 16 * 8);
  cuda::mma_16x8x16(c[0], a, b[0], b[1]);
  cuda::mma_16x8x16(c[1], a, b[2], b[3]);
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 4; ++i) z[(cuda::lane() / 4 + i / 2 * 8) * 16 + n * 8 + cuda::lane() % 4 * 2 + i % 2] = c[n][i];
}

__global__ void numbers_kernel(const float* x, std::uint32_t* packed, float* powers) {
  const int i = static_cast<int>(threadIdx.x);
  packed[i] = cuda::pack_bfloat16(x[i], -x[i] - 1.0f);
  powers[i] = cuda::exp2_approximate(x[i]);
}

TEST_CASE("cuda: products on tensor cores") {
  if (!device::present()) return;
  const auto x = device::converted<bfloat16>(device::random<float>({16, 16}, 1));
  const auto y = device::converted<bfloat16>(device::random<float>({16, 16}, 2));
  const auto x_device = x.to<Cuda>(), y_device = y.to<Cuda>();
  for (const int rows : {16, 5}) {
    const Tensor<double> expected({16, 16}, 0.0);
    const auto at = [rows](const Tensor<bfloat16>& m, int i, int j) { return i < rows ? static_cast<double>(m(i, j)) : 0.0; };
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j)
        for (int k = 0; k < 16; ++k) expected(i, j) += at(x, i, k) * (at(y, j, k) + at(y, k, j));
    const Tensor<float, Cuda> z({16, 16}, 7.0f);
    cuda::launch("mma", products_kernel, 1, cuda::warp_threads, 0, x_device.data(), y_device.data(), rows, z.data());
    CHECK(device::difference(z, expected, 1e-6) == "");
  }
}

TEST_CASE("cuda: numbers are packed, and powers of two taken") {
  if (!device::present()) return;
  const auto x = device::random<float>({32}, 3);
  x(0) = -std::numeric_limits<float>::infinity(), x(1) = -130.0f, x(2) = 0.0f, x(3) = 1.00390625f;  // a tie, to even
  const Tensor<float, Cuda> powers(x.shape());
  const cuda::Buffer<std::uint32_t> packed(x.size());
  const auto x_device = x.to<Cuda>();
  cuda::launch("mma", numbers_kernel, 1, cuda::warp_threads, 0, x_device.data(), packed.data(), powers.data());
  std::vector<std::uint32_t> pairs(32);
  copy_to_host(Cuda{}, 32, packed.data(), pairs.data());
  const auto got = powers.to_host();
  for (index_t i = 0; i < 32; ++i) {
    const std::uint32_t low = bfloat16(x(i)).bits, high = bfloat16(-x(i) - 1.0f).bits;
    CHECK(pairs[static_cast<std::size_t>(i)] == (low | high << 16));
    CHECK(got(i) == Approx(i < 2 ? 0.0 : std::exp2(static_cast<double>(x(i)))).epsilon(1e-6));
  }
}

}  // namespace mma_test
