// Notebook 0: an encoder-decoder with GELU, heads of a width of their own, padding masks on both sides and a final norm on
// both stacks, from tokens to the most likely next tokens.

#include "attend/core.hpp"
#include "show.hpp"

using namespace attend;

namespace {

constexpr index_t batch = 8, source_length = 512, target_length = 256;

nn::Transformer<float> build() {
  auto options = nn::model_options({.source_vocabulary = 20000,
                                    .target_vocabulary = 10000,
                                    .d_model = 64,
                                    .heads = 4,
                                    .d_k = 16,
                                    .d_ff = 256,
                                    .layers = 2,
                                    .activation = Activation::gelu,
                                    .final_norm = true,
                                    .scale_embedding = false,
                                    .max_length = 1024});
  options.encoder.dropout = options.decoder.dropout = {.embedding = 0.1, .feed_forward = 0.1, .block = 0.1};
  return nn::Transformer<float>(options);
}

/// A mask [batch, length] whose second half is padding.
Tensor<std::uint8_t> first_half(index_t length) {
  Tensor<std::uint8_t> mask({batch, length});
  for (index_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % length < length / 2;
  return mask;
}

}  // namespace

int main() {
  seed(0);
  auto model = build();
  nn::set_training(model, false);
  const NoGrad no_grad;
  std::printf("parameters: %lld\n\n", static_cast<long long>(nn::parameter_count(model)));

  const nn::DenseBatch sentences{.source = random_tokens({batch, source_length}, 20000),
                                 .source_mask = first_half(source_length),
                                 .target = random_tokens({batch, target_length}, 10000),
                                 .target_mask = first_half(target_length)};

  // As the notebook has it: all positions are computed, padding too.
  const auto padded = nn::dense_batch(sentences);
  Tensor<float> logits;
  const double dense_time = seconds([&] { logits = model(padded).value().reshape({batch, target_length, 10000}); });
  show("logits", logits);
  show("most likely tokens", argmax(logits), 2, 10);

  // As the library prefers it: half of each sentence is padding, so half of the rows need not exist.
  const auto ragged = nn::ragged_batch(sentences);
  Tensor<float> rows;
  const double ragged_time = seconds([&] { rows = model(ragged).value(); });
  show("\nlogits of the tokens that are no padding", rows);
  const auto kept = nn::drop_padding(logits, padded.target_segments);
  float furthest = 0;
  for (index_t i = 0; i < rows.size(); ++i) furthest = std::max(furthest, std::abs(rows.data()[i] - kept.data()[i]));
  std::printf("\nlargest difference between the two: %.1e\n", static_cast<double>(furthest));
  std::printf("time with padding %.3f s, without %.3f s\n", dense_time, ragged_time);
}
