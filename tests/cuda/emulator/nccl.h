#pragma once
/// \file
/// Stands in for NCCL: ranks are threads of this process, each with a communicator, on the same emulated device or on several.
/// What NCCL promises of order is kept and no more: a send is done in the order of its stream and so is the receive, and a rank
/// finds out by asking (`ncclCommGetAsyncError`) that its call has reached the stream. Communicators do not block.
///
/// - Nothing is copied before the other side has called, too. Bytes sent and expected that differ are refused.
/// - Asking lets the rank's streams go on, which by themselves do nothing before somebody waits: NCCL's own threads would.
/// - `ncclCommAbort` ends a rank: the others, as soon as they ask, are told of a remote error. A rank that does nothing any more
///   keeps the others waiting for ever, as a process that hangs does.
/// - Sums go rank by rank, which is not the order of pairs.

#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION(X, Y, Z) ((X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES 128

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclRedOp_t { ncclSum = 0 };
enum ncclDataType_t { ncclUint8 = 1, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 };
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }
using ncclComm_t = struct ncclComm*;

namespace emulator {

/// What one side has called and the other has not yet.
struct NcclHalf {
  void* at;
  std::size_t bytes;
  std::shared_ptr<CUstream_st> stream;
};
struct NcclSum {
  std::vector<std::pair<const void*, void*>> places;  // of each rank, by its number
  std::vector<std::shared_ptr<CUstream_st>> streams;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int missing = 0;
};
/// Ranks that have the same id.
struct NcclClique {
  int size = 0, present = 0;
  bool lost = false;                                                  // a rank has gone with work under way, or aborted
  std::map<std::pair<int, int>, std::deque<NcclHalf>> sent, awaited;  // by sender and receiver
  std::vector<int> unmatched;                                         // calls of each rank
  std::deque<std::shared_ptr<NcclSum>> sums;
  std::vector<std::size_t> summed;  // how many sums each rank has called
  std::size_t first_sum = 0;        // the number of the first that is kept
};
struct NcclCall {
  ncclComm_t comm;
  bool sends;
  int peer;
  void* at;
  std::size_t bytes;
  cudaStream_t stream;
};

}  // namespace emulator

struct ncclComm {
  std::shared_ptr<emulator::NcclClique> clique;
  int rank = 0;
  std::string error;
  std::vector<std::shared_ptr<CUstream_st>> streams;
};

