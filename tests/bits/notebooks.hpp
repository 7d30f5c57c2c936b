#pragma once

#include <limits>
#include <string>
#include <vector>

#include "attend/nn/additive_attention.hpp"
#include "attend/nn/dense.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/ops/softmax.hpp"
#include "learn.hpp"

/// The networks of the five notebooks, in their widths; fewer layers and shorter sentences, which run through the same code.
namespace bits {

inline constexpr index_t notebook_width = sized(512, 32), notebook_heads = sized(8, 4), notebook_d_ff = sized(2048, 64),
                         notebook_layers = sized(2, 1);

/// The value in evaluation mode.
template <class M, class F>
void evaluate(Record& record, const std::string& name, M& model, const F& compute) {
  const NoGrad no_grad;
  const nn::EvaluationScope evaluation(model);
  item(record, name, compute());
}

template <class T>
void notebook0(Record& record) {
  constexpr index_t batch = sized(4, 2), source_length = sized(160, 12), target_length = sized(128, 8);
  constexpr index_t source_vocabulary = sized(2000, 50), target_vocabulary = sized(1000, 40);
  seed(0);
  auto options = nn::model_options({.source_vocabulary = source_vocabulary,
                                    .target_vocabulary = target_vocabulary,
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
  nn::Transformer<T, D> model(options);
  const auto grid = [&](index_t length, index_t vocabulary, std::uint64_t stream) {
    return tensor_of(words(batch * length, vocabulary, stream)).reshape({batch, length});
  };
  const auto first_half = [&](index_t length) {
    Tensor<std::uint8_t> mask({batch, length});
    for (index_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % length < length / 2;
    return mask;
  };
  const nn::DenseBatch sentences{.source = grid(source_length, source_vocabulary, 1),
                                 .source_mask = first_half(source_length),
                                 .target = grid(target_length, target_vocabulary, 2),
                                 .target_mask = first_half(target_length),
                                 .labels = grid(target_length, target_vocabulary, 3)};
  const auto padded = nn::dense_batch(sentences).to<D>(), ragged = nn::ragged_batch(sentences).to<D>();
  evaluate(record, "notebook0/padded", model, [&] { return model(padded); });
  evaluate(record, "notebook0/ragged", model, [&] { return model(ragged); });
  learn(record, "notebook0", model, [&] { return model.loss(ragged, {.smoothing = 0.1}); });
}

template <class T>
void notebook1(Record& record) {
  constexpr index_t vocabulary = sized(600, 40);
  constexpr double dropout = 0.1;
  seed(1);
  const nn::StackOptions stack{.vocabulary = vocabulary,
                               .d_model = notebook_width,
                               .heads = notebook_heads,
                               .d_ff = notebook_d_ff,
                               .layers = notebook_layers,
                               .norm = {.eps = 1e-6, .sample_deviation = true, .scalar_affine = true},
                               .attention_bias = false,
                               .position_base = 1000,
                               .max_length = 64,
                               .dropout = {.embedding = dropout, .attention = dropout, .activation = dropout, .norm = dropout}};
  nn::Transformer<T, D> model(nn::ModelOptions{.encoder = stack, .decoder = stack, .output = nn::Output::log_probabilities});
  nn::xavier_uniform_all(model);
  const auto batch = made_batch(Segments::ragged({32, 9, 1}), Segments::ragged({20, 13, 2}), vocabulary, vocabulary, 5);
  evaluate(record, "notebook1/encoder", model, [&] { return model.encode(batch.source, batch.source_segments).x; });
  evaluate(record, "notebook1/log_probabilities", model, [&] { return model(batch); });
  learn(record, "notebook1", model, [&] { return model.loss(batch); });
}

template <class T>
void notebook2(Record& record) {
  seed(2);
  const auto numbers_of = [](index_t batch, index_t length, index_t width, std::uint64_t stream) {
    return Var<T, D>(numbers<T>({batch, length, width}, stream), true);
  };
  AttentionWeights<T, D> weights;
  {
    const auto q = numbers_of(5, 3, 8, 1), k = numbers_of(5, 3, 8, 2), v = numbers_of(5, 3, 8, 3);
    const auto sentences = Segments::dense(5, 3);
    differentiate(record, "notebook2/attention", NoWeights<T>{}, {q, k, v},
                  [&] { return attention(q, k, v, sentences, sentences, {.weights = &weights}); });
    item(record, "notebook2/attention/weights", weights.dense());
  }
  item(record, "notebook2/positions", sinusoid<T>(10, 16, 1e8));
  const nn::DecoderLayer<T, D> block({.d_model = 16, .heads = 4, .d_ff = 64, .cross_attentions = 2, .causal = false});
  const nn::Positions<T, D> positions(nn::PositionKind::sinusoidal, 5, 16, 1e8);
  const auto sentences = Segments::dense(2, 5);
  const auto x = numbers_of(2, 5, 16, 4), first = numbers_of(2, 5, 16, 5), second = numbers_of(2, 5, 16, 6);
  const std::vector<nn::Memory<T, D>> memories{{first, sentences}, {second, sentences}};
  std::vector<AttentionWeights<T, D>> self, cross;
  const auto compute = [&] {
    return block(positions(x, sentences), sentences, {.memories = memories, .self_weights = &self, .cross_weights = &cross});
  };
  differentiate(record, "notebook2/block", block, {x, first, second}, compute);
  item(record, "notebook2/block/self_weights", self[0].dense());
  item(record, "notebook2/block/cross_weights0", cross[0].dense());
  item(record, "notebook2/block/cross_weights1", cross[1].dense());
  learn(record, "notebook2", block, [&] { return mean(square(compute())); });
}

/// Encoder and decoder of notebook 3 as one model.
template <class T>
struct TwoStacks {
  using value_type = T;
  using device_type = D;
  nn::Encoder<T, D> encoder;
  nn::Decoder<T, D> decoder;
  template <class F>
  void fields(F&& field) {
    field("encoder", encoder);
    field("decoder", decoder);
  }
};

template <class T>
void notebook3(Record& record) {
  constexpr index_t batch = sized(3, 2), length = sized(40, 8), width = notebook_width;
  seed(3);
  nn::StackOptions options{.d_model = width,
                           .heads = notebook_heads,
                           .d_ff = notebook_d_ff,
                           .layers = notebook_layers,
                           .positions = nn::PositionKind::none,
                           .dropout = {.activation = 0.1, .residual = 0.1}};
  const nn::Encoder<T, D> encoder(options);
  options.causal = false;
  const TwoStacks<T> model{encoder, nn::Decoder<T, D>(options)};
  const Tensor<T> mask({length, length}, T(0));
  for (index_t i = 0; i < length; ++i)
    for (index_t j = i + 1; j < length; ++j) mask(i, j) = static_cast<T>(-std::numeric_limits<float>::infinity());
  const Var<T, D> look_ahead(mask.template to<D>());
  const nn::LayerNorm<T, D> norm(Shape{2, 8});
  const Var<T, D> z(numbers<T>({5, 2, 8}, 3), true);
  differentiate(record, "notebook3/norm", norm, {z}, [&] { return norm(z); });
  const auto sentences = Segments::dense(batch, length);
  const Var<T, D> x(numbers<T>({batch, length, width}, 1), true), y(numbers<T>({batch, length, width}, 2), true);
  const auto compute = [&] {
    const std::vector<nn::Memory<T, D>> memories{{model.encoder(x, sentences), sentences}};
    return model.decoder(y, sentences, {.memories = memories, .self_bias = look_ahead});
  };
  differentiate(record, "notebook3/stacks", model, {x, y}, compute);
  nn::zero_grad(model);
  learn(record, "notebook3", model, [&] { return mean(square(compute())); });
}

template <class T>
void notebook4(Record& record) {
  seed(4);
  const Var<T, D> q(numbers<T>({2, 4, 2}, 1), true), k(numbers<T>({2, 2, 2}, 2), true), v(numbers<T>({2, 2, 3}, 3), true);
  const auto queries = Segments::dense(2, 4), masked = Segments::dense(2, 2, std::vector<index_t>{1, 2});
  differentiate(record, "notebook4/attention", NoWeights<T>{}, {q, k, v}, [&] { return attention(q, k, v, queries, masked); });
  const nn::AdditiveAttention<T, D> additive(2, 2, 5);
  for (const auto& x : {q, k, v}) x.zero_grad();
  differentiate(record, "notebook4/additive", additive, {q, k, v}, [&] { return additive(q, queries, k, v, masked); });

  constexpr index_t source_vocabulary = sized(100, 30), target_vocabulary = sized(52, 25), length = sized(48, 6);
  const auto stack = [](index_t vocabulary) {
    return nn::StackOptions{.vocabulary = vocabulary,
                            .d_model = notebook_width,
                            .heads = notebook_heads,
                            .d_ff = notebook_d_ff,
                            .layers = notebook_layers,
                            .dropout = {.residual = 0.2}};
  };
  nn::Transformer<T, D> model(nn::ModelOptions{
      .encoder = stack(source_vocabulary), .decoder = stack(target_vocabulary), .output = nn::Output::probabilities});
  const auto sentences = Segments::dense(2, length);
  const auto batch = made_batch(sentences, sentences, source_vocabulary, target_vocabulary, 7);
  evaluate(record, "notebook4/probabilities", model, [&] { return model(batch); });
  learn(record, "notebook4", model, [&] { return model.loss(batch); });
}

template <class T>
void notebooks(Record& record) {
  notebook0<T>(record);
  notebook1<T>(record);
  notebook2<T>(record);
  notebook3<T>(record);
  notebook4<T>(record);
}

}  // namespace bits
