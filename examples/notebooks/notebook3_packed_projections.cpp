// Notebook 3: encoder and decoder on vectors, with one projection for q, k and v of a self-attention and one for k and v of a
// cross-attention, masks that are added to the scores, and layer norm over several dimensions.

#include <limits>
#include <vector>

#include "attend/core.hpp"
#include "show.hpp"

using namespace attend;

namespace {

constexpr index_t batch = 30, length = 200;

nn::StackOptions options() {
  return {.d_model = 512,
          .heads = 8,
          .d_ff = 2048,
          .layers = 5,
          .positions = nn::PositionKind::none,
          .dropout = {.activation = 0.1, .residual = 0.1}};
}

/// 0 where position i may see position j, minus infinity where j comes later.
Var<float> look_ahead_mask() {
  Tensor<float> mask({length, length}, 0.0f);
  for (index_t i = 0; i < length; ++i)
    for (index_t j = i + 1; j < length; ++j) mask(i, j) = -std::numeric_limits<float>::infinity();
  return Var<float>(mask);
}

}  // namespace

int main() {
  seed(3);
  const NoGrad no_grad;
  const nn::Encoder<float> encoder(options());
  auto decoder_options = options();
  decoder_options.causal = false;  // the added mask does it
  const nn::Decoder<float> decoder(decoder_options);

  // The library keeps these projections packed anyway; a checkpoint's qkv_proj and kv_proj are loaded as they are.
  const auto& self = encoder.layers[0].self_attn;
  std::printf("q, k and v of a self-attention: one matrix %s\n", self.weight.shape().text().c_str());
  std::printf("parameters: encoder %lld, decoder %lld\n\n", static_cast<long long>(nn::parameter_count(encoder)),
              static_cast<long long>(nn::parameter_count(decoder)));

  {  // layer norm over the last two dimensions together
    const nn::LayerNorm<float> norm(Shape{2, 8});
    show("layer norm over two dimensions", norm(Var<float>(random_numbers({5, 2, 8}))).value(), 2, 8);
  }

  const auto sentences = Segments::dense(batch, length);
  const Var<float> x(random_numbers({batch, length, 512})), y(random_numbers({batch, length, 512}));
  Var<float> memory, output;
  const double encoder_time = seconds([&] { memory = encoder(x, sentences); });
  const std::vector<nn::Memory<float>> memories{{memory, sentences}};
  const double decoder_time =
      seconds([&] { output = decoder(y, sentences, {.memories = memories, .self_bias = look_ahead_mask()}); });
  show("\nencoder", memory.value());
  show("decoder", output.value());
  std::printf("\ntime: encoder %.2f s, decoder %.2f s\n", encoder_time, decoder_time);
}
