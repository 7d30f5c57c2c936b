#pragma once
/// \file
/// What the runtime says of the device, the versions and its errors.

#include <cstring>

#include "emulator/memory.hpp"

inline cudaError_t cudaGetLastError() {
  const cudaError_t error = emulator::last_error;
  emulator::last_error = cudaSuccess;
  return error;
}
inline cudaError_t cudaPeekAtLastError() { return emulator::last_error; }

inline const char* cudaGetErrorName(cudaError_t error) {
#define EMULATOR_NAME(name) \
  case name:                \
    return #name;
  switch (error) {
    EMULATOR_NAME(cudaSuccess)
    EMULATOR_NAME(cudaErrorInvalidValue)
    EMULATOR_NAME(cudaErrorMemoryAllocation)
    EMULATOR_NAME(cudaErrorInitializationError)
    EMULATOR_NAME(cudaErrorInvalidConfiguration)
    EMULATOR_NAME(cudaErrorInvalidDevicePointer)
    EMULATOR_NAME(cudaErrorInvalidMemcpyDirection)
    EMULATOR_NAME(cudaErrorInsufficientDriver)
    EMULATOR_NAME(cudaErrorInvalidDeviceFunction)
    EMULATOR_NAME(cudaErrorNoDevice)
    EMULATOR_NAME(cudaErrorInvalidDevice)
    EMULATOR_NAME(cudaErrorNoKernelImageForDevice)
    EMULATOR_NAME(cudaErrorInvalidResourceHandle)
    EMULATOR_NAME(cudaErrorNotReady)
    EMULATOR_NAME(cudaErrorIllegalAddress)
    EMULATOR_NAME(cudaErrorLaunchOutOfResources)
    EMULATOR_NAME(cudaErrorLaunchFailure)
    EMULATOR_NAME(cudaErrorNotSupported)
    EMULATOR_NAME(cudaErrorStreamCaptureUnsupported)
    EMULATOR_NAME(cudaErrorStreamCaptureInvalidated)
    EMULATOR_NAME(cudaErrorStreamCaptureMerge)
    EMULATOR_NAME(cudaErrorStreamCaptureUnmatched)
    EMULATOR_NAME(cudaErrorStreamCaptureUnjoined)
    EMULATOR_NAME(cudaErrorStreamCaptureIsolation)
    EMULATOR_NAME(cudaErrorStreamCaptureImplicit)
    EMULATOR_NAME(cudaErrorCapturedEvent)
    EMULATOR_NAME(cudaErrorStreamCaptureWrongThread)
    EMULATOR_NAME(cudaErrorUnknown)
  }
#undef EMULATOR_NAME
  return "unrecognized error code";
}
/// Texts for the errors that programs are tested with; the name for the rest.
inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return cudaGetErrorName(error);
  }
}

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulator::device_count();
  return emulator::result(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current_device;
  return emulator::result(emulator::device_count() == 0 ? cudaErrorNoDevice : cudaSuccess);
}
namespace emulator {
inline cudaError_t check_device(int device) {
  if (device_count() == 0) return cudaErrorNoDevice;
  return device < 0 || device >= device_count() ? cudaErrorInvalidDevice : cudaSuccess;
}
}  // namespace emulator

inline cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = emulator::check_device(device)) return emulator::result(error);
  emulator::current_device = device;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = emulator::device_count() == 0 ? 0 : CUDART_VERSION;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = emulator::check_device(device)) return emulator::result(error);
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "emulated");
  properties->totalGlobalMem = emulator::Memory::instance().total();
  properties->sharedMemPerBlock = 49152;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 4;
  properties->canMapHostMemory = 1;
  properties->concurrentKernels = 1;
  properties->memoryBusWidth = 5120;
  properties->l2CacheSize = 50 << 20;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->regsPerMultiprocessor = 65536;
  properties->unifiedAddressing = 1;
  properties->sharedMemPerBlockOptin = 232448;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->reservedSharedMemPerBlock = 1024;
  return cudaSuccess;
}

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp of{};
  if (const cudaError_t error = cudaGetDeviceProperties(&of, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = of.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxBlockDimX:
      *value = of.maxThreadsDim[0];
      break;
    case cudaDevAttrMaxBlockDimY:
      *value = of.maxThreadsDim[1];
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = of.maxThreadsDim[2];
      break;
    case cudaDevAttrMaxGridDimX:
      *value = of.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = of.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = of.maxGridSize[2];
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(of.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = of.warpSize;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = of.regsPerBlock;
      break;
    case cudaDevAttrClockRate:
      *value = 1000000;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = of.multiProcessorCount;
      break;
    case cudaDevAttrIntegrated:
      *value = of.integrated;
      break;
    case cudaDevAttrCanMapHostMemory:
      *value = of.canMapHostMemory;
      break;
    case cudaDevAttrConcurrentKernels:
      *value = of.concurrentKernels;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = 1000000;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = of.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      *value = of.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = of.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = of.unifiedAddressing;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = of.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = of.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(of.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = of.regsPerMultiprocessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(of.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = of.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = static_cast<int>(of.reservedSharedMemPerBlock);
      break;
    case cudaDevAttrManagedMemory:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrClusterLaunch:
      *value = 0;
      break;
    default:
      return emulator::result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
