// What the device does at most: bytes copied, and products of large matrices by cuBLASLt.

#include "attend/cuda.hpp"
#include "inputs.hpp"
#include "parts.hpp"
#include "timing.hpp"

using namespace attend;

namespace gpu {

/// ceilings [small]. Says {"device", "cuda": what the program was built with, "driver": the CUDA of the driver}; a measurement
/// gives {"copy": bytes a second, read and written, "product": additions and multiplications a
/// second of bfloat16 matrices of 8,192 x 8,192}.
void ceilings(Arguments arguments) {
  const bool small = !arguments.empty() && arguments[0] == "small";
  const index_t bytes = index_t{1} << (small ? 16 : 31), n = small ? 64 : 8192;
  const double least = small ? 0 : 0.05;
  const auto x = random_numbers<bfloat16>({bytes / 2}), y = random_numbers<bfloat16>({bytes / 2});
  const auto a = random_numbers<bfloat16>({n, n}), b = random_numbers<bfloat16>({n, n});
  const Tensor<bfloat16, Cuda> c({n, n});
  cudaDeviceProp device{};
  int driver = 0;
  cuda::check(cudaGetDeviceProperties(&device, cuda::Context::instance().device()), "ceilings");
  cuda::check(cudaDriverGetVersion(&driver), "ceilings");
  Line ready;
  ready.add("device", std::string(device.name)).add("cuda", cuda::version_text(CUDART_VERSION));
  serve(ready.add("driver", cuda::version_text(driver)), [&] {
    const double copying = device_seconds(5, least, [&] { copy(Cuda{}, x.size(), x.data(), y.data()); });
    const kernels::Matrix<bfloat16> as{a.data(), n, n}, bs{b.data(), n, n}, cs{c.data(), n, n};
    const double multiplying = device_seconds(5, least, [&] { gemm(Cuda{}, as, bs.transpose(), cs); });
    const double size = static_cast<double>(n);
    Line line;
    line.add("copy", 2 * static_cast<double>(bytes) / copying).add("product", 2 * size * size * size / multiplying);
    return line;
  });
}

}  // namespace gpu