namespace emulator {

inline std::map<std::string, std::shared_ptr<NcclClique>>& nccl_cliques() {
  static auto* all = new std::map<std::string, std::shared_ptr<NcclClique>>;
  return *all;
}
inline thread_local int nccl_group_depth = 0;
inline thread_local std::vector<NcclCall> nccl_group;

/// Lets `work` run when all these streams have come to where they are now, and no stream go on before it has run.
inline void nccl_join(const std::vector<std::shared_ptr<CUstream_st>>& streams, Work work) {
  Streams& all = Streams::instance();
  const auto done = std::make_shared<bool>(false);
  std::vector<std::pair<std::shared_ptr<CUstream_st>, std::uint64_t>> ends;
  for (const auto& stream : streams) {
    bool known = false;
    for (const auto& end : ends) known = known || end.first == stream;
    if (!known) ends.emplace_back(stream, all.push(*stream, [] {}));
  }
  for (const auto& end : ends)
    all.push(*end.first, [ends, done, work, &all] {
      if (std::exchange(*done, true)) return;
      for (const auto& [stream, sequence] : ends) all.run(*stream, sequence);
      work();
    });
}

inline ncclResult_t nccl_refuse(ncclComm_t comm, ncclResult_t result, const std::string& why) {
  comm->error = why;
  complain("nccl: " + why);
  return result;
}
/// The stream of a call, of which the communicator takes note; null where it cannot be.
inline std::shared_ptr<CUstream_st> nccl_stream(ncclComm_t comm, cudaStream_t handle) {
  auto stream = Streams::instance().find(handle);
  if (!stream || stream->capture) return nullptr;
  for (const auto& known : comm->streams)
    if (known == stream) return stream;
  comm->streams.push_back(stream);
  return stream;
}

inline ncclResult_t nccl_begin(const NcclCall& call) {
  NcclClique& clique = *call.comm->clique;
  const int rank = call.comm->rank;
  if (call.peer < 0 || call.peer >= clique.size) return nccl_refuse(call.comm, ncclInvalidArgument, "there is no such rank");
  if (!Memory::instance().is_device(call.at, call.bytes))
    return nccl_refuse(call.comm, ncclInvalidArgument, "what is sent or received is not on the device");
  const auto stream = nccl_stream(call.comm, call.stream);
  if (!stream) return nccl_refuse(call.comm, ncclInvalidUsage, "the stream is none, or captured");
  const std::pair<int, int> way = call.sends ? std::pair(rank, call.peer) : std::pair(call.peer, rank);
  auto& others = call.sends ? clique.awaited[way] : clique.sent[way];
  const NcclHalf mine{call.at, call.bytes, stream};
  if (others.empty()) {
    (call.sends ? clique.sent : clique.awaited)[way].push_back(mine);
    ++clique.unmatched[static_cast<std::size_t>(rank)];
    return ncclSuccess;
  }
  const NcclHalf theirs = others.front();
  others.pop_front();
  --clique.unmatched[static_cast<std::size_t>(call.peer)];
  if (theirs.bytes != mine.bytes)
    return nccl_refuse(call.comm, ncclInvalidArgument,
                       std::to_string(mine.bytes) + " bytes on one side, " + std::to_string(theirs.bytes) + " on the other");
  const NcclHalf &from = call.sends ? mine : theirs, &to = call.sends ? theirs : mine;
  nccl_join({mine.stream, theirs.stream}, [from = from.at, to = to.at, bytes = mine.bytes] { std::memcpy(to, from, bytes); });
  return ncclSuccess;
}

template <class T, class W>
void nccl_add_up(const NcclSum& sum, W (*widen)(T), T (*narrow)(W)) {
  std::vector<T> result(sum.count);
  for (std::size_t i = 0; i < sum.count; ++i) {
    W total = widen(static_cast<const T*>(sum.places.front().first)[i]);
    for (std::size_t k = 1; k < sum.places.size(); ++k) total += widen(static_cast<const T*>(sum.places[k].first)[i]);
    result[i] = narrow(total);
  }
  for (const auto& both : sum.places) std::memcpy(both.second, result.data(), sum.count * sizeof(T));
}
inline void nccl_add_up(const NcclSum& sum) {
  if (sum.type == ncclFloat32) {
    nccl_add_up<float, float>(
        sum, [](float x) { return x; }, [](float x) { return x; });
  } else if (sum.type == ncclFloat64) {
    nccl_add_up<double, double>(
        sum, [](double x) { return x; }, [](double x) { return x; });
  } else {
    nccl_add_up<std::uint16_t, float>(
        sum,
        [](std::uint16_t x) {
          const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
          float value;
          std::memcpy(&value, &bits, sizeof value);
          return value;
        },
        [](float x) {
          std::uint32_t bits;
          std::memcpy(&bits, &x, sizeof bits);
          return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        });
  }
}

}  // namespace emulator

