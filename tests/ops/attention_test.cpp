#include "attend/ops/attention.hpp"

#include <cmath>

#include "attend/ops/arithmetic.hpp"
#include "attend/ops/matmul.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/softmax.hpp"
#include "operation.hpp"

using namespace attend;

namespace {

template <class V>
using Options = AttentionOptions<typename V::value_type, typename V::device_type>;

const auto queries = Segments::ragged({3, 1, 4}), keys = Segments::ragged({2, 5, 0});

}  // namespace

TEST_CASE("attention agrees with differences: ragged, a sentence without keys, d_v apart from d_k") {
  operation::check(
      [](const auto& in) {
        using V = std::decay_t<decltype(in[0])>;
        return attention(in[0], in[1], in[2], queries, keys, Options<V>{.heads = 2});
      },
      {operation::random({8, 8}), operation::random({7, 8}, 1), operation::random({7, 6}, 2)});
}

TEST_CASE("attention agrees with differences: bias of each rank") {
  for (const Shape& bias : {Shape{4, 5}, Shape{2, 4, 5}, Shape{3, 2, 6, 7}})
    operation::check(
        [](const auto& in) {
          using V = std::decay_t<decltype(in[0])>;
          return attention(in[0], in[1], in[2], queries, keys, Options<V>{.heads = 2, .bias = in[3]});
        },
        {operation::random({8, 8}), operation::random({7, 8}, 1), operation::random({7, 6}, 2), operation::random(bias, 3)});
}

TEST_CASE("attention agrees with differences: bias that goes by distance") {
  for (const index_t width : {9, 13})
    for (const bool causal : {false, true})
      operation::check(
          [=](const auto& in) {
            using V = std::decay_t<decltype(in[0])>;
            return attention(in[0], in[1], in[2], queries, keys,
                             Options<V>{.heads = 2, .causal = causal, .distance_bias = in[3]});
          },
          {operation::random({8, 8}), operation::random({7, 8}, 1), operation::random({7, 6}, 2),
           operation::random({2, width}, 3)});
}

TEST_CASE("attention: a bias that goes by distance is the matrix which has the same number along each diagonal") {
  const auto by_distance = operation::random({2, 11}, 3);
  const Tensor<double> matrix({2, 4, 5});
  for (index_t h = 0; h < 2; ++h)
    for (index_t i = 0; i < 4; ++i)
      for (index_t j = 0; j < 5; ++j) matrix(h, i, j) = by_distance(h, 5 + j - i);
  const Var<double> q(operation::random({8, 8})), k(operation::random({7, 8}, 1)), v(operation::random({7, 6}, 2));
  AttentionWeights<double> weights;
  const auto one =
      attention(q, k, v, queries, keys, {.heads = 2, .weights = &weights, .distance_bias = Var<double>(by_distance)});
  const auto other = attention(q, k, v, queries, keys, {.heads = 2, .bias = Var<double>(matrix)});
  for (index_t i = 0; i < one.size(); ++i) CHECK(one.data()[i] == other.data()[i]);
  CHECK(weights.matrix(0, 1).size() == 6);
  const auto refuses = [&](const Shape& shape, const std::string& why) {
    const Var<double> bias(operation::random(shape));
    CHECK_THROWS_WITH(attention(q, k, v, queries, keys, {.heads = 2, .distance_bias = bias}),
                      Catch::Matchers::ContainsSubstring(why));
  };
  refuses({2, 8}, "distance_bias has shape [2, 8], expected [2, an odd number from 9 on]");
  refuses({2, 7}, "distance_bias has shape [2, 7]");
  refuses({3, 9}, "distance_bias has shape [3, 9]");
  refuses({1, 2, 9}, "distance_bias has shape [1, 2, 9]");
  CHECK_THROWS_WITH(
      attention(q, k, v, queries, keys, {.heads = 2, .bias = Var<double>(matrix), .distance_bias = Var<double>(by_distance)}),
      Catch::Matchers::ContainsSubstring("a bias and a distance_bias"));
}

TEST_CASE("attention agrees with differences: fewer heads of keys and values, packed and not, with a bias and dropout") {
  for (const index_t of_keys : {1, 2})
    for (const bool causal : {false, true}) {
      operation::check(
          [=](const auto& in) {
            using V = std::decay_t<decltype(in[0])>;
            seed(3);
            return attention(in[0], in[1], in[2], queries, keys,
                             Options<V>{.heads = 4, .causal = causal, .dropout = 0.3, .bias = in[3], .kv_heads = of_keys});
          },
          {operation::random({8, 16}), operation::random({7, 4 * of_keys}, 1), operation::random({7, 3 * of_keys}, 2),
           operation::random({4, 4, 5}, 3)});
      operation::check(
          [=](const auto& in) {
            using V = std::decay_t<decltype(in[0])>;
            return self_attention(in[0], 4, 3, queries, Options<V>{.heads = 4, .causal = causal, .kv_heads = of_keys});
          },
          {operation::random({8, 16 + 7 * of_keys})});
    }
}

