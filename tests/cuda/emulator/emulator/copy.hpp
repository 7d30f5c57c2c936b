#pragma once
/// \file
/// Allocation, copies and fills.

#include "emulator/stream.hpp"

namespace emulator {

inline cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) {
    complain("cudaMemcpyDefault is not emulated: say from where to where");
    return cudaErrorInvalidMemcpyDirection;
  }
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  const Memory& memory = Memory::instance();
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (bytes == 0) return cudaSuccess;
  if (memory.is_device(to, to_device ? bytes : 1) != to_device ||
      memory.is_device(from, from_device ? bytes : 1) != from_device) {
    complain("a copy of " + std::to_string(bytes) + " bytes does not lie within device memory where its kind says so");
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

inline cudaError_t copy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (device_count() == 0) return cudaErrorNoDevice;
  if (const cudaError_t error = check_copy(to, from, bytes, kind)) return error;
  if (bytes == 0) return cudaSuccess;
  const Memory& memory = Memory::instance();
  const bool pageable_to = kind == cudaMemcpyDeviceToHost && !memory.is_pinned(to, bytes);
  const bool pageable_from = kind == cudaMemcpyHostToDevice && !memory.is_pinned(from, bytes);
  if (pageable_to || pageable_from) {
    const auto found = Streams::instance().find(stream);
    if (found && found->capture) {
      found->capture->invalid = true;
      complain("a copy to or from memory that is not pinned while its stream is captured");
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  if (pageable_from) {  // is staged before the call returns
    const auto* bytes_from = static_cast<const unsigned char*>(from);
    return enqueue(stream, [to, staged = std::vector<unsigned char>(bytes_from, bytes_from + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  const cudaError_t error = enqueue(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  if (error != cudaSuccess || !pageable_to) return error;
  return drain(stream, "cudaMemcpyAsync to memory that is not pinned");
}

inline cudaError_t fill_async(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  if (device_count() == 0) return cudaErrorNoDevice;
  if (bytes == 0) return cudaSuccess;
  if (!Memory::instance().is_device(at, bytes)) return cudaErrorInvalidValue;
  return enqueue(stream, [at, value, bytes] { std::memset(at, value, bytes); });
}

}  // namespace emulator

/// The block is filled with bytes 0xff: NaN, and -1.
inline cudaError_t cudaMalloc(void** at, size_t bytes) {
  const emulator::Lock lock(emulator::mutex());
  if (const cudaError_t error = emulator::forbidden("cudaMalloc")) return emulator::result(error);
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  *at = emulator::Memory::instance().allocate(bytes);
  return emulator::result(*at == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
template <class T>
cudaError_t cudaMalloc(T** at, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(at), bytes);
}
inline cudaError_t cudaFree(void* at) {
  const emulator::Lock lock(emulator::mutex());
  if (at == nullptr) return emulator::result(emulator::device_count() == 0 ? cudaErrorNoDevice : cudaSuccess);
  if (const cudaError_t error = emulator::drain_device("cudaFree")) return emulator::result(error);
  return emulator::result(emulator::Memory::instance().free(at) ? cudaSuccess : cudaErrorInvalidValue);
}

inline cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) {
  const emulator::Lock lock(emulator::mutex());
  if (const cudaError_t error = emulator::forbidden("cudaHostAlloc")) return emulator::result(error);
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  *at = emulator::Memory::instance().allocate_pinned(bytes);
  return emulator::result(*at == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
template <class T>
cudaError_t cudaHostAlloc(T** at, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(at), bytes, flags);
}
inline cudaError_t cudaMallocHost(void** at, size_t bytes) { return cudaHostAlloc(at, bytes, cudaHostAllocDefault); }
template <class T>
cudaError_t cudaMallocHost(T** at, size_t bytes) {
  return cudaHostAlloc(at, bytes, cudaHostAllocDefault);
}
inline cudaError_t cudaFreeHost(void* at) {
  const emulator::Lock lock(emulator::mutex());
  if (at == nullptr) return emulator::result(emulator::device_count() == 0 ? cudaErrorNoDevice : cudaSuccess);
  if (const cudaError_t error = emulator::drain_device("cudaFreeHost")) return emulator::result(error);
  return emulator::result(emulator::Memory::instance().free_pinned(at) ? cudaSuccess : cudaErrorInvalidValue);
}
inline cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  const emulator::Lock lock(emulator::mutex());
  *device = emulator::Memory::instance().is_pinned(host, 1) ? host : nullptr;
  return emulator::result(*device == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}

inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const emulator::Lock lock(emulator::mutex());
  if (emulator::device_count() == 0) return emulator::result(cudaErrorNoDevice);
  const emulator::Memory& memory = emulator::Memory::instance();
  *total = memory.total();
  *free = memory.total() - (memory.used() < memory.total() ? memory.used() : memory.total());
  return cudaSuccess;
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
  const emulator::Lock lock(emulator::mutex());
  void* plain = const_cast<void*>(at);
  const emulator::Memory& memory = emulator::Memory::instance();
  if (memory.is_device(at, 1)) *attributes = {cudaMemoryTypeDevice, memory.device_of(at), plain, nullptr};
  else if (memory.is_pinned(at, 1)) *attributes = {cudaMemoryTypeHost, 0, plain, plain};
  else *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, plain};
  return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  const emulator::Lock lock(emulator::mutex());
  return emulator::result(emulator::copy_async(to, from, bytes, kind, stream));
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const emulator::Lock lock(emulator::mutex());
  if (const cudaError_t error = emulator::forbidden("cudaMemcpy")) return emulator::result(error);
  if (const cudaError_t error = emulator::copy_async(to, from, bytes, kind, nullptr)) return emulator::result(error);
  return emulator::result(emulator::drain(nullptr, "cudaMemcpy"));
}
inline cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream = nullptr) {
  const emulator::Lock lock(emulator::mutex());
  return emulator::result(emulator::fill_async(at, value, bytes, stream));
}
inline cudaError_t cudaMemset(void* at, int value, size_t bytes) { return cudaMemsetAsync(at, value, bytes, nullptr); }
