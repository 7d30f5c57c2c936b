#include <algorithm>

#include "networks.hpp"

using namespace attend;
using reference::Case;
using reference::Where;

namespace {

/// An encoder's and a decoder's part under one roof, named as in a whole model.
template <class E, class Dec>
struct Pair {
  using value_type = typename E::value_type;
  using device_type = typename E::device_type;
  E encoder;
  Dec decoder;
  template <class F>
  void fields(F&& field) {
    field("encoder", encoder);
    field("decoder", decoder);
  }
};

/// The attention mask that lets position i see 0 to i, as a term of the scores: 0 or minus infinity.
template <class T>
Var<T, Where> causal_bias(index_t length) {
  Tensor<T> bias({length, length}, T(0));
  for (index_t i = 0; i < length; ++i)
    for (index_t j = i + 1; j < length; ++j) bias(i, j) = static_cast<T>(-std::numeric_limits<T>::infinity());
  return Var<T, Where>(bias.template to<Where>());
}

/// The gradients of `parts` as a file packs them: for each head the rows of the first, then of the second, ...
template <class T, class M>
Tensor<T> packed_gradient(const M& model, const std::vector<std::string>& parts, index_t heads) {
  std::vector<Tensor<T>> gradients;
  for (const auto& name : parts)
    for (const auto& t : nn::state(model))
      if (t.name == name) gradients.push_back(t.grad().to_host());
  REQUIRE(gradients.size() == parts.size());
  index_t rows = 0;
  for (const auto& g : gradients) rows += g.dim(0);
  const Tensor<T> packed(gradients[0].shape().with(0, rows));
  T* to = packed.data();
  for (index_t h = 0; h < heads; ++h)
    for (const auto& g : gradients) {
      const index_t n = g.size() / heads;
      std::copy(g.data() + h * n, g.data() + (h + 1) * n, to);
      to += n;
    }
  return packed;
}

}  // namespace

TEMPLATE_TEST_CASE("notebook 2, decoder block: outputs, attention weights and every gradient", "", REFERENCE_TYPES) {
  using T = TestType;
  const Case c("notebook2_decoder_block");
  const auto options = reference::stack_options(c, "decoder");
  const nn::DecoderLayer<T, Where> layer(options);
  reference::load(layer, c);
  const auto x = c.leaf<T>("x"), memory = c.leaf<T>("memory");
  const index_t batch = x.dim(0), length = x.dim(1);
  const auto rows = Segments::dense(batch, length);
  const nn::Positions<T, Where> positions(nn::PositionKind::sinusoidal, length, options.d_model, options.position_base);
  const std::vector<nn::Memory<T, Where>> memories{{memory, Segments::dense(batch, memory.dim(1))}};
  std::vector<AttentionWeights<T, Where>> self_weights, cross_weights;
  const auto y =
      layer(positions(x, rows), rows, {.memories = memories, .self_weights = &self_weights, .cross_weights = &cross_weights});
  c.check("output.y", y);
  c.check("output.self_attn_weights", self_weights.at(0).dense());
  REQUIRE(cross_weights.size() == 2);
  c.check("output.encoder_attn_weights", cross_weights[0].dense());
  c.check("output.encoder_attn2_weights", cross_weights[1].dense());
  c.weighted_backward(y);
  c.check("grad_input.x", x.grad());
  c.check("grad_input.memory", memory.grad());
  reference::check_gradients(layer, c);

  // The same memory given once for each cross-attention is the same network.
  const auto again = layer(positions(x, rows), rows, {.memories = std::vector<nn::Memory<T, Where>>{memories[0], memories[0]}});
  c.check("output.y", again);
}

