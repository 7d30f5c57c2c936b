#include <cmath>
#include <vector>

#include "attend/cpu/attention_step.hpp"
#include "attend/cpu/sample.hpp"
#include "attend/cuda/attention/attention_step.cuh"
#include "attend/cuda/search/sample.cuh"
#include "rows.hpp"

using namespace attend;

namespace {

struct Heads {
  index_t heads, d_k, d_v;
};
// Vectors of packs for each number of lanes, and such as have none.
const std::vector<Heads> kinds{{2, 8, 8}, {2, 5, 3}, {1, 32, 16}, {2, 40, 64}, {1, 64, 64}, {1, 128, 96}, {1, 264, 136}};

/// Host memory that the device may read: as it lies there.
template <class T>
Tensor<T, Cuda> on_device(const std::vector<T>& x) {
  const Tensor<T, Cuda> y({static_cast<index_t>(x.size())});
  copy_to_device(Cuda{}, y.size(), x.data(), y.data());
  return y;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: attention_step is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for (const Heads c : kinds)
    for (const index_t steps : {0, 1, 3, 130})
      for (const index_t gap : {0, 16, 3}) {  // 3: no row begins on a multiple of 16 bytes
        if (steps == 130 && gap == 16) continue;
        const bool biased = gap != 16;
        const index_t rows = 3, slab_rows = 5, kv = c.heads * (c.d_k + c.d_v) + gap, q_width = c.heads * c.d_k + gap,
                      out_width = c.heads * c.d_v + gap;
        INFO(c.heads << " heads of " << c.d_k << " and " << c.d_v << ", " << steps << " steps, gap " << gap);
        const kernels::StepHeads heads{c.heads, c.d_k, c.d_v, 1 / std::sqrt(static_cast<double>(c.d_k))};
        const kernels::KeyValueLayout layout{kv, 0, c.heads * c.d_k};
        const auto q = device::representable<T>({rows, q_width}, 1);
        const auto slabs = device::representable<T>({steps, slab_rows, kv}, 2);
        const auto bias = device::representable<T>({c.heads, steps + 3}, 3);  // the newest key's in column `steps`
        const kernels::StepBias<W> added{biased ? bias.data() + steps : nullptr, steps + 3};
        const Tensor<std::int32_t> table({rows, steps + 2});
        for (index_t i = 0; i < table.size(); ++i) table.data()[i] = static_cast<std::int32_t>((7 * i + i / 3) % slab_rows);
        std::vector<const W*> places;
        for (index_t t = 0; t < steps; ++t) places.push_back(slabs.data() + t * slab_rows * kv);
        const Tensor<W> out({rows, out_width}, W(5));
        const W nothing[4] = {};  // if there are no steps
        if (steps == 0) std::fill(out.data(), out.data() + out.size(), W(0));
        else
          attention_step<W>(Cpu{}, heads, {q.data(), rows, q_width - gap, q_width},
                            {places.data(), layout, {table.data(), rows, steps, steps + 2}, added}, as_rows(out));

        const auto device_q = device::upload<T>(q), device_slabs = device::upload<T>(slabs);
        const auto device_table = device::upload<std::int32_t>(table);
        const auto device_bias = device::upload<T>(bias);
        const kernels::StepBias<T> device_added{biased ? device_bias.data() + steps : nullptr, steps + 3};
        const Tensor<const T*, Cuda> device_places({steps + 1});
        for (index_t t = 0; t < steps; ++t)
          store_pointer(Cuda{}, static_cast<const T*>(device_slabs.data() + t * slab_rows * kv), device_places.data() + t);
        const auto got = device::upload<T>(Tensor<W>({rows, out_width}, steps == 0 ? nothing[0] : W(5)));
        attention_step<T>(Cuda{}, heads, {device_q.data(), rows, q_width - gap, q_width},
                          {device_places.data(), layout, {device_table.data(), rows, steps, steps + 2}, device_added},
                          as_rows(got));
        REQUIRE(device::difference(got, out) == "");
      }
}

TEMPLATE_TEST_CASE("cuda: cross_attention_step is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  const std::vector<index_t> begins{3, 0, 3, 8, 100}, lengths{5, 3, 5, 130, 0};
  const index_t rows = 5, source = 140;
  for (const Heads c : kinds)
    for (const index_t offset : {0, 1}) {
      const index_t kv = c.heads * (c.d_k + c.d_v), q_width = c.heads * c.d_k, out_width = c.heads * c.d_v;
      INFO(c.heads << " heads of " << c.d_k << " and " << c.d_v << ", offset " << offset);
      const kernels::StepHeads heads{c.heads, c.d_k, c.d_v, 0.25};
      const kernels::KeyValueLayout layout{kv, 0, q_width};
      const auto q = device::representable<T>({rows, q_width}, 1), sources = device::representable<T>({source, kv}, 2);
      const Tensor<W> out({rows, out_width});
      cross_attention_step<W>(Cpu{}, heads, as_rows(q), {sources.data(), layout, begins.data(), lengths.data()}, as_rows(out));
      const auto got = device::before<T>(out, 0, offset);
      const auto device_q = device::upload<T>(q, offset), device_sources = device::upload<T>(sources, offset);
      const auto device_begins = on_device(begins), device_lengths = on_device(lengths);
      cross_attention_step<T>(Cuda{}, heads, as_rows(device_q),
                              {device_sources.data(), layout, device_begins.data(), device_lengths.data()}, as_rows(got));
      REQUIRE(device::difference(got, out) == "");
    }
}

TEST_CASE("cuda: an attention step takes scores of any size", "[cuda]") {
  if (!device::present()) return;
  for (const index_t d : {64, 5}) {
    const Tensor<float> q({1, d}, 100.0f), kv({300, 2 * d}, 1.0f);
    for (index_t j = 0; j < 300; ++j)
      for (index_t i = 0; i < d; ++i) kv(j, i) = j == 123 ? 1.0f : j == 4 ? -1e30f : 0.5f, kv(j, d + i) = static_cast<float>(j);
    const Tensor<float, Cuda> out({1, d});
    const auto device_q = device::upload<float>(q), device_kv = device::upload<float>(kv);
    const auto begin = on_device<index_t>({0}), length = on_device<index_t>({300});
    cross_attention_step<float>(Cuda{}, {1, d, d, 1.0}, as_rows(device_q),
                                {device_kv.data(), {2 * d, 0, d}, begin.data(), length.data()}, as_rows(out));
    REQUIRE(device::difference(out, Tensor<float>({1, d}, 123.0f)) == "");
  }
}

TEST_CASE("cuda: the table of a cache is reordered and grows as the processor's", "[cuda]") {
  if (!device::present()) return;
  const Tensor<std::int32_t> from({4, 7}), to({6, 9}, -1);
  for (index_t i = 0; i < from.size(); ++i) from.data()[i] = static_cast<std::int32_t>(i);
  const auto device_from = from.to<Cuda>(), device_to = to.to<Cuda>();
  const std::vector<index_t> rows{3, 3, 0, 1, 2, 1};
  reorder_table(Cpu{}, rows.data(), as_rows(from), {to.data(), 6, 5, 9});
  begin_table_step(Cpu{}, as_rows(to), 5);
  reorder_table(Cuda{}, rows.data(), as_rows(device_from), {device_to.data(), 6, 5, 9});
  begin_table_step(Cuda{}, as_rows(device_to), 5);
  reorder_table(Cuda{}, rows.data(), as_rows(device_from), {device_to.data(), 0, 5, 9});
  begin_table_step(Cuda{}, {device_to.data(), 0, 9}, 5);
  REQUIRE(device::difference(device_to, to, 0) == "");
}

namespace {

/// Log-probabilities (not normalised) that need care: few levels, many of minus infinity, one that outweighs all, flat ones.
template <class T>
Tensor<Wide<T>> distributions(index_t width) {
  const auto x = device::representable<T>({6, width}, 1);
  const auto low = -std::numeric_limits<Wide<T>>::infinity();
  for (index_t c = 0; c < width; ++c) {
    x(1, c) = std::floor(x(1, c));
    if (c % 3 > 0) x(2, c) = low;
    x(3, c) = c == width / 2 ? 200 : x(3, c);
    x(4, c) = low;
    x(5, c) = -7;
  }
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: sample_rows draws what the processor draws", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  struct Options {
    double temperature;
    index_t top_k;
    double top_p;
    double min_p = 0;
  };
  for (const index_t width : {1, 7, 1100})
    for (const Options o : std::initializer_list<Options>{{1, 0, 1},
                                                          {0.5, 3, 1},
                                                          {1, 0, 0.5},
                                                          {2, 40, 0.9},
                                                          {1, 0, 1e-9},
                                                          {1e-4, 0, 1},
                                                          {3, 1000000, 0.99},
                                                          {1, 0, 1, 0.3},
                                                          {2, 0, 1, 1e-3},
                                                          {1, 50, 0.9, 0.25},
                                                          {1, 0, 1, 1}}) {
      INFO("width " << width << ", temperature " << o.temperature << ", top_k " << o.top_k << ", top_p " << o.top_p << ", min_p "
                    << o.min_p);
      const auto x = distributions<T>(width);
      std::vector<index_t> rows;
      std::vector<double> uniforms;
      const Generator::Stream random{5, static_cast<std::uint64_t>(width + o.top_k)};
      for (index_t i = 0; i < 8; ++i) {
        rows.push_back(i % 6);
        uniforms.push_back(i == 0 ? 0 : i == 1 ? 1 - 0x1p-53 : random.uniform(static_cast<std::uint64_t>(i)));
      }
      const auto draws = static_cast<index_t>(rows.size());
      const Tensor<W> values({draws});
      const Tensor<token_t> tokens({draws});
      const kernels::SampledTokens from{o.temperature, o.top_k, o.top_p, o.min_p};
      const kernels::Draws list{draws, rows.data(), uniforms.data()};
      sample_rows(Cpu{}, from, list, as_rows(x), values.data(), tokens.data());
      const Tensor<T, Cuda> got_values({draws});
      const Tensor<token_t, Cuda> got_tokens({draws});
      const auto device_x = device::upload<T>(x, width % 2 == 0 ? 1 : 0);
      sample_rows(Cuda{}, from, list, as_rows(device_x), got_values.data(), got_tokens.data());
      REQUIRE(device::difference(got_tokens, tokens, 0) == "");
      REQUIRE(device::difference(got_values, values, 0) == "");
    }
}

TEST_CASE("cuda: sample_rows draws with the probabilities of what is kept", "[cuda]") {
  if (!device::present()) return;
  const index_t draws = 98;
  const Tensor<double> x({1, 5}, {std::log(0.1), std::log(0.3), std::log(0.1), std::log(0.4), std::log(0.1)});
  const std::vector<index_t> rows(static_cast<std::size_t>(draws), 0);
  std::vector<double> uniforms;
  for (index_t d = 0; d < draws; ++d) uniforms.push_back((static_cast<double>(d) + 0.5) / static_cast<double>(draws));
  const Tensor<double, Cuda> values({draws});
  const Tensor<token_t, Cuda> tokens({draws});
  const auto counts = [&](index_t top_k, double top_p, double min_p = 0) {
    sample_rows(Cuda{}, {1.0, top_k, top_p, min_p}, {draws, rows.data(), uniforms.data()}, as_rows(device::upload<double>(x)),
                values.data(), tokens.data());
    std::vector<int> count(5, 0);
    for (const token_t t : tokens.values()) ++count[static_cast<std::size_t>(t)];
    return count;
  };
  REQUIRE(counts(0, 1) == std::vector<int>{10, 29, 10, 39, 10});
  REQUIRE(counts(3, 1) == std::vector<int>{12, 37, 0, 49, 0});
  REQUIRE(counts(0, 0.65) == std::vector<int>{0, 42, 0, 56, 0});
  REQUIRE(counts(0, 0.85) == std::vector<int>{11, 32, 11, 44, 0});
  REQUIRE(counts(1, 0.1) == std::vector<int>{0, 0, 0, 98, 0});
  REQUIRE(counts(0, 1, 0.5) == std::vector<int>{0, 42, 0, 56, 0});
  REQUIRE(counts(0, 1, 0.2) == std::vector<int>{9, 30, 10, 39, 10});  // all, the most probable first
  REQUIRE(counts(3, 1, 0.2) == std::vector<int>{12, 37, 0, 49, 0});
  REQUIRE(counts(0, 0.3, 0.5) == std::vector<int>{0, 0, 0, 98, 0});
}

TEST_CASE("cuda: sample_rows names the row that holds a NaN", "[cuda]") {
  if (!device::present()) return;
  const Tensor<float> x({3, 600}, -1.0f);
  x(2, 599) = std::numeric_limits<float>::quiet_NaN();
  const std::vector<index_t> rows{0, 2};
  const std::vector<double> uniforms{0.5, 0.5};
  for (const index_t top_k : {0, 5}) {
    const Tensor<float, Cuda> values({2});
    const Tensor<token_t, Cuda> tokens({2});
    sample_rows(Cuda{}, {1.0, top_k, 0.9, 0.0}, {2, rows.data(), uniforms.data()}, as_rows(device::upload<float>(x)),
                values.data(), tokens.data());
    REQUIRE_THROWS_WITH(cuda::synchronize(), "sample: row 2 holds NaN in column 599");
    sample_rows(Cuda{}, {1.0, top_k, 0.9, 0.0}, {0, rows.data(), uniforms.data()}, as_rows(device::upload<float>(x)),
                values.data(), tokens.data());
  }
}
