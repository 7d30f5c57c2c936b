#include "attend/nn/dense.hpp"
#include "attend/nn/freeze.hpp"
#include "modules.hpp"

using namespace attend;
using modules::check_refused;
using nn::NormOrder;
using nn::Output;

namespace {

constexpr index_t vocabulary = 11;

nn::TransformerOptions small() {
  return {.vocabulary = vocabulary,
          .d_model = 32,
          .heads = 2,
          .d_ff = 40,
          .layers = 1,
          .dropout = 0,
          .activation = Activation::gelu,
          .max_length = 6};
}

/// Three sentence pairs with padding between their tokens and the end.
nn::DenseBatch sentences() {
  return {.source = Tensor<token_t>({3, 4}, {1, 2, 0, 0, 3, 4, 5, 6, 2, 0, 0, 0}),
          .source_mask = Tensor<std::uint8_t>({3, 4}, {1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0}),
          .target = Tensor<token_t>({3, 3}, {1, 2, 3, 1, 6, 0, 1, 0, 0}),
          .target_mask = Tensor<std::uint8_t>({3, 3}, {1, 1, 1, 1, 1, 0, 1, 0, 0}),
          .labels = Tensor<token_t>({3, 3}, {2, 3, 5, 6, 4, -100, 5, -100, -100})};
}

template <class Options>
auto transformer(const Options& o, bool training = true) {
  return [=]<class T, class D>() {
    nn::Transformer<T, D> m(o);
    nn::set_training(m, training);
    return m;
  };
}

/// What the model gives for a batch, and its loss: one pass asks for the one, another for the other.
template <class Make>
void check(const Make& make, const nn::Batch<>& batch, const CrossEntropyOptions& how = {}) {
  using modules::Depth;
  {
    INFO("output");
    modules::check(
        make, [&](const auto& m, auto& given) { return m(given.beside(batch)); }, {}, Depth::stack);
  }
  INFO("loss");
  modules::check(
      make, [&](const auto& m, auto& given) { return m.loss(given.beside(batch), how); }, {}, Depth::stack);
}

}  // namespace

TEST_CASE("cuda: a Transformer is the processor's, tied in every way, of padded batches and of such without padding") {
  for (const bool share : {false, true})
    for (const bool tie : {false, true}) {
      INFO("share " << share << ", tie " << tie);
      auto o = small();
      o.share_embeddings = share, o.tie_head = tie;
      check(transformer(o), nn::ragged_batch(sentences()), {.smoothing = 0.1});
      check(transformer(o), nn::dense_batch(sentences()), {.smoothing = 0.1});
    }
}

TEST_CASE("cuda: a Transformer is the processor's with other outputs, losses and dropout everywhere, and in evaluation") {
  auto o = small();
  for (const auto output : {Output::log_probabilities, Output::probabilities})
    for (const bool training : {true, false}) {
      const bool tie = (output == Output::probabilities) == training;
      INFO("output " << static_cast<int>(output) << ", training " << training << ", tie " << tie);
      o.norm_order = tie ? NormOrder::pre : NormOrder::post, o.final_norm = tie;
      o.dropout = 0.2, o.attention_dropout = 0.1, o.activation_dropout = 0.3;
      o.tie_head = tie, o.scale_embedding = training, o.head_bias = tie != training;
      o.output = output;
      check(transformer(o, training), nn::dense_batch(sentences()), {.smoothing = 0.2, .mean = false});
    }
  o = small();
  for (const auto activation : {Activation::relu, Activation::gelu_tanh, Activation::silu}) {
    INFO("activation " << static_cast<int>(activation));
    o.activation = activation;
    check(transformer(o), nn::ragged_batch(sentences()));
  }
}

TEST_CASE("cuda: a Transformer whose decoder differs from its encoder in depth, heads and widths is the processor's") {
  nn::ModelOptions o = nn::model_options(small());
  o.encoder.d_model = 20, o.encoder.layers = 1, o.encoder.heads = 1;
  o.decoder.d_memory = 20, o.decoder.heads = 4, o.decoder.d_ff = 7, o.decoder.vocabulary = 9;
  check(transformer(o), nn::ragged_batch(sentences()));
  o.encoder.positions = nn::PositionKind::learned, o.decoder.positions = nn::PositionKind::none;
  o.encoder.layers = 0, o.decoder.d_k = 16, o.decoder.d_v = 12, o.decoder.attention_bias = false;
  check(transformer(o), nn::ragged_batch(sentences()));
}

TEST_CASE("cuda: a Transformer's encoder and decoder called apart give the processor's weights") {
  const auto run = [&]<class Given>(const auto& m, Given& given) {
    const auto batch = given.beside(nn::ragged_batch(sentences()));
    std::vector<typename Given::Weights> self, cross;
    const bool looked = given.pass == 1;
    const auto memory = m.encode(batch.source, batch.source_segments, {.self_weights = looked ? &self : nullptr});
    const auto y = m.logits(m.decode(batch.target, batch.target_segments, memory, {.cross_weights = looked ? &cross : nullptr}));
    for (const auto& w : self) given.compare(w.dense());
    for (const auto& w : cross) given.compare(w.dense());
    return y;
  };
  modules::check(transformer(small()), run, {}, modules::Depth::stack);
}

