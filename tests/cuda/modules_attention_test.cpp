#include <limits>

#include "attend/nn/additive_attention.hpp"
#include "modules.hpp"

using namespace attend;
using modules::check;
using modules::check_refused;
using Options = nn::MultiHeadAttentionOptions;

namespace {

const Segments ragged = Segments::ragged({3, 1, 4});  // three sentences, eight rows
const Segments sources = Segments::ragged({2, 5, 1});

/// Heads that tensor cores take, and such as they do not: of widths that are no multiple of anything, or differ.
std::vector<Options> all_options() {
  return {{.d_model = 6, .heads = 2},
          {.d_model = 6, .heads = 1},
          {.d_model = 6, .heads = 2, .bias = false, .out_bias = false},
          {.d_model = 6, .heads = 4, .d_k = 5},
          {.d_model = 6, .heads = 3, .d_k = 2, .d_v = 4},
          {.d_model = 5, .heads = 2, .d_k = 3, .d_v = 1},
          {.d_model = 32, .heads = 2},
          {.d_model = 32, .heads = 1, .bias = false},
          {.d_model = 24, .heads = 2, .d_k = 16, .d_v = 32, .out_bias = false},
          {.d_model = 24, .heads = 3, .d_k = 32, .d_v = 8}};
}
std::string text(const Options& o) {
  return "d_model " + std::to_string(o.d_model) + ", heads " + std::to_string(o.heads) + ", d_k " + std::to_string(o.d_k) +
         ", d_v " + std::to_string(o.d_v) + ", d_memory " + std::to_string(o.d_memory) + ", bias " + std::to_string(o.bias);
}

auto attention(const Options& o) {
  return [=]<class T, class D>() { return nn::MultiHeadAttention<T, D>(o); };
}

/// Self-attention of the first input; if there is a second, it is added to the scores. The second pass asks for the weights.
auto self(const Segments& segments, bool causal) {
  return [=]<class Given>(const auto& m, Given& given) {
    typename Given::Weights weights;
    typename Given::OwnKeys keys{.segments = segments, .causal = causal};
    if (given.x.size() > 1) keys.bias = given.x[1];
    if (given.pass == 1) keys.weights = &weights;
    const auto y = m(given.x[0], keys);
    if (given.pass == 1) given.compare(weights.dense());
    return y;
  };
}
/// Attention of the first input to the second; if there is a third, it is added to the scores.
auto cross(const Segments& queries, const Segments& sentences, bool causal = false) {
  return [=]<class Given>(const auto& m, Given& given) {
    typename Given::Weights weights;
    typename Given::MemoryKeys keys{.queries = queries, .memory = {given.x[1], sentences}, .causal = causal};
    if (given.x.size() > 2) keys.bias = given.x[2];
    if (given.pass == 1) keys.weights = &weights;
    const auto y = m(given.x[0], keys);
    if (given.pass == 1) given.compare(weights.dense());
    return y;
  };
}

}  // namespace

TEST_CASE("cuda: self-attention is the processor's, of any head widths, causal or not, and so are its weights") {
  for (const auto& o : all_options())
    for (const bool causal : {false, true}) {
      INFO(text(o) << ", causal " << causal);
      check(attention(o), self(ragged, causal), {{8, o.d_model}});
    }
}

TEST_CASE("cuda: cross-attention is the processor's, the memory as wide as the model or not") {
  for (auto o : all_options())
    for (const index_t d_memory : {index_t{0}, index_t{7}, index_t{40}}) {
      o.d_memory = d_memory;
      INFO(text(o));
      const Shape memory{8, d_memory ? d_memory : o.d_model};
      check(attention(o), cross(ragged, sources), {{8, o.d_model}, memory});
      if (d_memory == 0) check(attention(o), cross(ragged, sources, true), {{8, o.d_model}, memory});
    }
  // The queries may be the memory.
  check(attention({.d_model = 32, .heads = 2}),
        [](const auto& m, auto& given) {
          return m(given.x[0], {.queries = ragged, .memory = {given.x[0], ragged}});
        },
        {{8, 32}});
}

