#include <vector>

#include "attend/cuda.hpp"
#include "attend/nn/additive_attention.hpp"
#include "attend/nn/transformer.hpp"
#include "device.hpp"

using namespace attend;

namespace {

/// The norm of the error relative to that of the tensor.
template <class T>
double error_of(const Tensor<T, Cuda>& got, const Tensor<double>& expected) {
  REQUIRE(got.shape() == expected.shape());
  const auto host = got.to_host();
  double error = 0, size = 0;
  for (index_t i = 0; i < host.size(); ++i) {
    const double e = expected.data()[i], d = static_cast<double>(host.data()[i]) - e;
    error += d * d, size += e * e;
  }
  return std::sqrt(error) / std::max(std::sqrt(size), 1e-3);
}

/// A module on the device in T against the same on the processor in double: its output, and the gradients of its inputs and of
/// all its parameters. make<T, D>() builds it; run(module, inputs) applies it to Vars. In bfloat16 errors are those of a few
/// dozen roundings to three digits, and larger in gradients, which pass through all of them twice.
template <class T, class Make, class Run>
void check_in(const Make& make, const Run& run, const std::vector<Shape>& shapes) {
  INFO(sizeof(T) << " bytes");
  const double allowed = std::is_same_v<T, bfloat16> ? 2e-2 : 1e-5,
               allowed_in_gradients = std::is_same_v<T, bfloat16> ? 1e-1 : 2e-5;
  seed(5);
  const auto here = make.template operator()<double, Cpu>();
  const auto there = make.template operator()<T, Cuda>();
  const auto a = nn::state(here);
  const auto b = nn::state(there);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto rounded = device::converted<T>(a[i].value);
    a[i].value.assign(device::converted<double>(rounded));
    b[i].value.assign(rounded);
  }
  std::vector<Var<double>> x;
  std::vector<Var<T, Cuda>> z;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto numbers = device::random<T>(shapes[i], i);
    x.emplace_back(device::converted<double>(numbers), true);
    z.emplace_back(numbers.template to<Cuda>(), true);
  }
  const auto y = run(here, x);
  const auto w = run(there, z);
  CHECK(error_of(w.value(), y.value()) < allowed);
  const auto dy = device::random<T>(y.shape(), 99);
  y.backward(device::converted<double>(dy));
  w.backward(device::converted<typename std::remove_cvref_t<decltype(w)>::value_type>(dy).template to<Cuda>());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    INFO("input " << i);
    CHECK(error_of(z[i].grad(), x[i].grad()) < allowed_in_gradients);
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    // What shifts all scores alike has no gradient but rounding.
    if (a[i].name.find("k_proj.bias") != std::string::npos) continue;
    CHECK(error_of(b[i].grad(), a[i].grad()) < allowed_in_gradients);
  }
}

template <class Make, class Run>
void check(const Make& make, const Run& run, const std::vector<Shape>& shapes) {
  if (!device::present()) return;
  check_in<float>(make, run, shapes);
  check_in<bfloat16>(make, run, shapes);
}

const auto sentences = Segments::ragged({4, 7, 1}), sources = Segments::ragged({6, 2, 5});

nn::StackOptions stack(nn::NormOrder order, bool decoder) {
  nn::StackOptions o{.d_model = 32,
                     .heads = 2,
                     .d_ff = 48,
                     .layers = 2,
                     .norm_order = order,
                     .positions = nn::PositionKind::learned,
                     .max_length = 16};
  o.activation = order == nn::NormOrder::pre ? Activation::gelu_tanh : Activation::relu;
  o.causal = decoder;
  o.final_norm = order == nn::NormOrder::pre;
  return o;
}

}  // namespace

TEST_CASE("cuda: Linear, LayerNorm and FeedForward are the processor's") {
  const auto on = [](const auto& m, const auto& in) { return m(in[0]); };
  check([]<class T, class D>() { return nn::Linear<T, D>(24, 40); }, on, {{13, 24}});
  check([]<class T, class D>() { return nn::LayerNorm<T, D>(24); }, on, {{13, 24}});
  check([]<class T, class D>() { return nn::LayerNorm<T, D>(24, {.sample_deviation = true, .scalar_affine = true}); }, on,
        {{13, 24}});
  for (const auto activation : {Activation::relu, Activation::gelu_tanh, Activation::gelu, Activation::silu})
    check([=]<class T, class D>() { return nn::FeedForward<T, D>(24, 40, activation); }, on, {{13, 24}});
}

TEST_CASE("cuda: MultiHeadAttention, with itself and with a memory, and AdditiveAttention are the processor's") {
  check([]<class T, class D>() { return nn::MultiHeadAttention<T, D>({.d_model = 32, .heads = 2}); },
        []<class M>(const M& m, const auto& in) {
          return m(in[0], sentences, nn::AttentionCall<typename M::value_type, typename M::device_type>{.causal = true});
        },
        {{12, 32}});
  check([]<class T, class D>() { return nn::MultiHeadAttention<T, D>({.d_model = 32, .heads = 2, .d_memory = 20}); },
        [](const auto& m, const auto& in) { return m(in[0], sentences, in[1], sources); }, {{12, 32}, {13, 20}});
  check([]<class T, class D>() { return nn::AdditiveAttention<T, D>(12, 10, 14); },
        [](const auto& m, const auto& in) { return m(in[0], sentences, in[1], in[2], sources); }, {{12, 12}, {13, 10}, {13, 9}});
}

TEST_CASE("cuda: Encoder and Decoder are the processor's, post-norm and pre-norm") {
  for (const auto order : {nn::NormOrder::post, nn::NormOrder::pre}) {
    check([=]<class T, class D>() { return nn::Encoder<T, D>(stack(order, false)); },
          [](const auto& m, const auto& in) { return m(in[0], sentences); }, {{12, 32}});
    check([=]<class T, class D>() { return nn::Decoder<T, D>(stack(order, true)); },
          []<class M>(const M& m, const auto& in) {
            const std::vector<nn::Memory<typename M::value_type, typename M::device_type>> memories{{in[1], sources}};
            return m(in[0], sentences, memories);
          },
          {{12, 32}, {13, 32}});
  }
}
