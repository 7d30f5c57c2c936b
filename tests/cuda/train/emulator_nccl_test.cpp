// Training by ranks that exchange gradients by NCCL, from device to device. The emulator stands in for it; ranks are threads.
#include <atomic>
#include <filesystem>

#include "attend/cuda.hpp"
#include "attend/io/model.hpp"
#include "attend/nccl.hpp"
#include "attend/train/fit.hpp"
#include "cuda/device.hpp"
#include "cuda/train/toy_transformer.hpp"
#include "train/thread_ranks.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;

namespace {

FitOptions options() {
  auto o = toy::options(1);
  o.tokens_per_batch = 48;
  o.parts = 4;
  o.validation = toy::corpus(6, 2);
  o.validate_every = 0;
  o.average_decay = 0.9;
  return o;
}

/// The bits of the weights that so many ranks come to; of 0: one process without others.
template <class T>
std::vector<float> trained(index_t ranks, const FitOptions& o) {
  std::vector<std::vector<float>> found(static_cast<std::size_t>(std::max<index_t>(1, ranks)));
  const auto train = [&](const std::shared_ptr<Communicator>& communicator) {
    auto own = o;
    own.communicator = communicator;
    auto m = toy::transformer<T, Cuda>();
    fit(m, toy::corpus(16), toy::Letters(), own);
    for (const T x : toy::weights(m)) nth(found, communicator ? communicator->rank() : 0).push_back(static_cast<float>(x));
  };
  if (ranks == 0) {
    train(nullptr);
  } else {
    const auto ends =
        test::ThreadRanks::run(ranks, [&](const std::shared_ptr<Communicator>& threads) { train(nccl::world(threads, 60)); });
    for (const auto& end : ends)
      if (end) std::rethrow_exception(end);
  }
  for (const auto& values : found) CHECK(values == found.front());
  return found.front();
}

}  // namespace

TEMPLATE_TEST_CASE("nccl: one, two and four ranks train to the bits of one process, in shares too", "", float, bfloat16) {
  using T = TestType;
  auto o = options();
  const auto expected = trained<T>(0, o);
  for (const index_t ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    CHECK(trained<T>(ranks, o) == expected);
    o.shard_optimizer = true;
    CHECK(trained<T>(ranks, o) == expected);
    o.shard_optimizer = false;
  }
}

TEST_CASE("nccl: Muon in shares has the bits of one process") {
  auto o = options();
  o.optimizer = optim::MuonOptions{};
  const auto expected = trained<float>(0, o);
  o.shard_optimizer = true;
  CHECK(trained<float>(2, o) == expected);
}

TEST_CASE("nccl: what ranks remember in shares is saved from their devices, and goes back to those of others") {
  const TemporaryFolder folder;
  auto o = options();
  o.shard_optimizer = true;
  const auto expected = trained<bfloat16>(2, o);
  o.output = folder.path();
  std::atomic<bool> stop{false};
  o.stop = &stop;
  o.on_step = [&](const CurvePoint& point) { stop = point.step >= 2; };
  (void)trained<bfloat16>(2, o);
  stop = false, o.on_step = {};
  o.resume = true;
  CHECK((trained<bfloat16>(4, o) == expected));
}

TEST_CASE("nccl: ranks that add in any order train to the same bits again, also three") {
  auto o = options();
  o.parts = automatic;
  o.fast_sums = true;
  CHECK(trained<float>(3, o) == trained<float>(3, o));
  o.parts = 2;  // of which there is one order
  CHECK(trained<float>(2, o) == trained<float>(1, o));
}

TEST_CASE("nccl: where a rank fails all end, with a checkpoint of the last step from which others go on") {
  const TemporaryFolder folder;
  auto o = options();
  o.checkpoint_seconds = 0;
  const auto expected = trained<float>(0, o);
  const auto ends = test::ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& threads) {
    auto own = o;
    own.communicator = nccl::world(threads, 60);
    own.output = folder.path();
    index_t translated = 0;
    if (threads->rank() == 1)
      own.translate = [&](const auto& sources) {
        if (++translated == 1) throw Error("no translation today");
        return sources;
      };
    else own.translate = [](const auto& sources) { return sources; };
    auto m = toy::transformer<float, Cuda>();
    fit(m, toy::corpus(16), toy::Letters(), own);
  });
  for (const auto& end : ends) {
    REQUIRE(end);
    CHECK_THROWS_WITH(std::rethrow_exception(end), ContainsSubstring("no translation today"));
  }
  o.output = folder.path();
  o.resume = true;
  o.translate = [](const auto& sources) { return sources; };
  CHECK(trained<float>(2, o) == expected);
}