TEST_CASE("cuda: attention over sentences of more than a tile, of one token and of none is the processor's") {
  const auto longer = Segments::ragged({70, 0, 33, 1, 140}), memory = Segments::ragged({1, 3, 90, 0, 72});
  for (const auto& o : {Options{.d_model = 32, .heads = 2}, Options{.d_model = 6, .heads = 2, .d_v = 5}}) {
    INFO(text(o));
    for (const bool causal : {false, true}) check(attention(o), self(longer, causal), {{244, o.d_model}});
    check(attention(o), cross(longer, memory), {{244, o.d_model}, {166, o.d_model}});
    for (const auto& segments : {Segments::ragged({1}), Segments::ragged({1, 1, 1}), Segments::ragged({0}), Segments()}) {
      const Shape x{segments.rows(), o.d_model};
      check(attention(o), self(segments, true), {x});
      check(attention(o), cross(segments, segments), {x, x});
    }
  }
}

TEST_CASE("cuda: attention with a term added to the scores, of every rank, is the processor's") {
  for (const auto& o : {Options{.d_model = 32, .heads = 2}, Options{.d_model = 6, .heads = 2, .d_v = 5}})
    for (const Shape& bias : {Shape{4, 4}, Shape{5, 7}, Shape{2, 4, 4}, Shape{3, 2, 4, 6}}) {
      INFO(text(o) << ", bias " << bias.text());
      for (const bool causal : {false, true}) check(attention(o), self(ragged, causal), {{8, o.d_model}, bias});
      if (bias[-1] >= 5) check(attention(o), cross(ragged, sources), {{8, o.d_model}, {8, o.d_model}, bias});
    }
}

TEST_CASE("cuda: attention under a mask is the processor's, also where a query may look at nothing") {
  Tensor<double> mask({4, 4}, 0.0);
  for (index_t i = 1; i < 4; ++i) mask(i, 0) = -std::numeric_limits<double>::infinity();
  for (index_t j = 0; j < 4; ++j) mask(2, j) = -std::numeric_limits<double>::infinity();
  for (const auto& o : {Options{.d_model = 32, .heads = 2}, Options{.d_model = 6, .heads = 2}})
    for (const bool causal : {false, true}) {
      INFO(text(o) << ", causal " << causal);
      const auto run = [&]<class Given>(const auto& m, Given& given) {
        typename Given::Weights weights;
        typename Given::OwnKeys keys{.segments = ragged, .causal = causal, .bias = given.constant(mask)};
        if (given.pass == 1) keys.weights = &weights;
        const auto y = m(given.x[0], keys);
        if (given.pass == 1) given.compare(weights.dense());
        return y;
      };
      check(attention(o), run, {{8, o.d_model}});
    }
}

TEST_CASE("cuda: padded keys and sentences without keys have the part that they have on the processor") {
  const auto padded = Segments::dense(3, 4, std::vector<index_t>{2, 0, 4}),
             keys = Segments::dense(3, 5, std::vector<index_t>{0, 5, 1});
  const auto options = all_options();
  for (const std::size_t i : {0, 4, 6, 8}) {
    const auto& o = options[i];
    INFO(text(o));
    for (const bool causal : {false, true}) check(attention(o), self(padded, causal), {{12, o.d_model}});
    check(attention(o), cross(padded, keys), {{12, o.d_model}, {15, o.d_model}});
    check(attention(o), cross(ragged, keys), {{8, o.d_model}, {15, o.d_model}, {4, 6}});
  }
}

