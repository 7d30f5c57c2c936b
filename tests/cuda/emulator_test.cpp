// The emulator itself: that it finds what it is there to find.

#include <cmath>

#include "cuda/emulator_objects.hpp"

namespace {

using namespace emulator_test;

struct InOrder {
  explicit InOrder(emulator::Order order) : before(emulator::order_now()) { emulator::set_order(order); }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;
  ~InOrder() { emulator::set_order(before); }
  emulator::Order before;
};

// The sums of blocks of x, and how many threads each has.
template <class T>
__global__ void block_sums(const T* x, T* sums, int n) {
  static __shared__ T partial[32];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  T sum = i < n ? x[i] : T(0);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : T(0);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, static_cast<unsigned>(step));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Every thread writes where its neighbour reads, with or without a barrier between.
template <bool barrier>
__global__ void neighbours(int* out) {
  int* room = reinterpret_cast<int*>(emulator::dynamic_shared());
  room[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (barrier) __syncthreads();
  out[threadIdx.x] = room[(threadIdx.x + 1) % blockDim.x];
}

__global__ void shuffles(long long* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const long long big = (1LL << 40) + lane;
  out[lane] = __shfl_sync(0xffffffff, big, 3, 8);
  out[32 + lane] = __shfl_up_sync(0xffffffff, big, 2, 8);
  out[64 + lane] = __shfl_down_sync(0xffffffff, big, 2, 8);
  out[96 + lane] = __shfl_xor_sync(0xffffffff, big, 9, 8);
  out[128 + lane] = __ballot_sync(0xffffffff, lane % 3 == 0);
  out[160 + lane] = __any_sync(0xffffffff, lane == 7) * 2 + __all_sync(0xffffffff, lane < 31);
  out[192 + lane] = emulator::warp_gather(big)[static_cast<std::size_t>(31 - lane)];
  // Two halves of a warp, apart from each other.
  const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
  out[224 + lane] = __shfl_sync(half, lane, lane < 16 ? 5 : 21);
}

__global__ void count(int* out) {
  const int odd = threadIdx.x % 2;
  const int all = __syncthreads_count(odd);
  out[threadIdx.x] = all * 100 + __syncthreads_or(threadIdx.x == 5) * 10 + __syncthreads_and(odd);
}

__global__ void leave_out_a_barrier() {
  if (threadIdx.x != 40) __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < 32) __syncthreads();
  else __syncthreads();
}
__global__ void shuffle_apart(int* out) {
  if (threadIdx.x % 2 == 0) out[threadIdx.x] = __shfl_sync(0xffffffff, 1, 0);
  else out[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1, 1);
}
void sum_of_all(const void* const* in, void* const* out) {
  for (int lane = 0; lane < 32; ++lane) *static_cast<int*>(out[lane]) = 0;
  for (int lane = 0; lane < 32; ++lane)
    for (int other = 0; other < 32; ++other) *static_cast<int*>(out[lane]) += *static_cast<const int*>(in[other]);
}
__global__ void combine(int* out) { emulator::warp_combine(static_cast<int>(threadIdx.x), out[threadIdx.x], sum_of_all); }
__global__ void meet() { __syncwarp(); }
__global__ void combine_apart(int* out) {
  if (threadIdx.x == 5) emulator::warp_combine(1, out[threadIdx.x], sum_of_all);
  else emulator::warp_combine(1, out[threadIdx.x], sum_of_all);
}
__global__ void end_before_others() {
  if (threadIdx.x < 31) __syncwarp();
}
__global__ void warp_and_block() {
  if (threadIdx.x == 0) __syncwarp();
  else __syncthreads();
}
__global__ void trap() { __trap(); }
[[maybe_unused]] __global__ void write_past(int bytes) { emulator::dynamic_shared()[bytes] = 0; }
__global__ void read_shared(float* out) { *out = reinterpret_cast<const float*>(emulator::dynamic_shared())[7]; }

template <class F>
std::string fault(F&& call) {
  try {
    call();
  } catch (const emulator::Fault& f) {
    return f.what();
  }
  return "no fault";
}

using Catch::Matchers::ContainsSubstring;

}  // namespace

