#pragma once
/// \file
/// What the emulator's own tests are written with: CUDA's objects, which free themselves, and errors that fail a test.

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "catch.hpp"

namespace emulator_test {

inline void ok(cudaError_t error) { REQUIRE(std::string(cudaGetErrorName(error)) == "cudaSuccess"); }

template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) { ok(cudaMalloc(&data_, count * sizeof(T))); }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    ok(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    ok(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) { ok(cudaStreamCreateWithFlags(&handle, flags)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(handle); }
  cudaStream_t handle = nullptr;
};
struct Event {
  Event() { ok(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(handle); }
  cudaEvent_t handle = nullptr;
};
template <class T>
struct Pinned {
  explicit Pinned(std::size_t count) { ok(cudaMallocHost(&data, count * sizeof(T))); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(data); }
  T* data = nullptr;
};

inline cudaLaunchConfig_t config(dim3 grid, dim3 block, std::size_t shared = 0, cudaStream_t stream = nullptr) {
  cudaLaunchConfig_t c{};
  c.gridDim = grid;
  c.blockDim = block;
  c.dynamicSmemBytes = shared;
  c.stream = stream;
  return c;
}
template <class... P, class... A>
void run(dim3 grid, dim3 block, std::size_t shared, void (*kernel)(P...), A... arguments) {
  const cudaLaunchConfig_t c = config(grid, block, shared);
  ok(cudaLaunchKernelEx(&c, kernel, arguments...));
  ok(cudaDeviceSynchronize());
}

}  // namespace emulator_test
