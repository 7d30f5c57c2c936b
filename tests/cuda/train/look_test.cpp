#include <vector>

#include "../../../examples/translate/pages/attention.hpp"
#include "attend/cuda.hpp"
#include "cuda/device.hpp"

using namespace attend;

namespace {

template <class T, class D>
nn::Transformer<T, D> model() {
  seed(4);
  return nn::Transformer<T, D>({.vocabulary = 19, .d_model = 16, .heads = 2, .d_ff = 24, .layers = 2, .max_length = 16});
}

template <class T>
void check_looks(double allowed) {
  const std::vector<token_t> source{3, 9, 4, 18, 2}, inputs{1, 7, 12};
  auto here = model<float, Cpu>();
  auto there = model<T, Cuda>();
  const auto expected = translate::look(here, source, inputs), got = translate::look(there, source, inputs);
  CHECK(device::difference(got.log_probabilities.template to<Cuda>(), expected.log_probabilities, allowed) == "");
  const auto same = [&](const std::vector<AttentionWeights<float>>& a, const std::vector<AttentionWeights<float>>& b) {
    REQUIRE(a.size() == 2);
    REQUIRE(b.size() == 2);
    for (std::size_t l = 0; l < a.size(); ++l)
      for (index_t h = 0; h < 2; ++h)
        CHECK(device::difference(a[l].matrix(0, h).template to<Cuda>(), b[l].matrix(0, h), allowed) == "");
  };
  same(got.encoder, expected.encoder);
  same(got.decoder, expected.decoder);
  same(got.cross, expected.cross);
}

}  // namespace

TEST_CASE("cuda: what translate explain shows of a model on the device is what it shows on the processor") {
  if (!device::present()) return;
  check_looks<float>(2e-5);
  check_looks<bfloat16>(5e-2);
}