TEMPLATE_TEST_CASE("notebook 3, packed projections: loaded as they are; outputs and every gradient, packed too", "",
                   REFERENCE_TYPES) {
  using T = TestType;
  const Case c("notebook3_packed_projections");
  const bool causal = GENERATE(true, false);  // false: the same mask as a term of the scores
  INFO((causal ? "causal" : "additive mask"));
  const auto options = reference::stack_options(c, "encoder");
  auto decoder_options = reference::stack_options(c, "decoder");
  decoder_options.causal = causal;
  const Pair<nn::EncoderLayer<T, Where>, nn::DecoderLayer<T, Where>> model{nn::EncoderLayer<T, Where>(options),
                                                                           nn::DecoderLayer<T, Where>(decoder_options)};

  const std::string self = ".self_attn.", cross = "decoder.encoder_attn.";
  std::set<std::string> packed;  // and, in `apart`, the names of the parts that the packed ones stand for
  std::set<std::string> apart;
  for (const std::string kind : {"weight", "bias"}) {
    for (const std::string side : {"encoder", "decoder"}) {
      packed.insert(side + self + "qkv_proj." + kind);
      for (const std::string part : {"q", "k", "v"}) apart.insert(side + self + part + "_proj." + kind);
    }
    packed.insert(cross + "kv_proj." + kind);
    for (const std::string part : {"k", "v"}) apart.insert(cross + part + "_proj." + kind);
  }
  reference::load(model, c, [&](const std::string& name) { return !apart.contains(name); });

  const auto x = c.leaf<T>("x"), y = c.leaf<T>("y");
  const auto source = Segments::dense(x.dim(0), x.dim(1)), target = Segments::dense(y.dim(0), y.dim(1));
  const std::vector<nn::Memory<T, Where>> memory{{model.encoder(x, source), source}};
  nn::StackCall<T, Where> call{.memories = memory};
  if (!causal) call.self_bias = causal_bias<T>(y.dim(1));
  const auto z = model.decoder(y, target, call);
  c.check("output.y", z);
  c.weighted_backward(z);
  c.check("grad_input.x", x.grad());
  c.check("grad_input.y", y.grad());
  reference::check_gradients(model, c, packed);
  for (const auto& name : packed) {
    const auto at = name.rfind('.'), front = name.rfind('.', at - 1) + 1;
    const std::string stem = name.substr(0, front), kind = name.substr(at);
    std::vector<std::string> parts{stem + "k_proj" + kind, stem + "v_proj" + kind};
    if (name.find("qkv_proj") != std::string::npos) parts.insert(parts.begin(), stem + "q_proj" + kind);
    c.check("grad." + name, packed_gradient<T>(model, parts, options.heads));
  }
}

TEMPLATE_TEST_CASE("torch.nn.Transformer, post-norm and pre-norm: outputs and every gradient", "", REFERENCE_TYPES) {
  using T = TestType;
  const Case c("torch_nn_transformer_" + GENERATE(std::string("post"), std::string("pre")));
  const Pair<nn::Encoder<T, Where>, nn::Decoder<T, Where>> model{nn::Encoder<T, Where>(reference::stack_options(c, "encoder")),
                                                                 nn::Decoder<T, Where>(reference::stack_options(c, "decoder"))};
  reference::load(model, c);
  const auto x = c.leaf<T>("x"), y = c.leaf<T>("y");
  const auto padded = nn::dense_segments(x.dim(0), x.dim(1), c.mask("src_mask"));
  const auto target = Segments::dense(y.dim(0), y.dim(1));
  const auto run = [&](const Var<T, Where>& source, const Segments& segments) {
    nn::zero_grad(model);
    y.zero_grad();
    const std::vector<nn::Memory<T, Where>> memory{{model.encoder(source, segments), segments}};
    const auto z = model.decoder(y, target, {.memories = memory});
    c.check("output.y", z);
    c.weighted_backward(z);
    c.check("grad_input.y", y.grad());
    reference::check_gradients(model, c);
  };
  run(x, padded);
  c.check("grad_input.x", x.grad());

  // Without the padding, whose rows have no part in the result.
  std::vector<index_t> lengths;
  for (index_t i = 0; i < padded.count(); ++i) lengths.push_back(padded.keys(i));
  const auto ragged = Segments::ragged(lengths);
  const Var<T, Where> real(nn::drop_padding(x.value().to_host(), padded).template to<Where>(), true);
  run(real, ragged);
  c.check("grad_input.x", nn::add_padding(real.grad().to_host(), ragged, T(0), x.dim(1)));
}
