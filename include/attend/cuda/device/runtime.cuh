#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "attend/core/error.hpp"
#include "attend/core/types.hpp"

/// The device as the kernels find it: one stream, and whatever went wrong on it.
namespace attend {

/// CUDA refused something: there is no device, its driver is too old, a kernel failed.
struct CudaError : Error {
  using Error::Error;
};

namespace cuda {

/// `12.4` for 12040.
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Throws CudaError `operation: CUDA says ...` unless the status is success.
inline void check(cudaError_t status, const char* operation) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not report it again
  throw CudaError(operation, ": CUDA says ", cudaGetErrorName(status), ", ", cudaGetErrorString(status));
}

/// Why no device can be used; empty if one can.
inline std::string unavailable() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) (void)cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    return "cuda: the driver " + (driver ? "supports CUDA " + version_text(driver) : std::string("is missing or too old")) +
           ", this program was built with CUDA " + version_text(CUDART_VERSION) + "; update the driver";
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    return "cuda: there is no NVIDIA GPU on this machine, or CUDA_VISIBLE_DEVICES hides it";
  if (status != cudaSuccess) return std::string("cuda: no device can be used: CUDA says ") + cudaGetErrorString(status);
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "cuda");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cuda");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cuda");
  if (major < 8)
    return "cuda: device " + std::to_string(device) + " has compute capability " + std::to_string(major) + "." +
           std::to_string(minor) + ", expected 8.0 (Ampere) or later";
  return {};
}
/// True if there is a device that the library can use.
inline bool available() { return unavailable().empty(); }

/// What a kernel found wrong in its input. It says so here, in memory that host and device share, and goes on without reading
/// out of bounds; the host throws when it next waits for the device.
struct Fault {
  /// What was found.
  enum Kind : int { none, token, label, not_a_number };
  int kind;
  int operation;  ///< see Context::operation_name
  long long at, value, limit;
};

/// Makes a device the current one of this thread while it stands in scope, and afterwards the one that was. If that fails, the
/// calls that follow fail too, and report it.
class DeviceScope {
 public:
  /// Until its end, `device` is this thread's.
  explicit DeviceScope(int device) noexcept {
    int current = device;
    if (cudaGetDevice(&current) == cudaSuccess && current != device && cudaSetDevice(device) == cudaSuccess) before_ = current;
  }
  ~DeviceScope() {
    if (before_ >= 0) (void)cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = -1;
};

/// The device of this process with its stream: everything the library does on it happens in the order of the calls.
class Context {
 public:
  /// Throws CudaError if no device can be used. It is never destroyed, so that tensors of static duration may outlive `main`.
  static Context& instance() {
    static Context* context = new Context;
    return *context;
  }

  /// The one stream, and the number of its device.
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] int device() const { return device_; }
  /// 80 for compute capability 8.0, 90 for 9.0.
  [[nodiscard]] int capability() const { return capability_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }

  /// As long as one of these lives, the device is this thread's: no other thread gives it anything to do, and it is the thread's
  /// current one, whichever the program has chosen for itself.
  class Held {
   public:
    explicit Held(Context& context) : lock_(context.mutex_), device_(context.device_) {}

   private:
    std::unique_lock<std::recursive_mutex> lock_;
    DeviceScope device_;
  };
  /// Held by whoever gives the device something to do: what several threads of the host ask for is done call by call, and nothing
  /// gets in between while work is captured.
  [[nodiscard]] Held lock() { return Held(*this); }

  /// Waits until the device has done all it was given. Throws CudaError for what failed meanwhile, IndexError and Error for bad
  /// input that kernels found, whoever launched them.
  void synchronize(const char* operation) {
    const auto held = lock();
    check(cudaStreamSynchronize(stream_), operation);
    throw_faults();
  }
  /// Throws what kernels that have run found.
  void throw_faults() {
    const auto held = lock();
    if (fault_->kind == Fault::none) return;
    (void)cudaStreamSynchronize(stream_);  // what is under way may find the same, and must not be blamed on others later
    const Fault f = std::exchange(*fault_, Fault{});
    const std::string name = names_[f.operation];
    switch (f.kind) {
      case Fault::token:
        throw IndexError(name, ": token ", f.value, " at position ", f.at, " is outside the vocabulary of ", f.limit);
      case Fault::label:
        throw IndexError(name, ": label ", f.value, " at position ", f.at, " is outside [0, ", f.limit, ")");
      default:
        throw Error(name, ": row ", f.at, " holds NaN in column ", f.value);
    }
  }
  /// Where kernels say what they found: an address for the device.
  [[nodiscard]] Fault* fault() const { return device_fault_; }

