#pragma once
/// \file
/// Streams and events. A stream is a list of what is still to be done, and nothing of it is done before somebody waits: the host
/// that reads a result, or writes to pinned memory, too early finds the old bytes every time, not once in a thousand.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "emulator/memory.hpp"

namespace emulator {

using Work = std::function<void()>;

/// What a capture has recorded, in the order of the calls.
struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  bool blocking = false;
  bool invalid = false;
  std::vector<Work> work;
};

/// One cudaEventRecord.
struct Record {
  std::shared_ptr<CUstream_st> stream;
  std::uint64_t sequence = 0;
  bool done = false;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<Capture> capture;  ///< where it was captured, rather than recorded
};

}  // namespace emulator

struct CUstream_st {
  struct Item {
    std::uint64_t sequence;
    emulator::Work work;
  };
  int device = 0;                ///< that was current when it was made
  bool blocking = true;          ///< waits for the null stream, and that for it
  bool unjoined = false;         ///< works in another stream's capture that has not waited for it since
  std::size_t captured_end = 0;  ///< behind the last work of that capture that is this stream's
  std::deque<Item> items;
  std::shared_ptr<emulator::Capture> capture;
};
struct CUevent_st {
  unsigned flags = 0;
  int device = 0;  ///< that was current when it was made
  std::shared_ptr<emulator::Record> record;
};

namespace emulator {

/// All streams, destroyed ones with work left included.
class Streams {
 public:
  static Streams& instance() {
    static Streams* one = new Streams;
    return *one;
  }

  cudaStream_t create(unsigned flags) {
    all_.push_back(std::make_shared<CUstream_st>());
    all_.back()->blocking = (flags & cudaStreamNonBlocking) == 0;
    all_.back()->device = current_device;
    return all_.back().get();
  }

  bool destroy(cudaStream_t handle) {
    for (auto at = all_.begin(); at != all_.end(); ++at)
      if (at->get() == handle && handle != null_.get()) {
        if (!handle->items.empty()) orphans_.push_back(*at);  // destroying waits for nothing, what is queued is still done
        all_.erase(at);
        return true;
      }
    return false;
  }

  /// The stream behind a handle; null if there is none.
  std::shared_ptr<CUstream_st> find(cudaStream_t handle) const {
    if (handle == nullptr || handle == cudaStreamLegacy) return null_;
    for (const auto& stream : all_)
      if (stream.get() == handle) return stream;
    return nullptr;
  }
  bool is_null(const CUstream_st& stream) const { return &stream == null_.get(); }

  std::uint64_t push(CUstream_st& stream, Work work) {
    stream.items.push_back({++sequence_, std::move(work)});
    return sequence_;
  }

  /// Does what `stream` has up to `sequence`, and before each thing what it has to wait for. What a kernel throws ends all: after
  /// it nothing that is queued anywhere is done, as no hardware goes on after a fault either.
  void run(CUstream_st& stream, std::uint64_t sequence) {
    if (stream.items.empty() || stream.items.front().sequence > sequence) return;
    const Memory::Open open;
    try {
      while (!stream.items.empty() && stream.items.front().sequence <= sequence) {
        const CUstream_st::Item item = std::move(stream.items.front());
        stream.items.pop_front();
        if (is_null(stream)) run_blocking(item.sequence);
        else if (stream.blocking) run(*null_, item.sequence);
        item.work();
      }
    } catch (...) {
      for (const auto& other : all_) other->items.clear();
      orphans_.clear();
      throw;
    }
  }
  void run(CUstream_st& stream) {
    run(stream, sequence_);
    // Waiting for the null stream is waiting for the blocking ones too.
    if (is_null(stream)) run_blocking(sequence_);
  }
  void run_all() {
    for (const auto& stream : std::vector(all_)) run(*stream, sequence_);
    for (const auto& stream : std::vector(orphans_)) run(*stream, sequence_);
    orphans_.clear();
  }

  /// Captures that go on, by their origins.
  std::vector<std::shared_ptr<Capture>> captures() const {
    std::vector<std::shared_ptr<Capture>> found;
    for (const auto& stream : all_)
      if (stream->capture && stream->capture->origin == stream.get()) found.push_back(stream->capture);
    return found;
  }
  const std::vector<std::shared_ptr<CUstream_st>>& all() const { return all_; }

