#include "cuda/attention_setting.hpp"

using namespace attend;
using namespace device;

namespace {

/// The same with causal attention, dropout, a bias, and all of them.
void compare_variants(Setting s) {
  compare<bfloat16>(s);
  s.causal = true;
  compare<bfloat16>(s);
  s.dropout = 0.3;
  compare<bfloat16>(s);
  s.causal = false;
  compare<bfloat16>(s);
  s.bias_rank = 4, s.hide_some = true;
  compare<bfloat16>(s);
  s.causal = true, s.scale = -s.scale;
  compare<bfloat16>(s);
}

TEST_CASE("cuda: attention of bfloat16 on tensor cores, sentences of one tile") {
  if (!device::present()) return;
  const Segments little = Segments::ragged({3, 0, 16, 17, 32, 31}), few = Segments::ragged({32, 4, 0, 15, 18, 1});
  const Segments one = Segments::ragged({64, 33, 0, 47}), another = Segments::ragged({20, 64, 49, 0});
  const Segments least = Segments::ragged({3, 0, 16, 1, 9}), fewest = Segments::ragged({16, 5, 2, 0, 15});
  compare_variants(packs(least, least, 2, 16, 16));
  compare_variants(packs(least, fewest, 1, 64, 64));
  compare_variants(packs(fewest, least, 1, 32, 128));
  compare_variants(packs(little, little, 2, 16, 16));
  compare_variants(packs(little, few, 1, 64, 64));
  compare_variants(packs(few, little, 1, 32, 128));
  compare_variants(packs(one, one, 1, 64, 64));
  compare_variants(packs(one, another, 1, 32, 24));
  compare_variants(packs(another, one, 1, 128, 80));
}

TEST_CASE("cuda: attention of bfloat16 on tensor cores, long sentences") {
  if (!device::present()) return;
  const Segments one = Segments::ragged({65, 130, 0, 64, 5}), another = Segments::ragged({130, 64, 70, 0, 97});
  compare_variants(packs(one, one, 2, 32, 32));
  compare_variants(packs(one, another, 1, 64, 64));
  compare_variants(packs(another, one, 1, 16, 128));
  compare_variants(packs(padded(), padded(), 2, 24, 40));
}

TEST_CASE("cuda: attention of bfloat16 on tensor cores with a bias that hides keys by a large number") {
  if (!device::present()) return;
  for (const float hidden : {-1e10f, -3.38e38f})
    for (const index_t rows : {60, 200}) {
      Setting s = packs(Segments::ragged({rows, 31}), Segments::ragged({rows, 50}), 2, 32, 32);
      s.bias_rank = 2;
      Inputs<bfloat16> inputs(s);
      const index_t columns = inputs.bias.dim(1);
      for (index_t i = 0; i < inputs.bias.size(); ++i) {  // a query sees the ten keys up to its own, that of number 3 none
        const index_t query = i / columns, key = i % columns;
        if (query == 3 || key > query || key + 10 <= query) inputs.bias.data()[i] = static_cast<bfloat16>(hidden);
      }
      const auto got = run<bfloat16, Cuda>(s, inputs);
      const auto expected = run<float, Cpu>(s, Inputs<float>(inputs));
      CHECK(device::difference(got.out, expected.out) == "");
      CHECK(device::difference(got.dq, expected.dq) == "");
      CHECK(device::difference(got.dk, expected.dk) == "");
      CHECK(device::difference(got.dv, expected.dv) == "");
    }
}

TEST_CASE("cuda: attention of bfloat16 on tensor cores with a bias that goes by distance") {
  if (!device::present()) return;
  for (const index_t rows : {30, 60, 200})
    for (const bool causal : {false, true}) {
      Setting s = packs(Segments::ragged({rows, 31}), Segments::ragged({rows, 50}), 2, 32, 32);
      s.causal = causal, s.bias_rank = 1;
      compare<bfloat16>(s);
    }
}

TEST_CASE("cuda: attention of bfloat16 on tensor cores computes the gradients that are wanted") {
  if (!device::present()) return;
  for (const bool is_long : {false, true})
    for (int wanted = 0; wanted < 8; ++wanted) {
      Setting s = packs(Segments::ragged({is_long ? 70 : 33, 9}), Segments::ragged({7, is_long ? 80 : 50}), 1, 32, 32);
      s.dropout = 0.2;
      s.want_q = (wanted & 1) != 0, s.want_k = (wanted & 2) != 0, s.want_v = (wanted & 4) != 0;
      compare<bfloat16>(s);
    }
}

TEST_CASE("cuda: attention on tensor cores is that of other kernels, with the same weights dropped") {
  if (!device::present()) return;
  Setting s = packs(Segments::ragged({70, 20}), Segments::ragged({90, 30}), 1, 16, 16);
  s.dropout = 0.5, s.scale = 0;  // all weights alike, so that dropping another would show
  const Inputs<bfloat16> inputs(s);
  const auto tiles = run<bfloat16, Cuda>(s, inputs);
  s.keep_weights = true;  // tensor cores do not store them
  const auto general = run<bfloat16, Cuda>(s, inputs);
  CHECK(device::difference(tiles.out, device::converted<float>(general.out.to_host()), 4e-3) == "");
  CHECK(device::difference(tiles.dv, device::converted<float>(general.dv.to_host()), 4e-3) == "");
}

}  // namespace
