// What attend/nccl.hpp promises, on GPUs: mpiexec -n N nccl_communicator, a GPU for each on its machine. Ends with 1 and a word
// about what does not hold; where there are not enough GPUs it says that it is skipped. The emulator's tests say more of it.

#include <cstdio>
#include <string>

#include "attend/cuda.hpp"
#include "attend/mpi.hpp"
#include "attend/nccl.hpp"
#include "attend/train/pairwise_sum.hpp"

using namespace attend;

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw Error("it does not hold: ", what);
}

template <class T>
Tensor<T> numbers(index_t rank, index_t n) {
  const Tensor<T> x({n});
  const Generator::Stream random{3, static_cast<std::uint64_t>(rank)};
  for (index_t i = 0; i < n; ++i) x.data()[i] = static_cast<T>(random.normal(static_cast<std::uint64_t>(i)));
  return x;
}

/// The bits of sums by pairs, and sums in any order near them.
template <class T>
void check_sums(train::Communicator& ranks, index_t n) {
  train::PairwiseSum<T, Cuda> sums;
  Tensor<T, Cuda> expected;
  for (index_t k = 0; k < ranks.size(); ++k) sums.add(k, ranks.size(), expected = numbers<T>(k, n).template to<Cuda>());
  const auto bits = expected.values();
  const auto x = numbers<T>(ranks.rank(), n).template to<Cuda>();
  ranks.sum(x);
  expect(x.values() == bits, "sum");
  const auto any = numbers<T>(ranks.rank(), n).template to<Cuda>();
  ranks.sum_in_any_order(any);
  const auto found = any.values();
  for (std::size_t i = 0; i < found.size(); ++i)
    expect(std::abs(static_cast<double>(found[i]) - static_cast<double>(bits[i])) < 0.1, "sum_in_any_order");
}

void check_shares(train::Communicator& ranks) {
  train::Communicator::Shares shares;
  for (index_t k = 0; k < ranks.size(); ++k) shares.push_back({{k * 1000, 300 + k}, {k * 1000 + 500, 200}});
  const auto x = Tensor<float, Cuda>({ranks.size() * 1000}, static_cast<float>(ranks.rank()));
  ranks.gather_shares(x, shares);
  const auto values = x.values();
  for (index_t k = 0; k < ranks.size(); ++k)
    expect(values[static_cast<std::size_t>(k * 1000 + 699)] == static_cast<float>(k), "gather_shares");
  ranks.broadcast(x);
  expect(x.values()[999] == 0, "broadcast");
}

}  // namespace

int main() {
  try {
    const auto processes = mpi::world();
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
    const bool enough = nccl::local_rank(*processes) < devices;
    for (const auto& other : processes->gather(enough ? "" : "x"))
      if (!other.empty()) {
        if (processes->rank() == 0) std::printf("skipped: a process of each machine needs a GPU of its own\n");
        return 0;
      }
    const auto ranks = nccl::world(processes);
    check_sums<float>(*ranks, 1'000'003);
    check_sums<bfloat16>(*ranks, 70'001);
    check_shares(*ranks);
    if (ranks->rank() == 0) std::printf("%d ranks: all holds\n", static_cast<int>(ranks->size()));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
