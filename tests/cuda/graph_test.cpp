#include "attend/cuda/device/graph.cuh"

#include "attend/cuda/device/segments.cuh"
#include "attend/cuda/elements/basic.cuh"
#include "attend/cuda/elements/dropout.cuh"
#include "attend/ops/dropout.hpp"
#include "device.hpp"

using namespace attend;

TEST_CASE("cuda: repeated work is launched, captured, then replayed on what lies in its memory") {
  if (!device::present()) return;
  const Tensor<float, Cuda> x({100}), y({100}, 0.0f);
  Repeated<Cuda> work;
  float sum = 0;
  for (int round = 1; round <= 6; ++round) {
    x.fill(static_cast<float>(round));
    work.run([&] {
      const Tensor<float, Cuda> twice({100});
      scale_add(Cuda{}, 100, 2.0f, x.data(), 0.0f, twice.data());
      add_into(Cuda{}, 100, twice.data(), y.data());
    });
    sum += 2 * static_cast<float>(round);
    CHECK(work.captured() == (round > 1));
    CHECK(y.values() == std::vector<float>(100, sum));
  }
}

TEST_CASE("cuda: a graph's memory is nobody else's") {
  if (!device::present()) return;
  const Tensor<float, Cuda> y({5000});
  Repeated<Cuda> work;
  const auto run = [&] {
    work.run([&] {
      const Tensor<float, Cuda> t({5000}, 3.0f);
      copy(Cuda{}, index_t{5000}, t.data(), y.data());
    });
  };
  for (int i = 0; i < 3; ++i) run();
  const Tensor<float, Cuda> other({5000}, 8.0f);
  run();
  CHECK(other.values()[4999] == 8.0f);
  CHECK(y.values()[4999] == 3.0f);
}

TEST_CASE("cuda: tables of segments that are made within repeated work are no other graph's memory") {
  if (!device::present()) return;
  const auto segments = Segments::ragged({2, 1});
  const Tensor<std::int32_t, Cuda> seen({6});
  Repeated<Cuda> other, work;
  const auto run_other = [&] { other.run([] { const Tensor<std::int32_t, Cuda> t({6}, 99); }); };
  for (int i = 0; i < 3; ++i) run_other();  // captured, with a block of the tables' size
  for (int i = 0; i < 4; ++i) {
    work.run([&] { copy(Cuda{}, index_t{6}, cuda::tables(segments).begin, seen.data()); });
    CHECK(seen.values() == std::vector<std::int32_t>{0, 2, 2, 1, 2, 1});
    run_other();
  }
  CHECK(work.captured());
}

TEST_CASE("cuda: a replayed graph draws the random numbers that the processor draws") {
  if (!device::present()) return;
  const auto host = device::random<float>({64});
  const auto x = host.to<Cuda>();
  const Tensor<float, Cuda> y({64});
  Repeated<Cuda> work;
  Generator by_device(9), by_processor(9);
  for (int round = 0; round < 5; ++round) {
    default_generator() = by_device;
    work.run([&] {
      const auto d = dropout(dropout(Var<float, Cuda>(x), 0.3), 0.2);
      copy(Cuda{}, index_t{64}, d.data(), y.data());
    });
    by_device = default_generator();
    const auto expected = dropout(dropout(Var<float>(host), 0.3, by_processor), 0.2, by_processor);
    CHECK(y.values() == expected.value().values());
    CHECK(by_device.drawn() == by_processor.drawn());
  }
  CHECK(work.captured());
  // What is launched outside of the graph afterwards has its own numbers.
  Generator one(4), other(4);
  CHECK(dropout(Var<float, Cuda>(x), 0.5, one).value().values() == dropout(Var<float>(host), 0.5, other).value().values());
}