 private:
  Streams() : null_(std::make_shared<CUstream_st>()) { all_.push_back(null_); }
  void run_blocking(std::uint64_t sequence) {
    for (const auto& list : {all_, orphans_})
      for (const auto& other : list)
        if (other->blocking && !is_null(*other)) run(*other, sequence);
  }

  std::shared_ptr<CUstream_st> null_;
  std::vector<std::shared_ptr<CUstream_st>> all_, orphans_;
  std::uint64_t sequence_ = 0;
};

/// An error for calls that CUDA forbids while a capture goes on, because they wait, allocate or ask; they break the capture off.
inline cudaError_t forbidden(const char* call) {
  if (device_count() == 0) return cudaErrorNoDevice;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : Streams::instance().captures()) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id()) continue;
    capture->invalid = true;
    complain(std::string(call) + " while a stream is captured");
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

/// An error for kernels that a thread gives to the stream of another device than its own. The null stream is that of every one.
inline cudaError_t check_current(cudaStream_t handle) {
  const auto stream = Streams::instance().find(handle);
  if (!stream || Streams::instance().is_null(*stream) || stream->device == current_device) return cudaSuccess;
  complain("device " + std::to_string(current_device) + " is current, and the stream belongs to device " +
           std::to_string(stream->device));
  return cudaErrorInvalidResourceHandle;
}

/// Appends to a stream, or to what it captures.
inline cudaError_t enqueue(cudaStream_t handle, Work work) {
  if (device_count() == 0) return cudaErrorNoDevice;
  Streams& streams = Streams::instance();
  const std::shared_ptr<CUstream_st> stream = streams.find(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    stream->capture->work.push_back(std::move(work));
    stream->captured_end = stream->capture->work.size();
    stream->unjoined = stream->capture->origin != stream.get();
    return cudaSuccess;
  }
  if (streams.is_null(*stream))
    for (const auto& capture : streams.captures())
      if (capture->blocking) {
        capture->invalid = true;
        complain("work for the null stream while a blocking stream is captured");
        return cudaErrorStreamCaptureImplicit;
      }
  streams.push(*stream, std::move(work));
  return cudaSuccess;
}

/// Waits for all that `handle` has, or gives the error why not.
inline cudaError_t drain(cudaStream_t handle, const char* call) {
  if (const cudaError_t error = forbidden(call)) return error;
  const std::shared_ptr<CUstream_st> stream = Streams::instance().find(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    stream->capture->invalid = true;
    complain(std::string(call) + " on a stream that is captured");
    return cudaErrorStreamCaptureUnsupported;
  }
  Streams::instance().run(*stream);
  return cudaSuccess;
}

inline cudaError_t drain_device(const char* call) {
  if (const cudaError_t error = forbidden(call)) return error;
  for (const auto& capture : Streams::instance().captures()) {
    capture->invalid = true;
    complain(std::string(call) + " while a stream is captured");
    return cudaErrorStreamCaptureUnsupported;
  }
  Streams::instance().run_all();
  return cudaSuccess;
}

}  // namespace emulator

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const emulator::Lock lock(emulator::mutex());
  if (emulator::device_count() == 0) return emulator::result(cudaErrorNoDevice);
  *stream = emulator::Streams::instance().create(flags);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const emulator::Lock lock(emulator::mutex());
  return emulator::result(emulator::Streams::instance().destroy(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const emulator::Lock lock(emulator::mutex());
  return emulator::result(emulator::drain(stream, "cudaStreamSynchronize"));
}
inline cudaError_t cudaDeviceSynchronize() {
  const emulator::Lock lock(emulator::mutex());
  return emulator::result(emulator::drain_device("cudaDeviceSynchronize"));
}
inline cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const emulator::Lock lock(emulator::mutex());
  if (const cudaError_t error = emulator::forbidden("cudaStreamQuery")) return emulator::result(error);
  const auto stream = emulator::Streams::instance().find(handle);
  if (!stream) return emulator::result(cudaErrorInvalidResourceHandle);
  return emulator::result(stream->items.empty() ? cudaSuccess : cudaErrorNotReady);
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const emulator::Lock lock(emulator::mutex());
  return emulator::result(emulator::enqueue(stream, [function, data] { function(data); }));
}