TEST_CASE("emulator: a block adds up by shuffles and shared memory, in any order", "[cuda]") {
  const auto order = GENERATE(emulator::Order::forward, emulator::Order::reverse, emulator::Order::shuffle);
  const InOrder in_order(order);
  std::vector<double> x(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  const OnDevice<double> in(x), out(4);
  run(4, 256, 0, block_sums<double>, in.data(), out.data(), 1000);
  CHECK(out.values() == std::vector<double>{32640, 98176, 163712, 204972});
}

TEST_CASE("emulator: shuffles move values as the hardware does", "[cuda]") {
  const OnDevice<long long> out(256);
  run(1, 32, 0, shuffles, out.data());
  const std::vector<long long> got = out.values();
  const long long big = 1LL << 40;
  for (int lane = 0; lane < 32; ++lane) {
    const int begin = lane / 8 * 8;
    CHECK(got[lane] == big + begin + 3);
    CHECK(got[32 + lane] == big + (lane - 2 >= begin ? lane - 2 : lane));
    CHECK(got[64 + lane] == big + (lane + 2 < begin + 8 ? lane + 2 : lane));
    CHECK(got[96 + lane] == big + ((lane ^ 9) < begin + 8 ? lane ^ 9 : lane));
    CHECK(got[128 + lane] == 0x49249249);
    CHECK(got[160 + lane] == 2);
    CHECK(got[192 + lane] == big + 31 - lane);
    CHECK(got[224 + lane] == (lane < 16 ? 5 : 21));
  }
}

TEST_CASE("emulator: one lane combines what all brought", "[cuda]") {
  const OnDevice<int> out(64);
  run(1, 64, 0, combine, out.data());
  auto expected = std::vector<int>(32, 496);
  expected.resize(64, 1520);
  CHECK(out.values() == expected);
}

TEST_CASE("emulator: barriers count", "[cuda]") {
  const OnDevice<int> out(64);
  run(1, 64, 0, count, out.data());
  CHECK(out.values() == std::vector<int>(64, 3210));
}

TEST_CASE("emulator: a missing barrier shows as results that depend on the order", "[cuda]") {
  const OnDevice<int> out(64);
  const auto in = [&](emulator::Order order, void (*kernel)(int*)) {
    const InOrder in_order(order);
    run(1, 64, 256, kernel, out.data());
    return out.values();
  };
  CHECK(in(emulator::Order::forward, neighbours<true>) == in(emulator::Order::reverse, neighbours<true>));
  CHECK(in(emulator::Order::forward, neighbours<true>) == in(emulator::Order::shuffle, neighbours<true>));
  CHECK(in(emulator::Order::forward, neighbours<false>) != in(emulator::Order::reverse, neighbours<false>));
}

TEST_CASE("emulator: divergence is a fault that says where", "[cuda]") {
  const OnDevice<int> out(64);
  CHECK_THAT(fault([] { run(2, 64, 0, leave_out_a_barrier); }), ContainsSubstring("thread (40, 0, 0) of block") &&
                                                                    ContainsSubstring("__syncthreads (") &&
                                                                    ContainsSubstring("emulator_test.cpp:"));
  CHECK_THAT(fault([] { run(1, 64, 0, two_barriers); }), ContainsSubstring("different barriers"));
  CHECK_THAT(fault([&] { run(1, 64, 0, shuffle_apart, out.data()); }),
             ContainsSubstring("different calls") && ContainsSubstring("__shfl_xor_sync"));
  CHECK_THAT(fault([&] { run(1, 32, 0, combine_apart, out.data()); }),
             ContainsSubstring("different calls") && ContainsSubstring("warp_combine"));
  run(1, 32, 0, meet);  // has forgotten what was to be combined
  CHECK_THAT(fault([] { run(1, 32, 0, end_before_others); }), ContainsSubstring("ended"));
  CHECK_THAT(fault([] { run(1, 64, 0, warp_and_block); }), ContainsSubstring("no thread can go on"));
  CHECK_THAT(fault([] { run(1, 64, 0, trap); }), ContainsSubstring("__trap"));
  // After all these, blocks run as before.
  run(1, 64, 0, count, out.data());
  CHECK(out.values() == std::vector<int>(64, 3210));
}

TEST_CASE("emulator: dynamic shared memory begins as NaN and ends where it was said to", "[cuda]") {
  const OnDevice<float> out(1);
  run(1, 1, 32, read_shared, out.data());
  CHECK(std::isnan(out.values()[0]));
#if !defined(EMULATOR_ADDRESS_SANITIZER)
  CHECK(fault([] { run(1, 1, 100, write_past, 99); }) == "no fault");
  CHECK_THAT(fault([] { run(1, 1, 100, write_past, 100); }), ContainsSubstring("past its 100 bytes"));
#endif
}

TEST_CASE("emulator: launches keep to the limits of the hardware", "[cuda]") {
  const emulator::Quiet quiet;
  const auto launch = [](dim3 grid, dim3 block, std::size_t shared, void (*kernel)()) {
    const cudaLaunchConfig_t c = config(grid, block, shared);
    const cudaError_t error = cudaLaunchKernelEx(&c, kernel);
    CHECK(cudaGetLastError() == error);
    CHECK(cudaGetLastError() == cudaSuccess);
    cudaDeviceSynchronize();
    return error;
  };
  constexpr auto kernel = +[] {};
  CHECK(launch(1, 1024, 0, kernel) == cudaSuccess);
  CHECK(launch(1, 1025, 0, kernel) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, dim3(32, 32, 2), 0, kernel) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1, 65536), 32, 0, kernel) == cudaErrorInvalidConfiguration);
  CHECK(launch(0, 32, 0, kernel) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, 32, 48 * 1024, kernel) == cudaSuccess);
  CHECK(launch(1, 32, 48 * 1024 + 1, kernel) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  ok(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  CHECK(launch(1, 32, 227 * 1024, kernel) == cudaSuccess);
}