#if defined(ATTEND_CUDA_EMULATOR)
TEST_CASE("cuda: whoever lets go of a graph waits for that graph alone") {
  const Tensor<float, Cuda> x({100}, 0.0f), y({100}, 0.0f);
  Repeated<Cuda> kept;  // else the graphs' memory would go with the last of them, which waits for everything
  auto work = std::make_unique<Repeated<Cuda>>();
  for (int round = 0; round < 3; ++round) {
    kept.run([&] { y.fill(1.0f); });
    work->run([&] { x.fill(1.0f); });
  }
  REQUIRE(work->captured());
  y.fill(2.0f);
  const std::size_t before = emulator::launches_run();
  work.reset();
  CHECK(emulator::launches_run() > before);  // the graph has run
  CHECK(cudaStreamQuery(cuda::Context::instance().stream()) == cudaErrorNotReady);
  (void)cudaGetLastError();
  CHECK(x.values() == std::vector<float>(100, 1.0f));
  CHECK(y.values() == std::vector<float>(100, 2.0f));
}
#endif

TEST_CASE("cuda: out of memory beside a captured graph leaves the graph's memory alone") {
  if (!device::present()) return;
  const Tensor<float, Cuda> y({5000});
  Repeated<Cuda> work;
  const auto run = [&](float value) {
    const Tensor<float, Cuda> x({5000}, value);
    work.run([&] {
      const Tensor<float, Cuda> t({5000});
      scale_add(Cuda{}, 5000, 1.0f, y.data(), 0.0f, t.data());
      copy(Cuda{}, index_t{5000}, t.data(), y.data());
    });
  };
  for (int i = 0; i < 3; ++i) run(1.0f);
  const auto kept = cuda::graph_pool().use().cached;
  CHECK(kept > 0);
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "test");
  CHECK_THROWS_AS((Tensor<float, Cuda>(Shape{static_cast<index_t>(total)})), MemoryError);
  {
    const cuda::PoolScope scope(cuda::graph_pool());
    CHECK_THROWS_AS((Tensor<float, Cuda>(Shape{static_cast<index_t>(total)})), MemoryError);
  }
  CHECK(cuda::graph_pool().use().cached == kept);
  y.fill(7.0f);
  run(2.0f);
  CHECK(y.values()[4999] == 7.0f);
}

TEST_CASE("cuda: a graph that draws is captured anew after seed") {
  if (!device::present()) return;
  const auto host = device::random<float>({64});
  const auto x = host.to<Cuda>();
  const Tensor<float, Cuda> y({64});
  Repeated<Cuda> work;
  for (int round = 0; round < 6; ++round) {
    seed(round < 3 ? 1 : 2);
    work.run([&] {
      const auto d = dropout(Var<float, Cuda>(x), 0.3);
      copy(Cuda{}, index_t{64}, d.data(), y.data());
    });
    seed(round < 3 ? 1 : 2);
    CHECK(y.values() == dropout(Var<float>(host), 0.3).value().values());
  }
}

TEST_CASE("cuda: a graph is captured anew where products are computed otherwise than before") {
  if (!device::present()) return;
  const Tensor<float, Cuda> y({4});
  Repeated<Cuda> work;
  int calls = 0;
  const auto run = [&] {
    work.run([&] { ++calls, y.fill(1.0f); });
    return calls;
  };
  run(), run();
  CHECK(run() == 2);
  cuda::tf32() = true;
  CHECK(run() == 3);
  cuda::tf32() = false;
  CHECK(run() == 4);
  auto& chosen = cuda::detail::activation_fusion();
  const int before = chosen;
  cuda::fuse_activations(!cuda::fuses_activations());
  CHECK(run() == 5);
  CHECK(run() == 5);
  chosen = before;
  CHECK(run() == 6);
  CHECK(work.captured());
}

TEST_CASE("cuda: work that cannot be captured goes on being launched; an error of its own comes out") {
  if (!device::present()) return;
  const Tensor<float, Cuda> y({4});
  Repeated<Cuda> copies;
  const std::uint64_t drawn = default_generator().drawn();
  for (int round = 0; round < 4; ++round) {
    copies.run([&] {
      (void)default_generator().next();
      y.assign(Tensor<float>({4}, static_cast<float>(round)));
    });
    CHECK(!copies.captured());
    CHECK(y.values()[3] == static_cast<float>(round));
  }
  CHECK(default_generator().drawn() == drawn + 4);

  Repeated<Cuda> fails;
  const auto bad = [] { throw ShapeError("mine"); };
  fails.run([] {});
  CHECK_THROWS_WITH(fails.run(bad), "mine");
  CHECK(Tensor<float, Cuda>({2}, 1.0f).values()[1] == 1.0f);  // the stream is usable

  cuda::enable_graphs(false);
  Repeated<Cuda> launched;
  for (int round = 0; round < 3; ++round) launched.run([&] { y.fill(5.0f); });
  cuda::enable_graphs(true);
  CHECK(!launched.captured());
}