TEST_CASE("cuda: dropout on the weights of an attention drops those that it drops on the processor, in training alone") {
  const auto longer = Segments::ragged({70, 3, 33}), keys = Segments::dense(3, 41, std::vector<index_t>{41, 0, 7});
  for (const auto& shape : {Options{.d_model = 32, .heads = 2}, Options{.d_model = 6, .heads = 2, .d_v = 5}})
    for (const bool training : {true, false}) {
      INFO(text(shape) << ", training " << training);
      const auto make = [&]<class T, class D>() {
        auto o = shape;
        o.dropout = 0.5;
        nn::MultiHeadAttention<T, D> m(o);
        nn::set_training(m, training);
        return m;
      };
      for (const auto& segments : {ragged, longer})
        for (const bool causal : {false, true}) check(make, self(segments, causal), {{segments.rows(), shape.d_model}});
      check(make, self(ragged, true), {{8, shape.d_model}, {2, 4, 4}});
      check(make, cross(longer, keys), {{106, shape.d_model}, {123, shape.d_model}});
    }
}

TEST_CASE("cuda: AdditiveAttention is the processor's, ragged, padded and where there is nothing to look at") {
  struct Widths {
    index_t query, key, width, value;
  };
  for (const auto& w : {Widths{12, 10, 14, 9}, Widths{3, 5, 4, 2}, Widths{16, 24, 40, 32}})
    for (const auto& queries : {Segments::ragged({4, 2}), Segments::dense(2, 3)})
      for (const auto& keys : {Segments::ragged({3, 5}), Segments::dense(2, 4, std::vector<index_t>{3, 0})}) {
        INFO("widths " << w.query << ", " << w.key << ", " << w.width << ", " << w.value);
        const auto make = [=]<class T, class D>() { return nn::AdditiveAttention<T, D>(w.query, w.key, w.width); };
        const auto run = [&]<class Given>(const auto& m, Given& given) {
          typename Given::Weights weights;
          const auto y = m(given.x[0], queries, given.x[1], given.x[2], keys, given.pass == 1 ? &weights : nullptr);
          if (given.pass == 1) given.compare(weights.dense());
          return y;
        };
        check(make, run, {{6, w.query}, {8, w.key}, {8, w.value}});
      }
  const auto make = []<class T, class D>() { return nn::AdditiveAttention<T, D>(3, 5, 4); };
  const auto none = [](const auto& m, auto& given) { return m(given.x[0], Segments(), given.x[1], given.x[2], Segments()); };
  check(make, none, {{0, 3}, {0, 5}, {0, 2}});
  const auto refused = [&](const Segments& queries, const Segments& keys, const std::vector<Shape>& shapes) {
    check_refused(
        make, [&](const auto& m, auto& given) { return m(given.x[0], queries, given.x[1], given.x[2], keys); }, shapes);
  };
  const auto two = Segments::ragged({4, 2}), one = Segments::ragged({8}), five = Segments::ragged({3, 5});
  refused(two, one, {{6, 3}, {8, 5}, {8, 2}});
  refused(five, five, {{6, 3}, {8, 5}, {8, 2}});
  refused(two, five, {{6, 3}, {8, 2}, {8, 2}});
  refused(two, five, {{6, 3}, {8, 5}, {6, 2}});
}

TEST_CASE("cuda: MultiHeadAttention refuses on the device what it refuses on the processor") {
  const auto own = attention({.d_model = 6, .heads = 2});
  const auto apart = attention({.d_model = 6, .heads = 2, .d_memory = 3});
  check_refused(own, self(ragged, false), {{8, 5}});
  check_refused(own, self(Segments::ragged({7}), false), {{8, 6}});
  check_refused(own, cross(ragged, Segments::ragged({8})), {{8, 6}, {8, 6}});
  check_refused(apart, self(ragged, false), {{8, 6}});
  check_refused(apart, cross(ragged, ragged), {{8, 6}, {8, 6}});
  check_refused(own, self(ragged, false), {{8, 6}, {3, 4}});
  check_refused(own, self(ragged, false), {{8, 6}, {3, 4, 4}});
  check_refused(own, self(ragged, false), {{8, 6}, {2, 2, 4, 4}});
}
