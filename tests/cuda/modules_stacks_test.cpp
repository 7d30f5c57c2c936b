#include <limits>

#include "modules.hpp"
#include "nn/dropout_places.hpp"

using namespace attend;
using modules::check_refused;
using nn::NormOrder;
using nn::StackOptions;
using test::dropout_places;

namespace {

const Segments ragged = Segments::ragged({3, 1, 4}), sources = Segments::ragged({2, 4, 1});
const Tensor<token_t> tokens({8}, {1, 2, 3, 4, 0, 2, 2, 5});

/// A stack whose heads tensor cores take, or one of narrow heads.
StackOptions small(NormOrder order = NormOrder::post, bool wide = true) {
  StackOptions o{.vocabulary = 6,
                 .d_model = wide ? 32 : 12,
                 .heads = wide ? 2 : 3,
                 .d_ff = wide ? 48 : 10,
                 .layers = 2,
                 .activation = Activation::gelu,
                 .norm_order = order,
                 .max_length = 5};
  o.final_norm = order == NormOrder::pre;
  return o;
}

auto encoder(const StackOptions& o, bool training = true) {
  return [=]<class T, class D>() {
    nn::Encoder<T, D> m(o);
    nn::set_training(m, training);
    return m;
  };
}
auto decoder(const StackOptions& o, bool training = true) {
  return [=]<class T, class D>() {
    nn::Decoder<T, D> m(o);
    nn::set_training(m, training);
    return m;
  };
}

/// The inputs from `first` on, as memories of a decoder; each has the sentences of `sources`.
template <class Given>
auto memories(const Given& given, std::size_t first) {
  std::vector<typename Given::Memory> list;
  for (std::size_t i = first; i < given.x.size(); ++i) list.push_back({given.x[i], sources});
  return list;
}
template <class Make, class Run>
void check(const Make& make, const Run& run, const std::vector<Shape>& shapes) {
  modules::check(make, run, shapes, modules::Depth::stack);
}
constexpr auto encode_tokens = [](const auto& m, auto& given) { return m(given.beside(tokens), ragged); };
constexpr auto encode_vectors = [](const auto& m, auto& given) { return m(given.x[0], ragged); };
constexpr auto decode_tokens = [](const auto& m, auto& given) {
  return m(given.beside(tokens), ragged, {.memories = memories(given, 0)});
};
constexpr auto decode_vectors = [](const auto& m, auto& given) {
  return m(given.x[0], ragged, {.memories = memories(given, 1)});
};

}  // namespace

TEST_CASE("cuda: Encoder and Decoder are the processor's with dropout at each place, post-norm and pre-norm") {
  for (const auto order : {NormOrder::post, NormOrder::pre}) {
    int place = 0;
    for (const auto& rates : dropout_places()) {
      INFO("pre " << (order == NormOrder::pre) << ", place " << place++);
      auto o = small(order);
      o.dropout = rates;
      check(encoder(o), encode_tokens, {});
      check(decoder(o), decode_tokens, {{7, o.d_model}});
    }
    auto o = small(order, false);
    o.dropout = dropout_places().back();
    for (const bool training : {true, false}) {
      check(encoder(o, training), encode_tokens, {});
      check(decoder(o, training), decode_tokens, {{7, o.d_model}});
    }
  }
}

