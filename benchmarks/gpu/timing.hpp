#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "attend/cuda/device/graph.cuh"
#include "report.hpp"

/// How long work takes on the device, and how much of its memory.
namespace gpu {

/// A mark in the device's work; the time between two of them is the device's own.
class Event {
 public:
  Event() { attend::cuda::check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "benchmark"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { (void)cudaEventDestroy(event_); }

  void record() { attend::cuda::check(cudaEventRecord(event_, attend::cuda::Context::instance().stream()), "benchmark"); }
  /// Seconds from another mark to this one. Both must have been reached.
  [[nodiscard]] double since(const Event& other) const {
    float milliseconds = 0;
    attend::cuda::check(cudaEventElapsedTime(&milliseconds, other.event_, event_), "benchmark");
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of one call by the device's clock, the median of `rounds`, each of which is so many calls that it takes about
/// `seconds`. Called once before, so that memory and plans are there. The host does not wait between rounds.
template <class F>
double device_seconds(int rounds, double seconds, F&& call) {
  call();
  attend::cuda::synchronize();
  Event begin, end;
  begin.record();
  call();
  end.record();
  attend::cuda::synchronize();
  const int calls = std::clamp(static_cast<int>(seconds / std::max(end.since(begin), 1e-7)), 1, 1000);
  std::vector<Event> marks(static_cast<std::size_t>(rounds) + 1);
  marks.front().record();
  for (std::size_t r = 1; r < marks.size(); ++r) {
    for (int i = 0; i < calls; ++i) call();
    marks[r].record();
  }
  attend::cuda::synchronize();
  std::vector<double> times;
  for (std::size_t r = 1; r < marks.size(); ++r) times.push_back(marks[r].since(marks[r - 1]) / calls);
  return median(std::move(times));
}

/// Seconds of one call by the host's clock: from when the device has nothing to do, so many calls in a row that it takes about
/// `seconds`, until the device has done them all. Called once before.
template <class F>
double host_seconds(double seconds, F&& call) {
  const auto run = [&](int calls) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    attend::cuda::synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  attend::cuda::synchronize();
  const int calls = std::clamp(static_cast<int>(std::ceil(seconds / std::max(run(1), 1e-6))), 1, 10000);
  return run(calls) / calls;
}

/// Adds `peak`: the most bytes that the library has had handed out of the device's memory since `reset_memory`.
inline void add_memory(Line& line) {
  line.add("peak", static_cast<double>(attend::cuda::memory_use().peak + attend::cuda::graph_pool().use().peak));
}
inline void reset_memory() {
  attend::cuda::synchronize();
  attend::cuda::DevicePool::instance().reset_peak();
  attend::cuda::graph_pool().reset_peak();
}

}  // namespace gpu
