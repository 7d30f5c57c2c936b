#pragma once
/// \file
/// Launches: what a grid may look like, and how it runs.

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "emulator/device.hpp"
#include "emulator/stream.hpp"

namespace emulator {

inline constexpr std::size_t shared_default = 48 * 1024;
inline constexpr std::size_t shared_most = 227 * 1024;

/// How much dynamic shared memory each kernel may ask for.
inline std::size_t& shared_limit(const void* kernel) {
  static std::unordered_map<const void*, std::size_t> limits;
  return limits.try_emplace(kernel, shared_default).first->second;
}

struct Grid {
  dim3 grid, block;
  std::size_t shared = 0;
  void (*call)(const void*) = nullptr;
  std::shared_ptr<const void> arguments;
};

/// Counts what ran, so that a test can see that something ran on the device at all.
inline std::size_t& launches_run() {
  static std::size_t count = 0;
  return count;
}

inline void run_grid(const Grid& grid) {
  static Block block;
  static std::vector<unsigned> order;
  constexpr std::size_t margin = 256;
  unsigned char* const shared = dynamic_shared();
  const std::size_t shared_bytes = (grid.shared + 15) / 16 * 16;
  place.block_size = grid.block;
  place.grid_size = grid.grid;
  ++launches_run();
  arrange(order, std::size_t{grid.grid.x} * grid.grid.y * grid.grid.z);
  for (const unsigned number : order) {
    place.block = {number % grid.grid.x, number / grid.grid.x % grid.grid.y, number / grid.grid.x / grid.grid.y};
    std::memset(shared, 0xff, shared_bytes + margin);  // what was there before is not to be relied on
#if defined(EMULATOR_ADDRESS_SANITIZER)
    __asan_poison_memory_region(shared + shared_bytes, sizeof attend::cuda::attend_dynamic_shared - shared_bytes);
    struct Unpoison {
      ~Unpoison() {
        __asan_unpoison_memory_region(attend::cuda::attend_dynamic_shared, sizeof attend::cuda::attend_dynamic_shared);
      }
    } unpoison;
    block.run(grid.call, grid.arguments.get());
#else
    block.run(grid.call, grid.arguments.get());
    for (std::size_t at = grid.shared; at < shared_bytes + margin; ++at)
      if (shared[at] != 0xff)
        throw Fault("a kernel wrote " + std::to_string(at - grid.shared) + " bytes past its " + std::to_string(grid.shared) +
                    " bytes of dynamic shared memory");
#endif
  }
}

inline cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const auto refuse = [&](const std::string& why, cudaError_t error) {
    complain("launch of grid (" + std::to_string(grid.x) + ", " + std::to_string(grid.y) + ", " + std::to_string(grid.z) +
             "), block (" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " + std::to_string(block.z) + "), " +
             std::to_string(config.dynamicSmemBytes) + " bytes of dynamic shared memory refused: " + why);
    return error;
  };
  if (device_count() == 0) return cudaErrorNoDevice;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return refuse("a size is 0", cudaErrorInvalidConfiguration);
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || std::uint64_t{block.x} * block.y * block.z > 1024)
    return refuse("a block has at most 1024 threads, (1024, 1024, 64) by direction", cudaErrorInvalidConfiguration);
  if (grid.x > 2147483647U || grid.y > 65535 || grid.z > 65535)
    return refuse("a grid has at most (2147483647, 65535, 65535) blocks", cudaErrorInvalidConfiguration);
  if (config.dynamicSmemBytes > shared_limit(kernel))
    return refuse("this kernel may have " + std::to_string(shared_limit(kernel)) +
                      " (more by cudaFuncSetAttribute with cudaFuncAttributeMaxDynamicSharedMemorySize, up to 227 KiB)",
                  cudaErrorInvalidValue);
  for (unsigned attribute = 0; attribute < config.numAttrs; ++attribute) {
    const cudaLaunchAttributeID id = config.attrs[attribute].id;
    if (id != cudaLaunchAttributeIgnore && id != cudaLaunchAttributePriority &&
        id != cudaLaunchAttributeProgrammaticStreamSerialization)
      return refuse("attribute " + std::to_string(id) + " is not emulated", cudaErrorNotSupported);
  }
  return cudaSuccess;
}

