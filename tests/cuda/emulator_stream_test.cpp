// The emulator's streams, graphs and memory.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/emulator_objects.hpp"

namespace {

using namespace emulator_test;

__global__ void add_one(int* x) { x[threadIdx.x] += 1; }
[[maybe_unused]] __global__ void add_at(int* x, int at) { x[at] += 1; }
__global__ void twice(const int* x, int* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
__global__ void trap() { __trap(); }
__global__ void set_host(int* host) { *host = 42; }

template <class... P, class... A>
cudaError_t launch(cudaStream_t stream, void (*kernel)(P...), A... arguments) {
  const cudaLaunchConfig_t c = config(1, 32, 0, stream);
  return cudaLaunchKernelEx(&c, kernel, arguments...);
}

/// The error, which is also what is asked for afterwards.
cudaError_t taken(cudaError_t error) {
  CHECK(cudaGetLastError() == error);
  return error;
}

/// The signal that a process which does this dies of; 0 if it lives.
template <class F>
int signal_of(F&& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    act();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("emulator: a stream does nothing before somebody waits", "[cuda]") {
  const Stream stream;
  const Event event;
  const OnDevice<int> x(std::vector<int>(32, 5));
  const Pinned<int> pinned(32);
  std::fill_n(pinned.data, 32, -7);
  const cudaLaunchConfig_t c = config(1, 32, 0, stream.handle);
  ok(cudaLaunchKernelEx(&c, add_one, x.data()));
  ok(cudaMemcpyAsync(pinned.data, x.data(), 128, cudaMemcpyDeviceToHost, stream.handle));
  ok(cudaEventRecord(event.handle, stream.handle));
  ok(cudaMemsetAsync(x.data(), 0, 128, stream.handle));
  CHECK(pinned.data[31] == -7);
  CHECK(taken(cudaEventQuery(event.handle)) == cudaErrorNotReady);
  ok(cudaEventSynchronize(event.handle));
  CHECK(pinned.data[31] == 6);
  ok(cudaEventQuery(event.handle));
  CHECK(taken(cudaStreamQuery(stream.handle)) == cudaErrorNotReady);
  ok(cudaStreamSynchronize(stream.handle));
  CHECK(x.values() == std::vector<int>(32, 0));
}

TEST_CASE("emulator: pinned memory that is reused too early is seen, ordinary memory is staged", "[cuda]") {
  const Stream stream;
  const OnDevice<int> x(1), y(1);
  const Pinned<int> pinned(1);
  int ordinary = *pinned.data = 1;
  ok(cudaMemcpyAsync(x.data(), pinned.data, 4, cudaMemcpyHostToDevice, stream.handle));
  ok(cudaMemcpyAsync(y.data(), &ordinary, 4, cudaMemcpyHostToDevice, stream.handle));
  *pinned.data = ordinary = 2;
  ok(cudaStreamSynchronize(stream.handle));
  CHECK(x.values()[0] == 2);
  CHECK(y.values()[0] == 1);
  // A copy into ordinary memory has happened when the call returns.
  ordinary = 0;
  ok(cudaMemcpyAsync(&ordinary, x.data(), 4, cudaMemcpyDeviceToHost, stream.handle));
  CHECK(ordinary == 2);
}

TEST_CASE("emulator: streams wait for events, and else for nobody", "[cuda]") {
  const Stream first, second;
  const Event event;
  const OnDevice<int> x(std::vector<int>(32, 1)), y(32);
  ok(launch(first.handle, add_one, x.data()));
  const bool waits = GENERATE(false, true);
  if (waits) {
    ok(cudaEventRecord(event.handle, first.handle));
    ok(cudaStreamWaitEvent(second.handle, event.handle, 0));
  }
  ok(launch(first.handle, add_one, x.data()));
  ok(launch(second.handle, twice, static_cast<const int*>(x.data()), y.data()));
  ok(cudaStreamSynchronize(second.handle));
  CHECK(taken(cudaStreamQuery(first.handle)) == cudaErrorNotReady);
  CHECK(y.values()[0] == (waits ? 4 : 2));
  ok(cudaDeviceSynchronize());
  CHECK(x.values()[0] == 3);
}

TEST_CASE("emulator: blocking streams and the null stream wait for each other", "[cuda]") {
  const unsigned flags = GENERATE(unsigned{cudaStreamDefault}, unsigned{cudaStreamNonBlocking});
  const Stream stream(flags);
  const OnDevice<int> x(std::vector<int>(32, 1)), y(32), z(32);
  ok(launch(stream.handle, add_one, x.data()));
  ok(launch(nullptr, twice, static_cast<const int*>(x.data()), y.data()));
  ok(launch(stream.handle, twice, static_cast<const int*>(y.data()), z.data()));
  ok(cudaStreamSynchronize(stream.handle));
  CHECK(z.values()[0] == (flags == cudaStreamDefault ? 8 : -2));
  ok(cudaDeviceSynchronize());
  ok(launch(stream.handle, add_one, x.data()));
  ok(launch(nullptr, twice, static_cast<const int*>(x.data()), y.data()));
  ok(cudaStreamSynchronize(nullptr));
  CHECK(y.values()[0] == (flags == cudaStreamDefault ? 6 : 4));
}

TEST_CASE("emulator: a stream's work outlives it", "[cuda]") {
  const OnDevice<int> x(std::vector<int>(32, 1));
  {
    const Stream stream;
    ok(launch(stream.handle, add_one, x.data()));
  }
  ok(cudaDeviceSynchronize());
  CHECK(x.values()[0] == 2);
}

TEST_CASE("emulator: what was captured runs as often as it is launched", "[cuda]") {
  const Stream stream, other;
  const Event fork, join;
  const OnDevice<int> x(std::vector<int>(32, 1)), y(32);
  const Pinned<int> result(32);
  ok(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal));
  ok(launch(stream.handle, add_one, x.data()));
  ok(cudaEventRecord(fork.handle, stream.handle));
  ok(cudaStreamWaitEvent(other.handle, fork.handle, 0));
  ok(launch(other.handle, twice, static_cast<const int*>(x.data()), y.data()));
  cudaStreamCaptureStatus status{};
  ok(cudaStreamIsCapturing(other.handle, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  ok(cudaEventRecord(join.handle, other.handle));
  ok(cudaStreamWaitEvent(stream.handle, join.handle, 0));
  ok(cudaMemcpyAsync(result.data, y.data(), 128, cudaMemcpyDeviceToHost, stream.handle));
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(stream.handle, &graph));
  ok(cudaStreamIsCapturing(stream.handle, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(x.values()[0] == 1);  // capturing does nothing
  cudaGraphExec_t exec = nullptr;
  ok(cudaGraphInstantiate(&exec, graph, 0));
  ok(cudaGraphDestroy(graph));
  for (int time = 0; time < 3; ++time) ok(cudaGraphLaunch(exec, stream.handle));
  ok(cudaGraphExecDestroy(exec));
  CHECK(result.data[0] == -1);
  ok(cudaStreamSynchronize(stream.handle));
  CHECK(x.values()[0] == 4);
  CHECK(result.data[0] == 8);
}

TEST_CASE("emulator: what CUDA forbids within a capture breaks it off", "[cuda]") {
  const emulator::Quiet quiet;
  const Stream stream, other;
  const Event event;
  const OnDevice<int> x(32);
  int host[32];
  void* more = nullptr;
  cudaGraph_t graph = nullptr;
  const auto broken_by = [&](auto&& call, cudaError_t by, cudaError_t end) {
    ok(cudaEventRecord(event.handle, other.handle));
    ok(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal));
    CHECK(taken(call()) == by);
    CHECK(taken(cudaStreamEndCapture(stream.handle, &graph)) == end);
    CHECK(graph == nullptr);
  };
  constexpr cudaError_t unsupported = cudaErrorStreamCaptureUnsupported, invalidated = cudaErrorStreamCaptureInvalidated;
  broken_by([&] { return cudaMalloc(&more, 16); }, unsupported, invalidated);
  broken_by([&] { return cudaFree(x.data()); }, unsupported, invalidated);
  broken_by([&] { return cudaStreamSynchronize(stream.handle); }, unsupported, invalidated);
  broken_by([&] { return cudaDeviceSynchronize(); }, unsupported, invalidated);
  broken_by([&] { return cudaEventQuery(event.handle); }, unsupported, invalidated);
  broken_by([&] { return cudaEventSynchronize(event.handle); }, unsupported, invalidated);
  broken_by([&] { return cudaMemcpyAsync(host, x.data(), 128, cudaMemcpyDeviceToHost, stream.handle); }, unsupported,
            invalidated);
  broken_by([&] { return cudaMemcpyAsync(x.data(), host, 128, cudaMemcpyHostToDevice, stream.handle); }, unsupported,
            invalidated);
  broken_by([&] { return cudaStreamWaitEvent(stream.handle, event.handle, 0); }, cudaErrorStreamCaptureIsolation, invalidated);
  // A stream that joined and was not waited for, or that went on after what was waited for.
  for (const int works : {0, 1, 2}) {
    ok(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal));
    ok(cudaEventRecord(event.handle, stream.handle));
    ok(cudaStreamWaitEvent(other.handle, event.handle, 0));
    ok(cudaEventRecord(event.handle, other.handle));
    if (works == 1) ok(launch(other.handle, add_one, x.data()));
    if (works != 0) ok(cudaStreamWaitEvent(stream.handle, event.handle, 0));
    if (works == 2) ok(launch(other.handle, add_one, x.data()));
    CHECK(taken(cudaStreamEndCapture(stream.handle, &graph)) == cudaErrorStreamCaptureUnjoined);
  }
  // All is as before.
  ok(launch(stream.handle, add_one, x.data()));
  ok(cudaStreamSynchronize(stream.handle));
  CHECK(x.values()[0] == 0);
}

TEST_CASE("emulator: the host cannot touch device memory", "[cuda]") {
#if !defined(EMULATOR_ADDRESS_SANITIZER) && !defined(EMULATOR_THREAD_SANITIZER)
  const OnDevice<int> x(std::vector<int>(32, 1));
  volatile int* p = x.data();
  CHECK(signal_of([] {}) == 0);
  // Often, because with the many blocks that other tests may have left it is not closed each time.
  const auto after_kernels = [&](auto&& act) {
    for (int i = 0; i < 20; ++i) {
      launch(nullptr, add_one, x.data());
      cudaDeviceSynchronize();
      act();
    }
  };
  CHECK(signal_of([&] { after_kernels([] {}); }) == 0);
  CHECK(signal_of([&] { after_kernels([&] { [[maybe_unused]] const int value = p[3]; }); }) == SIGSEGV);
  CHECK(signal_of([&] { after_kernels([&] { p[3] = 1; }); }) == SIGSEGV);
  // Nor may a kernel go past the end, where that is a page's.
  CHECK(signal_of([&] {
          launch(nullptr, add_at, x.data(), 64);
          cudaDeviceSynchronize();
        }) == SIGSEGV);
  CHECK(x.values()[3] == 1);

  // With many blocks it is closed after some kernels alone, and a host that keeps following the pointer still dies.
  std::vector<std::unique_ptr<OnDevice<int>>> many;
  for (int i = 0; i < 64; ++i) many.push_back(std::make_unique<OnDevice<int>>(1));
  CHECK(signal_of([&] {
          for (int i = 0; i < 64; ++i) {
            launch(nullptr, add_one, x.data());
            cudaDeviceSynchronize();
            [[maybe_unused]] const int value = p[3];
          }
        }) == SIGSEGV);
#endif
}

TEST_CASE("emulator: a kernel cannot be handed host memory", "[cuda]") {
  int host[32] = {};
  CHECK_THROWS_AS(launch(nullptr, add_one, &host[0]), emulator::Fault);
  int* freed = nullptr;
  ok(cudaMalloc(&freed, 128));
  ok(cudaFree(freed));
  CHECK_THROWS_AS(launch(nullptr, add_one, freed), emulator::Fault);
}

TEST_CASE("emulator: after a fault nothing that was queued is done", "[cuda]") {
  const Stream stream;
  const OnDevice<int> x(std::vector<int>(32, 1));
  ok(launch(stream.handle, trap));
  ok(launch(stream.handle, add_one, x.data()));
  CHECK_THROWS_AS(cudaStreamSynchronize(stream.handle), emulator::Fault);
  ok(cudaStreamSynchronize(stream.handle));
  CHECK(x.values()[0] == 1);
}

TEST_CASE("emulator: a kernel writes to pinned memory", "[cuda]") {
  const Pinned<int> pinned(1);
  void* device = nullptr;
  ok(cudaHostGetDevicePointer(&device, pinned.data, 0));
  ok(launch(nullptr, set_host, static_cast<int*>(device)));
  CHECK(*pinned.data == -1);
  ok(cudaDeviceSynchronize());
  CHECK(*pinned.data == 42);
}

TEST_CASE("emulator: memory runs out, and comes back", "[cuda]") {
  const std::size_t before = emulator::device_memory_in_use();
  emulator::set_device_memory(before + 1000);
  void *a = nullptr, *b = nullptr;
  ok(cudaMalloc(&a, 600));
  CHECK(taken(cudaMalloc(&b, 401)) == cudaErrorMemoryAllocation);
  CHECK(b == nullptr);
  std::size_t free = 0, total = 0;
  ok(cudaMemGetInfo(&free, &total));
  CHECK(free == 400);
  CHECK(total == before + 1000);
  ok(cudaFree(a));
  ok(cudaMalloc(&b, 1000));
  std::vector<unsigned char> bytes(1000);
  ok(cudaMemcpy(bytes.data(), b, 1000, cudaMemcpyDeviceToHost));
  CHECK(bytes == std::vector<unsigned char>(1000, 0xff));
  ok(cudaFree(b));
  CHECK(taken(cudaFree(b)) == cudaErrorInvalidValue);
  emulator::set_device_memory(std::size_t{4} << 30);
}

TEST_CASE("emulator: copies must lie where their kind says", "[cuda]") {
  const emulator::Quiet quiet;
  const OnDevice<int> x(32);
  int host[64] = {};
  CHECK(taken(cudaMemcpy(x.data(), host, 129, cudaMemcpyHostToDevice)) == cudaErrorInvalidValue);
  CHECK(taken(cudaMemcpy(x.data(), host, 128, cudaMemcpyDeviceToHost)) == cudaErrorInvalidValue);
  CHECK(taken(cudaMemcpy(x.data(), host, 128, cudaMemcpyDeviceToDevice)) == cudaErrorInvalidValue);
  CHECK(taken(cudaMemcpy(x.data(), host, 128, cudaMemcpyDefault)) == cudaErrorInvalidMemcpyDirection);
  ok(cudaMemcpy(x.data(), host, 128, cudaMemcpyHostToDevice));
}

TEST_CASE("emulator: a machine without a device", "[cuda]") {
  emulator::set_device_count(0);
  int count = -1;
  void* at = nullptr;
  cudaStream_t stream = nullptr;
  CHECK(taken(cudaGetDeviceCount(&count)) == cudaErrorNoDevice);
  CHECK(count == 0);
  CHECK(taken(cudaMalloc(&at, 16)) == cudaErrorNoDevice);
  CHECK(taken(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) == cudaErrorNoDevice);
  CHECK(taken(cudaSetDevice(0)) == cudaErrorNoDevice);
  emulator::set_device_count(1);
  ok(cudaSetDevice(0));
}

TEST_CASE("emulator: a thread has a current device, whose streams alone take its kernels and events", "[cuda]") {
  const emulator::Quiet quiet;
  emulator::set_device_count(2);
  {
    const Stream first;
    const Event early;
    const OnDevice<int> x(std::vector<int>(32, 5));
    ok(cudaSetDevice(1));
    const Stream second;
    const Event late;
    const OnDevice<int> y(std::vector<int>(32, 5));
    int device = 0;
    ok(cudaGetDevice(&device));
    CHECK(device == 1);
    const auto lies_on = [](const int* at) {
      cudaPointerAttributes attributes{};
      ok(cudaPointerGetAttributes(&attributes, at));
      return attributes.device;
    };
    CHECK(lies_on(x.data() + 7) == 0);
    CHECK(lies_on(y.data() + 7) == 1);
    CHECK(taken(launch(first.handle, add_one, x.data())) == cudaErrorInvalidResourceHandle);
    ok(launch(second.handle, add_one, y.data()));
    CHECK(taken(cudaEventRecord(early.handle, second.handle)) == cudaErrorInvalidResourceHandle);
    CHECK(taken(cudaEventRecord(late.handle, first.handle)) == cudaErrorInvalidResourceHandle);
    ok(cudaEventRecord(late.handle, second.handle));
    ok(cudaEventRecord(early.handle, first.handle));
    ok(cudaMemsetAsync(x.data(), 0, 128, first.handle));
    CHECK(taken(cudaSetDevice(2)) == cudaErrorInvalidDevice);
    ok(cudaDeviceSynchronize());
    CHECK(x.values() == std::vector<int>(32, 0));
    CHECK(y.values() == std::vector<int>(32, 6));
    ok(cudaSetDevice(0));
    ok(launch(first.handle, add_one, x.data()));
    CHECK(x.values() == std::vector<int>(32, 0));  // the null stream does not wait for `first`
    ok(cudaStreamSynchronize(first.handle));
    CHECK(x.values() == std::vector<int>(32, 1));
  }
  emulator::set_device_count(1);
}
