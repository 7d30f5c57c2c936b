#include "attend/cuda/device/memory.cuh"

#include "attend/cuda/device/arriving.cuh"
#include "attend/cuda/device/graph.cuh"
#include "attend/cuda/device/segments.cuh"
#include "device.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("cuda: tensors go to the device and back, are filled, copied and cut") {
  if (!device::present()) return;
  const auto host = device::random<float>({5, 7});
  const auto there = host.to<Cuda>();
  CHECK(there.values() == host.values());
  CHECK(there.to<Cuda>().data() == there.data());
  CHECK(there.rows(2, 2).values() == host.rows(2, 2).values());
  const auto copy = there.clone();
  copy.fill(2.5f);
  CHECK(copy.values() == std::vector<float>(35, 2.5f));
  CHECK(there.values() == host.values());
  copy.assign(there);
  CHECK(copy.values() == host.values());
  copy.assign(Tensor<float>({5, 7}, -1.0f));
  CHECK(copy.values() == std::vector<float>(35, -1.0f));
  CHECK(Tensor<double, Cuda>({3}, 0.0).values() == std::vector<double>(3, 0.0));
  CHECK(Tensor<bfloat16, Cuda>({1}, bfloat16(3)).item() == 3.0f);
  CHECK(Tensor<float, Cuda>({0, 4}).values().empty());
  CHECK_THROWS_AS(copy.assign(Tensor<float>({4})), ShapeError);
}

TEST_CASE("cuda: what goes up may change at once, and what comes down is what was there") {
  if (!device::present()) return;
  std::vector<Tensor<int, Cuda>> kept;
  std::vector<Arriving<int, Cuda>> arriving;
  const Tensor<int> host({1000});
  const Tensor<int, Cuda> moving({1000});
  for (int round = 0; round < 100; ++round) {  // more than there are pinned pieces
    std::fill(host.data(), host.data() + 1000, round);
    kept.push_back(host.to<Cuda>());
    moving.assign(kept.back());
    arriving.emplace_back(moving);
  }
  for (int round = 0; round < 100; ++round) {
    CHECK(arriving[static_cast<std::size_t>(round)].values() == std::vector<int>(1000, round));
    CHECK(kept[static_cast<std::size_t>(round)].values()[999] == round);
  }
}

TEST_CASE("cuda: memory that was given back is used again") {
  if (!device::present()) return;
  const auto before = cuda::memory_use().in_use;
  const void* first = nullptr;
  {
    const Tensor<float, Cuda> x({100000});
    first = x.data();
    CHECK(cuda::memory_use().in_use >= before + 400000);
  }
  CHECK(cuda::memory_use().in_use == before);
#if !defined(ATTEND_NO_POOL)
  CHECK(Tensor<float, Cuda>({100000}).data() == first);
#endif
  cuda::DevicePool own;
  {
    const cuda::PoolScope scope(own);
    const Tensor<float, Cuda> x({100000});
    CHECK(own.use().in_use >= 400000);
    CHECK(cuda::memory_use().in_use == before);
  }
  CHECK(own.use().in_use == 0);
  own.release_cached();
}

TEST_CASE("cuda: out of memory says what was asked for and is free, and the program goes on with less") {
  if (!device::present()) return;
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "test");
  const auto too_many = static_cast<index_t>(total / sizeof(float)) + 1000;
  CHECK_THROWS_WITH((Tensor<float, Cuda>(Shape{too_many})), ContainsSubstring("cuda: out of memory") &&
                                                                ContainsSubstring("bytes were asked for") &&
                                                                ContainsSubstring("free on the device"));
  CHECK(Tensor<float, Cuda>({1000}, 1.0f).values()[999] == 1.0f);
}

TEST_CASE("cuda: the tables of segments lie on the device once") {
  if (!device::present()) return;
  const std::vector<index_t> keys{1, 2};
  const auto dense = Segments::dense(2, 3, keys);
  const auto tables = cuda::tables(dense);
  CHECK(cuda::tables(dense).begin == tables.begin);
  std::vector<std::int32_t> host(6);
  copy_to_host(Cuda{}, index_t{6}, tables.begin, host.data());
  CHECK(host == std::vector<std::int32_t>{0, 3, 3, 3, 1, 2});

  const auto place = make_tables(Cuda{}, 2);
  const auto room = Segments::room(2, 10, 5, place);
  CHECK(room.rows() == 10);
  CHECK(room.longest() == 5);
  write_tables(Cuda{}, Segments::ragged({4, 1}), place);
  host.resize(6);
  copy_to_host(Cuda{}, index_t{6}, cuda::tables(room).begin, host.data());
  CHECK(host == std::vector<std::int32_t>{0, 4, 4, 1, 4, 1});
}

#if defined(ATTEND_CUDA_EMULATOR)
TEST_CASE("cuda: without a device the reason is named") {
  emulator::set_device_count(0);
  CHECK(!cuda::available());
  CHECK_THAT(cuda::unavailable(), ContainsSubstring("there is no NVIDIA GPU on this machine"));
  emulator::set_device_count(1);
  CHECK(cuda::available());
}

TEST_CASE("cuda: a thread that has chosen another device works on the library's, and keeps its own") {
  const int library = cuda::Context::instance().device();
  const Tensor<float, Cuda> before({70000}, 1.0f);
  release_cached(Cuda{});  // so that what follows is new memory
  emulator::set_device_count(2);
  cuda::check(cudaSetDevice(1), "test");
  {
    const Tensor<float, Cuda> x({70000}, 2.5f), y({70000});
    cudaPointerAttributes attributes{};
    cuda::check(cudaPointerGetAttributes(&attributes, x.data()), "test");
    CHECK(attributes.device == library);
    y.assign(x);
    y.assign(Tensor<float>({70000}, 3.5f));
    CHECK(Arriving<float, Cuda>(y).values()[69999] == 3.5f);
    CHECK(x.values()[69999] == 2.5f);
    CHECK(before.values()[69999] == 1.0f);
    Repeated<Cuda> work;
    for (int round = 0; round < 3; ++round) work.run([&] { y.fill(4.5f); });
    CHECK(work.captured());
    CHECK(y.values()[0] == 4.5f);
  }
  int device = -1;
  cuda::check(cudaGetDevice(&device), "test");
  CHECK(device == 1);
  cuda::check(cudaSetDevice(0), "test");
  emulator::set_device_count(1);
}
#endif