namespace {

/// 3 x, whose gradient is added to that of x.
Var<float, Cuda> thrice(const Var<float, Cuda>& x) {
  const Tensor<float, Cuda> y(x.shape());
  scale_add(Cuda{}, x.size(), 3.0f, x.data(), 0.0f, y.data());
  return record(y, {x}, [x](const Tensor<float, Cuda>& dy) {
    x.accumulate_with([&](auto dx) { scale_add(Cuda{}, dy.size(), 3.0f, dy.data(), dx.add ? 1.0f : 0.0f, dx.data); });
  });
}

}  // namespace

TEST_CASE("cuda: work that gives a gradient to a leaf without a place for it is launched, and adds nothing to what it left") {
  if (!device::present()) return;
  const Var<float, Cuda> x(Tensor<float, Cuda>({100}, 1.0f), true), dy(Tensor<float, Cuda>({100}));
  Repeated<Cuda> work, with_copy;
  for (int round = 1; round <= 5; ++round) {
    dy.value().fill(static_cast<float>(round));
    x.zero_grad();
    work.run([&] { thrice(x).backward(dy.value()); });
    CHECK(!work.captured());
    CHECK(x.grad().values() == std::vector<float>(100, 3 * static_cast<float>(round)));
    // Of this the capture ends after the gradient was given, and no kernel has written it.
    x.zero_grad();
    with_copy.run([&] {
      thrice(x).backward(dy.value());
      dy.value().assign(Tensor<float>({100}, 1.0f));
    });
    CHECK(x.grad().values() == std::vector<float>(100, 3 * static_cast<float>(round)));
  }
}

TEST_CASE("cuda: a gradient with a place of its own is written by the graph, and once where the capture is refused late") {
  if (!device::present()) return;
  const Var<float, Cuda> x(Tensor<float, Cuda>({100}, 1.0f), true), dy(Tensor<float, Cuda>({100}));
  x.set_grad_buffer(Tensor<float, Cuda>({100}, 0.0f));
  Repeated<Cuda> work, refused;
  for (int round = 1; round <= 5; ++round) {
    dy.value().fill(static_cast<float>(round));
    x.zero_grad();
    work.run([&] { thrice(x).backward(dy.value()); });
    CHECK(work.captured() == (round > 1));
    CHECK(x.grad().values() == std::vector<float>(100, 3 * static_cast<float>(round)));
    refused.run([&] {
      thrice(x).backward(dy.value());
      dy.value().assign(Tensor<float>({100}, 1.0f));
    });
    CHECK(!refused.captured());
    CHECK(x.grad().values() == std::vector<float>(100, 6 * static_cast<float>(round)));
  }
}

TEST_CASE("cuda: work that catches by itself what a capture refuses is launched all the same") {
  if (!device::present()) return;
  const Var<float, Cuda> x(Tensor<float, Cuda>({100}, 1.0f), true);
  const Tensor<float, Cuda> dy({100}, 1.0f), y({100}, 0.0f);
  Repeated<Cuda> gives, copies;
  for (int round = 1; round <= 4; ++round) {
    x.zero_grad();
    gives.run([&] {
      try {
        thrice(x).backward(dy);
      } catch (const Error&) {
        y.fill(-1.0f);
      }
    });
    CHECK(!gives.captured());
    CHECK(x.grad().values() == std::vector<float>(100, 3.0f));
    copies.run([&] {
      try {
        y.assign(Tensor<float>({100}, static_cast<float>(round)));
      } catch (const Error&) {
        y.fill(-1.0f);
      }
    });
    CHECK(!copies.captured());
    CHECK(y.values() == std::vector<float>(100, static_cast<float>(round)));
  }
}
