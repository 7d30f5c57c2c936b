#pragma once
/// \file
/// Events, and with them the order between streams.

#include "emulator/stream.hpp"

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (emulator::device_count() == 0) return emulator::result(cudaErrorNoDevice);
  *event = new CUevent_st{flags, emulator::current_device, nullptr};
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return emulator::result(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle = nullptr) {
  const emulator::Lock lock(emulator::mutex());
  emulator::Streams& streams = emulator::Streams::instance();
  const auto stream = streams.find(handle);
  if (event == nullptr || !stream) return emulator::result(cudaErrorInvalidResourceHandle);
  if (!streams.is_null(*stream) && event->device != stream->device) {
    emulator::complain("an event of another device than the stream's is recorded");
    return emulator::result(cudaErrorInvalidResourceHandle);
  }
  auto record = std::make_shared<emulator::Record>();
  record->stream = stream;
  if (stream->capture) {
    if (stream->capture->invalid) return emulator::result(cudaErrorStreamCaptureInvalidated);
    record->capture = stream->capture;
    record->sequence = stream->capture->work.size();
  } else {
    const cudaError_t error = emulator::enqueue(handle, [record] {
      record->done = true;
      record->time = std::chrono::steady_clock::now();
    });
    if (error != cudaSuccess) return emulator::result(error);
    record->sequence = stream->items.back().sequence;
  }
  event->record = record;
  return cudaSuccess;
}

inline cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned = 0) {
  const emulator::Lock lock(emulator::mutex());
  emulator::Streams& streams = emulator::Streams::instance();
  const auto stream = streams.find(handle);
  if (event == nullptr || !stream) return emulator::result(cudaErrorInvalidResourceHandle);
  const auto record = event->record;
  if (!record) return cudaSuccess;  // never recorded: nothing to wait for
  if (record->capture) {
    if (stream->capture && stream->capture != record->capture) {
      stream->capture->invalid = record->capture->invalid = true;
      return emulator::result(cudaErrorStreamCaptureMerge);
    }
    if (!record->capture->origin) return emulator::result(cudaErrorCapturedEvent);  // that capture has ended
    if (!stream->capture) {
      stream->capture = record->capture;
      stream->unjoined = true;
      stream->captured_end = 0;
    }
    if (record->stream != stream && record->sequence >= record->stream->captured_end) record->stream->unjoined = false;
    return cudaSuccess;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    emulator::complain("a stream that is captured waits for an event from outside");
    return emulator::result(cudaErrorStreamCaptureIsolation);
  }
  return emulator::result(emulator::enqueue(handle, [record, &streams] { streams.run(*record->stream, record->sequence); }));
}

inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const emulator::Lock lock(emulator::mutex());
  if (const cudaError_t error = emulator::forbidden("cudaEventSynchronize")) return emulator::result(error);
  if (event == nullptr) return emulator::result(cudaErrorInvalidResourceHandle);
  const auto record = event->record;
  if (!record) return cudaSuccess;
  if (record->capture) return emulator::result(cudaErrorCapturedEvent);
  emulator::Streams::instance().run(*record->stream, record->sequence);
  return cudaSuccess;
}

/// Does nothing of what is queued: a program that only asks, and never waits, asks for ever.
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  const emulator::Lock lock(emulator::mutex());
  if (const cudaError_t error = emulator::forbidden("cudaEventQuery")) return emulator::result(error);
  if (event == nullptr) return emulator::result(cudaErrorInvalidResourceHandle);
  if (!event->record) return cudaSuccess;
  if (event->record->capture) return emulator::result(cudaErrorCapturedEvent);
  return emulator::result(event->record->done ? cudaSuccess : cudaErrorNotReady);
}

inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const emulator::Lock lock(emulator::mutex());
  if (begin == nullptr || end == nullptr || !begin->record || !end->record || begin->record->capture || end->record->capture ||
      ((begin->flags | end->flags) & cudaEventDisableTiming) != 0)
    return emulator::result(cudaErrorInvalidResourceHandle);
  if (!begin->record->done || !end->record->done) return emulator::result(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->record->time - begin->record->time).count();
  return cudaSuccess;
}