TEST_CASE("cuda: Encoder and Decoder are the processor's with each activation and position, other norms and widths") {
  for (const auto activation :
       {Activation::relu, Activation::gelu_tanh, Activation::silu, Activation::tanh, Activation::identity}) {
    INFO("activation " << static_cast<int>(activation));
    auto o = small();
    o.activation = activation;
    check(encoder(o), encode_tokens, {});
    check(decoder(o), decode_tokens, {{7, o.d_model}});
  }
  for (const auto positions : {nn::PositionKind::learned, nn::PositionKind::sinusoidal_halves, nn::PositionKind::none}) {
    INFO("positions " << static_cast<int>(positions));
    auto o = small();
    o.positions = positions;
    check(encoder(o), encode_tokens, {});
    check(decoder(o), decode_tokens, {{7, o.d_model}});
  }
  for (const bool wide : {true, false}) {
    auto o = small(NormOrder::post, wide);
    o.layers = 1;
    o.positions = nn::PositionKind::learned;
    o.norm = {.eps = 1e-6, .sample_deviation = true, .scalar_affine = true};
    o.d_k = wide ? 16 : 3, o.d_v = wide ? 32 : 5;
    o.attention_bias = false, o.scale_embedding = false, o.final_norm = true;
    check(encoder(o), encode_tokens, {});
    o.d_memory = 9;
    check(decoder(o), decode_tokens, {{7, 9}});
  }
}

TEST_CASE("cuda: an Encoder that takes vectors, ragged, padded and of no sentence, and a causal layer are the processor's") {
  for (const auto order : {NormOrder::post, NormOrder::pre}) {
    auto o = small(order);
    o.vocabulary = 0;
    check(encoder(o), encode_vectors, {{8, o.d_model}});
    const auto padded = Segments::dense(2, 4, std::vector<index_t>{4, 2});
    check(encoder(o), [&](const auto& m, auto& given) { return m(given.x[0], padded); }, {{8, o.d_model}});
    check(encoder(o), [](const auto& m, auto& given) { return m(given.x[0], Segments()); }, {{0, o.d_model}});
    o.causal = 1;
    const auto layer = [=]<class T, class D>() { return nn::EncoderLayer<T, D>(o); };
    const auto run = [](const auto& m, auto& given) { return m(given.x[0], ragged, {.self_bias = given.x[1]}); };
    check(layer, run, {{8, o.d_model}, {4, 4}});
  }
}

TEST_CASE("cuda: a Decoder is the processor's with no, one and two memories, causal or not, from tokens and from vectors") {
  for (const auto order : {NormOrder::post, NormOrder::pre})
    for (const bool causal : {true, false})
      for (const index_t cross : {0, 1, 2})
        for (const index_t given_memories : {cross, std::min<index_t>(cross, 1)}) {
          INFO("pre " << (order == NormOrder::pre) << ", causal " << causal << ", " << cross << " cross-attentions, "
                      << given_memories << " memories");
          auto o = small(order);
          o.causal = causal, o.cross_attentions = cross, o.d_memory = causal ? 0 : 9;
          const Shape memory{7, causal ? o.d_model : 9};
          check(decoder(o), decode_tokens, std::vector<Shape>(static_cast<std::size_t>(given_memories), memory));
          if (order == NormOrder::pre) continue;
          o.vocabulary = 0, o.positions = nn::PositionKind::learned;
          std::vector<Shape> shapes(static_cast<std::size_t>(given_memories + 1), memory);
          shapes[0] = {8, o.d_model};
          check(decoder(o), decode_vectors, shapes);
          if (cross == 2) break;
        }
  // No sentence at all, and sentences of nothing beside others.
  const auto none = [](const auto& m, auto& given) {
    using Memory = typename std::remove_cvref_t<decltype(given)>::Memory;
    return m(given.x[0], Segments(), {.memories = std::vector<Memory>{{given.x[1], Segments()}}});
  };
  check(decoder(small()), none, {{0, 32}, {0, 32}});
  const auto gaps = [](const auto& m, auto& given) {
    using Memory = typename std::remove_cvref_t<decltype(given)>::Memory;
    return m(given.x[0], Segments::ragged({3, 0, 1}),
             {.memories = std::vector<Memory>{{given.x[1], Segments::ragged({0, 5, 2})}}});
  };
  check(decoder(small()), gaps, {{4, 32}, {7, 32}});
}

