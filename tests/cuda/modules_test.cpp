#include "modules.hpp"

#include "attend/nn/embedding.hpp"
#include "attend/nn/sublayer.hpp"

using namespace attend;
using modules::check;
using modules::check_refused;

namespace {

constexpr auto on_first = [](const auto& m, auto& given) { return m(given.x[0]); };
constexpr auto activations = {Activation::relu, Activation::gelu, Activation::gelu_tanh,
                              Activation::silu, Activation::tanh, Activation::identity};

}  // namespace

TEST_CASE("cuda: Linear is the processor's, with and without a bias, on any leading dimensions and on no row") {
  for (const bool bias : {true, false})
    for (const Shape& x : {Shape{13, 24}, Shape{2, 4, 24}, Shape{1, 24}, Shape{0, 24}}) {
      INFO((bias ? "bias, x " : "x ") << x.text());
      check([=]<class T, class D>() { return nn::Linear<T, D>(24, 40, {.bias = bias}); }, on_first, {x});
    }
  check([]<class T, class D>() { return nn::Linear<T, D>(3, 5); }, on_first, {{2, 4, 3}});  // of no 16 bytes
  check_refused([]<class T, class D>() { return nn::Linear<T, D>(3, 5); }, on_first, {{2, 4}});
}

TEST_CASE("cuda: LayerNorm of every kind is the processor's, over one or several dimensions") {
  for (const bool sample : {false, true})
    for (const bool scalar : {false, true})
      for (const Shape& x : {Shape{13, 24}, Shape{2, 3, 24}, Shape{0, 24}}) {
        INFO("sample " << sample << ", scalar " << scalar << ", x " << x.text());
        const nn::NormOptions how{.eps = 1e-6, .sample_deviation = sample, .scalar_affine = scalar};
        check([=]<class T, class D>() { return nn::LayerNorm<T, D>(24, how); }, on_first, {x});
      }
  check([]<class T, class D>() { return nn::LayerNorm<T, D>(7, {.eps = 0.5}); }, on_first, {{5, 7}});
  check([]<class T, class D>() { return nn::LayerNorm<T, D>(Shape{4, 5}); }, on_first, {{3, 4, 5}});
  check_refused([]<class T, class D>() { return nn::LayerNorm<T, D>(4); }, on_first, {{2, 5}});
}

TEST_CASE("cuda: FeedForward is the processor's with each activation, with and without dropout, and on no row") {
  for (const auto activation : activations)
    for (const double p : {0.0, 0.4}) {
      INFO("activation " << static_cast<int>(activation) << ", dropout " << p);
      check([=]<class T, class D>() { return nn::FeedForward<T, D>(24, 40, {.activation = activation, .dropout = p}); }, on_first,
            {{13, 24}});
    }
  check([]<class T, class D>() { return nn::FeedForward<T, D>(3, 5, {.activation = Activation::gelu, .dropout = 0.4}); },
        on_first, {{4, 3}});
  check([]<class T, class D>() { return nn::FeedForward<T, D>(24, 40, {.dropout = 0.4}); }, on_first, {{0, 24}});
  const auto evaluated = []<class T, class D>() {
    nn::FeedForward<T, D> m(24, 40, {.activation = Activation::gelu, .dropout = 0.4});
    nn::set_training(m, false);
    return m;
  };
  check(evaluated, on_first, {{13, 24}});
  auto& chosen = cuda::detail::activation_fusion();
  const int before = chosen;
  for (const bool fused : {true, false})
    for (const auto activation : {Activation::relu, Activation::gelu_tanh}) {
      INFO("activation " << static_cast<int>(activation) << (fused ? " by the product" : " after the product"));
      cuda::fuse_activations(fused);
      for (const index_t hidden : {40, 37})
        check([=]<class T, class D>() { return nn::FeedForward<T, D>(24, hidden, {.activation = activation}); }, on_first,
              {{13, 24}});
    }
  chosen = before;
  for (const auto activation : {Activation::relu, Activation::gelu})
    check_refused([=]<class T, class D>() { return nn::FeedForward<T, D>(3, 5, {.activation = activation}); }, on_first,
                  {{2, 4}});
}

TEST_CASE("cuda: Embedding is the processor's, scaled or not; gradients add up over repeated tokens") {
  const Tensor<token_t> tokens({2, 3}, {0, 6, 2, 2, 2, 5}), none({0});
  for (const bool scaled : {false, true})
    for (const index_t width : {5, 24})
      for (const auto* t : {&tokens, &none}) {
        INFO("width " << width << ", scaled " << scaled << ", tokens " << t->shape().text());
        check([=]<class T, class D>() { return nn::Embedding<T, D>(7, width, {.scaled = scaled}); },
              [=](const auto& m, auto& given) { return m(given.beside(*t)); }, {});
      }
  for (const token_t bad : {-1, 7, 1 << 30}) {
    INFO("token " << bad);
    check_refused([]<class T, class D>() { return nn::Embedding<T, D>(7, 4); },
                  [=](const auto& m, auto& given) {
                    return m(given.beside(Tensor<token_t>({3}, {0, 6, bad})));
                  });
  }
}

TEST_CASE("cuda: Positions of each kind are the processor's") {
  using nn::PositionKind;
  const auto segments = Segments::ragged({4, 0, 2, 1});
  for (const auto kind : {PositionKind::learned, PositionKind::sinusoidal, PositionKind::sinusoidal_halves, PositionKind::none})
    for (const index_t width : {6, 24}) {
      INFO("kind " << static_cast<int>(kind) << ", width " << width);
      const auto make = [=]<class T, class D>() { return nn::Positions<T, D>(kind, 5, width, 1000); };
      check(make, [&](const auto& m, auto& given) { return m(given.x[0], segments); }, {{7, width}});
      if (kind == PositionKind::none) continue;
      check_refused(make, [](const auto& m, auto& given) { return m(given.x[0], Segments::ragged({1, 6})); }, {{7, width}});
      check_refused(make, [](const auto& m, auto& given) { return m(given.x[0], Segments::ragged({3, 3})); }, {{7, width}});
    }
}

TEST_CASE("cuda: Sublayer is the processor's in both orders, each dropout at its place, and in evaluation") {
  for (const auto order : {nn::NormOrder::post, nn::NormOrder::pre})
    for (const double p : {0.0, 0.4})
      for (const double q : {0.0, 0.3})
        for (const bool training : {true, false})
          for (const index_t width : {6, 24}) {
            INFO("pre " << (order == nn::NormOrder::pre) << ", residual " << p << ", norm " << q << ", width " << width);
            const auto make = [=]<class T, class D>() {
              nn::StackOptions o{.d_model = width, .heads = 1, .norm_order = order};
              o.dropout.residual = p, o.dropout.norm = q;
              nn::Sublayer<T, D> m(o);
              nn::set_training(m, training);
              return m;
            };
            const auto run = [](const auto& m, auto& given) {
              return m({given.x[0]}, [&](const auto& z) { return tanh(linear(z, given.x[1])); }).value();
            };
            check(make, run, {{5, width}, {width, width}});
          }
}