/// A pointer among a kernel's parameters must lead to what the device can reach, or to the end of it. Within structs nobody
/// looks.
inline void check_pointer(const void* parameter, std::size_t number) {
  const Memory& memory = Memory::instance();
  const auto* at = static_cast<const unsigned char*>(parameter);
  if (at == nullptr || memory.is_device(at, 1) || memory.is_pinned(at, 1) || memory.is_device(at - 1, 1)) return;
  throw Fault("parameter " + std::to_string(number) + " of a kernel points to host memory, or to device memory that was freed");
}
/// The address that a parameter holds; null if it is none.
template <class T>
const void* address_in([[maybe_unused]] const T& parameter) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>)
    return const_cast<const void*>(static_cast<const volatile void*>(parameter));
  else return nullptr;
}

/// A kernel and its parameters, which are copied byte by byte.
template <class... P>
struct Call {
  void (*kernel)(P...);
  std::tuple<std::remove_cv_t<P>...> parameters;

  static void run(const void* call) {
    std::apply(static_cast<const Call*>(call)->kernel, static_cast<const Call*>(call)->parameters);
  }
};

/// What every launch does, whatever the kernel's parameters are: `call`, of so many bytes, is copied now and runs when somebody
/// waits.
inline cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, void (*run)(const void*), const void* call,
                          std::size_t bytes, std::span<const void* const> addresses) {
  const Lock lock(mutex());
  if (const cudaError_t error = check_launch(config, kernel)) return result(error);
  if (const cudaError_t error = check_current(config.stream)) return result(error);
  for (std::size_t i = 0; i < addresses.size(); ++i) check_pointer(addresses[i], i + 1);
  const std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);
  std::memcpy(copy.get(), call, bytes);
  const Grid grid{config.gridDim, config.blockDim, config.dynamicSmemBytes, run, copy};
  return result(enqueue(config.stream, [grid] { run_grid(grid); }));
}

}  // namespace emulator

/// The arguments are converted to the kernel's parameters, by implicit conversions only, as the compiler of CUDA does it.
template <class... P>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  static_assert((!std::is_reference_v<P> && ...), "a kernel takes its parameters by value");
  static_assert((std::is_trivially_copyable_v<P> && ...), "parameters are copied byte by byte");
  static_assert((sizeof(P) + ... + 0) <= 4096, "4 KiB of parameters");
  using Call = emulator::Call<P...>;
  static_assert(alignof(Call) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "parameters lie where `new` puts bytes");
  const Call call{kernel, std::tuple<std::remove_cv_t<P>...>(arguments...)};
  const std::array<const void*, sizeof...(P)> addresses{emulator::address_in(arguments)...};
  return emulator::launch(*config, reinterpret_cast<const void*>(kernel), &Call::run, &call, sizeof(call), addresses);
}

template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value) {
  const emulator::Lock lock(emulator::mutex());
  if (emulator::device_count() == 0) return emulator::result(cudaErrorNoDevice);
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > emulator::shared_most)
    return emulator::result(cudaErrorInvalidValue);
  emulator::shared_limit(reinterpret_cast<const void*>(kernel)) = static_cast<std::size_t>(value);
  return cudaSuccess;
}

/// As if a kernel's registers never were what limits it.
template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T kernel, int block_size, size_t shared_bytes) {
  const emulator::Lock lock(emulator::mutex());
  if (emulator::device_count() == 0) return emulator::result(cudaErrorNoDevice);
  if (block_size <= 0 || block_size > 1024) return emulator::result(cudaErrorInvalidValue);
  if (shared_bytes > emulator::shared_limit(reinterpret_cast<const void*>(kernel))) {
    *blocks = 0;
    return cudaSuccess;
  }
  const auto by_shared = static_cast<int>(228 * 1024 / (shared_bytes + 1024));
  const int by_threads = 2048 / ((block_size + 31) / 32 * 32);
  *blocks = std::min({by_shared, by_threads, 32});
  return cudaSuccess;
}
