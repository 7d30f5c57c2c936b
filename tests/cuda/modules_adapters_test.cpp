#include "attend/nn/adapters.hpp"
#include "modules.hpp"

using namespace attend;
using modules::check;

namespace {

constexpr auto on_first = [](const auto& m, auto& given) { return m(given.x[0]); };

}  // namespace

TEST_CASE("cuda: Linear with an adapter is the processor's, with dropout too, and merged") {
  for (const double dropout : {0.0, 0.4})
    for (const bool frozen : {false, true}) {
      INFO("dropout " << dropout << ", frozen " << frozen);
      check(
          [=]<class T, class D>() {
            nn::Linear<T, D> m(24, 40);
            nn::add_adapters(m, {.rank = 8, .dropout = dropout, .modules = {"*"}});
            if (!frozen)
              for (const auto& p : nn::parameters(m)) p.set_requires_grad(true);
            return m;
          },
          on_first, {{13, 24}});
    }
  seed(7);
  nn::Linear<float, Cuda> m(24, 40);
  nn::add_adapters(m, {.rank = 8, .modules = {"*"}});
  nn::normal(m.adapter->b.value(), 0.3);
  const Var<float, Cuda> x(device::converted<float>(device::random<double>({5, 24}, 1)).to<Cuda>());
  const auto before = m(x).value().values();
  nn::merge_adapters(m);
  const auto after = m(x).value().values();
  for (std::size_t i = 0; i < before.size(); ++i) REQUIRE(after[i] == Approx(before[i]).margin(1e-5));
}

TEST_CASE("cuda: an attention and a feed-forward with adapters are the processor's") {
  check(
      []<class T, class D>() {
        nn::MultiHeadAttention<T, D> m({.d_model = 24, .heads = 3});
        nn::add_adapters(m, {.rank = 4, .modules = {"q_proj", "v_proj", "out_proj"}});
        return m;
      },
      [](const auto& m, auto& given) {
        return m(given.x[0], {.segments = Segments::ragged({5, 1, 7}), .causal = true});
      },
      {{13, 24}});
  check(
      []<class T, class D>() {
        nn::FeedForward<T, D> m(24, 40, {.activation = Activation::relu});
        nn::add_adapters(m, {.rank = 4, .modules = {"fc2"}});
        return m;
      },
      on_first, {{13, 24}});
}
