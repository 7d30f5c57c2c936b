#include "attend/nn/additive_attention.hpp"
#include "modules.hpp"

using namespace attend;

namespace {

nn::TransformerOptions options() {
  return {.vocabulary = 13,
          .d_model = 16,
          .heads = 2,
          .d_ff = 24,
          .layers = 1,
          .positions = nn::PositionKind::learned,
          .max_length = 7};
}

/// One seed gives one model, number for number, on either device.
template <class T, class Make>
void check_same_start(const Make& make) {
  INFO("numbers of " << sizeof(T) << " bytes");
  seed(11);
  const auto here = make.template operator()<T, Cpu>();
  const auto drawn = default_generator().drawn();
  seed(11);
  const auto there = make.template operator()<T, Cuda>();
  CHECK(default_generator().drawn() == drawn);
  CHECK(nn::parameter_count(there) == nn::parameter_count(here));
  const auto a = nn::named_tensors(here);
  const auto b = nn::named_tensors(there);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(b[i].name == a[i].name);
    REQUIRE(b[i].value.shape() == a[i].value.shape());
    CHECK(device::converted<double>(b[i].value.to_host()).values() == device::converted<double>(a[i].value).values());
  }
}
template <class Make>
void check_start(const Make& make) {
  if (!device::present()) return;
  check_same_start<float>(make);
  check_same_start<bfloat16>(make);
}

}  // namespace

TEST_CASE("cuda: a seed gives the model that it gives on the processor, bit for bit") {
  for (const bool tied : {false, true}) {
    auto o = options();
    o.share_embeddings = o.tie_head = tied, o.scale_embedding = !tied, o.d_v = tied ? 5 : 0;
    check_start([=]<class T, class D>() { return nn::Transformer<T, D>(o); });
  }
  for (const auto& [kind, name] : names_of(nn::Initialisation())) {
    auto o = options();
    o.initialisation = kind;
    check_start([=]<class T, class D>() { return nn::Transformer<T, D>(o); });
  }
  check_start([]<class T, class D>() {
    nn::MultiHeadAttention<T, D> m({.d_model = 8, .heads = 2, .d_k = 4, .d_v = 32, .d_memory = 5});
    nn::xavier_uniform_all(m);
    return m;
  });
  check_start([]<class T, class D>() { return nn::AdditiveAttention<T, D>(3, 5, 4); });
  if (!device::present()) return;
  for (const auto kind : {nn::PositionKind::sinusoidal, nn::PositionKind::sinusoidal_halves})
    CHECK(nn::Positions<float, Cuda>(kind, 9, 7).table.value().values() ==
          nn::Positions<float>(kind, 9, 7).table.value().values());
}

TEST_CASE("cuda: the state of a model goes to the device and back, and models there are copied and independent") {
  if (!device::present()) return;
  seed(1);
  const nn::Transformer<float> here(options()), back(options());
  const nn::Transformer<float, Cuda> there(options()), other(options());
  const auto a = nn::state(here), c = nn::state(back);
  const auto b = nn::state(there), d = nn::state(other);
  for (std::size_t i = 0; i < a.size(); ++i) b[i].value.assign(a[i].value);
  nn::copy_parameters(there, other);
  for (std::size_t i = 0; i < a.size(); ++i) c[i].value.assign(d[i].value.to_host());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(c[i].value.values() == a[i].value.values());
    CHECK(d[i].value.data() != b[i].value.data());
  }
  // What a checkpoint calls k_proj are rows of the packed matrix, and writing to them changes the module, of one model alone.
  const nn::MultiHeadAttention<float, Cuda> one({.d_model = 6, .heads = 2, .d_k = 5, .d_v = 4}),
      two({.d_model = 6, .heads = 2, .d_k = 5, .d_v = 4});
  nn::copy_parameters(one, two);
  const auto before = one.weight.value().to_host();
  const auto k = nn::state(one)[2];
  REQUIRE(k.name == "k_proj.weight");
  k.value.fill(3);
  const auto after = one.weight.value().to_host();
  for (index_t row = 0; row < after.dim(0); ++row)
    for (index_t j = 0; j < 6; ++j) REQUIRE(after(row, j) == (row >= 10 && row < 20 ? 3 : before(row, j)));
  CHECK(two.weight.value().values() == before.values());
  nn::TransformerOptions deeper = options();
  deeper.layers = 2;
  CHECK_THROWS_AS(nn::copy_parameters(there, nn::Transformer<float, Cuda>(deeper)), ShapeError);
}

TEST_CASE("cuda: a named tensor gives its part of the gradient, and zero_grad forgets all of it") {
  if (!device::present()) return;
  const nn::MultiHeadAttention<float, Cuda> attention({.d_model = 4, .heads = 2});
  const auto parts = nn::state(attention);
  CHECK_THROWS_AS(parts[0].grad(), Error);
  const Var<float, Cuda> x(device::random<float>({5, 4}).to<Cuda>(), true);
  const auto y = attention(x, {.segments = Segments::ragged({5})});
  y.backward(device::random<float>({5, 4}, 1).to<Cuda>());
  CHECK(parts[2].grad().data() == attention.weight.grad().data() + 16);
  CHECK(parts[2].grad().values() == attention.weight.grad().rows(4, 4).values());
  nn::zero_grad(attention);
  for (const auto& p : nn::parameters(attention)) CHECK(p.grad().empty());
}