TEST_CASE("attention with fewer heads of keys and values is that of keys and values which are repeated") {
  const Tensor<double> k = operation::random({7, 8}, 1), v = operation::random({7, 6}, 2), all_k({7, 16}), all_v({7, 12});
  for (index_t r = 0; r < 7; ++r)
    for (index_t h = 0; h < 4; ++h) {
      for (index_t i = 0; i < 4; ++i) all_k(r, 4 * h + i) = k(r, h / 2 * 4 + i);
      for (index_t i = 0; i < 3; ++i) all_v(r, 3 * h + i) = v(r, h / 2 * 3 + i);
    }
  const Var<double> q(operation::random({8, 16}));
  const auto few = attention(q, Var<double>(k), Var<double>(v), queries, keys, {.heads = 4, .kv_heads = 2});
  const auto many = attention(q, Var<double>(all_k), Var<double>(all_v), queries, keys, {.heads = 4});
  for (index_t i = 0; i < few.size(); ++i) CHECK(few.data()[i] == many.data()[i]);
  CHECK_THROWS_WITH(attention(q, Var<double>(k), Var<double>(v), queries, keys, {.heads = 4, .kv_heads = 3}),
                    "attention: heads is 4, no multiple of the 3 of keys and values");
  CHECK_THROWS_WITH(attention(q, Var<double>(all_k), Var<double>(v), queries, keys, {.heads = 4, .kv_heads = 2}),
                    "attention: k has shape [7, 16], expected [..., 8]");
}

TEST_CASE("attention agrees with differences: packed, causal, with dropout") {
  operation::check(
      [](const auto& in) {
        using V = std::decay_t<decltype(in[0])>;
        seed(3);
        return self_attention(in[0], 4, 3, queries, Options<V>{.heads = 2, .causal = true, .dropout = 0.4});
      },
      {operation::random({8, 22})});
  operation::check(
      [](const auto& in) {
        using V = std::decay_t<decltype(in[0])>;
        return cross_attention(in[0], in[1], queries, keys, Options<V>{.heads = 2, .scale = 0.3});
      },
      {operation::random({8, 8}), operation::random({7, 14}, 1)});
}

TEST_CASE("attention of a tensor to itself adds the gradients of its three roles; padding gets none") {
  const auto padded = Segments::dense(2, 4, std::vector<index_t>{3, 0});
  const auto self = [&](const auto& in) {
    using V = std::decay_t<decltype(in[0])>;
    return attention(in[0], in[0], in[0], padded, padded, Options<V>{.heads = 2, .causal = true});
  };
  operation::check(self, {operation::random({8, 6})});
}

TEST_CASE("attention equals its composition from simple operations") {
  const index_t batch = 2, heads = 3, length = 5, width = 4;
  const auto x = operation::random({batch * length, heads * width}), y = operation::random({batch * length, heads * width}, 1),
             z = operation::random({batch * length, heads * width}, 2), g = operation::random({batch * length, heads * width}, 3);
  const auto dense = Segments::dense(batch, length);
  const Var<double> q(x, true), k(y, true), v(z, true), q2(x, true), k2(y, true), v2(z, true);
  AttentionWeights<double> weights;
  const auto fused = attention(q, k, v, dense, dense, {.heads = heads, .weights = &weights});
  const auto split = [&](const Var<double>& t) { return transpose(reshape(t, {batch, length, heads, width}), 1, 2); };
  const auto scores = matmul(split(q2), split(k2), {.transpose_b = true}) * (1 / std::sqrt(static_cast<double>(width)));
  const auto w = softmax(scores);
  const auto composed = reshape(transpose(matmul(w, split(v2)), 1, 2), {batch * length, heads * width});
  fused.backward(g.clone()), composed.backward(g.clone());
  const auto same = [](const Tensor<double>& a, const Tensor<double>& b) {
    REQUIRE(a.size() == b.size());
    for (index_t i = 0; i < a.size(); ++i) REQUIRE(a.data()[i] == Approx(b.data()[i]).margin(1e-13));
  };
  same(fused.value(), composed.value());
  same(weights.dense(), w.value());
  same(q.grad(), q2.grad()), same(k.grad(), k2.grad()), same(v.grad(), v2.grad());
}

TEST_CASE("a query with nothing to attend to gets zeros, and so do its gradients") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const auto one = Segments::ragged({2});
  const Var<float> q(operation::random<float>({2, 4}), true), k(operation::random<float>({2, 4}, 1), true),
      v(operation::random<float>({2, 4}, 2), true), bias(Tensor<float>({2, 2}, {0, 0, -inf, -inf}));
  AttentionOptions<float> options;
  options.bias = bias;
  const auto y = attention(q, k, v, one, one, options);
  CHECK(y.value().rows(1, 1).values() == std::vector<float>(4, 0.0f));
  y.backward(Tensor<float>(y.shape(), 1.0f));
  CHECK(q.grad().rows(1, 1).values() == std::vector<float>(4, 0.0f));
  for (const auto* x : {&q, &k, &v})
    for (const float g : x->grad().span()) CHECK(std::isfinite(g));
}

