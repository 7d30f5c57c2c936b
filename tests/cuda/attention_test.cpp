#include <memory>
#include <vector>

#include "cuda/attention_setting.hpp"

using namespace attend;
using namespace device;

namespace {

/// Lengths around those of the kernels' tiles.
const std::vector<index_t> some_lengths{3, 0, 32, 33, 1, 70};
const std::vector<index_t> other_lengths{40, 5, 0, 65, 2, 31};

Segments some() { return Segments::ragged(some_lengths); }
Segments other() { return Segments::ragged(other_lengths); }

TEMPLATE_TEST_CASE("cuda: attention of ragged sentences", "", float, double, bfloat16) {
  if (!device::present()) return;
  compare<TestType>({some(), some()});
  compare<TestType>({some(), some(), 1, 7, 70});
  compare<TestType>({some(), other(), 2, 33, 5});
  compare<TestType>({other(), some(), 3, 4, 8, false, 0, 0, -0.7});
  compare<TestType>({Segments::ragged({200}), Segments::ragged({161}), 1, 4, 3});
}

TEMPLATE_TEST_CASE("cuda: causal attention, with more keys or fewer than queries", "", float, double, bfloat16) {
  if (!device::present()) return;
  compare<TestType>({some(), some(), 2, 5, 3, true});
  compare<TestType>({some(), other(), 2, 5, 3, true});
  compare<TestType>({other(), some(), 2, 5, 3, true, 3, 0.2});
}

TEMPLATE_TEST_CASE("cuda: attention leaves padding alone", "", float, double, bfloat16) {
  if (!device::present()) return;
  compare<TestType>({padded(), padded()});
  compare<TestType>({padded(), padded(), 2, 5, 3, true, 4, 0.1});
  compare<TestType>({Segments::ragged({3, 40, 0, 8}), padded(), 1, 4, 4});
}

TEMPLATE_TEST_CASE("cuda: attention with a bias that is shared, or not", "", float, double, bfloat16) {
  if (!device::present()) return;
  for (int rank = 2; rank <= 4; ++rank) {
    compare<TestType>({some(), other(), 2, 5, 3, false, rank});
    Setting hidden{some(), other(), 2, 5, 3, false, rank};
    hidden.hide_some = true;
    compare<TestType>(hidden);
  }
}

TEMPLATE_TEST_CASE("cuda: attention with a bias that goes by distance", "", float, double, bfloat16) {
  if (!device::present()) return;
  for (const bool causal : {false, true}) {
    compare<TestType>({some(), other(), 2, 5, 3, causal, 1});
    compare<TestType>({some(), some(), 3, 5, 3, causal, 1, 0.1});
  }
}

TEMPLATE_TEST_CASE("cuda: attention drops the weights that the CPU drops", "", float, double, bfloat16) {
  if (!device::present()) return;
  compare<TestType>({some(), some(), 2, 5, 3, false, 0, 0.5});
  compare<TestType>({some(), other(), 3, 5, 3, true, 2, 0.1});
}

TEMPLATE_TEST_CASE("cuda: attention computes the gradients that are wanted", "", float, bfloat16) {
  if (!device::present()) return;
  for (int wanted = 0; wanted < 8; ++wanted) {
    Setting s{some(), other()};
    s.keep_weights = false, s.dropout = 0.2;
    s.want_q = (wanted & 1) != 0, s.want_k = (wanted & 2) != 0, s.want_v = (wanted & 4) != 0;
    compare<TestType>(s);
  }
  Setting s{some(), other()};
  s.want_q = s.want_k = s.want_v = false;
  compare<TestType>(s);
}

/// These sentences where the host knows no more than that there is room for them.
Segments within(const Segments& sentences, index_t longest) {
  const auto room = make_tables(Cuda{}, sentences.count());
  write_tables(Cuda{}, sentences, room);
  return Segments::room(sentences.count(), sentences.rows() + 5, longest, room);
}

TEMPLATE_TEST_CASE("cuda: attention goes by the tables on the device", "", float, bfloat16) {
  if (!device::present()) return;
  const Segments queries = Segments::ragged({3, 0, 40}), keys = Segments::ragged({20, 7, 30});
  for (const bool causal : {false, true}) {
    Setting s = packs(queries, keys, 2, 16, 8);
    s.causal = causal, s.dropout = 0.25;
    const Inputs<TestType> inputs(s);
    const auto expected = run<Wide<TestType>, Cpu>(s, Inputs<Wide<TestType>>(inputs));
    s.queries = within(queries, 80), s.keys = within(keys, 150);
    const auto got = run<TestType, Cuda>(s, inputs);
    CHECK(device::difference(got.out, expected.out) == "");
    CHECK(device::difference(got.dq, expected.dq) == "");
    CHECK(device::difference(got.dk, expected.dk) == "");
    CHECK(device::difference(got.dv, expected.dv) == "");
  }
}

TEMPLATE_TEST_CASE("cuda: attention gives the same bits each time", "", float, bfloat16) {
  if (!device::present()) return;
  Setting s = packs(Segments::ragged({70, 20}), Segments::ragged({90, 30}), 2, 32, 32);
  s.dropout = 0.1;
  const Inputs<TestType> inputs(s);
  const auto first = run<TestType, Cuda>(s, inputs), second = run<TestType, Cuda>(s, inputs);
  CHECK(device::difference(first.out, second.out.to_host(), 0) == "");
  CHECK(device::difference(first.dq, second.dq.to_host(), 0) == "");
  CHECK(device::difference(first.dk, second.dk.to_host(), 0) == "");
  CHECK(device::difference(first.dv, second.dv.to_host(), 0) == "");
}

TEST_CASE("cuda: attention over nothing") {
  if (!device::present()) return;
  compare<float>({Segments(), Segments()});
  compare<float>({Segments::ragged({0, 0}), Segments::ragged({3, 0})});
  compare<float>({Segments::ragged({3, 0}), Segments::ragged({0, 0})});
  compare<float>({Segments::ragged({3, 2}), Segments::ragged({4, 5}), 2, 0, 3});
}

}  // namespace