  /// What is added on the device to the number of every random stream. It is 0 except while a captured graph runs again, whose
  /// launches have the numbers that were current at the capture.
  [[nodiscard]] std::uint64_t* stream_offset() const { return stream_offset_; }

  /// True between the begin and the end of a capture.
  [[nodiscard]] bool capturing() const { return capturing_; }
  /// Begins and ends one.
  void set_capturing(bool value) {
    capturing_ = value;
    if (value) spoilt_ = false;
  }
  /// Whether the work of the last capture did what no graph can hold, even if it caught the exception that said so.
  [[nodiscard]] bool capture_spoilt() const { return spoilt_; }
  void spoil_capture() { spoilt_ = true; }

  /// Operations that a Fault may name.
  enum Operation : int { embedding, cross_entropy, top_k, sample };

 private:
  static constexpr const char* names_[] = {"embedding", "cross_entropy", "top_k", "sample"};

  Context() {
    if (const std::string why = unavailable(); !why.empty()) throw CudaError(why);
    check(cudaGetDevice(&device_), "cuda");
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_), "cuda");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device_), "cuda");
    capability_ = 10 * major + minor;
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_), "cuda");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cuda");
    void* host = nullptr;
    check(cudaHostAlloc(&host, sizeof(Fault), cudaHostAllocMapped), "cuda");
    fault_ = new (host) Fault{};
    void* mapped = nullptr;
    check(cudaHostGetDevicePointer(&mapped, host, 0), "cuda");
    device_fault_ = static_cast<Fault*>(mapped);
    void* offset = nullptr;
    check(cudaMalloc(&offset, sizeof(std::uint64_t)), "cuda");
    stream_offset_ = static_cast<std::uint64_t*>(offset);
    check(cudaMemsetAsync(offset, 0, sizeof(std::uint64_t), stream_), "cuda");
  }

  std::recursive_mutex mutex_;
  int device_ = 0, capability_ = 0, multiprocessors_ = 0;
  cudaStream_t stream_ = nullptr;
  Fault *fault_ = nullptr, *device_fault_ = nullptr;
  std::uint64_t* stream_offset_ = nullptr;
  bool capturing_ = false, spoilt_ = false;
};

/// What products of float numbers are computed in: float (the default), or TF32, which has 10 fraction bits and runs on tensor
/// cores. For the whole process; products of bfloat16 are unaffected.
inline std::atomic<bool>& tf32() {
  static std::atomic<bool> value{false};
  return value;
}

namespace detail {
/// -1: `fuses_activations` decides by itself.
inline std::atomic<int>& activation_fusion() {
  static std::atomic<int> chosen{-1};
  return chosen;
}
}  // namespace detail

/// Whether products apply an activation on the way (see `feed_forward`), or leave it to a kernel of its own, which reads and
/// writes the numbers once more. By default they do on devices of compute capability 9 and 10: on an H100 it takes half the time
/// (ReLU) or three quarters of it (GELU), and on older ones such products are reported to be slower than the two steps together.
/// It is a rule, and nothing is timed, because the two differ in their last bits: a product with an activation may be another
/// kernel, which adds up in another order.
inline bool fuses_activations() {
  const int chosen = detail::activation_fusion(), generation = Context::instance().capability() / 10;
  return chosen < 0 ? generation == 9 || generation == 10 : chosen != 0;
}
/// Sets it for the whole process. Captured graphs are captured anew.
inline void fuse_activations(bool value) { detail::activation_fusion() = value ? 1 : 0; }

/// Waits until the device has done all it was given; see Context::synchronize.
inline void synchronize() { Context::instance().synchronize("synchronize"); }

}  // namespace cuda
}  // namespace attend