TEST_CASE("cuda: a Transformer of no sentence, of one token and of an empty source is the processor's") {
  const auto batch = [](std::initializer_list<index_t> source, std::initializer_list<index_t> target) {
    const auto from = Segments::ragged(source), to = Segments::ragged(target);
    const auto tokens = [](index_t rows, token_t first) {
      const Tensor<token_t> x({rows});
      for (index_t i = 0; i < rows; ++i) x.data()[i] = static_cast<token_t>((first + 4 * i) % vocabulary);
      return x;
    };
    return nn::Batch<>{.source = tokens(from.rows(), 3),
                       .source_segments = from,
                       .target = tokens(to.rows(), 1),
                       .target_segments = to,
                       .labels = tokens(to.rows(), 2)};
  };
  const nn::Batch<> nothing{.source = {}, .source_segments = {}, .target = {}, .target_segments = {}, .labels = {}};
  for (const bool tie : {false, true}) {
    auto o = small();
    o.share_embeddings = o.tie_head = tie;
    modules::check(transformer(o), [&](const auto& m, auto& given) { return m(given.beside(nothing)); }, {});
    check(transformer(o), batch({1}, {1}));
    check(transformer(o), batch({0}, {2}));
    check(transformer(o), batch({2, 0, 1}, {1, 3, 0}));
  }
  // A loss over no label is 0, and teaches nothing.
  if (!device::present()) return;
  auto unlabelled = batch({2, 1}, {1, 2});
  unlabelled.labels.fill(-100);
  const nn::Transformer<float, Cuda> model(small());
  for (const nn::Batch<>& b : {nothing, unlabelled}) {
    nn::zero_grad(model);
    const auto loss = model.loss(b.to<Cuda>());
    CHECK(loss.item() == 0);
    if (loss.requires_grad()) loss.backward();
    for (const auto& p : nn::parameters(model))
      for (const float g : p.grad().values()) REQUIRE(g == 0);
  }
}

TEST_CASE("cuda: frozen parameters get no gradient, and the others those that they get on the processor") {
  const auto frozen = [](const std::vector<std::string>& patterns, bool shared) {
    return [=]<class T, class D>() {
      auto o = small();
      o.activation = Activation::relu, o.share_embeddings = o.tie_head = shared;
      nn::Transformer<T, D> m(o);
      for (const auto& pattern : patterns) nn::freeze(m, pattern);
      return m;
    };
  };
  const auto batch = nn::ragged_batch(sentences());
  for (const auto& patterns : std::vector<std::vector<std::string>>{
           {"encoder.*"},
           {"*norm*", "encoder.layers.0.self_attn*", "*.fc1.*", "decoder.layers.0.self_attn.*",
            "decoder.layers.0.encoder_attn.*_proj.bias"},
           {"*.fc2.weight", "*.fc1.bias", "*embed_tokens*", "*_proj.weight", "*norm.weight"},
           {"*.fc1.weight", "*.fc2.bias", "*_proj.bias", "*norm.bias", "decoder.embed_tokens*"}}) {
    INFO(patterns.front());
    for (const bool shared : {false, true}) {
      if (shared && patterns.back() == "decoder.embed_tokens*") continue;  // no name of its own
      check(frozen(patterns, shared), batch);
    }
  }
}

TEST_CASE("cuda: what stands in the padding changes nothing at the tokens, and without gradients nothing is recorded") {
  if (!device::present()) return;
  seed(3);
  const nn::Transformer<float, Cuda> model(small());
  auto other = sentences();
  other.source = other.source.clone(), other.target = other.target.clone();
  other.source(0, 3) = 6, other.target(2, 1) = 4;
  const auto real = [&](const nn::DenseBatch& d) {
    const auto batch = nn::dense_batch(d);
    const auto y = model(batch.to<Cuda>()).value().to_host();
    return nn::drop_padding(y.reshape({3, 3, vocabulary}), batch.target_segments);
  };
  const auto one = real(sentences());
  CHECK(one.values() == real(other).values());
  // The rows that are no padding are what the same sentences give without it.
  CHECK(device::difference(model(nn::ragged_batch(sentences()).to<Cuda>()).value(), one) == "");
  const NoGrad no_grad;
  CHECK_FALSE(model(nn::ragged_batch(sentences()).to<Cuda>()).requires_grad());
}

TEST_CASE("cuda: Transformer refuses on the device the tokens, labels and sentences that it refuses on the processor") {
  const auto good = nn::ragged_batch(sentences());
  const auto refused = [&](auto change) {
    auto batch = good;
    batch.source = good.source.clone(), batch.target = good.target.clone(), batch.labels = good.labels.clone();
    change(batch);
    check_refused(transformer(small()), [&](const auto& m, auto& given) { return m.loss(given.beside(batch)); });
  };
  refused([](auto& b) { b.source(3) = vocabulary; });
  refused([](auto& b) { b.target(0) = -1; });
  refused([](auto& b) { b.labels(5) = vocabulary; });
  refused([](auto& b) { b.labels(0) = -1; });
  refused([](auto& b) { b.labels = {}; });
  refused([](auto& b) { b.source = Tensor<token_t>({7}, 1), b.source_segments = Segments::ragged({7}); });
  refused([](auto& b) { b.source_segments = Segments::ragged({4, 3}); });
  // The padding's labels are no labels if another number says what is ignored.
  const auto padded = nn::dense_batch(sentences());
  check_refused(transformer(small()),
                [&](const auto& m, auto& given) { return m.loss(given.beside(padded), {.ignore_index = 3}); });
  check_refused(transformer(small()), [&](const auto& m, auto& given) {
    const auto b = given.beside(padded);
    return cross_entropy(m(b), b.labels, {.ignore_index = 3});
  });
}
