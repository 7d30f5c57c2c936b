#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "attend/core/random.hpp"
#include "attend/core/repeated.hpp"
#include "attend/cuda/device/memory.cuh"

namespace attend {

namespace cuda {

namespace detail {
/// Whether steps may be captured.
inline std::atomic<bool>& graphs_flag() {
  static std::atomic<bool> enabled{true};
  return enabled;
}
}  // namespace detail

/// Whether steps of training and decoding are captured as CUDA graphs (the default) or launched kernel by kernel.
inline bool graphs_enabled() { return detail::graphs_flag(); }
/// Sets it for the whole process; what is captured stays captured.
inline void enable_graphs(bool value) { detail::graphs_flag() = value; }

/// *where = value.
template <class N>
__global__ void set_kernel(N value, N* where) {
  if (threadIdx.x == 0) *where = value;
}

}  // namespace cuda

/// Work on the device that is launched kernel by kernel the first time, captured the second, and from then on run as one graph.
/// What it reads and writes must stay where it is, except tensors that it makes and releases itself; it may not wait for the
/// device or copy from the host. Random numbers from `default_generator()` go on as if it had been launched kernel by kernel; it
/// may draw from no other. A leaf that it gives a gradient needs a lasting place for it (`set_grad_buffer`; optimizers give one).
/// Work that cannot be captured is launched every time; after `seed`, or a change of `tf32` or `fuse_activations`, captured work
/// is captured anew.
template <>
class Repeated<Cuda> {
 public:
  static constexpr bool records = true;

  Repeated() = default;
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  ~Repeated() { forget(); }

  /// Throws what `work` throws; CudaError.
  template <class F>
  void run(F&& work) {
    const auto held = cuda::Context::instance().lock();
    if (state_ == State::captured && ((draws_ > 0 && seed_ != default_generator().seed()) || settings_ != settings())) {
      forget();
      state_ = State::warm;
    }
    if (!cuda::graphs_enabled() || state_ == State::refused) return launch(work);
    switch (state_) {
      case State::fresh:  // fills the pool with blocks of the sizes that the capture will want, and cuBLASLt's plans
        launch(work);
        state_ = State::warm;
        return;
      case State::warm:
        if (!capture(work)) {
          state_ = State::refused;
          return launch(work);
        }
        state_ = State::captured;
        return replay(0);
      default:
        Generator& generator = default_generator();
        const std::uint64_t before = generator.drawn();
        generator.restore(generator.seed(), before + draws_);
        replay(before - drawn_);
    }
  }
  /// Whether it runs as a graph.
  [[nodiscard]] bool captured() const { return state_ == State::captured; }

 private:
  enum class State { fresh, warm, captured, refused };

  /// What work launches depends on these.
  struct Settings {
    bool tf32, fuses_activations;
    bool operator==(const Settings&) const = default;
  };
  static Settings settings() { return {cuda::tf32(), cuda::fuses_activations()}; }

  template <class F>
  void launch(F&& work) {
    const cuda::PoolScope scope(cuda::graph_pool());
    work();
  }

  /// False if the work did something that a graph cannot hold; then nothing has run.
  template <class F>
  bool capture(F&& work) {
    auto& context = cuda::Context::instance();
    Generator& generator = default_generator();
    drawn_ = generator.drawn();
    seed_ = generator.seed(), settings_ = settings();
    const cuda::PoolScope scope(cuda::graph_pool());
    cuda::check(cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeRelaxed), "graph");
    context.set_capturing(true);
    bool done = true;
    try {
      work();
    } catch (const CudaError&) {
      done = false;
    } catch (const RecordingError&) {
      done = false;
    } catch (const MemoryError&) {  // nothing can be freed during a capture; launched, the work may find room
      done = false;
    } catch (...) {
      if (cudaGraph_t graph = end_capture(context)) (void)cudaGraphDestroy(graph);
      generator.restore(generator.seed(), drawn_);
      throw;
    }
    cudaGraph_t graph = end_capture(context);
    draws_ = generator.drawn() - drawn_;
    done = done && graph && !context.capture_spoilt() && cudaGraphInstantiate(&graph_, graph, 0) == cudaSuccess;
    if (done && cudaEventCreateWithFlags(&ran_, cudaEventDisableTiming) != cudaSuccess) {
      (void)cudaGraphExecDestroy(std::exchange(graph_, nullptr));
      done = false;
    }
    if (graph) (void)cudaGraphDestroy(graph);
    if (!done) {
      (void)cudaGetLastError();
      generator.restore(generator.seed(), drawn_);
    } else {
      ++cuda::detail::live_graphs();
    }
    return done;
  }
  static cudaGraph_t end_capture(cuda::Context& context) {
    context.set_capturing(false);
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(context.stream(), &graph) == cudaSuccess) return graph;
    (void)cudaGetLastError();
    return nullptr;
  }

  void forget() noexcept {
    if (!graph_) return;
    const auto held = cuda::Context::instance().lock();
    (void)cudaEventSynchronize(ran_);  // it may be running; what was launched after it need not have run
    (void)cudaEventDestroy(std::exchange(ran_, nullptr));
    (void)cudaGraphExecDestroy(std::exchange(graph_, nullptr));
    if (--cuda::detail::live_graphs() == 0) cuda::graph_pool().release_cached();
  }

  /// `ahead`: how many streams of random numbers were drawn between the capture and now.
  void replay(std::uint64_t ahead) {
    auto& context = cuda::Context::instance();
    const auto shift = [&](std::uint64_t value) {
      cuda::launch("graph", cuda::set_kernel<std::uint64_t>, 1, 32, 0, value, context.stream_offset());
    };
    if (draws_ > 0 && ahead > 0) shift(ahead);
    cuda::check(cudaGraphLaunch(graph_, context.stream()), "graph");
    cuda::check(cudaEventRecord(ran_, context.stream()), "graph");
    if (draws_ > 0 && ahead > 0) shift(0);
  }

  State state_ = State::fresh;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t ran_ = nullptr;                       // reached when the graph has run for the last time
  std::uint64_t drawn_ = 0, draws_ = 0, seed_ = 0;  // of the generator, at the capture; by the work
  Settings settings_{};                             // at the capture
};

}  // namespace attend
