#pragma once

/// Ranks that train on a GPU each and exchange what lies there by NCCL, between the GPUs of one machine or of several:
/// `nccl::world` goes into `train::FitOptions::communicator`. Comes with the target `attend::nccl`; NCCL 2.14 or later.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::nccl"
#else

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/cuda/device/runtime.cuh"
#include "attend/io/file.hpp"
#include "attend/train/communicator.hpp"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0), "attend/nccl.hpp needs NCCL 2.14 or later");

namespace attend::nccl {

/// What ranks that are to meet have to know of each other, `NCCL_UNIQUE_ID_BYTES` bytes: one of them makes it, and all others get
/// it by whatever way there is. It serves once. Throws RankError if NCCL finds no network.
inline std::string unique_id() {
  ncclUniqueId id;
  if (const ncclResult_t made = ncclGetUniqueId(&id); made != ncclSuccess)
    throw train::RankError("nccl: ncclGetUniqueId: ", ncclGetErrorString(made), ", ", ncclGetLastError(nullptr));
  return {id.internal, sizeof id.internal};
}

/// Which of the ranks of its machine this one is, from 0 on; all ranks call it.
inline index_t local_rank(train::Communicator& ranks) {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  std::string machine = host.data(), boot;  // containers may share a name
  if (std::ifstream in("/proc/sys/kernel/random/boot_id"); std::getline(in, boot)) machine += ' ' + boot;
  const auto all = ranks.gather(machine);
  return std::count(all.begin(), all.begin() + ranks.rank(), machine);
}
/// The same as launchers say it; -1 where none does.
inline index_t local_rank() {
  for (const char* name :
       {"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "MV2_COMM_WORLD_LOCAL_RANK"}) {
    index_t rank = 0;
    if (const char* text = std::getenv(name); text && parse_number(std::string_view(text), rank) && rank >= 0) return rank;
  }
  return -1;
}
/// Makes GPU `local` modulo their number that of this process, unless it has used one already. Throws CudaError if there is none.
inline void take_device(index_t local) {
  if (const std::string why = cuda::unavailable(); !why.empty()) throw CudaError(why);
  int count = 0;
  cuda::check(cudaGetDeviceCount(&count), "nccl");
  cuda::check(cudaSetDevice(static_cast<int>(local % count)), "nccl");
  (void)cuda::Context::instance();
}

/// Ranks, each a process with a GPU of its own. Tensors on the device go from GPU to GPU, in the order of what else is launched
/// there, and a sum waits until all is done. What lies on the host goes by another engine where there is one, MPI say, which also
/// knows of ranks that fail.
///
/// `timeout_seconds` is how long a rank may keep the others waiting before it counts as lost; the environment's
/// ATTEND_RANK_SECONDS overrides it.
class World final : public train::Communicator {
 public:
  /// The ranks of another engine, each with the GPU of its number on its machine. Throws CudaError, RankError; the other engine
  /// then tells the others.
  explicit World(std::shared_ptr<train::Communicator> host, double timeout_seconds = 1800)
      : host_(std::move(host)), timeout_(train::rank_seconds("nccl::world", timeout_seconds)) {
    check_value(host_ != nullptr, "nccl::world", "there are no other ranks: the communicator is null");
    rank_ = host_->rank(), size_ = host_->size();
    try {
      take_device(local_rank(*host_));
      std::string id = rank_ == 0 ? unique_id() : std::string();
      host_->broadcast(id);
      meet(id);
    } catch (const std::exception& e) {
      fail(e.what());
      throw;
    }
  }
  /// Rank `rank` of `size`, which all have the id that one of them has made. A GPU is taken as `local_rank()` says, if it does.
  /// Throws ValueError for an id or a number that cannot be, CudaError, RankError.
  World(const std::string& id, index_t rank, index_t size, double timeout_seconds = 1800)
      : rank_(rank), size_(size), timeout_(train::rank_seconds("nccl::world", timeout_seconds)) {
    check_value(size > 0 && rank >= 0 && rank < size, "nccl::world", "rank is ", rank, " of ", size);
    check_value(id.size() == NCCL_UNIQUE_ID_BYTES, "nccl::world", "the id has ", id.size(), " bytes, expected ",
                NCCL_UNIQUE_ID_BYTES);
    if (const index_t local = local_rank(); local >= 0) take_device(local);
    meet(id);
  }
  ~World() override {
    if (!ranks_) return;
    try {
      {
        const auto held = cuda::Context::instance().lock();
        check("ncclCommFinalize", ncclCommFinalize(ranks_));
      }
      if (settled(10)) {
        const auto held = cuda::Context::instance().lock();
        (void)ncclCommDestroy(std::exchange(ranks_, nullptr));
        (void)cudaEventDestroy(std::exchange(done_, nullptr));
      }
    } catch (const std::exception&) {  // what has failed has been said
    }
    abort();
  }

  [[nodiscard]] index_t rank() const override { return rank_; }
  [[nodiscard]] index_t size() const override { return size_; }

  void exchange(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    check_alive();
    if (host_) host_->exchange(other, sent, received);
    else exchange_by_device(other, sent, received);
  }
  /// Only where another engine carries what lies on the host: NCCL cannot say. Throws ValueError without.
  [[nodiscard]] bool waiting(index_t other) override {
    check_alive();
    check_value(host_ != nullptr, "nccl", "NCCL does not know what waits to be received; make nccl::world of mpi::world()");
    return host_->waiting(other);
  }
  void look_for_failure() override {
    check_alive();
    if (host_) host_->look_for_failure();
    look_at_engine();
  }
  void fail(std::string_view why) noexcept override {
    if (host_) host_->fail(why);
    if (failure_.empty()) {
      try {
        failure_ = why.empty() ? "a rank failed" : std::string(why);
      } catch (...) {  // without memory there is no message, and the next call finds no ranks
      }
    }
    abort();
  }

 protected:
  [[nodiscard]] bool reaches_devices() const override { return true; }
  void exchange_on_device(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    if (sent.empty() && received.empty()) return;
    launched("ncclSend, ncclRecv", other, [&](cudaStream_t stream) {
      const int peer = static_cast<int>(other);
      ncclResult_t result = ncclGroupStart();
      if (result == ncclSuccess && !sent.empty()) result = ncclSend(sent.data(), sent.size(), ncclUint8, peer, ranks_, stream);
      if (result == ncclSuccess && !received.empty())
        result = ncclRecv(received.data(), received.size(), ncclUint8, peer, ranks_, stream);
      const ncclResult_t ended = ncclGroupEnd();
      return result == ncclSuccess || result == ncclInProgress ? ended : result;
    });
  }
  void finish_on_device() override {
    if (under_way_.empty()) return;
    {
      auto& context = cuda::Context::instance();
      const auto held = context.lock();
      check_cuda(cudaEventRecord(done_, context.stream()));
    }
    until([&] {
      const auto held = cuda::Context::instance().lock();
      const cudaError_t state = cudaEventQuery(done_);
      if (state == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
      }
      check_cuda(state);
      return true;
    });
    under_way_.clear();
  }
  bool sum_by_engine_on_device(std::span<float> x) override { return all_reduce(x, ncclFloat32); }
  bool sum_by_engine_on_device(std::span<double> x) override { return all_reduce(x, ncclFloat64); }
  bool sum_by_engine_on_device(std::span<bfloat16> x) override { return all_reduce(x, ncclBfloat16); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr index_t everybody = -1;

  void meet(const std::string& bytes) {
    if (bytes.size() != NCCL_UNIQUE_ID_BYTES) throw train::RankError("nccl: ranks do not do the same: no id came");
    ncclUniqueId id;
    std::memcpy(id.internal, bytes.data(), bytes.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a rank that does not come is noticed
    under_way_ = {everybody};
    {
      const auto held = cuda::Context::instance().lock();
      check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
      check("ncclCommInitRankConfig",
            ncclCommInitRankConfig(&ranks_, static_cast<int>(size_), id, static_cast<int>(rank_), &config));
    }
    until([] { return true; });
    under_way_.clear();
  }

  template <class T>
  bool all_reduce(std::span<T> x, ncclDataType_t type) {
    if (!x.empty())
      launched("ncclAllReduce", everybody,
               [&](cudaStream_t stream) { return ncclAllReduce(x.data(), x.data(), x.size(), type, ncclSum, ranks_, stream); });
    return true;
  }

  /// Launches something with a rank, and waits until NCCL has put it into the stream; not for what becomes of it there.
  template <class F>
  void launched(const char* call, index_t with, F&& launch) {
    check_alive();
    if (std::find(under_way_.begin(), under_way_.end(), with) == under_way_.end()) under_way_.push_back(with);
    {
      auto& context = cuda::Context::instance();
      const auto held = context.lock();
      check(call, launch(context.stream()));
    }
    until([] { return true; });
  }

  /// By way of memory of the device.
  void exchange_by_device(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) {
    constexpr std::size_t most = std::size_t{1} << 24;
    while (!sent.empty() || !received.empty()) {
      const auto out = sent.first(std::min(most, sent.size()));
      const auto in = received.first(std::min(most, received.size()));
      std::byte* const room = staging(out.size() + in.size());
      auto& context = cuda::Context::instance();
      if (!out.empty()) {
        const auto held = context.lock();
        check_cuda(cudaMemcpyAsync(room, out.data(), out.size(), cudaMemcpyHostToDevice, context.stream()));
      }
      exchange_on_device(other, {room, out.size()}, {room + out.size(), in.size()});
      finish_on_device();
      if (!in.empty()) {
        const auto held = context.lock();
        check_cuda(cudaMemcpyAsync(in.data(), room + out.size(), in.size(), cudaMemcpyDeviceToHost, context.stream()));
        context.synchronize("nccl");
      }
      sent = sent.subspan(out.size());
      received = received.subspan(in.size());
    }
  }
  std::byte* staging(std::size_t bytes) {
    if (bytes <= staging_bytes_) return staging_.get();
    const auto held = cuda::Context::instance().lock();
    staging_.reset(), staging_bytes_ = 0;
    void* room = nullptr;
    check_cuda(cudaMalloc(&room, bytes));
    staging_.reset(static_cast<std::byte*>(room)), staging_bytes_ = bytes;
    return staging_.get();
  }

  /// Until NCCL has nothing left to begin and `done`. The first turns are worth waiting for without a rest.
  template <class F>
  void until(F&& done) {
    try {
      const auto begin = Clock::now();
      for (index_t turn = 0;; ++turn) {
        if (look_at_engine() && done()) return;
        if (turn % 64 == 63 && host_) host_->look_for_failure();
        const double waited = seconds_since(begin);
        if (waited > timeout_) throw train::RankError(others(), " has kept rank ", rank_, " waiting for ", timeout_, " seconds");
        if (turn < 200) continue;
        if (waited < 0.001) std::this_thread::yield();
        else std::this_thread::sleep_for(std::chrono::microseconds(waited < 0.1 ? 20 : 200));
      }
    } catch (const train::RankError& e) {
      fail(e.what());
      throw;
    }
  }
  /// Whether NCCL is at rest. Throws RankError for what went wrong in it meanwhile.
  bool look_at_engine() {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(ranks_, &state);
    check("ncclCommGetAsyncError", asked);
    check("", state);
    return state == ncclSuccess;
  }
  /// The same, for so many seconds, where nobody is left to be told.
  bool settled(double seconds) noexcept {
    for (const auto begin = Clock::now(); seconds_since(begin) < seconds;) {
      ncclResult_t state = ncclSuccess;
      if (ncclCommGetAsyncError(ranks_, &state) != ncclSuccess) return false;
      if (state != ncclInProgress) return state == ncclSuccess;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  /// Throws RankError, with NCCL's own words, what this rank was doing and with whom, unless the result is that of success. An
  /// empty `call`: it has failed while nobody called.
  void check(const char* call, ncclResult_t result) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* details = ranks_ ? ncclGetLastError(ranks_) : nullptr;
    const std::string doing = under_way_.empty() ? "" : ", while rank " + std::to_string(rank_) + " exchanged with " + others();
    throw train::RankError("nccl: ", *call ? call : "the device", ": ", ncclGetErrorString(result),
                           details && *details ? std::string(", ") + details : std::string(), doing);
  }
  static void check_cuda(cudaError_t result) { cuda::check(result, "nccl"); }
  void check_alive() const {
    if (!ranks_) throw train::RankError(failure_.empty() ? "nccl: the ranks have parted" : failure_.c_str());
  }
  /// Those whom something is under way with.
  [[nodiscard]] std::string others() const {
    std::string text;
    for (const index_t other : under_way_) {
      if (other == everybody) return "one of the " + std::to_string(size_) + " ranks";
      text += (text.empty() ? "" : " or ") + ("rank " + std::to_string(other));
    }
    return text;
  }
  static double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

  /// Ends what NCCL has under way on the device, which others would wait for in vain.
  void abort() noexcept {
    if (!ranks_) return;
    (void)ncclCommAbort(std::exchange(ranks_, nullptr));
    (void)cudaEventDestroy(std::exchange(done_, nullptr));
    under_way_.clear();
  }

  struct Free {
    void operator()(std::byte* at) const noexcept { (void)cudaFree(at); }
  };

  std::shared_ptr<train::Communicator> host_;
  index_t rank_ = 0, size_ = 1;
  double timeout_;
  ncclComm_t ranks_ = nullptr;
  cudaEvent_t done_ = nullptr;      // behind what was launched last
  std::vector<index_t> under_way_;  // whom something was launched with that is not known to be done
  std::string failure_;
  std::unique_ptr<std::byte, Free> staging_;
  std::size_t staging_bytes_ = 0;
};

/// The ranks of another engine, `nccl::world(mpi::world())`, each with a GPU of its own. See `World`.
inline std::shared_ptr<train::Communicator> world(std::shared_ptr<train::Communicator> host, double timeout_seconds = 1800) {
  return std::make_shared<World>(std::move(host), timeout_seconds);
}
/// Ranks that something else has started and numbered, and told an id. See `World`.
inline std::shared_ptr<train::Communicator> world(const std::string& id, index_t rank, index_t size,
                                                  double timeout_seconds = 1800) {
  return std::make_shared<World>(id, rank, size, timeout_seconds);
}
/// The same; rank 0 leaves the id in a file, which all see, no run before has used, and is gone when all have met. Throws
/// ValueError on rank 0 if it is there already, IoError, RankError where it does not come.
inline std::shared_ptr<train::Communicator> world_by_file(const std::filesystem::path& file, index_t rank, index_t size,
                                                          double timeout_seconds = 1800) {
  const double seconds = train::rank_seconds("nccl::world_by_file", timeout_seconds);
  std::string id;
  std::error_code ignored;
  if (rank == 0) {
    check_value(!std::filesystem::exists(file, ignored), "nccl::world_by_file", file.string(),
                " is there already: each run needs a file of its own");
    io::write_file_atomically(file, id = unique_id());
  } else {
    const auto begin = std::chrono::steady_clock::now();
    while (!std::filesystem::exists(file, ignored)) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds)
        throw train::RankError("nccl: rank 0 has not written ", file.string(), " within ", seconds, " seconds");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    id = io::read_file(file);
  }
  auto ranks = world(id, rank, size, timeout_seconds);
  if (rank == 0) std::filesystem::remove(file, ignored);
  return ranks;
}

}  // namespace attend::nccl

#endif  // C++20