TEST_CASE("what a sentence gets does not depend on the sentences beside it") {
  const auto x = operation::random<float>({9, 3 * 8});
  const auto batch = self_attention(Var<float>(x), 4, 4, Segments::ragged({4, 5}), {.heads = 2, .causal = true});
  const auto alone = self_attention(Var<float>(x.rows(4, 5)), 4, 4, Segments::ragged({5}), {.heads = 2, .causal = true});
  CHECK(batch.value().rows(4, 5).values() == alone.value().values());
}

TEST_CASE("attention names what does not fit") {
  const auto zeros = [](const Shape& s) { return Var<float>(Tensor<float>(s, 0.0f)); };
  const auto s = Segments::ragged({2, 2});
  const auto q = zeros({4, 6}), k = zeros({4, 6}), v = zeros({4, 6});
  CHECK_THROWS_WITH(attention(q, zeros({4, 5}), v, s, s), "attention: k has shape [4, 5], expected [..., 6]");
  CHECK_THROWS_WITH(attention(q, k, v, s, s, {.heads = 4}), "attention: q has 6 columns, not a multiple of 4 heads");
  CHECK_THROWS_WITH(attention(q, k, v, s, s, {.heads = 0}), "attention: heads is 0");
  CHECK_THROWS_AS(attention(zeros({5, 6}), k, v, s, s), ShapeError);
  CHECK_THROWS_AS(attention(q, k, v, s, Segments::ragged({4})), ShapeError);
  CHECK_THROWS_AS(attention(q, k, v, s, s, {.dropout = 1}), ValueError);
  AttentionOptions<float> options;
  options.bias = zeros({1, 2});
  CHECK_THROWS_AS(attention(q, k, v, s, s, options), ShapeError);
  CHECK_THROWS_AS(self_attention(zeros({4, 6}), 2, 1, s, {.heads = 2}), ShapeError);
  CHECK_THROWS_AS(cross_attention(zeros({4, 6}), zeros({4, 6}), s, s, {.heads = 2}), ShapeError);
  CHECK_THROWS_AS(cross_attention(zeros({4, 6}), zeros({4, 9}), s, s, {.heads = 2}), ShapeError);
}

TEST_CASE("attention agrees with differences and with its composition over several blocks of queries") {
  const auto long_queries = Segments::ragged({70, 3, 0, 131}), long_keys = Segments::ragged({90, 600, 5, 140});
  for (const bool causal : {false, true})
    for (const double dropout : {0.0, 0.3}) {
      const auto f = [=](const auto& in) {
        using V = std::decay_t<decltype(in[0])>;
        seed(3);
        return attention(in[0], in[1], in[2], long_queries, long_keys,
                         Options<V>{.heads = 2, .causal = causal, .dropout = dropout, .bias = in[3]});
      };
      const std::vector<Tensor<double>> inputs{operation::random({204, 6}), operation::random({835, 6}, 1),
                                               operation::random({835, 4}, 2), operation::random({2, 131, 600}, 3)};
      operation::check(f, inputs, {.entries = 3});

      // The weights are those of a softmax over what is seen, whether or not the blocks are.
      AttentionWeights<double> weights;
      const Var<double> q(inputs[0]), k(inputs[1]), v(inputs[2]);
      attention(q, k, v, long_queries, long_keys, {.heads = 2, .causal = causal, .weights = &weights});
      const auto w = weights.matrix(3, 1);
      for (const index_t i : {0, 63, 64, 130}) {
        double sum = 0;
        for (index_t j = 0; j < 140; ++j) {
          double score = 0, unseen = causal && j > i;
          for (index_t c = 0; c < 3; ++c) score += q.value()(73 + i, 3 + c) * k.value()(695 + j, 3 + c);
          sum += unseen != 0 ? 0 : std::exp(score / std::sqrt(3.0));
          if (unseen != 0) REQUIRE(w(i, j) == 0);
        }
        double score = 0;
        for (index_t c = 0; c < 3; ++c) score += q.value()(73 + i, 3 + c) * k.value()(695, 3 + c);
        CHECK(w(i, 0) == Approx(std::exp(score / std::sqrt(3.0)) / sum));
      }
    }
}

TEST_CASE("attention keeps no weights unless they are asked for") {
  const auto sentence = Segments::ragged({300});
  const Var<float> q(operation::random<float>({300, 8}), true), k(operation::random<float>({300, 8}, 1)),
      v(operation::random<float>({300, 8}, 2));
  auto& pool = MemoryPool::instance();
  const auto before = pool.use().in_use;
  const auto y = attention(q, k, v, sentence, sentence, {.heads = 2});
  CHECK(pool.use().in_use - before < 100 * 1024);
  AttentionWeights<float> weights;
  const auto z = attention(q, k, v, sentence, sentence, {.heads = 2, .weights = &weights});
  CHECK(pool.use().in_use - before > 2 * 300 * 300 * sizeof(float));
  CHECK(z.value().values() == y.value().values());
}
