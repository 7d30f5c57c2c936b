// Notebook 2: scaled dot-product attention, multi-head attention, positions, and a decoder block with two cross-attentions,
// each with the attention weights it gives back.

#include <vector>

#include "attend/core.hpp"
#include "show.hpp"

using namespace attend;

int main() {
  seed(2);
  const NoGrad no_grad;

  {  // attention on [batch 5, length 3, width 8]
    const Var<float> q(random_numbers({5, 3, 8})), k(random_numbers({5, 3, 8})), v(random_numbers({5, 3, 8}));
    const auto sentences = Segments::dense(5, 3);
    AttentionWeights<float> weights;
    const auto y = attention(q, k, v, sentences, sentences, {.weights = &weights});
    show("attention: output", y.value(), 3, 8);
    show("attention: weights of the first sentence", weights.matrix(0, 0), 3, 3);
  }
  {  // multi-head self-attention on [2, 5, 16], 4 heads
    const nn::MultiHeadAttention<float> multi_head({.d_model = 16, .heads = 4});
    const Var<float> x(random_numbers({2, 5, 16}));
    AttentionWeights<float> weights;
    const auto y = multi_head(x, {.segments = Segments::dense(2, 5), .weights = &weights});
    show("\nmulti-head attention: output", y.value(), 5, 8);
    show("multi-head attention: weights", weights.dense(), 5, 5);
  }

  // The notebook doubles the exponent of the sinusoids, which is the same as squaring their base.
  show("\npositions", sinusoid<float>(10, 16, 1e8), 10, 8);

  {  // a decoder block on [2, 5, 16]: self-attention without a mask, two cross-attentions, four norms
    const nn::DecoderLayer<float> block({.d_model = 16, .heads = 4, .d_ff = 64, .cross_attentions = 2, .causal = false});
    const nn::Positions<float> positions(nn::PositionKind::sinusoidal, 5, 16, 1e8);
    const auto sentences = Segments::dense(2, 5);
    const auto x = positions(Var<float>(random_numbers({2, 5, 16})), sentences);
    const std::vector<nn::Memory<float>> memories{{Var<float>(random_numbers({2, 5, 16})), sentences},
                                                  {Var<float>(random_numbers({2, 5, 16})), sentences}};
    std::vector<AttentionWeights<float>> self, cross;
    const auto y = block(x, sentences, {.memories = memories, .self_weights = &self, .cross_weights = &cross});
    show("\ndecoder block: output", y.value(), 5, 8);
    show("decoder block: weights of the self-attention", self[0].dense(), 5, 5);
    show("decoder block: weights of the first cross-attention", cross[0].dense(), 5, 5);
    show("decoder block: weights of the second cross-attention", cross[1].dense(), 5, 5);
    std::printf("parameters: %lld\n", static_cast<long long>(nn::parameter_count(block)));
  }
}