TEST_CASE("cuda: terms added to the scores of a stack, masks among them, and the weights given back are the processor's") {
  Tensor<double> mask({4, 4}, 0.0);  // nobody looks at the first token but itself
  for (index_t i = 1; i < 4; ++i) mask(i, 0) = -std::numeric_limits<double>::infinity();
  for (const bool wide : {true, false}) {
    INFO("wide " << wide);
    auto o = small(NormOrder::post, wide);
    const auto run = [&]<class Given>(const auto& m, Given& given) {
      std::vector<typename Given::Weights> weights;
      typename Given::StackCall call{.self_bias = given.constant(mask)};
      if (given.pass == 1) call.self_weights = &weights;
      const auto y = m(given.beside(tokens), ragged, call);
      for (const auto& w : weights) given.compare(w.dense());
      return y;
    };
    check(encoder(o), run, {});
    o.cross_attentions = 2;
    const auto decode = [&]<class Given>(const auto& m, Given& given) {
      std::vector<typename Given::Weights> self, cross;
      const std::vector<typename Given::Memory> memories{{given.x[0], sources}};
      typename Given::StackCall call{.memories = memories, .self_bias = given.x[1], .cross_bias = given.x[2]};
      if (given.pass == 1) call.self_weights = &self, call.cross_weights = &cross;
      const auto y = m(given.beside(tokens), ragged, call);
      for (const auto& w : self) given.compare(w.dense());
      for (const auto& w : cross) given.compare(w.dense());
      return y;
    };
    check(decoder(o), decode, {{7, o.d_model}, {4, 4}, {o.heads, 4, 4}});
    const auto layer = [&]<class T, class D>() { return nn::DecoderLayer<T, D>(o); };
    const auto of_layer = [&]<class Given>(const auto& m, Given& given) {
      std::vector<typename Given::Weights> cross;
      const std::vector<typename Given::Memory> memories{{given.x[1], sources}};
      typename Given::StackCall call{.memories = memories, .self_bias = given.x[2]};
      if (given.pass == 1) call.cross_weights = &cross;
      const auto y = m(given.x[0], ragged, call);
      for (const auto& w : cross) given.compare(w.dense());
      return y;
    };
    check(layer, of_layer, {{8, o.d_model}, {7, o.d_model}, {4, 4}});
  }
}

TEST_CASE("cuda: Encoder and Decoder refuse on the device what they refuse on the processor, tokens and sentences") {
  const auto o = small();
  const auto encode = [&](const Tensor<token_t>& t, const Segments& s) {
    check_refused(encoder(o), [&](const auto& m, auto& given) { return m(given.beside(t), s); });
  };
  encode(Tensor<token_t>({8}, {0, 1, 2, 3, 4, 6, 0, 0}), ragged);
  encode(Tensor<token_t>({8}, {0, 1, 2, 3, 4, -1, 0, 0}), ragged);
  encode(tokens, Segments::ragged({8}));
  encode(tokens, Segments::ragged({2, 6}));
  encode(tokens, Segments::ragged({3}));
  check_refused(encoder(o), encode_vectors, {{8, 5}});
  auto vectors = o;
  vectors.vocabulary = 0;
  check_refused(encoder(vectors), encode_tokens);

  const auto decode = [&](const Tensor<token_t>& t, const Segments& s, const std::vector<Shape>& shapes) {
    auto two = o;
    two.cross_attentions = 2;
    check_refused(
        decoder(two), [&](const auto& m, auto& given) { return m(given.beside(t), s, {.memories = memories(given, 0)}); },
        shapes);
  };
  decode(tokens, ragged, {});
  decode(tokens, ragged, {{7, 32}, {7, 32}, {7, 32}});
  decode(tokens, ragged, {{7, 5}});
  decode(tokens, ragged, {{6, 32}});
  decode(tokens, Segments::ragged({4, 4}), {{7, 32}});
  decode(tokens, Segments::ragged({2, 6}), {{7, 32}});
  decode(Tensor<token_t>({8}, {0, 1, 2, 3, 4, 0, 0, -7}), ragged, {{7, 32}});
  check_refused(decoder(vectors), decode_tokens, {{7, 32}});
}
