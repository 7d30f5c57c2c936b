// One training step (loss, backward, Adam) and one greedy decoding run of each network.

#include <limits>
#include <memory>

#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/optim/adam.hpp"
#include "measure.hpp"
#include "networks.hpp"

using namespace attend;

namespace {

template <class M>
optim::Adam<float> make_adam(const M& model) {
  return optim::Adam<float>(nn::parameters(model), {.learning_rate = 1e-5});
}

/// A step on random pairs of such sentences; the labels of padded rows are not counted.
void step_benchmark(const std::string& name, const nn::ModelOptions& options, const Segments& source, const Segments& target) {
  double tokens = 0;
  for (index_t i = 0; i < target.count(); ++i) tokens += static_cast<double>(target.keys(i));
  measure(name + "/step", {.items = tokens}, [=] {
    const nn::Transformer<float> model(options);
    const nn::Batch<> batch{.source = random_tokens(source.rows(), options.encoder.vocabulary),
                            .source_segments = source,
                            .target = random_tokens(target.rows(), options.decoder.vocabulary),
                            .target_segments = target,
                            .labels = random_tokens(target.rows(), options.decoder.vocabulary)};
    constexpr token_t padding = 0;
    for (index_t i = 0; i < target.count(); ++i)
      for (index_t j = target.keys(i); j < target.length(i); ++j) batch.labels.data()[target.begin(i) + j] = padding;
    const auto adam = std::make_shared<optim::Adam<float>>(make_adam(model));
    return [=] {
      adam->zero_grad();
      model.loss(batch, {.smoothing = 0.1, .ignore_index = padding}).backward();
      adam->step();
    };
  });
}

/// `length` tokens for each source: weights that have learnt nothing do not know when to stop.
void greedy_benchmark(const std::string& name, const nn::ModelOptions& options, const Segments& source, index_t length) {
  measure(name + "/greedy", {.items = static_cast<double>(source.count() * length)}, [=] {
    const decode::TransformerModel<float> model{nn::Transformer<float>(options)};
    const auto tokens = random_tokens(source.rows(), options.encoder.vocabulary);
    return [=] {
      auto steps = model;
      auto state = steps.begin(tokens, source);
      const auto found = decode::greedy(steps, state, source.count(), {.max_length = length, .min_length = length});
      benchmark::DoNotOptimize(found.data());
    };
  });
}

/// These two end in vectors; their loss is a random weighting of them, so its gradient is given.
void notebook2_benchmark() {
  constexpr index_t batch = 2, length = 5;
  measure("notebook2/step", {.items = batch * length}, [] {
    const nn::DecoderLayer<float> block(notebook2());
    const auto sentences = Segments::dense(batch, length);
    const Var<float> x(random_numbers({batch * length, 16})), first(random_numbers({batch * length, 16})),
        second(random_numbers({batch * length, 16}));
    const std::vector<nn::Memory<float>> memories{{first, sentences}, {second, sentences}};
    const auto dy = random_numbers(x.shape());
    const auto adam = std::make_shared<optim::Adam<float>>(make_adam(block));
    return [=] {
      adam->zero_grad();
      block(x, sentences, {.memories = memories}).backward(dy);
      adam->step();
    };
  });
}

void notebook3_benchmark() {
  constexpr index_t batch = 30, length = 200, width = 512;
  measure("notebook3/step", {.items = batch * length}, [] {
    const nn::Encoder<float> encoder(notebook3());
    const nn::Decoder<float> decoder(notebook3());
    const auto sentences = Segments::dense(batch, length);
    const Var<float> x(random_numbers({batch * length, width})), y(random_numbers({batch * length, width}));
    const auto dy = random_numbers(y.shape());
    const Tensor<float> mask({length, length}, 0.0f);
    for (index_t i = 0; i < length; ++i)
      for (index_t j = i + 1; j < length; ++j) mask(i, j) = -std::numeric_limits<float>::infinity();
    auto parameters = nn::parameters(encoder);
    for (const auto& p : nn::parameters(decoder)) parameters.push_back(p);
    const auto adam = std::make_shared<optim::Adam<float>>(parameters, optim::AdamOptions{.learning_rate = 1e-5});
    return [=] {
      adam->zero_grad();
      const std::vector<nn::Memory<float>> memories{{encoder(x, sentences), sentences}};
      decoder(y, sentences, {.memories = memories, .self_bias = Var<float>(mask)}).backward(dy);
      adam->step();
    };
  });
}

const bool registered = [] {
  const auto half = [](index_t length) { return std::vector<index_t>(8, length / 2); };
  // All positions computed, as the notebook does; and its padding, the second half of each sentence, left out.
  step_benchmark("notebook0_padded", notebook0(), Segments::dense(8, 512, half(512)), Segments::dense(8, 256, half(256)));
  step_benchmark("notebook0_trimmed", notebook0(), Segments::dense(8, 256), Segments::dense(8, 128));
  step_benchmark("notebook1", notebook1(), Segments::dense(16, 25), Segments::dense(16, 25));
  notebook2_benchmark();
  notebook3_benchmark();
  step_benchmark("notebook4", notebook4(), Segments::dense(5, 128), Segments::dense(5, 128));
  step_benchmark("tiny", tiny(), sentences_of_20_to_30(80), sentences_of_20_to_30(80));
  greedy_benchmark("notebook0", notebook0(), Segments::dense(8, 256), 128);
  greedy_benchmark("notebook1", notebook1(), Segments::dense(16, 25), 25);
  greedy_benchmark("notebook4", notebook4(), Segments::dense(5, 128), 127);
  greedy_benchmark("tiny", tiny(), sentences_of_20_to_30(32), 25);
  return true;
}();

}  // namespace