inline const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr std::array<const char*, 8> texts{"no error",
                                                    "unhandled cuda error",
                                                    "unhandled system error",
                                                    "internal error",
                                                    "invalid argument",
                                                    "invalid usage",
                                                    "remote process exited or there was a network error",
                                                    "NCCL operation in progress"};
  return texts[static_cast<std::size_t>(result)];
}
inline const char* ncclGetLastError(ncclComm_t comm) { return comm ? comm->error.c_str() : ""; }
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const emulator::Lock lock(emulator::mutex());
  static int made = 0;
  *id = {};
  const std::string text = "emulated " + std::to_string(++made);
  text.copy(id->internal, text.size());
  return ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const emulator::Lock lock(emulator::mutex());
  if (emulator::device_count() == 0) return ncclUnhandledCudaError;
  if (rank < 0 || rank >= size || config->blocking != 0) return ncclInvalidArgument;
  auto& clique = emulator::nccl_cliques()[std::string(id.internal, sizeof id.internal)];
  if (!clique) {
    clique = std::make_shared<emulator::NcclClique>();
    clique->size = size;
    clique->unmatched.resize(static_cast<std::size_t>(size));
    clique->summed.resize(static_cast<std::size_t>(size));
  }
  if (clique->size != size || clique->present == size) return ncclInvalidArgument;
  ++clique->present;
  *comm = new ncclComm{clique, rank, {}, {}};
  return ncclInProgress;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const emulator::Lock lock(emulator::mutex());
  const emulator::NcclClique& clique = *comm->clique;
  const bool waits = clique.present < clique.size || clique.unmatched[static_cast<std::size_t>(comm->rank)] > 0;
  *state = clique.lost ? ncclRemoteError : waits ? ncclInProgress : ncclSuccess;
  if (*state == ncclSuccess)
    for (const auto& stream : comm->streams) emulator::Streams::instance().run(*stream);
  return ncclSuccess;
}
inline ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclInProgress; }
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const emulator::Lock lock(emulator::mutex());
  comm->clique->lost = true;
  delete comm;
  return ncclSuccess;
}

inline ncclResult_t ncclGroupStart() {
  ++emulator::nccl_group_depth;
  return ncclSuccess;
}
inline ncclResult_t ncclGroupEnd() {
  const emulator::Lock lock(emulator::mutex());
  if (--emulator::nccl_group_depth > 0) return ncclSuccess;
  for (const auto& call : std::exchange(emulator::nccl_group, {}))
    if (const ncclResult_t result = emulator::nccl_begin(call); result != ncclSuccess) return result;
  return ncclInProgress;
}
inline ncclResult_t ncclSend(const void* at, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  (void)ncclGroupStart();
  emulator::nccl_group.push_back({comm, true, peer, const_cast<void*>(at), count, stream});
  return ncclGroupEnd();
}
inline ncclResult_t ncclRecv(void* at, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  (void)ncclGroupStart();
  emulator::nccl_group.push_back({comm, false, peer, at, count, stream});
  return ncclGroupEnd();
}
inline ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                                  ncclComm_t comm, cudaStream_t handle) {
  const emulator::Lock lock(emulator::mutex());
  emulator::NcclClique& clique = *comm->clique;
  const auto rank = static_cast<std::size_t>(comm->rank);
  const auto stream = emulator::nccl_stream(comm, handle);
  if (!stream) return emulator::nccl_refuse(comm, ncclInvalidUsage, "the stream is none, or captured");
  const std::size_t number = clique.summed[rank]++;
  if (number - clique.first_sum == clique.sums.size()) {
    auto sum = std::make_shared<emulator::NcclSum>();
    sum->places.resize(clique.summed.size());
    sum->count = count, sum->type = type, sum->missing = clique.size;
    clique.sums.push_back(std::move(sum));
  }
  const auto sum = clique.sums[number - clique.first_sum];
  if (sum->count != count || sum->type != type)
    return emulator::nccl_refuse(comm, ncclInvalidArgument, "ranks sum other numbers");
  sum->places[rank] = {from, to};
  sum->streams.push_back(stream);
  ++clique.unmatched[rank];
  if (--sum->missing > 0) return ncclInProgress;
  for (int& calls : clique.unmatched) --calls;
  clique.sums.pop_front();
  ++clique.first_sum;
  emulator::nccl_join(sum->streams, [sum] { emulator::nccl_add_up(*sum); });
  return ncclInProgress;
}
