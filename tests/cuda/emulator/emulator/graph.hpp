#pragma once
/// \file
/// Capture of streams and graphs. A graph is the captured work in the order of its calls, one of the orders that CUDA may take.

#include "emulator/event.hpp"

struct CUgraph_st {
  std::shared_ptr<const std::vector<emulator::Work>> work;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<emulator::Work>> work;
};

inline cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const emulator::Lock lock(emulator::mutex());
  emulator::Streams& streams = emulator::Streams::instance();
  const auto stream = streams.find(handle);
  if (!stream) return emulator::result(cudaErrorInvalidResourceHandle);
  if (streams.is_null(*stream)) return emulator::result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) return emulator::result(cudaErrorInvalidValue);
  stream->capture = std::make_shared<emulator::Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->origin = stream.get();
  stream->capture->blocking = stream->blocking;
  return cudaSuccess;
}

inline cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const emulator::Lock lock(emulator::mutex());
  *graph = nullptr;
  const auto stream = emulator::Streams::instance().find(handle);
  if (!stream) return emulator::result(cudaErrorInvalidResourceHandle);
  const auto capture = stream->capture;
  if (!capture) return emulator::result(cudaErrorInvalidValue);
  if (capture->origin != stream.get()) return emulator::result(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return emulator::result(cudaErrorStreamCaptureWrongThread);
  bool unjoined = false;
  for (const auto& other : emulator::Streams::instance().all())
    if (other->capture == capture) {
      unjoined |= other != stream && other->unjoined;
      other->capture = nullptr;
      other->unjoined = false;
    }
  capture->origin = nullptr;
  if (capture->invalid) return emulator::result(cudaErrorStreamCaptureInvalidated);
  if (unjoined) return emulator::result(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::make_shared<const std::vector<emulator::Work>>(std::move(capture->work))};
  return cudaSuccess;
}

inline cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const emulator::Lock lock(emulator::mutex());
  emulator::Streams& streams = emulator::Streams::instance();
  const auto stream = streams.find(handle);
  if (!stream) return emulator::result(cudaErrorInvalidResourceHandle);
  if (streams.is_null(*stream))
    for (const auto& capture : streams.captures())
      if (capture->blocking) return emulator::result(cudaErrorStreamCaptureImplicit);
  *status = !stream->capture           ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0) {
  if (graph == nullptr) return emulator::result(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags = 0) {
  return cudaGraphInstantiate(exec, graph, flags);
}
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const emulator::Lock lock(emulator::mutex());
  if (exec == nullptr) return emulator::result(cudaErrorInvalidValue);
  return emulator::result(emulator::enqueue(stream, [work = exec->work] {
    for (const emulator::Work& one : *work) one();
  }));
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
